//! The MobileNet family, each written from its paper's table.
//!
//! Every function takes the [`Library`] whose details it follows, so that this library's weights give its outputs.

mod mobilenet_v1;
mod mobilenet_v2;
mod mobilenet_v3;
mod mobilenet_v4;
mod names;

pub use mobilenet_v1::mobilenet_v1;
pub use mobilenet_v2::mobilenet_v2;
pub use mobilenet_v3::{mobilenet_v3_large, mobilenet_v3_small};
pub use mobilenet_v4::{mobilenet_v4_conv_large, mobilenet_v4_conv_medium, mobilenet_v4_conv_small};
pub use names::names;

use kindling_layers::StagedConfig;
use kindling_layers::blocks::MobileBlockConfig;

/// What makes a MobileNet.
pub type MobileNetConfig = StagedConfig<MobileBlockConfig>;

#[cfg(doc)]
use kindling_layers::names::Library;
