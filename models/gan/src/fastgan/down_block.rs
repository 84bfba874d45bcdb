//! The discriminator's block.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kindling_layers::names::Names;
use kindling_layers::trace::{Describe, Op, Trace, Value};
use kindling_layers::{Activation, AveragePool, BatchNormConfig, Conv2dConfig, ConvNorm, ConvNormConfig};

use crate::down::DownConv;

/// The mean of two ways to half the size: a 4x4 and a 3x3 convolution, and a 1x1 convolution of 2x2 averages; each with
/// batch normalisation and leaky ReLU (figure 4).
#[derive(Module, Debug)]
pub struct DownBlock {
    /// 4x4, stride 2.
    pub down: DownConv,
    /// 3x3.
    pub refine: ConvNorm,
    /// 1x1, after averaging.
    pub direct: ConvNorm,
}

const HALVE: AveragePool = AveragePool { kernel: 2 };

impl DownBlock {
    /// A block on `device`.
    pub fn new(input: usize, output: usize, device: &Device) -> Self {
        let layer = |conv| {
            let config = ConvNormConfig { conv, norm: BatchNormConfig::default(), activation: Activation::LeakyRelu };
            config.init(device)
        };
        Self {
            down: DownConv::new(input, output, device),
            refine: layer(Conv2dConfig::new(output, output, 3, 1)),
            direct: layer(Conv2dConfig::pointwise(input, output)),
        }
    }

    /// `[batch, input, height, width]` to `[batch, output, height / 2, width / 2]`.
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let direct = self.direct.forward(HALVE.forward(x.clone()));
        (self.refine.forward(self.down.forward(x)) + direct).mul_scalar(0.5)
    }

    /// The reference implementation's names.
    pub(crate) fn names(&self, own: &str, reference: &str, names: &mut Names) {
        let at = |branch: &str, number: usize| format!("{reference}.{branch}.{number}");
        names.conv_norm(&format!("{own}.down"), &at("main", 0), &at("main", 1));
        names.conv_norm(&format!("{own}.refine"), &at("main", 3), &at("main", 4));
        names.conv_norm(&format!("{own}.direct"), &at("direct", 1), &at("direct", 2));
    }
}

impl Describe for DownBlock {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let x = trace.scope("down", |trace| self.down.describe(input, trace));
        let x = trace.scope("refine", |trace| self.refine.describe(x, trace));
        let direct = trace.scope("pool", |trace| HALVE.describe(input, trace));
        let direct = trace.scope("direct", |trace| self.direct.describe(direct, trace));
        let sum = trace.add(x, direct);
        trace.apply("mean", Op::Scale { factor: 0.5 }, &[sum], sum.map)
    }
}
