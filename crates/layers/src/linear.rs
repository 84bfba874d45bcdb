//! Linear layers and the mean they read.

use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor, module};

use crate::ops;
use crate::parameters::zeros_when_read;
use crate::precision::full;
use crate::trace::{Describe, FeatureMap, Op, Trace, Value};

/// The mean of each channel, `[batch, channels, height, width]` to `[batch, channels]`: from here on a network computes in
/// float32, whatever its maps were.
pub fn global_average_pool(x: Tensor<4>) -> Tensor<2> {
    if ops::serves(&x) {
        return ops::means(x);
    }
    let [batch, channels, height, width] = x.dims();
    full(x.reshape([batch, channels, height * width])).mean_dim(2).reshape([batch, channels])
}

/// A linear layer with bias, `[batch, input]` to `[batch, output]`.
///
/// The weight is `[output, input]` as in PyTorch, so that weight files need no transposition.
#[derive(Module, Debug)]
pub struct Linear {
    /// `[output, input]`.
    pub weight: Param<Tensor<2>>,
    /// `[output]`.
    pub bias: Param<Tensor<1>>,
}

impl Linear {
    /// A layer whose weights are zero until [`crate::init::initialise`] or a weights file fills them.
    pub fn new(input: usize, output: usize, device: &Device) -> Self {
        Self { weight: zeros_when_read([output, input], device), bias: zeros_when_read([output], device) }
    }

    /// `[batch, input]` to `[batch, output]`.
    ///
    /// # Panics
    /// If `x` is of another format than the weights: behind the mean over pixels everything is float32.
    pub fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        assert_eq!(x.dtype(), self.weight.val().dtype(), "a linear layer reads vectors of its weights' format");
        module::linear(x, self.weight.val().transpose(), Some(self.bias.val()))
    }
}

impl Describe for Linear {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let [output, fan] = self.weight.lazy_shape().dims();
        trace.push(Op::Linear, &[input], FeatureMap::vector(output), (output * fan + output) as u64)
    }
}
