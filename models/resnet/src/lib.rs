//! ResNet: "Deep Residual Learning for Image Recognition", He et al. 2015, <https://arxiv.org/abs/1512.03385>.
//!
//! The heavy baselines that the light models are swapped in for. torchvision and timm build the same networks under
//! the same names.

mod names;
mod residual_block;
mod resnet;

pub use names::names;
pub use residual_block::{ResidualBlock, ResidualBlockConfig};
pub use resnet::{ResNetConfig, resnet18, resnet34, resnet50};
