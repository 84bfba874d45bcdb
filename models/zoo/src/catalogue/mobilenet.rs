//! The MobileNets.

use kindling_mobilenet::{
    mobilenet_v1, mobilenet_v2, mobilenet_v3_large, mobilenet_v3_small, mobilenet_v4_conv_large,
    mobilenet_v4_conv_medium, mobilenet_v4_conv_small,
};

use super::{MakeConfig, tf, timm, torchvision};
use crate::network::NetworkConfig::MobileNet;
use crate::registry::{ModelEntry, ModelName};

const V1: &str = "Howard et al. 2017, https://arxiv.org/abs/1704.04861";
const V2: &str = "Sandler et al. 2018, https://arxiv.org/abs/1801.04381";
const V3: &str = "Howard et al. 2019, https://arxiv.org/abs/1905.02244";
const V4: &str = "Qin et al. 2024, https://arxiv.org/abs/2404.10518";

pub(super) const MODELS: &[ModelEntry] = &[
    entry(&[timm("mobilenetv1_100")], V1, 224, "depthwise separable convolutions, nothing else", |_| {
        MobileNet(mobilenet_v1())
    }),
    entry(&[timm("mobilenetv2_035")], V2, 224, "MobileNetV2 at width 0.35", |_| MobileNet(mobilenet_v2(0.35))),
    entry(&[timm("mobilenetv2_050")], V2, 224, "MobileNetV2 at width 0.5", |_| MobileNet(mobilenet_v2(0.5))),
    entry(&[timm("mobilenetv2_075")], V2, 224, "MobileNetV2 at width 0.75", |_| MobileNet(mobilenet_v2(0.75))),
    entry(
        &[torchvision("mobilenet_v2"), timm("mobilenetv2_100")],
        V2,
        224,
        "inverted residuals, ReLU6; the standard light baseline",
        |_| MobileNet(mobilenet_v2(1.0)),
    ),
    entry(&[timm("mobilenetv2_140")], V2, 224, "MobileNetV2 at width 1.4", |_| MobileNet(mobilenet_v2(1.4))),
    entry(
        &[torchvision("mobilenet_v3_small"), timm("mobilenetv3_small_100"), tf("tf_mobilenetv3_small_100")],
        V3,
        224,
        "squeeze-excite, hard-swish; the lightest, and the default",
        |library| MobileNet(mobilenet_v3_small(library)),
    ),
    entry(
        &[torchvision("mobilenet_v3_large"), timm("mobilenetv3_large_100"), tf("tf_mobilenetv3_large_100")],
        V3,
        224,
        "squeeze-excite, hard-swish",
        |library| MobileNet(mobilenet_v3_large(library)),
    ),
    entry(&[timm("mobilenetv4_conv_small")], V4, 224, "universal inverted bottlenecks, ReLU", |_| {
        MobileNet(mobilenet_v4_conv_small())
    }),
    entry(&[timm("mobilenetv4_conv_medium")], V4, 256, "universal inverted bottlenecks, ReLU", |_| {
        MobileNet(mobilenet_v4_conv_medium())
    }),
    entry(&[timm("mobilenetv4_conv_large")], V4, 384, "universal inverted bottlenecks, ReLU", |_| {
        MobileNet(mobilenet_v4_conv_large())
    }),
];

const fn entry(
    names: &'static [ModelName],
    paper: &'static str,
    native_size: usize,
    about: &'static str,
    config: MakeConfig,
) -> ModelEntry {
    ModelEntry { names, family: "MobileNet", paper, native_size, about, config }
}
