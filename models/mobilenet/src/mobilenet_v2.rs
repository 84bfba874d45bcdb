//! MobileNetV2: "Inverted Residuals and Linear Bottlenecks", Sandler et al. 2018, <https://arxiv.org/abs/1801.04381>.

use kindling_layers::blocks::{InvertedResidualConfig, MobileBlockConfig};
use kindling_layers::{Activation, BatchNormConfig, HeadConfig, Padding, StemConfig, make_divisible};

use crate::MobileNetConfig;

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

/// MobileNetV2 with its channels scaled by `width`, as torchvision and timm both build it: the last convolution keeps
/// its 1280 channels when `width` is below 1.
pub fn mobilenet_v2(width: f64) -> MobileNetConfig {
    let scaled = |channels: usize| make_divisible(channels as f64 * width, 8);
    let norm = BatchNormConfig::default();
    let activation = Activation::Relu6;

    let stem = scaled(32);
    let mut input = stem;
    let mut block = |ratio, output, stride| {
        let config = InvertedResidualConfig {
            input,
            expanded: input * ratio,
            output,
            kernel: 3,
            stride,
            squeeze_excite: None,
            activation,
            project_activation: Activation::Identity,
            shortcut: true,
            norm,
            padding: Padding::Symmetric,
        };
        input = output;
        MobileBlockConfig::InvertedResidual(config)
    };
    let stages = TABLE
        .iter()
        .map(|&(ratio, channels, repeats, stride)| {
            (0..repeats).map(|repeat| block(ratio, scaled(channels), if repeat == 0 { stride } else { 1 })).collect()
        })
        .collect();
    let features = make_divisible(1280.0 * width.max(1.0), 8);
    MobileNetConfig {
        stem: StemConfig { channels: stem, kernel: 3, activation, pool: false },
        stages,
        head: HeadConfig { features: Some((features, activation)), hidden: None, drop_rate: 0.2 },
        norm,
        padding: Padding::Symmetric,
        drop_path_rate: 0.0,
    }
}
