//! MobileNet: "Efficient Convolutional Neural Networks for Mobile Vision Applications", Howard et al. 2017,
//! <https://arxiv.org/abs/1704.04861>.

use kindling_layers::blocks::{InvertedResidualConfig, MobileBlockConfig};
use kindling_layers::{Activation, BatchNormConfig, HeadConfig, Padding, StemConfig};

use crate::MobileNetConfig;

/// The paper's table 1: output channels, how many depthwise separable convolutions, stride of the first.
const TABLE: [(usize, usize, usize); 5] = [
    // c, n, s
    (64, 1, 1),
    (128, 2, 2),
    (256, 2, 2),
    (512, 6, 2),
    (1024, 2, 2),
];

/// MobileNet at width 1, as timm builds it: ReLU6 after every convolution, the projection included, and no shortcuts.
pub fn mobilenet_v1() -> MobileNetConfig {
    let activation = Activation::Relu6;
    let norm = BatchNormConfig::default();
    let mut input = 32;
    let mut block = |output, stride| {
        let config = InvertedResidualConfig {
            input,
            expanded: input,
            output,
            kernel: 3,
            stride,
            squeeze_excite: None,
            activation,
            project_activation: activation,
            shortcut: false,
            norm,
            padding: Padding::Symmetric,
        };
        input = output;
        MobileBlockConfig::InvertedResidual(config)
    };
    let stages = TABLE
        .iter()
        .map(|&(channels, repeats, stride)| {
            (0..repeats).map(|repeat| block(channels, if repeat == 0 { stride } else { 1 })).collect()
        })
        .collect();
    MobileNetConfig {
        stem: StemConfig { channels: 32, kernel: 3, activation, pool: false },
        stages,
        head: HeadConfig { features: None, hidden: None, drop_rate: 0.2 },
        norm,
        padding: Padding::Symmetric,
        drop_path_rate: 0.0,
    }
}
