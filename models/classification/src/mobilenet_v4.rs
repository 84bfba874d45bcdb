//! MobileNetV4 without attention: "MobileNetV4: Universal Models for the Mobile Ecosystem", Qin et al. 2024,
//! <https://arxiv.org/abs/2404.10518>, tables 11 to 13 (Conv-S, Conv-M, Conv-L). Of the two libraries only timm has it.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kindling_layers::blocks::{Block, BlockConfig, FusedInvertedResidualConfig, convolve_and_add, with_shortcut};
use kindling_layers::names::Names;
use kindling_layers::trace::{Describe, Trace, Value};
use kindling_layers::{
    Activation, BatchNormConfig, Conv2dConfig, ConvNorm, ConvNormConfig, DropPath, HeadConfig, HiddenConfig, Map,
    StemConfig, make_divisible,
};

use crate::entry::{ModelEntry, Paper, timm};
use crate::names::LayerNames;
use crate::network::{AnyBlockConfig, NetworkConfig};
use crate::tables::Details;

const PAPER: Paper = Paper {
    family: "MobileNet",
    source: "Qin et al. 2024, https://arxiv.org/abs/2404.10518",
    layer_names: LayerNames::TIMM,
};

/// What the registry lists.
pub const MODELS: &[ModelEntry] = &[
    PAPER.model(&[timm("mobilenetv4_conv_small")], 224, "universal inverted bottlenecks, ReLU", |_| {
        mobilenet_v4_conv_small()
    }),
    PAPER.model(&[timm("mobilenetv4_conv_medium")], 256, "universal inverted bottlenecks, ReLU", |_| {
        mobilenet_v4_conv_medium()
    }),
    PAPER.model(&[timm("mobilenetv4_conv_large")], 384, "universal inverted bottlenecks, ReLU", |_| {
        mobilenet_v4_conv_large()
    }),
];

/// A row of the paper's tables.
#[derive(Clone, Copy)]
enum Row {
    /// Convolution: kernel, output channels, stride.
    Conv(usize, usize, usize),
    /// Fused inverted bottleneck: expansion ratio, output channels, stride.
    Fused(usize, usize, usize),
    /// Universal inverted bottleneck: first kernel, second kernel (0: none), expansion ratio, output channels, stride.
    Universal(usize, usize, usize, usize, usize),
}

use Row::{Conv, Fused, Universal as Uib};

/// Conv-S, between the stem and the last 1x1 convolution.
const SMALL: &[&[Row]] = &[
    &[Conv(3, 32, 2), Conv(1, 32, 1)],
    &[Conv(3, 96, 2), Conv(1, 64, 1)],
    &[
        Uib(5, 5, 3, 96, 2),
        Uib(0, 3, 2, 96, 1),
        Uib(0, 3, 2, 96, 1),
        Uib(0, 3, 2, 96, 1),
        Uib(0, 3, 2, 96, 1),
        Uib(3, 0, 4, 96, 1),
    ],
    &[
        Uib(3, 3, 6, 128, 2),
        Uib(5, 5, 4, 128, 1),
        Uib(0, 5, 4, 128, 1),
        Uib(0, 5, 3, 128, 1),
        Uib(0, 3, 4, 128, 1),
        Uib(0, 3, 4, 128, 1),
    ],
];

/// Conv-M.
const MEDIUM: &[&[Row]] = &[
    &[Fused(4, 48, 2)],
    &[Uib(3, 5, 4, 80, 2), Uib(3, 3, 2, 80, 1)],
    &[
        Uib(3, 5, 6, 160, 2),
        Uib(3, 3, 4, 160, 1),
        Uib(3, 3, 4, 160, 1),
        Uib(3, 5, 4, 160, 1),
        Uib(3, 3, 4, 160, 1),
        Uib(3, 0, 4, 160, 1),
        Uib(0, 0, 2, 160, 1),
        Uib(3, 0, 4, 160, 1),
    ],
    &[
        Uib(5, 5, 6, 256, 2),
        Uib(5, 5, 4, 256, 1),
        Uib(3, 5, 4, 256, 1),
        Uib(3, 5, 4, 256, 1),
        Uib(0, 0, 4, 256, 1),
        Uib(3, 0, 4, 256, 1),
        Uib(3, 5, 2, 256, 1),
        Uib(5, 5, 4, 256, 1),
        Uib(0, 0, 4, 256, 1),
        Uib(0, 0, 4, 256, 1),
        Uib(5, 0, 2, 256, 1),
    ],
];

/// Conv-L.
const LARGE: &[&[Row]] = &[
    &[Fused(4, 48, 2)],
    &[Uib(3, 5, 4, 96, 2), Uib(3, 3, 4, 96, 1)],
    &[
        Uib(3, 5, 4, 192, 2),
        Uib(3, 3, 4, 192, 1),
        Uib(3, 3, 4, 192, 1),
        Uib(3, 3, 4, 192, 1),
        Uib(3, 5, 4, 192, 1),
        Uib(5, 3, 4, 192, 1),
        Uib(5, 3, 4, 192, 1),
        Uib(5, 3, 4, 192, 1),
        Uib(5, 3, 4, 192, 1),
        Uib(5, 3, 4, 192, 1),
        Uib(3, 0, 4, 192, 1),
    ],
    &[
        Uib(5, 5, 4, 512, 2),
        Uib(5, 5, 4, 512, 1),
        Uib(5, 5, 4, 512, 1),
        Uib(5, 5, 4, 512, 1),
        Uib(5, 0, 4, 512, 1),
        Uib(5, 3, 4, 512, 1),
        Uib(5, 0, 4, 512, 1),
        Uib(5, 0, 4, 512, 1),
        Uib(5, 3, 4, 512, 1),
        Uib(5, 5, 4, 512, 1),
        Uib(5, 0, 4, 512, 1),
        Uib(5, 0, 4, 512, 1),
        Uib(5, 0, 4, 512, 1),
    ],
];

/// MobileNetV4-Conv-Small.
pub fn mobilenet_v4_conv_small() -> NetworkConfig {
    from_table(SMALL, 32)
}

/// MobileNetV4-Conv-Medium.
pub fn mobilenet_v4_conv_medium() -> NetworkConfig {
    from_table(MEDIUM, 32)
}

/// MobileNetV4-Conv-Large.
pub fn mobilenet_v4_conv_large() -> NetworkConfig {
    from_table(LARGE, 24)
}

/// The network as timm builds it: ReLU, a last convolution to 960 channels, and after pooling a layer with normalisation to 1280.
fn from_table(table: &[&[Row]], stem: usize) -> NetworkConfig {
    let activation = Activation::Relu;
    let details = Details::default();
    let Details { norm, padding } = details;
    let mut input = stem;
    let stem = StemConfig::conv3x3(stem, activation);
    let mut block = |row: &Row| -> AnyBlockConfig {
        let fused = |expanded, output, kernel, stride, shortcut| {
            let config = FusedInvertedResidualConfig {
                input,
                expanded,
                output,
                kernel,
                stride,
                activation,
                shortcut,
                norm,
                padding,
            };
            config.into()
        };
        let (config, output) = match *row {
            Conv(kernel, output, stride) => (fused(input, output, kernel, stride, false), output),
            Fused(ratio, output, stride) => (fused(input * ratio, output, 3, stride, true), output),
            Uib(start, middle, ratio, output, stride) => {
                let some = |kernel: usize| (kernel > 0).then_some(kernel);
                let config = UniversalInvertedBottleneckConfig {
                    input,
                    expanded: make_divisible((input * ratio) as f64, 8),
                    output,
                    start_kernel: some(start),
                    middle_kernel: some(middle),
                    stride,
                    activation,
                    norm,
                };
                (config.into(), output)
            }
        };
        input = output;
        config
    };
    let stages = table.iter().map(|rows| rows.iter().map(&mut block).collect()).collect();
    let hidden = HiddenConfig::Norm(1280, activation);
    let head = HeadConfig { features: Some((960, activation)), hidden: Some(hidden), drop_rate: 0.2 };
    details.network(stem, stages, head)
}

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
    /// Stride of the middle depthwise convolution, or of the first one if there is no middle one.
    pub stride: usize,
    /// Activation after the expansion and after the middle convolution.
    pub activation: Activation,
    /// Normalisation of every convolution.
    pub norm: BatchNormConfig,
}

impl BlockConfig for UniversalInvertedBottleneckConfig {
    type Block = UniversalInvertedBottleneck;

    fn init(&self, drop_path: DropPath, device: &Device) -> UniversalInvertedBottleneck {
        let layer = |conv, activation| ConvNormConfig { conv, norm: self.norm, activation }.init(device);
        let start_stride = if self.middle_kernel.is_some() { 1 } else { self.stride };
        let start = |kernel| layer(Conv2dConfig::depthwise(self.input, kernel, start_stride), Activation::Identity);
        let middle = |kernel| layer(Conv2dConfig::depthwise(self.expanded, kernel, self.stride), self.activation);
        UniversalInvertedBottleneck {
            start: self.start_kernel.map(start),
            expand: layer(Conv2dConfig::pointwise(self.input, self.expanded), self.activation),
            middle: self.middle_kernel.map(middle),
            project: layer(Conv2dConfig::pointwise(self.expanded, self.output), Activation::Identity),
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

/// An inverted bottleneck with up to two depthwise convolutions (figure 4). With only the middle one it is an inverted residual, with
/// only the first one it is like ConvNext, with both it is "extra depthwise", and with none a feed-forward block.
#[derive(Module, Debug)]
pub struct UniversalInvertedBottleneck {
    /// The depthwise convolution before the expansion.
    pub start: Option<ConvNorm>,
    /// The 1x1 convolution to more channels.
    pub expand: ConvNorm,
    /// The depthwise convolution after the expansion.
    pub middle: Option<ConvNorm>,
    /// The 1x1 convolution to fewer channels.
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
}

impl Block for UniversalInvertedBottleneck {
    type Config = UniversalInvertedBottleneckConfig;

    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let (x, shortcut) = with_shortcut(x, self.residual);
        let x = Map::from(x);
        let before = [self.start.as_ref(), Some(&self.expand), self.middle.as_ref()];
        let x = before.into_iter().flatten().fold(x, |x, layer| layer.pass(x));
        convolve_and_add(&self.project, ConvNorm::pass, x, shortcut, self.drop_path, Activation::Identity)
    }

    fn atrous(self, dilation: usize) -> Self {
        let of = |conv: Option<ConvNorm>| conv.map(|conv| conv.atrous(dilation));
        Self { start: of(self.start), middle: of(self.middle), ..self }
    }

    fn timm_names(&self, own: &str, reference: &str, names: &mut Names) {
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
