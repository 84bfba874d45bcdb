//! EfficientNet-Lite: EfficientNet without squeeze-excite and with ReLU6, for integer hardware; Liu 2020,
//! <https://github.com/tensorflow/tpu/tree/master/models/official/efficientnet/lite>.

use kindling_layers::blocks::{InvertedResidualConfig, MobileBlockConfig};
use kindling_layers::names::Library;
use kindling_layers::{Activation, BatchNormConfig, HeadConfig, Padding, StemConfig};

use crate::{B0, EfficientNetConfig, scaled};

/// How B0 is scaled (the reference implementation's table): width, depth, dropout.
const SCALES: [(f64, f64, f64); 5] = [
    (1.0, 1.0, 0.2), // Lite0
    (1.0, 1.1, 0.2),
    (1.1, 1.2, 0.3),
    (1.2, 1.4, 0.3),
    (1.4, 1.8, 0.3), // Lite4
];

/// EfficientNet-Lite0 to Lite4. Stem, last convolution, and the depth of the first and the last stage stay B0's.
///
/// The models as published have TensorFlow's padding and epsilon (`tf_efficientnet_lite0`); timm's own
/// `efficientnet_lite0` is the same network with PyTorch's.
///
/// # Panics
/// If `scale` is above 4.
pub fn efficientnet_lite(scale: usize, library: Library) -> EfficientNetConfig {
    let (width, depth, drop_rate) = SCALES[scale];
    let (norm, padding) = match library {
        Library::TimmTensorFlow => (BatchNormConfig::tensorflow(), Padding::Same),
        Library::Torchvision | Library::Timm => (BatchNormConfig::default(), Padding::Symmetric),
    };
    let activation = Activation::Relu6;
    let mut input = 32;
    let mut block = |ratio, kernel, output, stride| {
        let config = InvertedResidualConfig {
            input,
            expanded: input * ratio,
            output,
            kernel,
            stride,
            squeeze_excite: None,
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
        .enumerate()
        .map(|(stage, &(ratio, kernel, channels, repeats, stride))| {
            let depth = if stage == 0 || stage == B0.len() - 1 { 1.0 } else { depth };
            let repeats = (repeats as f64 * depth).ceil() as usize;
            let output = scaled(channels, width);
            (0..repeats).map(|repeat| block(ratio, kernel, output, if repeat == 0 { stride } else { 1 })).collect()
        })
        .collect();
    EfficientNetConfig {
        stem: StemConfig { channels: 32, kernel: 3, activation, pool: false },
        stages,
        head: HeadConfig { features: Some((1280, activation)), hidden: None, drop_rate },
        norm,
        padding,
        drop_path_rate: 0.2,
    }
}
