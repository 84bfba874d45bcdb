//! MNASNet: "Platform-Aware Neural Architecture Search for Mobile", Tan et al. 2019,
//! <https://arxiv.org/abs/1807.11626>, figure 7: A1 with squeeze-excite, B1 without.

use kindling_layers::blocks::InvertedResidualConfig;
use kindling_layers::names::{Library, Names};
use kindling_layers::{Activation, BatchNormConfig, StemConfig};

use crate::entry::{ModelEntry, Paper, timm, torchvision};
use crate::names::{LayerNames, Sequence};
use crate::network::{AnyBlock, Network, NetworkConfig};
use crate::tables::{Details, mbconv_squeeze_excite, plain_head, repeated, scaled};

const PAPER: Paper = Paper {
    family: "MNASNet",
    source: "Tan et al. 2019, https://arxiv.org/abs/1807.11626",
    layer_names: LayerNames { torchvision: Some(torchvision_names), ..LayerNames::TIMM },
};

/// What the registry lists.
pub const MODELS: &[ModelEntry] = &[
    PAPER.model(&[torchvision("mnasnet0_5"), timm("mnasnet_050")], 224, "MNASNet-B1 at width 0.5, ReLU", |library| {
        mnasnet_b1(0.5, library)
    }),
    PAPER.model(&[torchvision("mnasnet0_75"), timm("mnasnet_075")], 224, "MNASNet-B1 at width 0.75, ReLU", |library| {
        mnasnet_b1(0.75, library)
    }),
    PAPER.model(&[torchvision("mnasnet1_0"), timm("mnasnet_100")], 224, "MNASNet-B1, ReLU", |library| {
        mnasnet_b1(1.0, library)
    }),
    // timm itself has no `mnasnet_130`; the name stands for torchvision's network with timm's details.
    PAPER.model(&[torchvision("mnasnet1_3"), timm("mnasnet_130")], 224, "MNASNet-B1 at width 1.3, ReLU", |library| {
        mnasnet_b1(1.3, library)
    }),
    PAPER.model(&[timm("semnasnet_100")], 224, "MNASNet-A1: squeeze-excite, ReLU", mnasnet_a1),
];

/// A row: expansion ratio, kernel, output channels, squeeze-excite, number of blocks, stride of the first block.
type Row = (usize, usize, usize, bool, usize, usize);

/// MNASNet-B1.
const B1: [Row; 7] = [
    // ratio, k, c, SE, n, s
    (1, 3, 16, false, 1, 1),
    (3, 3, 24, false, 3, 2),
    (3, 5, 40, false, 3, 2),
    (6, 5, 80, false, 3, 2),
    (6, 3, 96, false, 2, 1),
    (6, 5, 192, false, 4, 2),
    (6, 3, 320, false, 1, 1),
];

/// MNASNet-A1.
const A1: [Row; 7] = [
    (1, 3, 16, false, 1, 1),
    (6, 3, 24, false, 2, 2),
    (3, 5, 40, true, 3, 2),
    (6, 3, 80, false, 4, 2),
    (6, 3, 112, true, 2, 1),
    (6, 5, 160, true, 3, 2),
    (6, 3, 320, false, 1, 1),
];

/// MNASNet-B1 with its channels scaled by `width`: torchvision's `mnasnet1_0`, timm's `mnasnet_100`.
pub fn mnasnet_b1(width: f64, library: Library) -> NetworkConfig {
    from_table(&B1, width, library)
}

/// MNASNet-A1: timm's `semnasnet_100`.
pub fn mnasnet_a1(library: Library) -> NetworkConfig {
    from_table(&A1, 1.0, library)
}

/// The last convolution keeps its 1280 channels at every width.
fn from_table(table: &[Row], width: f64, library: Library) -> NetworkConfig {
    // torchvision uses 0.9997, as in the paper.
    let details = Details::of(library, BatchNormConfig { epsilon: 1e-5, momentum: 1.0 - 0.9997 });
    let Details { norm, padding } = details;
    let activation = Activation::Relu;
    let mut input = scaled(32, width);
    let stem = StemConfig::conv3x3(input, activation);
    let mut block = |ratio, kernel, output, squeeze_excite: bool, stride| {
        let expanded = input * ratio;
        let config = InvertedResidualConfig {
            squeeze_excite: squeeze_excite.then(|| mbconv_squeeze_excite(input, expanded, activation)),
            norm,
            padding,
            ..InvertedResidualConfig::new(input, expanded, output, kernel, stride, activation)
        };
        input = output;
        config.into()
    };
    let stages = table
        .iter()
        .map(|&(ratio, kernel, channels, squeeze_excite, repeats, stride)| {
            let output = scaled(channels, width);
            repeated(repeats, stride, |stride| block(ratio, kernel, output, squeeze_excite, stride))
        })
        .collect();
    details.network(stem, stages, plain_head(1280, activation, 0.2))
}

/// In torchvision, convolution, normalisation and activation are three steps of a sequence. The stem and the first block are directly in
/// that sequence, and the other stages are its elements 8 to 13. torchvision has only B1.
fn torchvision_names(network: &Network) -> Option<Names> {
    let mut names = Names::default();
    names.conv_norm("stem", "layers.0", "layers.1");
    for ((stage, index), block) in network.blocks() {
        let AnyBlock::InvertedResidual(block) = block else { return None };
        if block.squeeze_excite.is_some() {
            return None;
        }
        let (reference, first) = match stage {
            0 => ("layers".to_string(), 3),
            _ => (format!("layers.{}.{index}.layers", stage + 7), 0),
        };
        let mut steps = Sequence::new(&mut names, format!("stages.{stage}.{index}"), reference).starting_at(first);
        if block.expand.is_some() {
            steps.three_steps("expand");
        }
        steps.three_steps("depthwise");
        steps.two_steps("project");
    }
    let last = network.stages.len() + 7;
    names.conv_norm("head.features", &format!("layers.{last}"), &format!("layers.{}", last + 1));
    names.plain("head.classifier", "classifier.1");
    Some(names)
}
