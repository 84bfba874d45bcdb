//! The inverted residual block of MobileNetV2, V3 and the EfficientNets, and the depthwise separable block it becomes
//! without expansion.

use burn::module::Module;
use burn::tensor::{Device, Tensor};

use crate::blocks::{Block, BlockConfig, convolve_and_add, with_shortcut};
use crate::names::{Names, timm_inverted_residual};
use crate::pass;
use crate::trace::{Describe, FeatureMap, Trace, Value};
use crate::{
    Activation, BatchNormConfig, Conv2dConfig, ConvNorm, ConvNormConfig, DropPath, Map, Padding, SqueezeExcite,
    SqueezeExciteConfig,
};
use kindling_ops::{
    InvertedResidualShape, Places, depthwise_kernel, expanded_depthwise, infers_inverted_residuals, inverted_residual,
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
        let (x, shortcut) = with_shortcut(x, self.residual);
        match self.infers_at_once(&x) {
            true => self.infer(x, shortcut),
            false => self.one_by_one(x, shortcut),
        }
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

impl InvertedResidual {
    /// The block, one layer after the other.
    fn one_by_one(&self, x: Tensor<4>, shortcut: Option<Tensor<4>>) -> Tensor<4> {
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
        self.end(x, shortcut)
    }

    /// The projection, and the end of the block.
    fn end(&self, x: Map, shortcut: Option<Tensor<4>>) -> Tensor<4> {
        convolve_and_add(&self.project, ConvNorm::pass, x, shortcut, self.drop_path, Activation::Identity)
    }

    /// Whether an operation for inference on the CPU computes several layers of the branch at once, without storing the largest maps of an
    /// input of this shape.
    fn is_in_bands(&self, FeatureMap { channels, height, width }: FeatureMap) -> bool {
        let [expanded, _, kernel, _] = self.depthwise.conv.weight.lazy_shape().dims();
        let Places { stride, dilation, out, .. } = self.depthwise.conv.places([1, channels, height, width]);
        let shape = InvertedResidualShape {
            input: [channels, height, width],
            middle: [expanded, out[0], out[1]],
            output: if self.squeeze_excite.is_some() { 0 } else { self.project.conv.weight.lazy_shape()[0] },
            reach: (kernel - 1) * dilation + 1,
            stride,
        };
        // A depthwise convolution alone is an operation already.
        let several = self.expand.is_some() || self.squeeze_excite.is_none();
        several && depthwise_kernel(kernel) && shape.is_in_bands()
    }

    /// Whether [`InvertedResidual::infer`] computes the branch.
    fn infers_at_once(&self, x: &Tensor<4>) -> bool {
        let [_, channels, height, width] = x.dims();
        let map = FeatureMap { channels, height, width };
        let ends = self.project.activation_at_end(self.residual, Activation::Identity).is_some();
        ends && !pass::is_training() && infers_inverted_residuals(x) && self.is_in_bands(map)
    }

    /// The block in inference on the CPU.
    fn infer(&self, x: Tensor<4>, shortcut: Option<Tensor<4>>) -> Tensor<4> {
        let places = self.depthwise.conv.places(x.dims());
        let expand = self.expand.as_ref().map(|expand| expand.inferred(&x));
        let depthwise = self.depthwise.inferred(&x);
        match (expand, &self.squeeze_excite) {
            (Some(expand), Some(squeeze_excite)) => {
                let (middle, means) = expanded_depthwise(x, expand, depthwise, places);
                self.end(squeeze_excite.gate_by(means, middle.into()), shortcut)
            }
            (expand, _) => {
                let project = self.project.inferred(&x);
                inverted_residual(x, expand, depthwise, places, project, shortcut)
            }
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
        let first = trace.layers.len();
        let output = describe_inverted_residual(
            [expand.as_ref(), Some(depthwise)],
            squeeze_excite.as_ref(),
            project,
            *residual,
            input,
            trace,
        );
        if self.is_in_bands(input.map) {
            trace.inside(first, usize::from(expand.is_some()) + usize::from(squeeze_excite.is_none()));
        }
        output
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Precision;
    use crate::pass::{TrainingPass, training};
    use burn::tensor::Distribution;

    /// Blocks of each kind, on maps large enough for bands.
    fn blocks() -> Vec<InvertedResidualConfig> {
        let plain = InvertedResidualConfig::new(16, 96, 16, 3, 1, Activation::Relu6);
        let squeeze_excite = Some(SqueezeExciteConfig {
            channels: 96,
            squeezed: 8,
            activation: Activation::Relu,
            gate: Activation::Sigmoid,
        });
        let gated = InvertedResidualConfig { squeeze_excite, activation: Activation::Silu, ..plain };
        vec![
            plain,
            InvertedResidualConfig { stride: 2, output: 24, padding: Padding::Same, ..plain },
            InvertedResidualConfig { kernel: 5, stride: 2, ..gated },
            gated,
            InvertedResidualConfig { expanded: 16, project_activation: Activation::Relu, shortcut: false, ..plain },
        ]
    }

    #[test]
    fn inference_has_the_bits_of_the_layers_one_by_one() {
        let device = Device::flex();
        let images = Tensor::<4>::random([2, 16, 90, 94], Distribution::Normal(0.5, 1.0), &device);
        for config in blocks() {
            let block = crate::init::initialise(config.init(DropPath::default(), &device), 5);
            let (_, statistics) = training(TrainingPass::whole_batch(2), || block.forward(images.clone()));
            let block = statistics.commit(block, 0.5);
            for images in
                [Precision::F32, Precision::Bf16, Precision::F16].map(|precision| precision.cast(images.clone()))
            {
                assert_eq!(
                    block.infers_at_once(&images),
                    InvertedResidualShape::has_bands(images.dtype()),
                    "{config:?}"
                );
                if block.infers_at_once(&images) {
                    let shortcut = block.residual.then(|| images.clone());
                    let at_once = block.infer(images.clone(), shortcut.clone());
                    at_once.into_data().assert_eq(&block.one_by_one(images, shortcut).into_data(), true);
                }
            }
        }
    }

    /// Nor in training, where the backward pass needs the maps.
    #[test]
    fn small_maps_and_those_with_gradients_are_computed_layer_by_layer() {
        let device = Device::flex();
        let block = blocks()[0].init(DropPath::default(), &device);
        let images = |side| Tensor::<4>::ones([1, 16, side, side], &device);
        assert!(block.infers_at_once(&images(90)) && !block.infers_at_once(&images(14)));
        let tracked = Tensor::<4>::ones([1, 16, 90, 90], &device.clone().autodiff());
        assert!(!block.infers_at_once(&tracked));
        training(TrainingPass::whole_batch(1), || assert!(!block.infers_at_once(&images(90))));
        let gate_alone = InvertedResidualConfig { expanded: 16, ..blocks()[3] };
        let squeeze_excite = gate_alone.squeeze_excite.map(|config| SqueezeExciteConfig { channels: 16, ..config });
        let gate_alone = InvertedResidualConfig { squeeze_excite, ..gate_alone };
        let block = gate_alone.init(DropPath::default(), &Device::flex());
        assert!(!block.infers_at_once(&images(90)), "a depthwise convolution alone");
    }
}
