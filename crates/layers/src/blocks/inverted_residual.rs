//! The inverted residual block of MobileNetV2, V3 and the EfficientNets, and the depthwise separable block it becomes
//! without expansion.

use burn::module::Module;
use burn::tensor::{Device, Tensor};

use crate::blocks::{Block, BlockConfig, residual_add};
use crate::names::{Names, timm_inverted_residual};
use crate::trace::{Describe, Trace, Value};
use crate::{
    Activation, BatchNormConfig, Conv2dConfig, ConvNorm, ConvNormConfig, DropPath, Map, Padding, SqueezeExcite,
    SqueezeExciteConfig,
};

/// Configuration of an [`InvertedResidual`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InvertedResidualConfig {
    /// Input channels.
    pub input: usize,
    /// Channels of the depthwise convolution. If equal to `input`, there is no expansion.
    pub expanded: usize,
    /// Output channels.
    pub output: usize,
    /// Side of the depthwise kernel.
    pub kernel: usize,
    /// Stride of the depthwise convolution.
    pub stride: usize,
    /// Squeeze-excite after the depthwise convolution.
    pub squeeze_excite: Option<SqueezeExciteConfig>,
    /// Activation after the expansion and after the depthwise convolution.
    pub activation: Activation,
    /// Activation after the projection: the identity, except in MobileNetV1.
    pub project_activation: Activation,
    /// Whether the input is added to the output if their shapes agree. It is not in MobileNetV1.
    pub shortcut: bool,
    /// Normalisation of every convolution.
    pub norm: BatchNormConfig,
    /// Padding of the depthwise convolution.
    pub padding: Padding,
}

impl InvertedResidualConfig {
    /// MobileNetV2's block: a linear projection, a shortcut if the shape stays the same, no squeeze-excite, and PyTorch's batch
    /// normalisation and padding.
    pub fn new(
        input: usize,
        expanded: usize,
        output: usize,
        kernel: usize,
        stride: usize,
        activation: Activation,
    ) -> Self {
        Self {
            input,
            expanded,
            output,
            kernel,
            stride,
            squeeze_excite: None,
            activation,
            project_activation: Activation::Identity,
            shortcut: true,
            norm: BatchNormConfig::default(),
            padding: Padding::Symmetric,
        }
    }
}

impl BlockConfig for InvertedResidualConfig {
    type Block = InvertedResidual;

    fn init(&self, drop_path: DropPath, device: &Device) -> InvertedResidual {
        let layer = |conv, activation| ConvNormConfig { conv, norm: self.norm, activation }.init(device);
        let expanded = self.expanded;
        let expansion = Conv2dConfig::pointwise(self.input, expanded);
        let depthwise = Conv2dConfig::depthwise(expanded, self.kernel, self.stride).padded(self.padding);
        InvertedResidual {
            expand: (expanded != self.input).then(|| layer(expansion, self.activation)),
            depthwise: layer(depthwise, self.activation),
            squeeze_excite: self.squeeze_excite.map(|config| config.init(device)),
            project: layer(Conv2dConfig::pointwise(expanded, self.output), self.project_activation),
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

/// Expansion (1x1), depthwise convolution, squeeze-excite, projection (1x1), and a shortcut if the shape stays the same
/// ("MobileNetV2: Inverted Residuals and Linear Bottlenecks", table 1; with squeeze-excite "Searching for MobileNetV3",
/// figure 4; as MBConv in "EfficientNet").
#[derive(Module, Debug)]
pub struct InvertedResidual {
    /// The 1x1 convolution to more channels.
    pub expand: Option<ConvNorm>,
    /// The convolution over pixels.
    pub depthwise: ConvNorm,
    /// A gate for each channel.
    pub squeeze_excite: Option<SqueezeExcite>,
    /// The 1x1 convolution to fewer channels.
    pub project: ConvNorm,
    residual: bool,
    #[module(skip)]
    drop_path: DropPath,
}

impl Block for InvertedResidual {
    type Config = InvertedResidualConfig;

    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let shortcut = self.residual.then(|| x.clone());
        let x = Map::from(x);
        let x = match &self.expand {
            Some(expand) => expand.pass(x),
            None => x,
        };
        let x = self.depthwise.pass(x);
        let x = match &self.squeeze_excite {
            Some(squeeze_excite) => squeeze_excite.gate(x),
            None => x,
        };
        residual_add(shortcut, self.project.pass(x), self.drop_path, Activation::Identity)
    }

    fn atrous(self, dilation: usize) -> Self {
        Self { depthwise: self.depthwise.atrous(dilation), ..self }
    }

    fn timm_names(&self, own: &str, reference: &str, names: &mut Names) {
        for (part, conv, norm) in timm_inverted_residual(self.expand.is_some()) {
            let (conv, norm) = (format!("{reference}.{conv}"), format!("{reference}.{norm}"));
            names.conv_norm(&format!("{own}.{part}"), &conv, &norm);
        }
        if self.squeeze_excite.is_some() {
            names.timm_squeeze_excite(&format!("{own}.squeeze_excite"), &format!("{reference}.se"));
        }
    }
}

/// Describes an inverted residual block, whatever its convolutions are: expansion and depthwise convolution as `[expand, depthwise]`,
/// squeeze-excite, projection, and a shortcut if `residual`.
pub fn describe_inverted_residual<C: Describe>(
    convolutions: [Option<&C>; 2],
    squeeze_excite: Option<&SqueezeExcite>,
    project: &C,
    residual: bool,
    input: Value,
    trace: &mut Trace,
) -> Value {
    let mut x = input;
    for (name, convolution) in ["expand", "depthwise"].into_iter().zip(convolutions) {
        if let Some(convolution) = convolution {
            x = trace.scope(name, |trace| convolution.describe(x, trace));
        }
    }
    if let Some(squeeze_excite) = squeeze_excite {
        x = trace.scope("squeeze_excite", |trace| squeeze_excite.describe(x, trace));
    }
    x = trace.scope("project", |trace| project.describe(x, trace));
    if residual { trace.add(x, input) } else { x }
}

impl Describe for InvertedResidual {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let Self { expand, depthwise, squeeze_excite, project, residual, .. } = self;
        describe_inverted_residual(
            [expand.as_ref(), Some(depthwise)],
            squeeze_excite.as_ref(),
            project,
            *residual,
            input,
            trace,
        )
    }
}
