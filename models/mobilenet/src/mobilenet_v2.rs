//! MobileNetV2: "Inverted Residuals and Linear Bottlenecks", Sandler et al. 2018, <https://arxiv.org/abs/1801.04381>.

use kindling_layers::{Activation, BatchNormConfig, make_divisible};

use crate::inverted_residual::InvertedResidualConfig;
use crate::network::{MobileNetConfig, StemConfig};

/// The paper's table 2, between the stem and the last 1x1 convolution.
///
/// `t`: expansion ratio; `c`: output channels; `n`: how many blocks; `s`: stride of the first of them.
const TABLE: [(usize, usize, usize, usize); 7] = [
    // t, c, n, s
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
];

/// MobileNetV2 with its channels scaled by `width`, as torchvision builds it: the last convolution keeps its 1280
/// channels when `width` is below 1.
pub fn mobilenet_v2(width: f64) -> MobileNetConfig {
    let scaled = |channels: usize| make_divisible(channels as f64 * width, 8);
    let norm = BatchNormConfig::default();
    let activation = Activation::Relu6;

    let stem = scaled(32);
    let mut blocks = Vec::new();
    let mut input = stem;
    for (ratio, channels, repeats, stride) in TABLE {
        let output = scaled(channels);
        for repeat in 0..repeats {
            blocks.push(InvertedResidualConfig {
                input,
                expanded: input * ratio,
                output,
                kernel: 3,
                stride: if repeat == 0 { stride } else { 1 },
                squeeze_excite: false,
                activation,
                norm,
            });
            input = output;
        }
    }
    MobileNetConfig {
        stem: StemConfig { channels: stem, activation },
        blocks,
        features: make_divisible(1280.0 * width.max(1.0), 8),
        features_activation: activation,
        hidden: None,
        norm,
        drop_rate: 0.2,
    }
}
