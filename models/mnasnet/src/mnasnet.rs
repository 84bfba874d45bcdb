//! The paper's figure 7: MNASNet-A1 with squeeze-excite, B1 without.

use kindling_layers::blocks::{InvertedResidualConfig, MobileBlockConfig};
use kindling_layers::names::Library;
use kindling_layers::{
    Activation, BatchNormConfig, HeadConfig, Padding, SqueezeExciteConfig, StemConfig, make_divisible,
};

use crate::MnasNetConfig;

/// A row: expansion ratio, kernel, output channels, squeeze-excite, how many blocks, stride of the first.
type Row = (usize, usize, usize, bool, usize, usize);

/// B1.
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

/// A1.
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
pub fn mnasnet_b1(width: f64, library: Library) -> MnasNetConfig {
    from_table(&B1, width, library)
}

/// MNASNet-A1: timm's `semnasnet_100`.
pub fn mnasnet_a1(library: Library) -> MnasNetConfig {
    from_table(&A1, 1.0, library)
}

/// The last convolution keeps its 1280 channels at every width.
fn from_table(table: &[Row], width: f64, library: Library) -> MnasNetConfig {
    let (norm, padding) = match library {
        // torchvision follows the paper's 0.9997.
        Library::Torchvision => (BatchNormConfig { epsilon: 1e-5, momentum: 1.0 - 0.9997 }, Padding::Symmetric),
        Library::Timm => (BatchNormConfig::default(), Padding::Symmetric),
        Library::TimmTensorFlow => (BatchNormConfig::tensorflow(), Padding::Same),
    };
    let scaled = |channels: usize| make_divisible(channels as f64 * width, 8);
    let activation = Activation::Relu;
    let stem = scaled(32);
    let mut input = stem;
    let mut block = |ratio, kernel, output, squeeze_excite: bool, stride| {
        let expanded = input * ratio;
        let squeeze_excite = squeeze_excite.then_some(SqueezeExciteConfig {
            channels: expanded,
            squeezed: input / 4,
            activation,
            gate: Activation::Sigmoid,
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
    let stages = table
        .iter()
        .map(|&(ratio, kernel, channels, squeeze_excite, repeats, stride)| {
            let stride = |repeat| if repeat == 0 { stride } else { 1 };
            let output = scaled(channels);
            (0..repeats).map(|repeat| block(ratio, kernel, output, squeeze_excite, stride(repeat))).collect()
        })
        .collect();
    MnasNetConfig {
        stem: StemConfig { channels: stem, kernel: 3, activation, pool: false },
        stages,
        head: HeadConfig { features: Some((1280, activation)), hidden: None, drop_rate: 0.2 },
        norm,
        padding,
        drop_path_rate: 0.0,
    }
}
