//! Networks that give every pixel a class: images `[batch, channels, height, width]` to logits `[batch, classes, height, width]`.
//!
//! An [`Encoder`] is a classifier of the zoo without its head, with the details and the names that `segmentation_models_pytorch` has.
//! A decoder makes logits of its feature maps.
//!
//! - [`unet`]: "U-Net: Convolutional Networks for Biomedical Image Segmentation", Ronneberger et al. 2015,
//!   <https://arxiv.org/abs/1505.04597>, as `segmentation_models_pytorch` 0.5.0 builds it.
//!
//! ```
//! use burn::tensor::{Device, Tensor};
//! use kindling_layers::{Segmenter, init::initialise, parameters};
//! use kindling_segmentation::{UnetConfig, encoder};
//!
//! let config = UnetConfig::new(encoder("mobilenet_v2").expect("its name is in ENCODERS"), 3, 2);
//! let network = initialise(config.init(&Device::flex()), 7);
//! assert_eq!(parameters::count(&network), 6_629_090);
//! let logits = network.forward(Tensor::zeros([1, 3, 64, 48], &Device::flex()));
//! assert_eq!(logits.dims(), [1, 2, 64, 48]);
//! ```

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod encoder;
pub mod unet;

pub use encoder::{ENCODERS, Encoder, encoder};
pub use unet::{Unet, UnetConfig};
