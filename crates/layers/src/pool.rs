//! Max pooling.

use burn::tensor::{Tensor, module, ops::MaxPoolOptions};

use crate::map::{Content, Map};
use crate::trace::{Describe, FeatureMap, Op, Trace, Value};
use kindling_ops::{Pooling, reserve};

/// Max pooling with `kernel / 2` rows and columns of padding, which no maximum comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxPool {
    /// Side of the window; odd.
    pub kernel: usize,
    /// Distance between windows, in pixels.
    pub stride: usize,
}

impl MaxPool {
    /// `[batch, channels, height, width]` to `[batch, channels, ceil(height / stride), ceil(width / stride)]`.
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let options = MaxPoolOptions::new([self.kernel; 2]).with_stride([self.stride; 2]);
        module::max_pool2d(x, options.with_padding([self.kernel / 2; 2]))
    }

    /// As [`MaxPool::forward`], for a map whose normalisation may be deferred.
    pub fn read(&self, x: Map) -> Tensor<4> {
        match x.0 {
            Content::Deferred(map) => {
                let [batch, channels, height, width] = map.x.dims();
                let pixels = height.div_ceil(self.stride) * width.div_ceil(self.stride);
                reserve::like(&map.x, batch * channels * pixels);
                map.max_pooled(Pooling { kernel: self.kernel, stride: self.stride, padding: self.kernel / 2 })
            }
            Content::Whole(x) => self.forward(x),
        }
    }
}

impl Describe for MaxPool {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let FeatureMap { channels, height, width } = input.map;
        let (kernel, stride) = (self.kernel, self.stride);
        let output = FeatureMap { channels, height: height.div_ceil(stride), width: width.div_ceil(stride) };
        trace.push(Op::MaxPool { kernel, stride, padding: kernel / 2 }, &[input], output, 0)
    }
}
