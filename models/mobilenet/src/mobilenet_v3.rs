//! MobileNetV3: "Searching for MobileNetV3", Howard et al. 2019, <https://arxiv.org/abs/1905.02244>.

use kindling_layers::Activation::{self, HardSwish as HS, Relu as RE};
use kindling_layers::BatchNormConfig;

use crate::inverted_residual::InvertedResidualConfig;
use crate::network::{MobileNetConfig, StemConfig};

/// A row of the paper's tables 1 and 2: kernel, expansion size, output channels, squeeze-excite, non-linearity, stride.
type Row = (usize, usize, usize, bool, Activation, usize);

/// The paper's table 2 (small), between the stem and the last 1x1 convolution.
const SMALL: [Row; 11] = [
    // kernel, expanded, output, SE, NL, s
    (3, 16, 16, true, RE, 2),
    (3, 72, 24, false, RE, 2),
    (3, 88, 24, false, RE, 1),
    (5, 96, 40, true, HS, 2),
    (5, 240, 40, true, HS, 1),
    (5, 240, 40, true, HS, 1),
    (5, 120, 48, true, HS, 1),
    (5, 144, 48, true, HS, 1),
    (5, 288, 96, true, HS, 2),
    (5, 576, 96, true, HS, 1),
    (5, 576, 96, true, HS, 1),
];

/// MobileNetV3-Small at width 1, as torchvision builds it.
pub fn mobilenet_v3_small() -> MobileNetConfig {
    from_table(&SMALL, 1024)
}

/// The stem has 16 channels, the last convolution six times the last block's, and both use hard-swish.
///
/// torchvision departs from the paper in two places that are followed here: batch norm has epsilon 1e-3 and momentum
/// 0.01, and the first block of the small model, whose expansion keeps its 16 channels, has no expansion convolution.
fn from_table(table: &[Row], hidden: usize) -> MobileNetConfig {
    let norm = BatchNormConfig { epsilon: 1e-3, momentum: 0.01 };
    let stem = 16;
    let mut input = stem;
    let blocks: Vec<_> = table
        .iter()
        .map(|&(kernel, expanded, output, squeeze_excite, activation, stride)| {
            let block =
                InvertedResidualConfig { input, expanded, output, kernel, stride, squeeze_excite, activation, norm };
            input = output;
            block
        })
        .collect();
    MobileNetConfig {
        stem: StemConfig { channels: stem, activation: HS },
        blocks,
        features: 6 * input,
        features_activation: HS,
        hidden: Some(hidden),
        norm,
        drop_rate: 0.2,
    }
}
