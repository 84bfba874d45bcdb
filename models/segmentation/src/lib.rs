//! Networks that give every pixel a class: images `[batch, channels, height, width]` to logits `[batch, classes, height, width]`.
//!
//! An [`Encoder`] is a classifier of the zoo without its head, with the details and the names that `segmentation_models_pytorch` or
//! torchvision has. A decoder makes logits of its feature maps. [`SegmentationConfig`] puts them together.
//!
//! - [`unet`]: "U-Net: Convolutional Networks for Biomedical Image Segmentation", Ronneberger et al. 2015,
//!   <https://arxiv.org/abs/1505.04597>, as `segmentation_models_pytorch` 0.5.0 builds it.
//! - [`deeplab_v3_plus`]: "Encoder-Decoder with Atrous Separable Convolution for Semantic Image Segmentation", Chen et al. 2018,
//!   <https://arxiv.org/abs/1802.02611>, as `segmentation_models_pytorch` builds it.
//! - [`lraspp`]: Lite R-ASPP of "Searching for MobileNetV3", Howard et al. 2019, <https://arxiv.org/abs/1905.02244>, as torchvision
//!   builds it.
//! - [`deeplab_v3`]: "Rethinking Atrous Convolution for Semantic Image Segmentation", Chen et al. 2017,
//!   <https://arxiv.org/abs/1706.05587>, as torchvision builds it.
//! - [`fcn`]: "Fully Convolutional Networks for Semantic Segmentation", Long et al. 2015, <https://arxiv.org/abs/1411.4038>, as
//!   torchvision builds it.
//!
//! ```
//! use burn::tensor::{Device, Tensor};
//! use kindling_layers::{Segmenter, init::initialise, parameters};
//! use kindling_segmentation::{DecoderKind, SegmentationConfig, encoder};
//!
//! let encoder = encoder("mobilenet_v2").expect("its name is in ENCODERS");
//! let config = SegmentationConfig::new(DecoderKind::Unet, encoder, 3, 2);
//! let network = initialise(config.init(&Device::flex()), 7);
//! assert_eq!(parameters::count(&network), 6_629_090);
//! let logits = network.forward(Tensor::zeros([1, 3, 64, 48], &Device::flex()));
//! assert_eq!(logits.dims(), [1, 2, 64, 48]);
//! ```

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod aspp;
mod decoder;
pub mod deeplab_v3;
pub mod deeplab_v3_plus;
mod encoder;
mod encoder_decoder;
pub mod fcn;
pub mod lraspp;
mod network;
pub mod unet;

pub use aspp::{Aspp, AtrousConv};
pub use decoder::Decoder;
pub use encoder::{ENCODERS, Encoder, encoder};
pub use encoder_decoder::EncoderDecoder;
pub use network::{DecoderKind, SegmentationConfig, SegmentationNetwork};
pub use unet::{Unet, UnetConfig};
