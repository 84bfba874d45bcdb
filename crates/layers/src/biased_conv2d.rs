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
        let [batch, output, height, width] = y.dims();
        // A number for each plane, whose gradient is a sum along memory. That of a tensor `[1, output, 1, 1]` would be added up along
        // one side after the other, from turned copies of the map.
        let of_planes = bias.reshape([1, output, 1]).expand([batch, output, 1]);
        (y.reshape([batch, output, height * width]) + of_planes).reshape([batch, output, height, width])
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
