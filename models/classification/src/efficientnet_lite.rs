//! EfficientNet-Lite: EfficientNet without squeeze-excite and with ReLU6, for integer hardware; Liu 2020,
//! <https://github.com/tensorflow/tpu/tree/master/models/official/efficientnet/lite>.
//!
//! The published models have TensorFlow's padding and epsilon (`tf_efficientnet_lite0`). timm's `efficientnet_lite0` is the same
//! network with PyTorch's padding and epsilon. torchvision does not have them.

use kindling_layers::blocks::InvertedResidualConfig;
use kindling_layers::names::Library;
use kindling_layers::{Activation, BatchNormConfig, StemConfig};

use crate::efficientnet::{B0, efficientnet_pytorch_names};
use crate::entry::{ModelEntry, Paper, tf, timm};
use crate::names::LayerNames;
use crate::network::NetworkConfig;
use crate::tables::{Details, plain_head, repeated, scaled};

const PAPER: Paper = Paper {
    family: "EfficientNet",
    source: "Liu 2020, https://github.com/tensorflow/tpu/tree/master/models/official/efficientnet/lite",
    layer_names: LayerNames { efficientnet_pytorch: Some(efficientnet_pytorch_names), ..LayerNames::TIMM },
};

macro_rules! lite {
    ($scale:literal, $size:literal) => {
        PAPER.model(
            &[timm(concat!("efficientnet_lite", $scale)), tf(concat!("tf_efficientnet_lite", $scale))],
            $size,
            "EfficientNet without squeeze-excite, ReLU6",
            |library| efficientnet_lite($scale, library),
        )
    };
}

/// What the registry lists.
pub const MODELS: &[ModelEntry] = &[lite!(0, 224), lite!(1, 240), lite!(2, 260), lite!(3, 300), lite!(4, 380)];

/// How B0 is scaled (the reference implementation's table): width, depth, dropout.
const SCALES: [(f64, f64, f64); 5] = [
    (1.0, 1.0, 0.2), // Lite0
    (1.0, 1.1, 0.2),
    (1.1, 1.2, 0.3),
    (1.2, 1.4, 0.3),
    (1.4, 1.8, 0.3), // Lite4
];

/// EfficientNet-Lite0 to Lite4. The stem, the last convolution, and the depth of the first and the last stage are those of B0.
///
/// # Panics
/// If `scale` is above 4.
pub fn efficientnet_lite(scale: usize, library: Library) -> NetworkConfig {
    let (width, depth, drop_rate) = SCALES[scale];
    let details = Details::of(library, BatchNormConfig::default());
    let Details { norm, padding } = details;
    let activation = Activation::Relu6;
    let mut input = 32;
    let stem = StemConfig::conv3x3(input, activation);
    let mut block = |ratio, kernel, output, stride| {
        let config = InvertedResidualConfig {
            norm,
            padding,
            ..InvertedResidualConfig::new(input, input * ratio, output, kernel, stride, activation)
        };
        input = output;
        config.into()
    };
    let stages = B0
        .iter()
        .enumerate()
        .map(|(stage, &(ratio, kernel, channels, repeats, stride))| {
            let depth = if stage == 0 || stage == B0.len() - 1 { 1.0 } else { depth };
            let repeats = (repeats as f64 * depth).ceil() as usize;
            repeated(repeats, stride, |stride| block(ratio, kernel, scaled(channels, width), stride))
        })
        .collect();
    let head = plain_head(1280, activation, drop_rate);
    NetworkConfig { drop_path_rate: 0.2, ..details.network(stem, stages, head) }
}
