//! MobileNetV2: "Inverted Residuals and Linear Bottlenecks", Sandler et al. 2018, <https://arxiv.org/abs/1801.04381>.

use kindling_layers::blocks::InvertedResidualConfig;
use kindling_layers::names::Names;
use kindling_layers::{Activation, StemConfig, make_divisible};

use crate::entry::{ModelEntry, Paper, timm, torchvision};
use crate::names::{LayerNames, Sequence};
use crate::network::{AnyBlock, Network, NetworkConfig};
use crate::tables::{Details, plain_head, repeated, scaled};

const PAPER: Paper = Paper {
    family: "MobileNet",
    source: "Sandler et al. 2018, https://arxiv.org/abs/1801.04381",
    layer_names: LayerNames { torchvision: Some(torchvision_names), ..LayerNames::TIMM },
};

/// What the registry lists.
pub const MODELS: &[ModelEntry] = &[
    PAPER.model(&[timm("mobilenetv2_035")], 224, "MobileNetV2 at width 0.35", |_| mobilenet_v2(0.35)),
    PAPER.model(&[timm("mobilenetv2_050")], 224, "MobileNetV2 at width 0.5", |_| mobilenet_v2(0.5)),
    PAPER.model(&[timm("mobilenetv2_075")], 224, "MobileNetV2 at width 0.75", |_| mobilenet_v2(0.75)),
    PAPER.model(
        &[torchvision("mobilenet_v2"), timm("mobilenetv2_100")],
        224,
        "inverted residuals, ReLU6; the standard light baseline",
        |_| mobilenet_v2(1.0),
    ),
    PAPER.model(&[timm("mobilenetv2_140")], 224, "MobileNetV2 at width 1.4", |_| mobilenet_v2(1.4)),
];

/// The paper's table 2, between the stem and the last 1x1 convolution.
///
/// `t`: expansion ratio; `c`: output channels; `n`: number of blocks; `s`: stride of the first block.
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

/// MobileNetV2 with its channels scaled by `width`, as torchvision and timm both build it: if `width` is below 1, the last convolution
/// keeps its 1280 channels.
pub fn mobilenet_v2(width: f64) -> NetworkConfig {
    let activation = Activation::Relu6;
    let mut input = scaled(32, width);
    let stem = StemConfig::conv3x3(input, activation);
    let mut block = |ratio, output, stride| {
        let config = InvertedResidualConfig::new(input, input * ratio, output, 3, stride, activation);
        input = output;
        config.into()
    };
    let stages = TABLE
        .iter()
        .map(|&(ratio, channels, repeats, stride)| {
            repeated(repeats, stride, |stride| block(ratio, scaled(channels, width), stride))
        })
        .collect();
    let features = make_divisible(1280.0 * width.max(1.0), 8);
    Details::default().network(stem, stages, plain_head(features, activation, 0.2))
}

/// torchvision numbers the blocks consecutively. In a block, expansion and depthwise convolution are sequences of their own, while the
/// convolution and the normalisation of the projection are directly in the sequence of the block.
fn torchvision_names(network: &Network) -> Option<Names> {
    let mut names = Names::default();
    names.conv_norm("stem", "features.0.0", "features.0.1");
    let mut last = 1;
    for ((stage, index), block) in network.blocks() {
        let AnyBlock::InvertedResidual(block) = block else { return None };
        let (own, reference) = (format!("stages.{stage}.{index}"), format!("features.{last}.conv"));
        let mut steps = Sequence::new(&mut names, own, reference);
        if block.expand.is_some() {
            steps.layer("expand");
        }
        steps.layer("depthwise");
        steps.two_steps("project");
        last += 1;
    }
    names.conv_norm("head.features", &format!("features.{last}.0"), &format!("features.{last}.1"));
    names.plain("head.classifier", "classifier.1");
    Some(names)
}
