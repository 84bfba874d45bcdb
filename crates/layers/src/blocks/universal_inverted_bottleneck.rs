//! The block of MobileNetV4.

use burn::module::Module;
use burn::tensor::{Device, Tensor};

use crate::blocks::join;
use crate::names::Names;
use crate::trace::{Describe, Trace, Value};
use crate::{Activation, BatchNormConfig, ConvConfig, ConvNorm, ConvNormConfig, DropPath, Map};

/// Configuration of a [`UniversalInvertedBottleneck`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UniversalInvertedBottleneckConfig {
    /// Input channels.
    pub input: usize,
    /// Channels between expansion and projection.
    pub expanded: usize,
    /// Output channels.
    pub output: usize,
    /// Side of the depthwise kernel before the expansion, if there is one.
    pub start_kernel: Option<usize>,
    /// Side of the depthwise kernel between expansion and projection, if there is one.
    pub middle_kernel: Option<usize>,
    /// Stride: of the middle depthwise convolution, or of the first where there is no middle one.
    pub stride: usize,
    /// After expansion and middle convolution.
    pub activation: Activation,
    /// Normalisation of every convolution.
    pub norm: BatchNormConfig,
}

impl UniversalInvertedBottleneckConfig {
    /// A block on `device`.
    pub fn init(&self, drop_path: DropPath, device: &Device) -> UniversalInvertedBottleneck {
        let layer = |conv, activation| ConvNormConfig { conv, norm: self.norm, activation }.init(device);
        let start_stride = if self.middle_kernel.is_some() { 1 } else { self.stride };
        let start = |kernel| layer(ConvConfig::depthwise(self.input, kernel, start_stride), Activation::Identity);
        let middle = |kernel| layer(ConvConfig::depthwise(self.expanded, kernel, self.stride), self.activation);
        UniversalInvertedBottleneck {
            start: self.start_kernel.map(start),
            expand: layer(ConvConfig::pointwise(self.input, self.expanded), self.activation),
            middle: self.middle_kernel.map(middle),
            project: layer(ConvConfig::pointwise(self.expanded, self.output), Activation::Identity),
            residual: self.stride == 1 && self.input == self.output,
            drop_path,
        }
    }
}

/// An inverted bottleneck with up to two depthwise convolutions ("MobileNetV4", figure 4): with the middle one the
/// inverted residual, with the first one like ConvNext, with both "extra depthwise", with none a feed-forward block.
#[derive(Module, Debug)]
pub struct UniversalInvertedBottleneck {
    /// In space, before the expansion.
    pub start: Option<ConvNorm>,
    /// To more channels.
    pub expand: ConvNorm,
    /// In space, after the expansion.
    pub middle: Option<ConvNorm>,
    /// To fewer channels.
    pub project: ConvNorm,
    residual: bool,
    #[module(skip)]
    drop_path: DropPath,
}

impl UniversalInvertedBottleneck {
    /// The layers in order, with their names here and in timm.
    fn layers(&self) -> impl Iterator<Item = (&'static str, &'static str, &ConvNorm)> {
        [
            ("start", "dw_start", self.start.as_ref()),
            ("expand", "pw_exp", Some(&self.expand)),
            ("middle", "dw_mid", self.middle.as_ref()),
            ("project", "pw_proj", Some(&self.project)),
        ]
        .into_iter()
        .filter_map(|(own, timm, layer)| layer.map(|layer| (own, timm, layer)))
    }

    /// `[batch, input, height, width]` to `[batch, output, ceil(height / stride), ceil(width / stride)]`.
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let shortcut = self.residual.then(|| x.clone());
        let x = Map::from(x);
        let x = self.layers().fold(x, |x, (_, _, layer)| layer.pass(x));
        join(shortcut, x, self.drop_path, Activation::Identity)
    }

    pub(super) fn timm_names(&self, own: &str, reference: &str, names: &mut Names) {
        for (part, timm, _) in self.layers() {
            let reference = format!("{reference}.{timm}");
            names.conv_norm(&format!("{own}.{part}"), &format!("{reference}.conv"), &format!("{reference}.bn"));
        }
    }
}

impl Describe for UniversalInvertedBottleneck {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let mut x = input;
        for (part, _, layer) in self.layers() {
            x = trace.scope(part, |trace| layer.describe(x, trace));
        }
        if self.residual { trace.add(x, input) } else { x }
    }
}
