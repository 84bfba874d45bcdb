//! EfficientNetV2: "Smaller Models and Faster Training", Tan and Le 2021, <https://arxiv.org/abs/2104.00298>.

use kindling_layers::blocks::{FusedInvertedResidualConfig, InvertedResidualConfig, MobileBlockConfig};
use kindling_layers::names::Library;
use kindling_layers::{Activation, BatchNormConfig, HeadConfig, Padding, SqueezeExciteConfig, StemConfig};

use crate::EfficientNetConfig;

/// A row of the tables: fused or not, expansion ratio, output channels, how many blocks, stride of the first.
type Row = (bool, usize, usize, usize, usize);

const FUSED: bool = true;
const MBCONV: bool = false;

/// The paper's table 4.
const S: &[Row] = &[
    // kind, ratio, c, n, s
    (FUSED, 1, 24, 2, 1),
    (FUSED, 4, 48, 4, 2),
    (FUSED, 4, 64, 4, 2),
    (MBCONV, 4, 128, 6, 2),
    (MBCONV, 6, 160, 9, 1),
    (MBCONV, 6, 256, 15, 2),
];

/// The reference implementation's table for M.
const M: &[Row] = &[
    (FUSED, 1, 24, 3, 1),
    (FUSED, 4, 48, 5, 2),
    (FUSED, 4, 80, 5, 2),
    (MBCONV, 4, 160, 7, 2),
    (MBCONV, 6, 176, 14, 1),
    (MBCONV, 6, 304, 18, 2),
    (MBCONV, 6, 512, 5, 1),
];

/// The reference implementation's table for L.
const L: &[Row] = &[
    (FUSED, 1, 32, 4, 1),
    (FUSED, 4, 64, 7, 2),
    (FUSED, 4, 96, 7, 2),
    (MBCONV, 4, 192, 10, 2),
    (MBCONV, 6, 224, 19, 1),
    (MBCONV, 6, 384, 25, 2),
    (MBCONV, 6, 640, 7, 1),
];

/// EfficientNetV2-S.
pub fn efficientnet_v2_s(library: Library) -> EfficientNetConfig {
    from_table(S, 24, 0.2, library)
}

/// EfficientNetV2-M.
pub fn efficientnet_v2_m(library: Library) -> EfficientNetConfig {
    from_table(M, 24, 0.3, library)
}

/// EfficientNetV2-L.
pub fn efficientnet_v2_l(library: Library) -> EfficientNetConfig {
    from_table(L, 32, 0.4, library)
}

fn from_table(table: &[Row], stem: usize, drop_rate: f64, library: Library) -> EfficientNetConfig {
    let (norm, padding) = match library {
        Library::Torchvision => (BatchNormConfig { epsilon: 1e-3, momentum: 0.1 }, Padding::Symmetric),
        Library::Timm => (BatchNormConfig::default(), Padding::Symmetric),
        Library::TimmTensorFlow => (BatchNormConfig::tensorflow(), Padding::Same),
    };
    let activation = Activation::Silu;
    let mut input = stem;
    let mut block = |fused, ratio, output, stride| {
        let expanded = input * ratio;
        let config = if fused {
            MobileBlockConfig::Fused(FusedInvertedResidualConfig {
                input,
                expanded,
                output,
                kernel: 3,
                stride,
                activation,
                shortcut: true,
                norm,
                padding,
            })
        } else {
            let squeeze_excite =
                SqueezeExciteConfig { channels: expanded, squeezed: input / 4, activation, gate: Activation::Sigmoid };
            MobileBlockConfig::InvertedResidual(InvertedResidualConfig {
                input,
                expanded,
                output,
                kernel: 3,
                stride,
                squeeze_excite: Some(squeeze_excite),
                activation,
                project_activation: Activation::Identity,
                shortcut: true,
                norm,
                padding,
            })
        };
        input = output;
        config
    };
    let stages = table
        .iter()
        .map(|&(fused, ratio, channels, repeats, stride)| {
            (0..repeats).map(|repeat| block(fused, ratio, channels, if repeat == 0 { stride } else { 1 })).collect()
        })
        .collect();
    EfficientNetConfig {
        stem: StemConfig { channels: stem, kernel: 3, activation, pool: false },
        stages,
        head: HeadConfig { features: Some((1280, activation)), hidden: None, drop_rate },
        norm,
        padding,
        drop_path_rate: 0.2,
    }
}
