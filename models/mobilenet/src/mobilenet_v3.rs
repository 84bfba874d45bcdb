//! MobileNetV3: "Searching for MobileNetV3", Howard et al. 2019, <https://arxiv.org/abs/1905.02244>.

use kindling_layers::Activation::{self, HardSwish as HS, Relu as RE};
use kindling_layers::blocks::{InvertedResidualConfig, MobileBlockConfig};
use kindling_layers::names::Library;
use kindling_layers::{
    BatchNormConfig, HeadConfig, HiddenConfig, Padding, SqueezeExciteConfig, StemConfig, make_divisible,
};

use crate::MobileNetConfig;

/// A row of the paper's tables 1 and 2: kernel, expansion size, output channels, squeeze-excite, non-linearity, stride.
type Row = (usize, usize, usize, bool, Activation, usize);

/// The paper's table 1 (large), between the stem and the last 1x1 convolution; a list for each group of equal rows.
const LARGE: &[&[Row]] = &[
    // kernel, expanded, output, SE, NL, s
    &[(3, 16, 16, false, RE, 1)],
    &[(3, 64, 24, false, RE, 2), (3, 72, 24, false, RE, 1)],
    &[(5, 72, 40, true, RE, 2), (5, 120, 40, true, RE, 1), (5, 120, 40, true, RE, 1)],
    &[(3, 240, 80, false, HS, 2), (3, 200, 80, false, HS, 1), (3, 184, 80, false, HS, 1), (3, 184, 80, false, HS, 1)],
    &[(3, 480, 112, true, HS, 1), (3, 672, 112, true, HS, 1)],
    &[(5, 672, 160, true, HS, 2), (5, 960, 160, true, HS, 1), (5, 960, 160, true, HS, 1)],
];

/// The paper's table 2 (small).
const SMALL: &[&[Row]] = &[
    // kernel, expanded, output, SE, NL, s
    &[(3, 16, 16, true, RE, 2)],
    &[(3, 72, 24, false, RE, 2), (3, 88, 24, false, RE, 1)],
    &[(5, 96, 40, true, HS, 2), (5, 240, 40, true, HS, 1), (5, 240, 40, true, HS, 1)],
    &[(5, 120, 48, true, HS, 1), (5, 144, 48, true, HS, 1)],
    &[(5, 288, 96, true, HS, 2), (5, 576, 96, true, HS, 1), (5, 576, 96, true, HS, 1)],
];

/// MobileNetV3-Large at width 1.
pub fn mobilenet_v3_large(library: Library) -> MobileNetConfig {
    from_table(LARGE, 1280, library)
}

/// MobileNetV3-Small at width 1.
pub fn mobilenet_v3_small(library: Library) -> MobileNetConfig {
    from_table(SMALL, 1024, library)
}

/// The stem has 16 channels, the last convolution six times the last block's, and both use hard-swish. The first block,
/// whose expansion keeps its 16 channels, has no expansion convolution in either library.
fn from_table(table: &[&[Row]], hidden: usize, library: Library) -> MobileNetConfig {
    let (norm, padding) = match library {
        Library::Torchvision => (BatchNormConfig { epsilon: 1e-3, momentum: 0.01 }, Padding::Symmetric),
        Library::Timm => (BatchNormConfig::default(), Padding::Symmetric),
        Library::TimmTensorFlow => (BatchNormConfig::tensorflow(), Padding::Same),
    };
    let stem = 16;
    let mut input = stem;
    let mut block = |&(kernel, expanded, output, squeeze_excite, activation, stride): &Row| {
        let squeeze_excite = squeeze_excite.then(|| SqueezeExciteConfig {
            channels: expanded,
            squeezed: make_divisible(expanded as f64 / 4.0, 8),
            activation: RE,
            gate: Activation::HardSigmoid,
        });
        let config = InvertedResidualConfig {
            input,
            expanded,
            output,
            kernel,
            stride,
            squeeze_excite,
            activation,
            project_activation: Activation::Identity,
            shortcut: true,
            norm,
            padding,
        };
        input = output;
        MobileBlockConfig::InvertedResidual(config)
    };
    let stages = table.iter().map(|rows| rows.iter().map(&mut block).collect()).collect();
    let head =
        HeadConfig { features: Some((6 * input, HS)), hidden: Some(HiddenConfig::Linear(hidden, HS)), drop_rate: 0.2 };
    let stem = StemConfig { channels: stem, kernel: 3, activation: HS, pool: false };
    MobileNetConfig { stem, stages, head, norm, padding, drop_path_rate: 0.0 }
}
