//! The two blocks of ResNet.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kindling_layers::blocks::{Block, BlockConfig, join};
use kindling_layers::names::Names;
use kindling_layers::trace::{Describe, Trace, Value};
use kindling_layers::{Activation, BatchNormConfig, ConvConfig, ConvNorm, ConvNormConfig, DropPath, Map};

/// Configuration of a [`ResidualBlock`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResidualBlockConfig {
    /// Input channels.
    pub input: usize,
    /// Channels of the 3x3 convolutions.
    pub width: usize,
    /// Whether 1x1 convolutions before and after make it a bottleneck of four times the width.
    pub bottleneck: bool,
    /// Stride of the first 3x3 convolution, as torchvision and timm have it.
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
                layer(ConvConfig::pointwise(input, width), relu),
                layer(ConvConfig::dense(width, width, 3, stride), relu),
                layer(ConvConfig::pointwise(width, output), linear),
            ]
        } else {
            vec![
                layer(ConvConfig::dense(input, width, 3, stride), relu),
                layer(ConvConfig::dense(width, output, 3, 1), linear),
            ]
        };
        let downsample = || layer(ConvConfig::dense(input, output, 1, stride), linear);
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
    /// The shortcut where the shape changes.
    pub downsample: Option<ConvNorm>,
    #[module(skip)]
    drop_path: DropPath,
}

impl ResidualBlock {
    /// Whether the last convolution is a bottleneck's 1x1: making its output again costs less than the memory it takes.
    fn ends_cheaply(&self) -> bool {
        self.convs.len() == 3
    }

    /// torchvision's and timm's names.
    pub(crate) fn names(&self, own: &str, reference: &str, names: &mut Names) {
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

impl Block for ResidualBlock {
    type Config = ResidualBlockConfig;

    fn forward(&self, input: Tensor<4>) -> Tensor<4> {
        let (last, first) = self.convs.split_last().expect("a block has convolutions");
        let x = first.iter().fold(Map::from(input.clone()), |x, conv| conv.pass(x));
        let x = if self.ends_cheaply() { last.pass_again(x) } else { last.pass(x) };
        let shortcut = match &self.downsample {
            Some(downsample) => downsample.pass_again(input.into()).whole(),
            None => input,
        };
        join(Some(shortcut), x, self.drop_path, Activation::Relu)
    }

    fn timm_names(&self, own: &str, reference: &str, names: &mut Names) {
        self.names(own, reference, names);
    }
}

impl Describe for ResidualBlock {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let mut x = input;
        for (index, conv) in self.convs.iter().enumerate() {
            let again = self.ends_cheaply() && index + 1 == self.convs.len();
            x = trace.scope(format!("convs.{index}"), |trace| match again {
                true => conv.describe_again(x, trace),
                false => conv.describe(x, trace),
            });
        }
        let shortcut = match &self.downsample {
            Some(downsample) => trace.scope("downsample", |trace| downsample.describe_again(input, trace)),
            None => input,
        };
        let sum = trace.add(x, shortcut);
        trace.activation(Activation::Relu, sum)
    }
}
