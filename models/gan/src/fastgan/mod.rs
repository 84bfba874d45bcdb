//! FastGAN: images of 256x256 or 512x512 from few pictures on one device.
//!
//! The blocks, channels and kernels are those of the authors' implementation. It differs from the paper, and this from
//! it, in what surrounds them:
//!
//! - one discriminator looks at the image, as in the paper; the implementation adds a second one at 128x128 and a
//!   second output of the generator for it;
//! - every image goes through tanh, as the implementation does at 1024x1024 only;
//! - noise is injected while training and not when generating ([`kindling_layers::NoiseInjection`]);
//! - no spectral normalisation: convolutions hold their weights as they are used.

mod config;
mod decoder;
mod discriminator;
mod down_block;
mod generator;
mod names;
mod up_block;

pub use config::FastGanConfig;
pub use decoder::{FastGanDecoder, FastGanDecoders};
pub use discriminator::{FastGanDiscriminator, FastGanFeatures};
pub use down_block::DownBlock;
pub use generator::FastGanGenerator;
pub use names::{fastgan_decoders_names, fastgan_discriminator_names, fastgan_generator_names};
pub use up_block::{GluConv, UpBlock};
