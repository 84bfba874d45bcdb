//! EfficientNet: "Rethinking Model Scaling for Convolutional Neural Networks", Tan and Le 2019,
//! <https://arxiv.org/abs/1905.11946>.

use kindling_layers::blocks::InvertedResidualConfig;
use kindling_layers::names::{Library, Names};
use kindling_layers::{Activation, BatchNormConfig, StemConfig};

use crate::entry::{ModelEntry, Paper, tf, timm, torchvision};
use crate::names::{LayerNames, Sequence};
use crate::network::{AnyBlock, Network, NetworkConfig};
use crate::tables::{Details, mbconv_squeeze_excite, plain_head, repeated, scaled};

const PAPER: Paper = Paper {
    family: "EfficientNet",
    source: "Tan and Le 2019, https://arxiv.org/abs/1905.11946",
    layer_names: LayerNames {
        torchvision: Some(torchvision_names),
        efficientnet_pytorch: Some(efficientnet_pytorch_names),
        ..LayerNames::TIMM
    },
};

/// A network whose name is the same in both libraries.
macro_rules! b {
    ($scale:literal, $size:literal) => {
        PAPER.model(
            &[
                torchvision(concat!("efficientnet_b", $scale)),
                timm(concat!("efficientnet_b", $scale)),
                tf(concat!("tf_efficientnet_b", $scale)),
            ],
            $size,
            "inverted residuals with squeeze-excite, SiLU",
            |library| efficientnet($scale, library),
        )
    };
}

/// What the registry lists.
pub const MODELS: &[ModelEntry] =
    &[b!(0, 224), b!(1, 240), b!(2, 260), b!(3, 300), b!(4, 380), b!(5, 456), b!(6, 528), b!(7, 600)];

/// A row of the paper's table: expansion ratio, kernel, output channels, number of blocks, stride of the first block.
type Row = (usize, usize, usize, usize, usize);

/// B0 (table 1); B1 to B7 and the Lite models scale it.
pub(crate) const B0: [Row; 7] = [
    // ratio, k, c, n, s
    (1, 3, 16, 1, 1),
    (6, 3, 24, 2, 2),
    (6, 5, 40, 2, 2),
    (6, 3, 80, 3, 2),
    (6, 5, 112, 3, 1),
    (6, 5, 192, 4, 2),
    (6, 3, 320, 1, 1),
];

/// How B0 is scaled (the reference implementation's table): width, depth, dropout.
const SCALES: [(f64, f64, f64); 8] = [
    (1.0, 1.0, 0.2), // B0
    (1.0, 1.1, 0.2),
    (1.1, 1.2, 0.3),
    (1.2, 1.4, 0.3),
    (1.4, 1.8, 0.4),
    (1.6, 2.2, 0.4),
    (1.8, 2.6, 0.5),
    (2.0, 3.1, 0.5), // B7
];

/// EfficientNet-B0 to B7.
///
/// # Panics
/// If `scale` is above 7.
pub fn efficientnet(scale: usize, library: Library) -> NetworkConfig {
    let (width, depth, drop_rate) = SCALES[scale];
    let torchvision = match scale {
        ..5 => BatchNormConfig::default(),
        5.. => BatchNormConfig { epsilon: 1e-3, momentum: 0.01 },
    };
    let details = Details::of(library, torchvision);
    let Details { norm, padding } = details;
    let activation = Activation::Silu;
    let mut input = scaled(32, width);
    let stem = StemConfig::conv3x3(input, activation);
    let mut block = |ratio, kernel, output, stride| {
        let expanded = input * ratio;
        let config = InvertedResidualConfig {
            squeeze_excite: Some(mbconv_squeeze_excite(input, expanded, activation)),
            norm,
            padding,
            ..InvertedResidualConfig::new(input, expanded, output, kernel, stride, activation)
        };
        input = output;
        config.into()
    };
    let stages = B0
        .iter()
        .map(|&(ratio, kernel, channels, repeats, stride)| {
            let repeats = (repeats as f64 * depth).ceil() as usize;
            repeated(repeats, stride, |stride| block(ratio, kernel, scaled(channels, width), stride))
        })
        .collect();
    let head = plain_head(4 * input, activation, drop_rate);
    NetworkConfig { drop_path_rate: 0.2, ..details.network(stem, stages, head) }
}

/// In torchvision, a stage is a sequence of blocks, which are sequences of layers.
pub(crate) fn torchvision_names(network: &Network) -> Option<Names> {
    let mut names = Names::default();
    names.conv_norm("stem", "features.0.0", "features.0.1");
    for ((stage, index), block) in network.blocks() {
        let (own, reference) = (format!("stages.{stage}.{index}"), format!("features.{}.{index}.block", stage + 1));
        let mut steps = Sequence::new(&mut names, own, reference);
        match block {
            AnyBlock::InvertedResidual(block) => steps.inverted_residual(block),
            AnyBlock::FusedInvertedResidual(block) => {
                steps.layer("expand");
                if block.project.is_some() {
                    steps.layer("project");
                }
            }
            _ => return None,
        }
    }
    let last = format!("features.{}", network.stages.len() + 1);
    names.conv_norm("head.features", &format!("{last}.0"), &format!("{last}.1"));
    names.plain("head.classifier", "classifier.1");
    Some(names)
}

/// The names of `efficientnet_pytorch`, the port that the Lite weights come from. It numbers blocks consecutively and has no fused
/// blocks.
pub(crate) fn efficientnet_pytorch_names(network: &Network) -> Option<Names> {
    let mut names = Names::default();
    names.conv_norm("stem", "_conv_stem", "_bn0");
    for (number, ((stage, index), block)) in network.blocks().enumerate() {
        let AnyBlock::InvertedResidual(block) = block else { return None };
        let (own, reference) = (format!("stages.{stage}.{index}"), format!("_blocks.{number}"));
        let mut layer = |part: &str, conv: &str, norm: &str| {
            let (conv, norm) = (format!("{reference}.{conv}"), format!("{reference}.{norm}"));
            names.conv_norm(&format!("{own}.{part}"), &conv, &norm);
        };
        if block.expand.is_some() {
            layer("expand", "_expand_conv", "_bn0");
        }
        layer("depthwise", "_depthwise_conv", "_bn1");
        layer("project", "_project_conv", "_bn2");
        if block.squeeze_excite.is_some() {
            names.squeeze_excite(&format!("{own}.squeeze_excite"), &reference, ["_se_reduce", "_se_expand"]);
        }
    }
    names.conv_norm("head.features", "_conv_head", "_bn1");
    names.plain("head.classifier", "_fc");
    Some(names)
}
