//! One type for the blocks of the mobile families.

use burn::module::Module;
use burn::tensor::{Device, Tensor};

use super::{
    Block, BlockConfig, FusedInvertedResidual, FusedInvertedResidualConfig, InvertedResidual, InvertedResidualConfig,
    UniversalInvertedBottleneck, UniversalInvertedBottleneckConfig,
};
use crate::drop_path::DropPath;
use crate::names::Names;
use crate::trace::{Describe, Trace, Value};

/// Configuration of a [`MobileBlock`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MobileBlockConfig {
    /// Expansion, depthwise convolution, projection.
    InvertedResidual(InvertedResidualConfig),
    /// Convolution, projection.
    Fused(FusedInvertedResidualConfig),
    /// Up to two depthwise convolutions around the expansion.
    Universal(UniversalInvertedBottleneckConfig),
}

/// A block of a MobileNet, EfficientNet or MNASNet.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant)] // a few dozen of them in a network
pub enum MobileBlock {
    /// Expansion, depthwise convolution, projection.
    InvertedResidual(InvertedResidual),
    /// Convolution, projection.
    Fused(FusedInvertedResidual),
    /// Up to two depthwise convolutions around the expansion.
    Universal(UniversalInvertedBottleneck),
}

impl BlockConfig for MobileBlockConfig {
    type Block = MobileBlock;

    fn init(&self, drop_path: DropPath, device: &Device) -> MobileBlock {
        match self {
            Self::InvertedResidual(config) => MobileBlock::InvertedResidual(config.init(drop_path, device)),
            Self::Fused(config) => MobileBlock::Fused(config.init(drop_path, device)),
            Self::Universal(config) => MobileBlock::Universal(config.init(drop_path, device)),
        }
    }

    fn output(&self) -> usize {
        match self {
            Self::InvertedResidual(config) => config.output,
            Self::Fused(config) => config.output,
            Self::Universal(config) => config.output,
        }
    }

    fn stride(&self) -> usize {
        match self {
            Self::InvertedResidual(config) => config.stride,
            Self::Fused(config) => config.stride,
            Self::Universal(config) => config.stride,
        }
    }
}

impl Block for MobileBlock {
    type Config = MobileBlockConfig;

    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        match self {
            Self::InvertedResidual(block) => block.forward(x),
            Self::Fused(block) => block.forward(x),
            Self::Universal(block) => block.forward(x),
        }
    }

    fn timm_names(&self, own: &str, reference: &str, names: &mut Names) {
        match self {
            Self::InvertedResidual(block) => block.timm_names(own, reference, names),
            Self::Fused(block) => block.timm_names(own, reference, names),
            Self::Universal(block) => block.timm_names(own, reference, names),
        }
    }
}

impl Describe for MobileBlock {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        match self {
            Self::InvertedResidual(block) => block.describe(input, trace),
            Self::Fused(block) => block.describe(input, trace),
            Self::Universal(block) => block.describe(input, trace),
        }
    }
}
