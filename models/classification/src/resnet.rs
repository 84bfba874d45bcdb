//! ResNet: "Deep Residual Learning for Image Recognition", He et al. 2015, <https://arxiv.org/abs/1512.03385>.
//!
//! These are the heavy baselines that lighter models replace.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kindling_layers::blocks::{Block, BlockConfig, convolve_and_add};
use kindling_layers::names::Names;
use kindling_layers::trace::{Describe, Trace, Value};
use kindling_layers::{
    Activation, BatchNormConfig, Conv2dConfig, ConvNorm, ConvNormConfig, DropPath, HeadConfig, Map, StemConfig, twice,
};

use crate::entry::{ModelEntry, Paper, timm, torchvision};
use crate::names::LayerNames;
use crate::network::{Network, NetworkConfig};
use crate::tables::{Details, repeated};

const PAPER: Paper = Paper {
    family: "ResNet",
    source: "He et al. 2015, https://arxiv.org/abs/1512.03385",
    layer_names: LayerNames { timm: layer_names, torchvision: Some(layer_names), ..LayerNames::TIMM },
};

/// What the registry lists.
pub const MODELS: &[ModelEntry] = &[
    PAPER.model(&[torchvision("resnet18"), timm("resnet18")], 224, "ordinary convolutions: a heavy baseline", |_| {
        resnet18()
    }),
    PAPER.model(&[torchvision("resnet34"), timm("resnet34")], 224, "ordinary convolutions: a heavy baseline", |_| {
        resnet34()
    }),
    PAPER.model(
        &[torchvision("resnet50"), timm("resnet50")],
        224,
        "bottlenecks of ordinary convolutions: the heavy baseline",
        |_| resnet50(),
    ),
];

/// Widths of the four stages of the paper's table 1.
const WIDTHS: [usize; 4] = [64, 128, 256, 512];

/// ResNet-18: two basic blocks a stage.
pub fn resnet18() -> NetworkConfig {
    from_table([2, 2, 2, 2], false)
}

/// ResNet-34: 3, 4, 6 and 3 basic blocks.
pub fn resnet34() -> NetworkConfig {
    from_table([3, 4, 6, 3], false)
}

/// ResNet-50, with the stride in the 3x3 convolutions ("v1.5").
pub fn resnet50() -> NetworkConfig {
    from_table([3, 4, 6, 3], true)
}

fn from_table(repeats: [usize; 4], bottleneck: bool) -> NetworkConfig {
    let details = Details::default();
    let mut input = 64;
    let stem = StemConfig { channels: input, kernel: 7, activation: Activation::Relu, pool: true };
    let mut block = |width, stride| {
        let config = ResidualBlockConfig { input, width, bottleneck, stride, norm: details.norm };
        input = config.output();
        config.into()
    };
    let stages = WIDTHS
        .iter()
        .zip(repeats)
        .enumerate()
        .map(|(stage, (&width, repeats))| {
            repeated(repeats, if stage > 0 { 2 } else { 1 }, |stride| block(width, stride))
        })
        .collect();
    details.network(stem, stages, HeadConfig { features: None, hidden: None, drop_rate: 0.0 })
}

/// Names of layers, which are the same in torchvision and timm.
fn layer_names(network: &Network) -> Option<Names> {
    let mut names = Names::default();
    names.conv_norm("stem", "conv1", "bn1");
    for ((stage, index), block) in network.blocks() {
        let (own, reference) = (format!("stages.{stage}.{index}"), format!("layer{}.{index}", stage + 1));
        block.timm_names(&own, &reference, &mut names);
    }
    names.plain("head.classifier", "fc");
    Some(names)
}

/// Configuration of a [`ResidualBlock`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResidualBlockConfig {
    /// Input channels.
    pub input: usize,
    /// Channels of the 3x3 convolutions.
    pub width: usize,
    /// Whether 1x1 convolutions before and after make it a bottleneck with four times the width.
    pub bottleneck: bool,
    /// Stride of the first 3x3 convolution, as in torchvision and timm.
    pub stride: usize,
    /// Normalisation of every convolution.
    pub norm: BatchNormConfig,
}

impl BlockConfig for ResidualBlockConfig {
    type Block = ResidualBlock;

    fn init(&self, drop_path: DropPath, device: &Device) -> ResidualBlock {
        let layer = |conv, activation| ConvNormConfig { conv, norm: self.norm, activation }.init(device);
        let (relu, linear) = (Activation::Relu, Activation::Identity);
        let &Self { input, width, stride, .. } = self;
        let output = self.output();
        let convs = if self.bottleneck {
            vec![
                layer(Conv2dConfig::pointwise(input, width), relu),
                layer(Conv2dConfig::new(width, width, 3, stride), relu),
                layer(Conv2dConfig::pointwise(width, output), linear),
            ]
        } else {
            vec![
                layer(Conv2dConfig::new(input, width, 3, stride), relu),
                layer(Conv2dConfig::new(width, output, 3, 1), linear),
            ]
        };
        let downsample = || layer(Conv2dConfig::new(input, output, 1, stride), linear);
        ResidualBlock { convs, downsample: (stride > 1 || input != output).then(downsample), drop_path }
    }

    fn output(&self) -> usize {
        if self.bottleneck { 4 * self.width } else { self.width }
    }

    fn stride(&self) -> usize {
        self.stride
    }
}

/// Two 3x3 convolutions, or a 3x3 between two 1x1, and a shortcut; ReLU after the sum (figure 5).
#[derive(Module, Debug)]
pub struct ResidualBlock {
    /// The convolutions in order.
    pub convs: Vec<ConvNorm>,
    /// The shortcut, if the block changes the shape.
    pub downsample: Option<ConvNorm>,
    #[module(skip)]
    drop_path: DropPath,
}

impl ResidualBlock {
    /// Whether the last convolution is the 1x1 convolution of a bottleneck, which is cheap to recompute compared to the memory of its
    /// output.
    fn ends_cheaply(&self) -> bool {
        self.convs.len() == 3
    }
}

impl Block for ResidualBlock {
    type Config = ResidualBlockConfig;

    fn forward(&self, input: Tensor<4>) -> Tensor<4> {
        let (last, first) = self.convs.split_last().expect("a block has convolutions");
        let [input, x] = twice(input);
        let x = first.iter().fold(Map::from(x), |x, conv| conv.pass(x));
        let shortcut = match &self.downsample {
            Some(downsample) => downsample.pass_rebuilt(input.into()).whole(),
            None => input,
        };
        let pass = if self.ends_cheaply() { ConvNorm::pass_rebuilt } else { ConvNorm::pass };
        convolve_and_add(last, pass, x, Some(shortcut), self.drop_path, Activation::Relu)
    }

    fn atrous(self, dilation: usize) -> Self {
        let convs = self.convs.into_iter().map(|conv| conv.atrous(dilation)).collect();
        Self { convs, downsample: self.downsample.map(|conv| conv.atrous(dilation)), ..self }
    }

    /// These are torchvision's names as well.
    fn timm_names(&self, own: &str, reference: &str, names: &mut Names) {
        for index in 0..self.convs.len() {
            let (conv, norm) = (format!("{reference}.conv{}", index + 1), format!("{reference}.bn{}", index + 1));
            names.conv_norm(&format!("{own}.convs.{index}"), &conv, &norm);
        }
        if self.downsample.is_some() {
            let at = |step: usize| format!("{reference}.downsample.{step}");
            names.conv_norm(&format!("{own}.downsample"), &at(0), &at(1));
        }
    }
}

impl Describe for ResidualBlock {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let mut x = input;
        for (index, conv) in self.convs.iter().enumerate() {
            let again = self.ends_cheaply() && index + 1 == self.convs.len();
            x = trace.scope(format!("convs.{index}"), |trace| match again {
                true => conv.describe_rebuilt(x, trace),
                false => conv.describe(x, trace),
            });
        }
        let shortcut = match &self.downsample {
            Some(downsample) => trace.scope("downsample", |trace| downsample.describe_rebuilt(input, trace)),
            None => input,
        };
        let sum = trace.add(x, shortcut);
        trace.activation(Activation::Relu, sum)
    }
}
