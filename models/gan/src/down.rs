//! The layer that both discriminators go down by.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kindling_layers::trace::{Describe, Trace, Value};
use kindling_layers::{Activation, BatchNorm, BatchNormConfig, Conv2d, Conv2dConfig};

/// A 4x4 convolution with stride 2, batch normalisation, leaky ReLU.
#[derive(Module, Debug)]
pub struct DownConv {
    /// The convolution.
    pub conv: Conv2d,
    /// Its normalisation.
    pub norm: BatchNorm,
}

impl DownConv {
    /// A layer on `device`.
    pub fn new(input: usize, output: usize, device: &Device) -> Self {
        Self {
            conv: Conv2dConfig::halving(input, output).init(device),
            norm: BatchNormConfig::default().init(output, device),
        }
    }

    /// `[batch, input, height, width]` to `[batch, output, height / 2, width / 2]`.
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        self.norm.forward_then(self.conv.forward(x), Activation::LeakyRelu)
    }
}

impl Describe for DownConv {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let x = trace.scope("conv", |trace| self.conv.describe(input, trace));
        let x = trace.scope("norm", |trace| self.norm.describe(x, trace));
        trace.activation(Activation::LeakyRelu, x)
    }
}
