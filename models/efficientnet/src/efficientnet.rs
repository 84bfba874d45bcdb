//! EfficientNet: "Rethinking Model Scaling for Convolutional Neural Networks", Tan and Le 2019,
//! <https://arxiv.org/abs/1905.11946>.

use kindling_layers::blocks::{InvertedResidualConfig, MobileBlockConfig};
use kindling_layers::names::Library;
use kindling_layers::{Activation, BatchNormConfig, HeadConfig, Padding, SqueezeExciteConfig, StemConfig};

use crate::{B0, EfficientNetConfig, scaled};

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
pub fn efficientnet(scale: usize, library: Library) -> EfficientNetConfig {
    let (width, depth, drop_rate) = SCALES[scale];
    let (norm, padding) = match library {
        Library::Torchvision if scale >= 5 => (BatchNormConfig { epsilon: 1e-3, momentum: 0.01 }, Padding::Symmetric),
        Library::Torchvision | Library::Timm => (BatchNormConfig::default(), Padding::Symmetric),
        Library::TimmTensorFlow => (BatchNormConfig::tensorflow(), Padding::Same),
    };
    let activation = Activation::Silu;
    let stem = scaled(32, width);
    let mut input = stem;
    let mut block = |ratio, kernel, output, stride| {
        let expanded = input * ratio;
        let squeeze_excite =
            SqueezeExciteConfig { channels: expanded, squeezed: input / 4, activation, gate: Activation::Sigmoid };
        let config = InvertedResidualConfig {
            input,
            expanded,
            output,
            kernel,
            stride,
            squeeze_excite: Some(squeeze_excite),
            activation,
            project_activation: Activation::Identity,
            shortcut: true,
            norm,
            padding,
        };
        input = output;
        MobileBlockConfig::InvertedResidual(config)
    };
    let stages = B0
        .iter()
        .map(|&(ratio, kernel, channels, repeats, stride)| {
            let repeats = (repeats as f64 * depth).ceil() as usize;
            let output = scaled(channels, width);
            (0..repeats).map(|repeat| block(ratio, kernel, output, if repeat == 0 { stride } else { 1 })).collect()
        })
        .collect();
    EfficientNetConfig {
        stem: StemConfig { channels: stem, kernel: 3, activation, pool: false },
        stages,
        head: HeadConfig { features: Some((4 * input, activation)), hidden: None, drop_rate },
        norm,
        padding,
        drop_path_rate: 0.2,
    }
}
