//! EfficientNetV2: "Smaller Models and Faster Training", Tan and Le 2021, <https://arxiv.org/abs/2104.00298>.

use kindling_layers::blocks::{FusedInvertedResidualConfig, InvertedResidualConfig};
use kindling_layers::names::Library;
use kindling_layers::{Activation, BatchNormConfig, StemConfig};

use crate::efficientnet::torchvision_names;
use crate::entry::{MakeConfig, ModelEntry, ModelName, Paper, tf, timm, torchvision};
use crate::names::LayerNames;
use crate::network::{AnyBlockConfig, NetworkConfig};
use crate::tables::{Details, mbconv_squeeze_excite, plain_head, repeated};

const PAPER: Paper = Paper {
    family: "EfficientNet",
    source: "Tan and Le 2021, https://arxiv.org/abs/2104.00298",
    layer_names: LayerNames { torchvision: Some(torchvision_names), ..LayerNames::TIMM },
};

const fn model(names: &'static [ModelName], native_size: usize, config: MakeConfig) -> ModelEntry {
    PAPER.model(names, native_size, "fused inverted residuals first, SiLU", config)
}

/// What the registry lists.
pub const MODELS: &[ModelEntry] = &[
    model(
        &[torchvision("efficientnet_v2_s"), timm("efficientnetv2_s"), tf("tf_efficientnetv2_s")],
        384,
        efficientnet_v2_s,
    ),
    model(
        &[torchvision("efficientnet_v2_m"), timm("efficientnetv2_m"), tf("tf_efficientnetv2_m")],
        480,
        efficientnet_v2_m,
    ),
    model(
        &[torchvision("efficientnet_v2_l"), timm("efficientnetv2_l"), tf("tf_efficientnetv2_l")],
        480,
        efficientnet_v2_l,
    ),
];

/// A row of the tables: fused or not, expansion ratio, output channels, number of blocks, stride of the first block.
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
pub fn efficientnet_v2_s(library: Library) -> NetworkConfig {
    from_table(S, 24, 0.2, library)
}

/// EfficientNetV2-M.
pub fn efficientnet_v2_m(library: Library) -> NetworkConfig {
    from_table(M, 24, 0.3, library)
}

/// EfficientNetV2-L.
pub fn efficientnet_v2_l(library: Library) -> NetworkConfig {
    from_table(L, 32, 0.4, library)
}

fn from_table(table: &[Row], stem: usize, drop_rate: f64, library: Library) -> NetworkConfig {
    let details = Details::of(library, BatchNormConfig { epsilon: 1e-3, momentum: 0.1 });
    let Details { norm, padding } = details;
    let activation = Activation::Silu;
    let mut input = stem;
    let stem = StemConfig::conv3x3(stem, activation);
    let mut block = |fused, ratio, output, stride| -> AnyBlockConfig {
        let expanded = input * ratio;
        let config = if fused {
            FusedInvertedResidualConfig {
                input,
                expanded,
                output,
                kernel: 3,
                stride,
                activation,
                shortcut: true,
                norm,
                padding,
            }
            .into()
        } else {
            InvertedResidualConfig {
                squeeze_excite: Some(mbconv_squeeze_excite(input, expanded, activation)),
                norm,
                padding,
                ..InvertedResidualConfig::new(input, expanded, output, 3, stride, activation)
            }
            .into()
        };
        input = output;
        config
    };
    let stages = table
        .iter()
        .map(|&(fused, ratio, channels, repeats, stride)| {
            repeated(repeats, stride, |stride| block(fused, ratio, channels, stride))
        })
        .collect();
    let head = plain_head(1280, activation, drop_rate);
    NetworkConfig { drop_path_rate: 0.2, ..details.network(stem, stages, head) }
}
