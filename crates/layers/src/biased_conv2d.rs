//! Convolution with bias.

use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor};

use crate::conv2d::{Conv2d, Conv2dConfig};
use crate::map::Map;
use crate::parameters::zeros_when_read;
use crate::precision;
use crate::trace::{Describe, Trace, Value};

/// A convolution whose output gets a number for each channel, as the last one of a decoder has it.
#[derive(Module, Debug)]
pub struct BiasedConv2d {
    /// As in [`Conv2d`].
    pub weight: Param<Tensor<4>>,
    /// `[output]`.
    pub bias: Param<Tensor<1>>,
    #[module(skip)]
    config: Conv2dConfig,
}

impl BiasedConv2d {
    /// A layer whose weights are zero until [`crate::init::initialise`] or a weights file fills them.
    ///
    /// # Panics
    /// As [`Conv2dConfig::init`].
    pub fn new(config: Conv2dConfig, device: &Device) -> Self {
        Self { weight: config.init(device).weight, bias: zeros_when_read([config.output], device), config }
    }

    /// Shapes as in [`Conv2d::forward`].
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        self.read(x.into())
    }

    /// As [`BiasedConv2d::forward`], for a map whose normalisation may be deferred.
    pub fn read(&self, x: Map) -> Tensor<4> {
        let y = self.convolution().read(x);
        let bias = precision::like(self.bias.val(), &y);
        y + bias.reshape([1, self.config.output, 1, 1])
    }

    /// The convolution without the bias, with the same weights.
    fn convolution(&self) -> Conv2d {
        self.config.with(self.weight.clone())
    }
}

impl Describe for BiasedConv2d {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let y = self.convolution().describe(input, trace);
        // One layer with both tensors. The bias is no multiply-add.
        if let Some(layer) = trace.layers.last_mut() {
            layer.params += self.config.output as u64;
        }
        y
    }
}
