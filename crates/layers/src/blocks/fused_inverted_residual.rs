//! The inverted residual block whose expansion and depthwise convolution are one ordinary convolution.

use burn::module::Module;
use burn::tensor::{Device, Tensor};

use crate::blocks::{Block, BlockConfig, convolve_and_add, with_shortcut};
use crate::names::Names;
use crate::trace::{Describe, Trace, Value};
use crate::{Activation, BatchNormConfig, Conv2dConfig, ConvNorm, ConvNormConfig, DropPath, Map, Padding};

/// Configuration of a [`FusedInvertedResidual`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FusedInvertedResidualConfig {
    /// Input channels.
    pub input: usize,
    /// Channels between the two convolutions. If equal to `input`, there is only one convolution, straight to `output`.
    pub expanded: usize,
    /// Output channels.
    pub output: usize,
    /// Side of the first kernel.
    pub kernel: usize,
    /// Stride of the first convolution.
    pub stride: usize,
    /// Activation after the first convolution.
    pub activation: Activation,
    /// Whether the input is added to the output if their shapes agree. It is not in MobileNetV4's single convolutions.
    pub shortcut: bool,
    /// Normalisation of every convolution.
    pub norm: BatchNormConfig,
    /// Padding of the first convolution.
    pub padding: Padding,
}

impl BlockConfig for FusedInvertedResidualConfig {
    type Block = FusedInvertedResidual;

    fn init(&self, drop_path: DropPath, device: &Device) -> FusedInvertedResidual {
        let layer = |conv, activation| ConvNormConfig { conv, norm: self.norm, activation }.init(device);
        let single = self.expanded == self.input;
        let between = if single { self.output } else { self.expanded };
        let fused = Conv2dConfig::new(self.input, between, self.kernel, self.stride).padded(self.padding);
        let project = Conv2dConfig::pointwise(between, self.output);
        FusedInvertedResidual {
            expand: layer(fused, self.activation),
            project: (!single).then(|| layer(project, Activation::Identity)),
            residual: self.shortcut && self.stride == 1 && self.input == self.output,
            drop_path,
        }
    }

    fn output(&self) -> usize {
        self.output
    }

    fn stride(&self) -> usize {
        self.stride
    }
}

/// Convolution (3x3) to more channels, linear projection (1x1), and a shortcut if the shape stays the same: Fused-MBConv in
/// "EfficientNetV2", figure 2, and FusedIB in "MobileNetV4". Without expansion it is a single convolution.
#[derive(Module, Debug)]
pub struct FusedInvertedResidual {
    /// The convolution over pixels, to more channels.
    pub expand: ConvNorm,
    /// The 1x1 convolution to fewer channels.
    pub project: Option<ConvNorm>,
    residual: bool,
    #[module(skip)]
    drop_path: DropPath,
}

impl Block for FusedInvertedResidual {
    type Config = FusedInvertedResidualConfig;

    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let (x, shortcut) = with_shortcut(x, self.residual);
        let x = Map::from(x);
        let (x, last) = match &self.project {
            Some(project) => (self.expand.pass(x), project),
            None => (x, &self.expand),
        };
        convolve_and_add(last, ConvNorm::pass, x, shortcut, self.drop_path, Activation::Identity)
    }

    fn atrous(self, dilation: usize) -> Self {
        Self { expand: self.expand.atrous(dilation), ..self }
    }

    /// timm calls the block `EdgeResidual`, and `ConvBnAct` without expansion.
    fn timm_names(&self, own: &str, reference: &str, names: &mut Names) {
        let first = if self.project.is_some() { "conv_exp" } else { "conv" };
        names.conv_norm(&format!("{own}.expand"), &format!("{reference}.{first}"), &format!("{reference}.bn1"));
        if self.project.is_some() {
            names.conv_norm(&format!("{own}.project"), &format!("{reference}.conv_pwl"), &format!("{reference}.bn2"));
        }
    }
}

impl Describe for FusedInvertedResidual {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let mut x = trace.scope("expand", |trace| self.expand.describe(input, trace));
        if let Some(project) = &self.project {
            x = trace.scope("project", |trace| project.describe(x, trace));
        }
        if self.residual { trace.add(x, input) } else { x }
    }
}
