//! MNASNet: "Platform-Aware Neural Architecture Search for Mobile", Tan et al. 2019,
//! <https://arxiv.org/abs/1807.11626>.
//!
//! Every function takes the [`Library`] whose details it follows, so that this library's weights give its outputs.

mod mnasnet;
mod names;

pub use mnasnet::{mnasnet_a1, mnasnet_b1};
pub use names::names;

use kindling_layers::StagedConfig;
use kindling_layers::blocks::MobileBlockConfig;

/// What makes an MNASNet.
pub type MnasNetConfig = StagedConfig<MobileBlockConfig>;

#[cfg(doc)]
use kindling_layers::names::Library;
