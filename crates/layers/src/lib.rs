//! Building blocks of the zoo, on Burn.
//!
//! Images and feature maps are `[batch, channels, height, width]`. A block is a plain Burn module: `forward(x) -> y`.
//! Whether it trains is not a property of the block but of the moment: inside [`pass::training`] normalisation uses
//! batch statistics and dropout draws; outside, every block infers.
//!
//! Every block also describes itself for an input shape ([`trace::Describe`]); parameter and multiply-add counts are
//! read from that trace.

mod activation;
mod batch_norm;
mod classifier;
mod conv;
mod conv_norm;
mod cpu;
mod dropout;
mod head;
pub mod init;
pub mod parameters;
pub mod pass;
mod rounding;
mod squeeze_excite;
pub mod tensors;
pub mod trace;

pub use activation::Activation;
pub use batch_norm::{BatchNorm, BatchNormConfig};
pub use classifier::Classifier;
pub use conv::{Conv, ConvConfig};
pub use conv_norm::{ConvNorm, ConvNormConfig};
pub use dropout::Dropout;
pub use head::{Linear, global_average_pool};
pub use rounding::make_divisible;
pub use squeeze_excite::{SqueezeExcite, SqueezeExciteConfig};
