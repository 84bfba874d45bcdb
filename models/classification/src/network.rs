//! One type for all classifiers of the zoo.
//!
//! All of them are [`Staged`] and differ only in their blocks. A block is a variant of an enum and not a trait object, because Burn's
//! modules are cloned, visited and mapped by type. A macro writes the enum and its implementations, so a new block takes one line in
//! the list at the end of this file. Names of tensors do not contain the variant ([`kindling_layers::parameters::ModulePath`]).

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kindling_layers::blocks::{
    Block, BlockConfig, FusedInvertedResidual, FusedInvertedResidualConfig, InvertedResidual, InvertedResidualConfig,
};
use kindling_layers::names::Names;
use kindling_layers::trace::{Describe, Trace, Value};
use kindling_layers::{DropPath, Staged, StagedConfig};

use crate::ghostnet::{GhostBottleneck, GhostBottleneckConfig};
use crate::mixnet::{MixBlock, MixBlockConfig};
use crate::mobilenet_v4::{UniversalInvertedBottleneck, UniversalInvertedBottleneckConfig};
use crate::resnet::{ResidualBlock, ResidualBlockConfig};

/// A classifier: images `[batch, in_channels, height, width]` to logits `[batch, classes]`.
pub type Network = Staged<AnyBlock>;

/// The configuration of a [`Network`].
pub type NetworkConfig = StagedConfig<AnyBlockConfig>;

macro_rules! blocks {
    ($($(#[$doc:meta])+ $block:ident of $config:ident,)+) => {
        /// The configuration of an [`AnyBlock`].
        #[derive(Clone, Debug, PartialEq)]
        pub enum AnyBlockConfig {
            $($(#[$doc])+ $block($config),)+
        }

        /// A block of any of the papers.
        #[derive(Module, Debug)]
        #[allow(clippy::large_enum_variant)] // a few dozen of them in a network
        pub enum AnyBlock {
            $($(#[$doc])+ $block($block),)+
        }

        $(impl From<$config> for AnyBlockConfig {
            fn from(config: $config) -> Self {
                Self::$block(config)
            }
        })+

        impl BlockConfig for AnyBlockConfig {
            type Block = AnyBlock;

            fn init(&self, drop_path: DropPath, device: &Device) -> AnyBlock {
                match self {
                    $(Self::$block(config) => AnyBlock::$block(config.init(drop_path, device)),)+
                }
            }

            fn output(&self) -> usize {
                match self {
                    $(Self::$block(config) => config.output(),)+
                }
            }

            fn stride(&self) -> usize {
                match self {
                    $(Self::$block(config) => config.stride(),)+
                }
            }
        }

        impl Block for AnyBlock {
            type Config = AnyBlockConfig;

            fn forward(&self, x: Tensor<4>) -> Tensor<4> {
                match self {
                    $(Self::$block(block) => block.forward(x),)+
                }
            }

            fn atrous(self, dilation: usize) -> Self {
                match self {
                    $(Self::$block(block) => Self::$block(block.atrous(dilation)),)+
                }
            }

            fn timm_names(&self, own: &str, reference: &str, names: &mut Names) {
                match self {
                    $(Self::$block(block) => block.timm_names(own, reference, names),)+
                }
            }
        }

        impl Describe for AnyBlock {
            fn describe(&self, input: Value, trace: &mut Trace) -> Value {
                match self {
                    $(Self::$block(block) => block.describe(input, trace),)+
                }
            }
        }
    };
}

blocks! {
    /// MobileNet V1 to V3, EfficientNet, MNASNet: expansion, depthwise convolution, projection.
    InvertedResidual of InvertedResidualConfig,
    /// EfficientNetV2, MobileNetV4: convolution, projection.
    FusedInvertedResidual of FusedInvertedResidualConfig,
    /// MobileNetV4: up to two depthwise convolutions around the expansion.
    UniversalInvertedBottleneck of UniversalInvertedBottleneckConfig,
    /// MixNet: depthwise kernels of several sizes.
    MixBlock of MixBlockConfig,
    /// GhostNet: half of the features from cheap convolutions.
    GhostBottleneck of GhostBottleneckConfig,
    /// ResNet: ordinary convolutions.
    ResidualBlock of ResidualBlockConfig,
}
