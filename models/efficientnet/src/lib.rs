//! The EfficientNet family, each written from its paper's table.
//!
//! Every function takes the [`Library`] whose details it follows, so that this library's weights give its outputs.

mod efficientnet;
mod efficientnet_lite;
mod efficientnet_v2;
mod names;

pub use efficientnet::efficientnet;
pub use efficientnet_lite::efficientnet_lite;
pub use efficientnet_v2::{efficientnet_v2_l, efficientnet_v2_m, efficientnet_v2_s};
pub use names::names;

use kindling_layers::StagedConfig;
use kindling_layers::blocks::MobileBlockConfig;
use kindling_layers::make_divisible;

/// What makes an EfficientNet.
pub type EfficientNetConfig = StagedConfig<MobileBlockConfig>;

/// A row of the papers' tables: expansion ratio, kernel, output channels, how many blocks, stride of the first.
type Row = (usize, usize, usize, usize, usize);

/// EfficientNet-B0 ("EfficientNet", table 1); B1 to B7 and the Lite models scale it.
const B0: [Row; 7] = [
    // ratio, k, c, n, s
    (1, 3, 16, 1, 1),
    (6, 3, 24, 2, 2),
    (6, 5, 40, 2, 2),
    (6, 3, 80, 3, 2),
    (6, 5, 112, 3, 1),
    (6, 5, 192, 4, 2),
    (6, 3, 320, 1, 1),
];

/// A channel count scaled by a width.
fn scaled(channels: usize, width: f64) -> usize {
    make_divisible(channels as f64 * width, 8)
}

#[cfg(doc)]
use kindling_layers::names::Library;
