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
}

impl Describe for ConvNorm {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let output = trace.scope("conv", |trace| self.conv.describe(input, trace));
        let output = trace.scope("norm", |trace| self.norm.describe(output, trace));
        trace.activation(self.activation, output)
    }
}
