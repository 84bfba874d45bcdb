//! MixNet: "MixConv: Mixed Depthwise Convolutional Kernels", Tan and Le 2019, <https://arxiv.org/abs/1907.09595>.
//! Of the two libraries only timm has it.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kindling_layers::Activation::{self, Relu as RE, Silu as SW};
use kindling_layers::blocks::{Block, BlockConfig, describe_inverted_residual, residual_add, with_shortcut};
use kindling_layers::names::{Library, Names, timm_inverted_residual};
use kindling_layers::trace::{Describe, FeatureMap, Op, Trace, Value};
use kindling_layers::{
    BatchNorm, BatchNormConfig, Conv2d, Conv2dConfig, DropPath, Map, Padding, SqueezeExcite, SqueezeExciteConfig,
    StemConfig,
};

use crate::entry::{ModelEntry, Paper, tf, timm};
use crate::names::LayerNames;
use crate::network::NetworkConfig;
use crate::tables::{Details, plain_head};

const PAPER: Paper = Paper {
    family: "MixNet",
    source: "Tan and Le 2019, https://arxiv.org/abs/1907.09595",
    layer_names: LayerNames::TIMM,
};

/// What the registry lists.
pub const MODELS: &[ModelEntry] =
    &[PAPER.model(&[timm("mixnet_s"), tf("tf_mixnet_s")], 224, "depthwise kernels of several sizes, SiLU", mixnet_s)];

/// A row: depthwise kernels, parts of the expansion and of the projection, stride, expansion ratio, output channels, the bottleneck of
/// squeeze-excite as a share of the input channels, activation.
type Row = (&'static [usize], usize, usize, usize, usize, usize, f64, Activation);

/// MixNet-S (the paper's figure 5a).
const S: &[&[Row]] = &[
    // kernels, expand, project, s, ratio, c, SE, activation
    &[(&[3], 1, 1, 1, 1, 16, 0.0, RE)],
    &[(&[3], 2, 2, 2, 6, 24, 0.0, RE), (&[3], 2, 2, 1, 3, 24, 0.0, RE)],
    &[
        (&[3, 5, 7], 1, 1, 2, 6, 40, 0.5, SW),
        (&[3, 5], 2, 2, 1, 6, 40, 0.5, SW),
        (&[3, 5], 2, 2, 1, 6, 40, 0.5, SW),
        (&[3, 5], 2, 2, 1, 6, 40, 0.5, SW),
    ],
    &[(&[3, 5, 7], 1, 2, 2, 6, 80, 0.25, SW), (&[3, 5], 1, 2, 1, 6, 80, 0.25, SW), (&[3, 5], 1, 2, 1, 6, 80, 0.25, SW)],
    &[
        (&[3, 5, 7], 2, 2, 1, 6, 120, 0.5, SW),
        (&[3, 5, 7, 9], 2, 2, 1, 3, 120, 0.5, SW),
        (&[3, 5, 7, 9], 2, 2, 1, 3, 120, 0.5, SW),
    ],
    &[
        (&[3, 5, 7, 9, 11], 1, 1, 2, 6, 200, 0.5, SW),
        (&[3, 5, 7, 9], 1, 2, 1, 6, 200, 0.5, SW),
        (&[3, 5, 7, 9], 1, 2, 1, 6, 200, 0.5, SW),
    ],
];

/// MixNet-S, the smallest network of the paper.
pub fn mixnet_s(library: Library) -> NetworkConfig {
    let details = Details::of(library, BatchNormConfig::default());
    let Details { norm, padding } = details;
    let mut input = 16;
    let stem = StemConfig::conv3x3(input, RE);
    let mut block = |&(kernels, expand_parts, project_parts, stride, ratio, output, squeeze, activation): &Row| {
        let config = MixBlockConfig {
            input,
            expanded: input * ratio,
            output,
            kernels: kernels.to_vec(),
            expand_parts,
            project_parts,
            stride,
            squeezed: (squeeze > 0.0).then_some((input as f64 * squeeze) as usize),
            activation,
            norm,
            padding,
        };
        input = output;
        config.into()
    };
    let stages = S.iter().map(|rows| rows.iter().map(&mut block).collect()).collect();
    details.network(stem, stages, plain_head(1536, RE, 0.2))
}

/// Configuration of a [`MixBlock`].
#[derive(Clone, Debug, PartialEq)]
pub struct MixBlockConfig {
    /// Input channels.
    pub input: usize,
    /// Channels of the depthwise convolutions. If equal to `input`, there is no expansion.
    pub expanded: usize,
    /// Output channels.
    pub output: usize,
    /// Sides of the depthwise kernels.
    pub kernels: Vec<usize>,
    /// Number of parts that the expansion is divided into.
    pub expand_parts: usize,
    /// Number of parts that the projection is divided into.
    pub project_parts: usize,
    /// Stride of the depthwise convolutions.
    pub stride: usize,
    /// Channels of the bottleneck of squeeze-excite, if the block has it.
    pub squeezed: Option<usize>,
    /// Activation after the expansion, after the depthwise convolutions, and inside squeeze-excite.
    pub activation: Activation,
    /// Normalisation of every convolution.
    pub norm: BatchNormConfig,
    /// Padding of the depthwise convolutions.
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

/// The inverted residual block with divided convolutions: expansion, depthwise convolutions with kernels of several sizes,
/// squeeze-excite, linear projection, shortcut.
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
        let (x, shortcut) = with_shortcut(x, self.residual);
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
        residual_add(shortcut, self.project.pass(x), self.drop_path, Activation::Identity)
    }

    fn atrous(self, dilation: usize) -> Self {
        let parts = self.depthwise.parts.into_iter().map(|conv| conv.atrous(dilation)).collect();
        Self { depthwise: MixConv { parts, ..self.depthwise }, ..self }
    }

    fn timm_names(&self, own: &str, reference: &str, names: &mut Names) {
        let layers = self.expand.iter().chain([&self.depthwise, &self.project]);
        for (layer, (part, conv, norm)) in layers.zip(timm_inverted_residual(self.expand.is_some())) {
            let (conv, norm) = (format!("{reference}.{conv}"), format!("{reference}.{norm}"));
            layer.timm_names(&format!("{own}.{part}"), &conv, &norm, names);
        }
        if self.squeeze_excite.is_some() {
            names.timm_squeeze_excite(&format!("{own}.squeeze_excite"), &format!("{reference}.se"));
        }
    }
}

impl Describe for MixBlock {
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

/// Configuration of a [`MixConv`].
#[derive(Clone, Debug, PartialEq)]
pub struct MixConvConfig {
    /// Input channels.
    pub input: usize,
    /// Output channels.
    pub output: usize,
    /// Side of the kernel of each part.
    pub kernels: Vec<usize>,
    /// Stride of every part.
    pub stride: usize,
    /// Whether each channel has one filter of its own.
    pub depthwise: bool,
    /// Zeros around the input.
    pub padding: Padding,
    /// Normalisation of all parts together.
    pub norm: BatchNormConfig,
    /// The activation after the normalisation.
    pub activation: Activation,
}

impl MixConvConfig {
    /// A block on `device`.
    pub fn init(&self, device: &Device) -> MixConv {
        let parts = self.kernels.len();
        let sizes = split(self.input, parts).into_iter().zip(split(self.output, parts));
        let part = |((input, output), &kernel)| {
            let (stride, depthwise, padding) = (self.stride, self.depthwise, self.padding);
            Conv2dConfig { depthwise, padding, ..Conv2dConfig::new(input, output, kernel, stride) }.init(device)
        };
        MixConv {
            parts: sizes.zip(&self.kernels).map(part).collect(),
            norm: self.norm.init(self.output, device),
            inputs: split(self.input, parts),
            activation: self.activation,
        }
    }
}

/// Divides `channels` into `parts` as evenly as possible; the first part gets the remainder.
fn split(channels: usize, parts: usize) -> Vec<usize> {
    let even = channels / parts;
    (0..parts).map(|part| if part == 0 { channels - even * (parts - 1) } else { even }).collect()
}

/// Convolutions of parts of the channels, each with a kernel of its own, followed by one normalisation of all channels and an
/// activation (MDConv in section 3.1, if depthwise).
#[derive(Module, Debug)]
pub struct MixConv {
    /// The convolution of each part.
    pub parts: Vec<Conv2d>,
    /// Over all channels.
    pub norm: BatchNorm,
    #[module(skip)]
    inputs: Vec<usize>,
    #[module(skip)]
    activation: Activation,
}

impl MixConv {
    /// `[batch, input, height, width]` to `[batch, output, ceil(height / stride), ceil(width / stride)]`.
    pub fn pass(&self, x: Map) -> Map {
        let x = match self.parts.as_slice() {
            [single] => single.read(x),
            parts => {
                let (x, mut start) = (x.whole(), 0);
                let mut part = |(conv, &channels): (&Conv2d, &usize)| {
                    let input = x.clone().narrow(1, start, channels);
                    start += channels;
                    conv.forward(input)
                };
                Tensor::cat(parts.iter().zip(&self.inputs).map(&mut part).collect(), 1)
            }
        };
        self.norm.then(x, self.activation)
    }

    /// Whether the input has to be whole, because its channels are divided.
    fn needs_whole(&self) -> bool {
        self.parts.len() > 1
    }

    /// Adds timm's names. Parts are numbered if there are several.
    fn timm_names(&self, own: &str, conv: &str, norm: &str, names: &mut Names) {
        for index in 0..self.parts.len() {
            let reference = if self.parts.len() == 1 { conv.to_string() } else { format!("{conv}.{index}") };
            names.plain(&format!("{own}.parts.{index}"), &reference);
        }
        names.norm(&format!("{own}.norm"), norm);
    }
}

impl Describe for MixConv {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let mut start = 0;
        let mut outputs = Vec::new();
        for (index, (conv, &channels)) in self.parts.iter().zip(&self.inputs).enumerate() {
            outputs.push(trace.scope(format!("parts.{index}"), |trace| {
                let map = FeatureMap { channels, ..input.map };
                let part = match self.parts.len() {
                    1 => input,
                    _ => trace.apply("take", Op::Slice { start, end: start + channels }, &[input], map),
                };
                conv.describe(part, trace)
            }));
            start += channels;
        }
        let whole = match outputs.as_slice() {
            [single] => *single,
            parts => {
                let channels = parts.iter().map(|part| part.map.channels).sum();
                trace.apply("concat", Op::Concat, parts, FeatureMap { channels, ..parts[0].map })
            }
        };
        let normalised = trace.scope("norm", |trace| self.norm.describe(whole, trace));
        trace.activation(self.activation, normalised)
    }
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn channels_are_divided_as_timm_divides_them() {
        assert_eq!(split(240, 3), [80, 80, 80]);
        assert_eq!(split(200, 3), [68, 66, 66]);
        assert_eq!(split(7, 1), [7]);
    }
}
