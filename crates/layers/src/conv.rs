//! Convolution without bias.

use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor, module, ops::ConvOptions};

use crate::cpu;
use crate::trace::{Describe, FeatureMap, Trace};

/// Configuration of a [`Conv`]: square kernel, symmetric "same" padding of `kernel / 2`, no bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvConfig {
    /// Input channels.
    pub input: usize,
    /// Output channels.
    pub output: usize,
    /// Side of the kernel; odd.
    pub kernel: usize,
    /// Stride, 1 or more.
    pub stride: usize,
    /// One filter a channel instead of all channels to all.
    pub depthwise: bool,
}

impl ConvConfig {
    /// A layer whose weights are zero until [`crate::init::initialise`] or a weights file fills them.
    ///
    /// # Panics
    /// If the kernel is even, the stride is 0, or a depthwise layer changes the number of channels.
    pub fn init(&self, device: &Device) -> Conv {
        assert!(self.kernel % 2 == 1 && self.stride > 0, "kernel {} stride {}", self.kernel, self.stride);
        assert!(!self.depthwise || self.input == self.output, "a depthwise convolution keeps its channels");
        let fan = if self.depthwise { 1 } else { self.input };
        Conv {
            weight: Param::from_tensor(Tensor::zeros([self.output, fan, self.kernel, self.kernel], device)),
            stride: self.stride,
            depthwise: self.depthwise,
        }
    }
}

/// A convolution, `[batch, input, height, width]` to `[batch, output, ceil(height / stride), ceil(width / stride)]`.
#[derive(Module, Debug)]
pub struct Conv {
    /// `[output, input, kernel, kernel]`, or `[channels, 1, kernel, kernel]` if depthwise.
    pub weight: Param<Tensor<4>>,
    stride: usize,
    depthwise: bool,
}

impl Conv {
    /// Convolves a batch.
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let weight = self.weight.val();
        let [channels, _, kernel, _] = weight.dims();
        if cpu::serves(&x) {
            if self.depthwise && cpu::depthwise_kernel(kernel) {
                return cpu::depthwise(x, weight, self.stride);
            }
            if !self.depthwise && kernel == 1 && self.stride == 1 {
                return pointwise(x, weight);
            }
        }
        let groups = if self.depthwise { channels } else { 1 };
        module::conv2d(x, weight, None, ConvOptions::new([self.stride; 2], [kernel / 2; 2], [1, 1], groups))
    }
}

/// A 1x1 convolution as the matrix product it is: images are already laid out `[channels, pixels]`.
fn pointwise(x: Tensor<4>, weight: Tensor<4>) -> Tensor<4> {
    let [batch, input, height, width] = x.dims();
    let output = weight.dims()[0];
    let product = weight.reshape([1, output, input]).matmul(x.reshape([batch, input, height * width]));
    product.reshape([batch, output, height, width])
}

impl Describe for Conv {
    fn describe(&self, input: FeatureMap, trace: &mut Trace) -> FeatureMap {
        let [channels, fan, kernel, _] = self.weight.lazy_shape().dims();
        let output = FeatureMap {
            channels,
            height: input.height.div_ceil(self.stride),
            width: input.width.div_ceil(self.stride),
        };
        let taps = (fan * kernel * kernel) as u64;
        let kind = match (self.depthwise, kernel) {
            (true, _) => format!("depthwise {kernel}x{kernel}"),
            (false, 1) => "pointwise".to_string(),
            (false, _) => format!("conv {kernel}x{kernel}"),
        };
        let elements = output.elements();
        trace.push(kind, output, channels as u64 * taps, elements * taps, elements);
        output
    }
}
