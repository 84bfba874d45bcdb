//! The EfficientNets.

use kindling_efficientnet::{efficientnet, efficientnet_lite, efficientnet_v2_l, efficientnet_v2_m, efficientnet_v2_s};

use super::{MakeConfig, tf, timm, torchvision};
use crate::network::NetworkConfig::EfficientNet;
use crate::registry::{ModelEntry, ModelName};

const B: &str = "Tan and Le 2019, https://arxiv.org/abs/1905.11946";
const LITE: &str = "Liu 2020, https://github.com/tensorflow/tpu/tree/master/models/official/efficientnet/lite";
const V2: &str = "Tan and Le 2021, https://arxiv.org/abs/2104.00298";

/// A member of the first family, whose name both libraries share.
macro_rules! b {
    ($scale:literal, $size:literal) => {
        entry(
            &[
                torchvision(concat!("efficientnet_b", $scale)),
                timm(concat!("efficientnet_b", $scale)),
                tf(concat!("tf_efficientnet_b", $scale)),
            ],
            B,
            $size,
            "inverted residuals with squeeze-excite, SiLU",
            |library| EfficientNet(efficientnet($scale, library)),
        )
    };
}

macro_rules! lite {
    ($scale:literal, $size:literal) => {
        entry(
            &[timm(concat!("efficientnet_lite", $scale)), tf(concat!("tf_efficientnet_lite", $scale))],
            LITE,
            $size,
            "EfficientNet without squeeze-excite, ReLU6",
            |library| EfficientNet(efficientnet_lite($scale, library)),
        )
    };
}

macro_rules! v2 {
    ($size:literal, $function:ident, $native_size:literal) => {
        entry(
            &[
                torchvision(concat!("efficientnet_v2_", $size)),
                timm(concat!("efficientnetv2_", $size)),
                tf(concat!("tf_efficientnetv2_", $size)),
            ],
            V2,
            $native_size,
            "fused inverted residuals first, SiLU",
            |library| EfficientNet($function(library)),
        )
    };
}

pub(super) const MODELS: &[ModelEntry] = &[
    b!(0, 224),
    b!(1, 240),
    b!(2, 260),
    b!(3, 300),
    b!(4, 380),
    b!(5, 456),
    b!(6, 528),
    b!(7, 600),
    lite!(0, 224),
    lite!(1, 240),
    lite!(2, 260),
    lite!(3, 300),
    lite!(4, 380),
    v2!("s", efficientnet_v2_s, 384),
    v2!("m", efficientnet_v2_m, 480),
    v2!("l", efficientnet_v2_l, 480),
];

const fn entry(
    names: &'static [ModelName],
    paper: &'static str,
    native_size: usize,
    about: &'static str,
    config: MakeConfig,
) -> ModelEntry {
    ModelEntry { names, family: "EfficientNet", paper, native_size, about, config }
}
