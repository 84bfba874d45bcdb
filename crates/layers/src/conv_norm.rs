//! Convolution, batch normalisation, activation.

use burn::module::Module;
use burn::tensor::{Device, Tensor};

use crate::activation::Activation;
use crate::batch_norm::{BatchNorm, BatchNormConfig};
use crate::conv::{Conv, ConvConfig};
use crate::map::Map;
use crate::trace::{Describe, Trace, Value};

/// Configuration of a [`ConvNorm`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConvNormConfig {
    /// The convolution.
    pub conv: ConvConfig,
    /// Its normalisation.
    pub norm: BatchNormConfig,
    /// Applied last.
    pub activation: Activation,
}

impl ConvNormConfig {
    /// A block on `device`; see [`ConvConfig::init`] for the panics.
    pub fn init(&self, device: &Device) -> ConvNorm {
        ConvNorm {
            conv: self.conv.init(device),
            norm: self.norm.init(self.conv.output, device),
            activation: self.activation,
        }
    }
}

/// Convolution without bias, batch normalisation, activation.
#[derive(Module, Debug)]
pub struct ConvNorm {
    /// The convolution.
    pub conv: Conv,
    /// Its normalisation.
    pub norm: BatchNorm,
    #[module(skip)]
    activation: Activation,
}

impl ConvNorm {
    /// Shapes as in [`Conv::forward`].
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        self.pass(x.into()).whole()
    }

    /// The same from and to a map that need not be whole.
    pub fn pass(&self, x: Map) -> Map {
        self.norm.then(self.conv.read(x), self.activation)
    }

    /// The same, but what the convolution made is made again in the backward pass instead of being kept: for a convolution
    /// that is cheap beside the size of its output.
    pub fn pass_again(&self, x: Map) -> Map {
        let conv = self.conv.again(&x);
        self.pass(x).made_again(conv)
    }
}

impl ConvNorm {
    /// What [`ConvNorm::pass_again`] does.
    pub fn describe_again(&self, input: Value, trace: &mut Trace) -> Value {
        self.describe_with(input, trace, Trace::again)
    }

    fn describe_with(&self, input: Value, trace: &mut Trace, note: impl FnOnce(&mut Trace, Value)) -> Value {
        let output = trace.scope("conv", |trace| self.conv.describe(input, trace));
        note(trace, output);
        let output = trace.scope("norm", |trace| self.norm.describe(output, trace));
        trace.activation(self.activation, output)
    }
}

impl Describe for ConvNorm {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        self.describe_with(input, trace, |_, _| ())
    }
}
