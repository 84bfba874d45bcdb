//! MixNet: "MixConv: Mixed Depthwise Convolutional Kernels", Tan and Le 2019, <https://arxiv.org/abs/1907.09595>.
//!
//! The only reference is timm.

mod mix_block;
mod mix_conv;
mod mixnet;

pub use mix_block::{MixBlock, MixBlockConfig};
pub use mix_conv::{MixConv, MixConvConfig};
pub use mixnet::{MixNetConfig, mixnet_s};

use kindling_layers::Staged;
use kindling_layers::names::{KeyStyle, Names};

/// The names in one style, if the library has this network.
pub fn names(network: &Staged<MixBlock>, style: KeyStyle) -> Option<Names> {
    (style == KeyStyle::Timm).then(|| network.timm_names())
}
