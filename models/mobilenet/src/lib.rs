//! The MobileNet family: MobileNetV2 and MobileNetV3-Small, each written from its paper's table.

mod inverted_residual;
mod mobilenet_v2;
mod mobilenet_v3;
mod network;

pub use inverted_residual::{InvertedResidual, InvertedResidualConfig};
pub use mobilenet_v2::mobilenet_v2;
pub use mobilenet_v3::mobilenet_v3_small;
pub use network::{MobileNet, MobileNetConfig, StemConfig};
