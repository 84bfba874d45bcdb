//! The inverted residual block that the whole family shares.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kindling_layers::trace::{Describe, FeatureMap, Trace};
use kindling_layers::{
    Activation, BatchNormConfig, ConvConfig, ConvNorm, ConvNormConfig, SqueezeExcite, SqueezeExciteConfig,
    make_divisible,
};

/// Configuration of an [`InvertedResidual`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InvertedResidualConfig {
    /// Input channels.
    pub input: usize,
    /// Channels of the depthwise convolution; equal to `input` means there is no expansion.
    pub expanded: usize,
    /// Output channels.
    pub output: usize,
    /// Side of the depthwise kernel.
    pub kernel: usize,
    /// Stride of the depthwise convolution.
    pub stride: usize,
    /// Whether squeeze-excite follows the depthwise convolution, with a quarter of the expanded channels.
    pub squeeze_excite: bool,
    /// After expansion and depthwise convolution; the projection is linear.
    pub activation: Activation,
    /// Normalisation of every convolution.
    pub norm: BatchNormConfig,
}

impl InvertedResidualConfig {
    /// A block on `device`.
    pub fn init(&self, device: &Device) -> InvertedResidual {
        let pointwise = |input, output, activation| {
            let conv = ConvConfig { input, output, kernel: 1, stride: 1, depthwise: false };
            ConvNormConfig { conv, norm: self.norm, activation }.init(device)
        };
        let expanded = self.expanded;
        let depthwise =
            ConvConfig { input: expanded, output: expanded, kernel: self.kernel, stride: self.stride, depthwise: true };
        let squeeze_excite = SqueezeExciteConfig {
            channels: expanded,
            squeezed: make_divisible(expanded as f64 / 4.0, 8),
            activation: Activation::Relu,
            gate: Activation::HardSigmoid,
        };
        InvertedResidual {
            expand: (expanded != self.input).then(|| pointwise(self.input, expanded, self.activation)),
            depthwise: ConvNormConfig { conv: depthwise, norm: self.norm, activation: self.activation }.init(device),
            squeeze_excite: self.squeeze_excite.then(|| squeeze_excite.init(device)),
            project: pointwise(expanded, self.output, Activation::Identity),
            residual: self.stride == 1 && self.input == self.output,
        }
    }
}

/// Expansion (1x1), depthwise convolution, squeeze-excite, linear projection (1x1), and a shortcut where the shape
/// stays ("MobileNetV2: Inverted Residuals and Linear Bottlenecks", table 1; with squeeze-excite "Searching for
/// MobileNetV3", figure 4).
#[derive(Module, Debug)]
pub struct InvertedResidual {
    pub(crate) expand: Option<ConvNorm>,
    pub(crate) depthwise: ConvNorm,
    pub(crate) squeeze_excite: Option<SqueezeExcite>,
    pub(crate) project: ConvNorm,
    residual: bool,
}

impl InvertedResidual {
    /// `[batch, input, height, width]` to `[batch, output, ceil(height / stride), ceil(width / stride)]`.
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let shortcut = self.residual.then(|| x.clone());
        let x = match &self.expand {
            Some(expand) => expand.forward(x),
            None => x,
        };
        let x = self.depthwise.forward(x);
        let x = match &self.squeeze_excite {
            Some(squeeze_excite) => squeeze_excite.forward(x),
            None => x,
        };
        let x = self.project.forward(x);
        match shortcut {
            Some(shortcut) => x + shortcut,
            None => x,
        }
    }
}

impl Describe for InvertedResidual {
    fn describe(&self, input: FeatureMap, trace: &mut Trace) -> FeatureMap {
        let mut map = input;
        if let Some(expand) = &self.expand {
            map = trace.scope("expand", |trace| expand.describe(map, trace));
        }
        map = trace.scope("depthwise", |trace| self.depthwise.describe(map, trace));
        if let Some(squeeze_excite) = &self.squeeze_excite {
            map = trace.scope("squeeze_excite", |trace| squeeze_excite.describe(map, trace));
        }
        trace.scope("project", |trace| self.project.describe(map, trace))
    }
}
