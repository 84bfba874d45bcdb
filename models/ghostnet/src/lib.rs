//! GhostNet: "More Features from Cheap Operations", Han et al. 2020, <https://arxiv.org/abs/1911.11907>.
//!
//! The only reference is timm.

mod ghost_bottleneck;
mod ghost_module;
mod ghostnet;

pub use ghost_bottleneck::{GhostBottleneck, GhostBottleneckConfig, GhostShortcut};
pub use ghost_module::GhostModule;
pub use ghostnet::{GhostNetConfig, ghostnet};

use kindling_layers::Staged;
use kindling_layers::names::{KeyStyle, Names};

/// The names in one style, if the library has this network.
pub fn names(network: &Staged<GhostBottleneck>, style: KeyStyle) -> Option<Names> {
    (style == KeyStyle::Timm).then(|| network.timm_names())
}
