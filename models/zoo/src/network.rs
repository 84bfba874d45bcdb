//! One type for every classifier of the zoo, and one for what makes it.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kindling_efficientnet::EfficientNetConfig;
use kindling_ghostnet::{GhostBottleneck, GhostNetConfig};
use kindling_layers::blocks::MobileBlock;
use kindling_layers::names::{KeyStyle, Names};
use kindling_layers::trace::{Describe, FeatureMap, Trace, Value};
use kindling_layers::{Classifier, Cuts, Freeze, Staged};
use kindling_mixnet::{MixBlock, MixNetConfig};
use kindling_mnasnet::MnasNetConfig;
use kindling_mobilenet::MobileNetConfig;
use kindling_resnet::{ResNetConfig, ResidualBlock};

/// A network of the zoo.
///
/// An enum rather than a trait object because Burn's modules are cloned, visited and mapped by type.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant)] // one network a process
pub enum Network {
    /// MobileNet V1 to V4.
    MobileNet(Staged<MobileBlock>),
    /// EfficientNet, Lite and V2.
    EfficientNet(Staged<MobileBlock>),
    /// MNASNet.
    MnasNet(Staged<MobileBlock>),
    /// MixNet.
    MixNet(Staged<MixBlock>),
    /// GhostNet.
    GhostNet(Staged<GhostBottleneck>),
    /// ResNet.
    ResNet(Staged<ResidualBlock>),
}

/// What makes a [`Network`].
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::enum_variant_names)] // the families are called so
pub(crate) enum NetworkConfig {
    MobileNet(MobileNetConfig),
    EfficientNet(EfficientNetConfig),
    MnasNet(MnasNetConfig),
    MixNet(MixNetConfig),
    GhostNet(GhostNetConfig),
    ResNet(ResNetConfig),
}

/// The same expression for whatever family it is.
macro_rules! any_family {
    ($type:ident, $value:expr, $inner:ident => $body:expr) => {
        match $value {
            $type::MobileNet($inner) => $body,
            $type::EfficientNet($inner) => $body,
            $type::MnasNet($inner) => $body,
            $type::MixNet($inner) => $body,
            $type::GhostNet($inner) => $body,
            $type::ResNet($inner) => $body,
        }
    };
}

impl NetworkConfig {
    pub(crate) fn init(&self, in_channels: usize, classes: usize, device: &Device) -> Network {
        match self {
            Self::MobileNet(config) => Network::MobileNet(config.init(in_channels, classes, device)),
            Self::EfficientNet(config) => Network::EfficientNet(config.init(in_channels, classes, device)),
            Self::MnasNet(config) => Network::MnasNet(config.init(in_channels, classes, device)),
            Self::MixNet(config) => Network::MixNet(config.init(in_channels, classes, device)),
            Self::GhostNet(config) => Network::GhostNet(config.init(in_channels, classes, device)),
            Self::ResNet(config) => Network::ResNet(config.init(in_channels, classes, device)),
        }
    }

    pub(crate) fn drop_rate(&mut self) -> &mut f64 {
        any_family!(Self, self, config => &mut config.head.drop_rate)
    }

    pub(crate) fn drop_path_rate(&mut self) -> &mut f64 {
        any_family!(Self, self, config => &mut config.drop_path_rate)
    }

    pub(crate) fn total_stride(&self) -> usize {
        any_family!(Self, self, config => config.total_stride())
    }
}

impl Network {
    /// What a library calls the layers, if it has this network.
    pub fn names(&self, style: KeyStyle) -> Option<Names> {
        match self {
            Self::MobileNet(network) => kindling_mobilenet::names(network, style),
            Self::EfficientNet(network) => kindling_efficientnet::names(network, style),
            Self::MnasNet(network) => kindling_mnasnet::names(network, style),
            Self::MixNet(network) => kindling_mixnet::names(network, style),
            Self::GhostNet(network) => kindling_ghostnet::names(network, style),
            Self::ResNet(network) => kindling_resnet::names(network, style),
        }
    }

    /// The layers for one square image, in the order they run.
    pub fn trace(&self, in_channels: usize, image_size: usize) -> Trace {
        Trace::of(self, FeatureMap::square(in_channels, image_size))
    }

    /// The network with parts that do not train; see [`Staged::freeze`].
    pub fn freeze(self, freeze: Freeze) -> Self {
        match self {
            Self::MobileNet(network) => Self::MobileNet(network.freeze(freeze)),
            Self::EfficientNet(network) => Self::EfficientNet(network.freeze(freeze)),
            Self::MnasNet(network) => Self::MnasNet(network.freeze(freeze)),
            Self::MixNet(network) => Self::MixNet(network.freeze(freeze)),
            Self::GhostNet(network) => Self::GhostNet(network.freeze(freeze)),
            Self::ResNet(network) => Self::ResNet(network.freeze(freeze)),
        }
    }

    /// The feature map of each resolution, finest first; `trace(..).stages` says what they are.
    pub fn forward_features(&self, images: Tensor<4>) -> Vec<Tensor<4>> {
        any_family!(Self, self, network => network.forward_features(images))
    }
}

impl Classifier for Network {
    fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        any_family!(Self, self, network => network.forward(images))
    }

    fn segments(&self, cuts: Cuts) -> usize {
        any_family!(Self, self, network => network.segments(cuts))
    }

    fn frozen_segments(&self, cuts: Cuts) -> usize {
        any_family!(Self, self, network => network.frozen_segments(cuts))
    }

    fn run_segment(&self, cuts: Cuts, index: usize, x: Tensor<4>) -> Tensor<4> {
        any_family!(Self, self, network => network.run_segment(cuts, index, x))
    }

    fn finish(&self, x: Tensor<4>) -> Tensor<2> {
        any_family!(Self, self, network => network.finish(x))
    }
}

impl Describe for Network {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        any_family!(Self, self, network => network.describe(input, trace))
    }
}
