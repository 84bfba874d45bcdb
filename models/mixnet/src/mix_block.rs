//! The inverted residual block with divided convolutions.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kindling_layers::blocks::{Block, BlockConfig, join};
use kindling_layers::names::Names;
use kindling_layers::trace::{Describe, Trace, Value};
use kindling_layers::{Activation, BatchNormConfig, DropPath, Padding, SqueezeExcite, SqueezeExciteConfig};

use crate::mix_conv::{MixConv, MixConvConfig};

/// Configuration of a [`MixBlock`].
#[derive(Clone, Debug, PartialEq)]
pub struct MixBlockConfig {
    /// Input channels.
    pub input: usize,
    /// Channels of the depthwise convolutions; equal to `input` means there is no expansion.
    pub expanded: usize,
    /// Output channels.
    pub output: usize,
    /// Sides of the depthwise kernels.
    pub kernels: Vec<usize>,
    /// Into how many parts the expansion is divided.
    pub expand_parts: usize,
    /// Into how many parts the projection is divided.
    pub project_parts: usize,
    /// Stride of the depthwise convolutions.
    pub stride: usize,
    /// Channels of squeeze-excite's bottleneck, if there is one.
    pub squeezed: Option<usize>,
    /// After expansion and depthwise convolutions, and inside squeeze-excite.
    pub activation: Activation,
    /// Normalisation of every convolution.
    pub norm: BatchNormConfig,
    /// Zeros around the depthwise convolutions' input.
    pub padding: Padding,
}

impl BlockConfig for MixBlockConfig {
    type Block = MixBlock;

    fn init(&self, drop_path: DropPath, device: &Device) -> MixBlock {
        let (activation, norm, padding) = (self.activation, self.norm, self.padding);
        let pointwise = |input, output, parts, activation| {
            let (kernels, stride, depthwise) = (vec![1; parts], 1, false);
            MixConvConfig { input, output, kernels, stride, depthwise, padding, norm, activation }.init(device)
        };
        let depthwise = MixConvConfig {
            input: self.expanded,
            output: self.expanded,
            kernels: self.kernels.clone(),
            stride: self.stride,
            depthwise: true,
            padding,
            norm,
            activation,
        };
        let squeeze_excite = self.squeezed.map(|squeezed| SqueezeExciteConfig {
            channels: self.expanded,
            squeezed,
            activation,
            gate: Activation::Sigmoid,
        });
        MixBlock {
            expand: (self.expanded != self.input)
                .then(|| pointwise(self.input, self.expanded, self.expand_parts, activation)),
            depthwise: depthwise.init(device),
            squeeze_excite: squeeze_excite.map(|config| config.init(device)),
            project: pointwise(self.expanded, self.output, self.project_parts, Activation::Identity),
            residual: self.stride == 1 && self.input == self.output,
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

/// Expansion, depthwise convolutions with kernels of several sizes, squeeze-excite, linear projection, shortcut.
#[derive(Module, Debug)]
pub struct MixBlock {
    expand: Option<MixConv>,
    depthwise: MixConv,
    squeeze_excite: Option<SqueezeExcite>,
    project: MixConv,
    residual: bool,
    #[module(skip)]
    drop_path: DropPath,
}

impl Block for MixBlock {
    type Config = MixBlockConfig;

    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let shortcut = self.residual.then(|| x.clone());
        let x = match &self.expand {
            Some(expand) => expand.pass(x.into()),
            None => x.into(),
        };
        let mut x = self.depthwise.pass(x);
        if self.project.needs_whole() {
            x = x.whole().into();
        }
        let x = match &self.squeeze_excite {
            Some(squeeze_excite) => squeeze_excite.gate(x),
            None => x,
        };
        join(shortcut, self.project.pass(x), self.drop_path, Activation::Identity)
    }

    fn timm_names(&self, own: &str, reference: &str, names: &mut Names) {
        let mut layer = |part: &str, layer: &MixConv, conv: &str, norm: &str| {
            let (conv, norm) = (format!("{reference}.{conv}"), format!("{reference}.{norm}"));
            layer.timm_names(&format!("{own}.{part}"), &conv, &norm, names);
        };
        if let Some(expand) = &self.expand {
            layer("expand", expand, "conv_pw", "bn1");
            layer("depthwise", &self.depthwise, "conv_dw", "bn2");
            layer("project", &self.project, "conv_pwl", "bn3");
        } else {
            layer("depthwise", &self.depthwise, "conv_dw", "bn1");
            layer("project", &self.project, "conv_pw", "bn2");
        }
        if self.squeeze_excite.is_some() {
            names.timm_squeeze_excite(&format!("{own}.squeeze_excite"), &format!("{reference}.se"));
        }
    }
}

impl Describe for MixBlock {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let mut x = input;
        if let Some(expand) = &self.expand {
            x = trace.scope("expand", |trace| expand.describe(x, trace));
        }
        x = trace.scope("depthwise", |trace| self.depthwise.describe(x, trace));
        if let Some(squeeze_excite) = &self.squeeze_excite {
            x = trace.scope("squeeze_excite", |trace| squeeze_excite.describe(x, trace));
        }
        x = trace.scope("project", |trace| self.project.describe(x, trace));
        if self.residual { trace.add(x, input) } else { x }
    }
}
