//! More depthwise separable networks, and the heavy baselines to swap away from.

use kindling_ghostnet::ghostnet;
use kindling_mixnet::mixnet_s;
use kindling_mnasnet::{mnasnet_a1, mnasnet_b1};
use kindling_resnet::{resnet18, resnet34, resnet50};

use super::{tf, timm, torchvision};
use crate::network::NetworkConfig::{GhostNet, MixNet, MnasNet, ResNet};
use crate::registry::ModelEntry;

const MNASNET: &str = "Tan et al. 2019, https://arxiv.org/abs/1807.11626";
const RESNET: &str = "He et al. 2015, https://arxiv.org/abs/1512.03385";

pub(super) const MODELS: &[ModelEntry] = &[
    ModelEntry {
        names: &[torchvision("mnasnet0_5"), timm("mnasnet_050")],
        family: "MNASNet",
        paper: MNASNET,
        native_size: 224,
        about: "MNASNet-B1 at width 0.5, ReLU",
        config: |library| MnasNet(mnasnet_b1(0.5, library)),
    },
    ModelEntry {
        names: &[torchvision("mnasnet0_75"), timm("mnasnet_075")],
        family: "MNASNet",
        paper: MNASNET,
        native_size: 224,
        about: "MNASNet-B1 at width 0.75, ReLU",
        config: |library| MnasNet(mnasnet_b1(0.75, library)),
    },
    ModelEntry {
        names: &[torchvision("mnasnet1_0"), timm("mnasnet_100")],
        family: "MNASNet",
        paper: MNASNET,
        native_size: 224,
        about: "MNASNet-B1, ReLU",
        config: |library| MnasNet(mnasnet_b1(1.0, library)),
    },
    ModelEntry {
        names: &[torchvision("mnasnet1_3"), timm("mnasnet_130")],
        family: "MNASNet",
        paper: MNASNET,
        native_size: 224,
        about: "MNASNet-B1 at width 1.3, ReLU",
        config: |library| MnasNet(mnasnet_b1(1.3, library)),
    },
    ModelEntry {
        names: &[timm("semnasnet_100")],
        family: "MNASNet",
        paper: MNASNET,
        native_size: 224,
        about: "MNASNet-A1: squeeze-excite, ReLU",
        config: |library| MnasNet(mnasnet_a1(library)),
    },
    ModelEntry {
        names: &[timm("mixnet_s"), tf("tf_mixnet_s")],
        family: "MixNet",
        paper: "Tan and Le 2019, https://arxiv.org/abs/1907.09595",
        native_size: 224,
        about: "depthwise kernels of several sizes, SiLU",
        config: |library| MixNet(mixnet_s(library)),
    },
    ModelEntry {
        names: &[timm("ghostnet_100")],
        family: "GhostNet",
        paper: "Han et al. 2020, https://arxiv.org/abs/1911.11907",
        native_size: 224,
        about: "half of the features from cheap convolutions, ReLU",
        config: |_| GhostNet(ghostnet()),
    },
    ModelEntry {
        names: &[torchvision("resnet18"), timm("resnet18")],
        family: "ResNet",
        paper: RESNET,
        native_size: 224,
        about: "ordinary convolutions: a heavy baseline",
        config: |_| ResNet(resnet18()),
    },
    ModelEntry {
        names: &[torchvision("resnet34"), timm("resnet34")],
        family: "ResNet",
        paper: RESNET,
        native_size: 224,
        about: "ordinary convolutions: a heavy baseline",
        config: |_| ResNet(resnet34()),
    },
    ModelEntry {
        names: &[torchvision("resnet50"), timm("resnet50")],
        family: "ResNet",
        paper: RESNET,
        native_size: 224,
        about: "bottlenecks of ordinary convolutions: the heavy baseline",
        config: |_| ResNet(resnet50()),
    },
];
