//! MobileNet: "Efficient Convolutional Neural Networks for Mobile Vision Applications", Howard et al. 2017,
//! <https://arxiv.org/abs/1704.04861>. Of the two libraries only timm has it.

use kindling_layers::blocks::InvertedResidualConfig;
use kindling_layers::{Activation, HeadConfig, StemConfig};

use crate::entry::{ModelEntry, Paper, timm};
use crate::names::LayerNames;
use crate::network::NetworkConfig;
use crate::tables::{Details, repeated};

const PAPER: Paper = Paper {
    family: "MobileNet",
    source: "Howard et al. 2017, https://arxiv.org/abs/1704.04861",
    layer_names: LayerNames::TIMM,
};

/// What the registry lists.
pub const MODELS: &[ModelEntry] =
    &[PAPER
        .model(&[timm("mobilenetv1_100")], 224, "depthwise separable convolutions, nothing else", |_| mobilenet_v1())];

/// The paper's table 1: output channels, number of depthwise separable convolutions, stride of the first one.
const TABLE: [(usize, usize, usize); 5] = [
    // c, n, s
    (64, 1, 1),
    (128, 2, 2),
    (256, 2, 2),
    (512, 6, 2),
    (1024, 2, 2),
];

/// MobileNet at width 1, as timm builds it: ReLU6 after every convolution, including the projection, and no shortcuts.
pub fn mobilenet_v1() -> NetworkConfig {
    let activation = Activation::Relu6;
    let mut input = 32;
    let stem = StemConfig::conv3x3(input, activation);
    let mut block = |output, stride| {
        let separable = InvertedResidualConfig {
            project_activation: activation,
            shortcut: false,
            ..InvertedResidualConfig::new(input, input, output, 3, stride, activation)
        };
        input = output;
        separable.into()
    };
    let stages = TABLE
        .iter()
        .map(|&(channels, repeats, stride)| repeated(repeats, stride, |stride| block(channels, stride)))
        .collect();
    Details::default().network(stem, stages, HeadConfig { features: None, hidden: None, drop_rate: 0.2 })
}
