//! MobileNetV3: "Searching for MobileNetV3", Howard et al. 2019, <https://arxiv.org/abs/1905.02244>.

use kindling_layers::Activation::{self, HardSwish as HS, Relu as RE};
use kindling_layers::blocks::InvertedResidualConfig;
use kindling_layers::names::{Library, Names};
use kindling_layers::{BatchNormConfig, HeadConfig, HiddenConfig, SqueezeExciteConfig, StemConfig, make_divisible};

use crate::entry::{ModelEntry, Paper, tf, timm, torchvision};
use crate::names::{LayerNames, Sequence};
use crate::network::{AnyBlock, Network, NetworkConfig};
use crate::tables::Details;

const PAPER: Paper = Paper {
    family: "MobileNet",
    source: "Howard et al. 2019, https://arxiv.org/abs/1905.02244",
    layer_names: LayerNames { torchvision: Some(torchvision_names), ..LayerNames::TIMM },
};

/// What the registry lists.
pub const MODELS: &[ModelEntry] = &[
    PAPER.model(
        &[torchvision("mobilenet_v3_small"), timm("mobilenetv3_small_100"), tf("tf_mobilenetv3_small_100")],
        224,
        "squeeze-excite, hard-swish; the lightest, and the default",
        mobilenet_v3_small,
    ),
    PAPER.model(
        &[torchvision("mobilenet_v3_large"), timm("mobilenetv3_large_100"), tf("tf_mobilenetv3_large_100")],
        224,
        "squeeze-excite, hard-swish",
        mobilenet_v3_large,
    ),
];

/// A row of the paper's tables 1 and 2: kernel, expansion size, output channels, squeeze-excite, non-linearity, stride.
type Row = (usize, usize, usize, bool, Activation, usize);

/// The paper's table 1 (large), between the stem and the last 1x1 convolution, with a list for each group of equal rows.
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
pub fn mobilenet_v3_large(library: Library) -> NetworkConfig {
    from_table(LARGE, 1280, library)
}

/// MobileNetV3-Small at width 1.
pub fn mobilenet_v3_small(library: Library) -> NetworkConfig {
    from_table(SMALL, 1024, library)
}

/// The stem has 16 channels, and the last convolution has six times the channels of the last block; both use hard-swish. In both
/// libraries, the first block has no expansion, because it would keep the 16 channels.
fn from_table(table: &[&[Row]], hidden: usize, library: Library) -> NetworkConfig {
    let details = Details::of(library, BatchNormConfig { epsilon: 1e-3, momentum: 0.01 });
    let Details { norm, padding } = details;
    let mut input = 16;
    let stem = StemConfig::conv3x3(input, HS);
    let mut block = |&(kernel, expanded, output, squeeze_excite, activation, stride): &Row| {
        let squeeze_excite = squeeze_excite.then(|| SqueezeExciteConfig {
            channels: expanded,
            squeezed: make_divisible(expanded as f64 / 4.0, 8),
            activation: RE,
            gate: Activation::HardSigmoid,
        });
        let config = InvertedResidualConfig {
            squeeze_excite,
            norm,
            padding,
            ..InvertedResidualConfig::new(input, expanded, output, kernel, stride, activation)
        };
        input = output;
        config.into()
    };
    let stages = table.iter().map(|rows| rows.iter().map(&mut block).collect()).collect();
    let hidden = HiddenConfig::Linear(hidden, HS);
    let head = HeadConfig { features: Some((6 * input, HS)), hidden: Some(hidden), drop_rate: 0.2 };
    details.network(stem, stages, head)
}

/// torchvision numbers the blocks consecutively, and the layers within each block.
fn torchvision_names(network: &Network) -> Option<Names> {
    let mut names = Names::default();
    names.conv_norm("stem", "features.0.0", "features.0.1");
    let mut last = 1;
    for ((stage, index), block) in network.blocks() {
        let AnyBlock::InvertedResidual(block) = block else { return None };
        let (own, reference) = (format!("stages.{stage}.{index}"), format!("features.{last}.block"));
        Sequence::new(&mut names, own, reference).inverted_residual(block);
        last += 1;
    }
    names.conv_norm("head.features", &format!("features.{last}.0"), &format!("features.{last}.1"));
    names.plain("head.hidden.linear", "classifier.0");
    names.plain("head.classifier", "classifier.3");
    Some(names)
}
