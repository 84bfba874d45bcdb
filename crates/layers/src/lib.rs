//! Building blocks of the zoo, on Burn.
//!
//! Images and feature maps are `[batch, channels, height, width]`. A block is a plain Burn module: `forward(x) -> y`.
//! Whether a block trains is not a property of the block: inside [`pass::training`], normalisation uses batch statistics and dropout
//! draws masks; outside, every block infers.
//!
//! Every block also describes itself for an input shape ([`trace::Describe`]); parameter and multiply-add counts are
//! read from that trace.
//!
//! | module | holds |
//! |---|---|
//! | `staged`, `head`, `classifier`, `adversary`, `checkpointing` | the structure of every classifier (stem, stages of blocks, head); the traits of classifiers and of pairs of networks; the segments for activation checkpointing |
//! | `backbone`, `segmenter` | a classifier without its head, for networks that read its feature maps; the trait of those that give every pixel a class |
//! | [`blocks`], `conv_norm`, `squeeze_excite`, `drop_path` and others | the blocks of the mobile families, and their parts |
//! | [`pass`], `batch_norm`, `dropout` | the training pass, and the layers that depend on it |
//! | `grad_cam` | which places of an image speak for a class |
//! | `map` | a feature map between two layers, whose normalisation may be deferred to the next one |
//! | [`trace`] | the graph of primitive layers, from which all counts are read |
//! | [`precision`] | the one place that casts between formats |
//! | [`parameters`], [`names`], [`tensors`], [`host`], [`init`] | tensors by name, other libraries' names, safetensors, reading to the host, initial weights |

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod adversary;
mod backbone;
mod batch_norm;
mod biased_conv2d;
pub mod blocks;
mod checkpointing;
mod classifier;
mod conv2d;
mod conv_norm;
mod conv_transpose2d;
mod drop_path;
mod dropout;
mod enlarged;
mod grad_cam;
mod head;
pub mod host;
pub mod init;
mod linear;
mod map;
pub mod names;
mod noise_injection;
mod padding;
pub mod parameters;
pub mod pass;
mod pool;
pub mod precision;
mod resize;
mod rounding;
mod segmenter;
mod squeeze_excite;
mod staged;
pub mod tensors;
pub mod trace;

pub use adversary::{Discriminator, Generator, Judgement};
pub use backbone::{Backbone, Taps};
pub use batch_norm::{BatchNorm, BatchNormConfig};
pub use biased_conv2d::BiasedConv2d;
pub use checkpointing::Checkpointing;
pub use classifier::Classifier;
pub use conv_norm::{ConvNorm, ConvNormConfig};
pub use conv_transpose2d::{ConvTranspose2d, ConvTranspose2dConfig};
pub use conv2d::{Conv2d, Conv2dConfig};
pub use drop_path::DropPath;
pub use dropout::Dropout;
pub use enlarged::Enlarged;
pub use grad_cam::grad_cam;
pub use head::{Head, HeadConfig, Hidden, HiddenConfig, HiddenLinear};
pub use kindling_ops::{Activation, Interpolation, mean, twice};
pub use linear::{Linear, global_average_pool};
pub use map::Map;
pub use noise_injection::NoiseInjection;
pub use padding::Padding;
pub use pool::MaxPool;
pub use precision::Precision;
pub use resize::{AdaptiveAveragePool, AveragePool, Upsample, describe_resized, resized};
pub use rounding::make_divisible;
pub use segmenter::Segmenter;
pub use squeeze_excite::{SqueezeExcite, SqueezeExciteConfig};
pub use staged::{Freeze, Staged, StagedConfig, StemConfig};
