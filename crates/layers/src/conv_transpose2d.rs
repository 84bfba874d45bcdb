//! Transposed convolution without bias.

use burn::module::{Module, Param};
use burn::tensor::ops::ConvTransposeOptions;
use burn::tensor::{Device, Tensor, module};

use crate::parameters::zeros_when_read;
use crate::precision;
use crate::trace::{Describe, FeatureMap, Op, Trace, Value};
use kindling_ops::{self as ops, Places, reserve};

/// Configuration of a [`ConvTranspose2d`]: a square kernel from all channels to all, without bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvTranspose2dConfig {
    /// Input channels.
    pub input: usize,
    /// Output channels.
    pub output: usize,
    /// Side of the kernel.
    pub kernel: usize,
    /// Stride, 1 or more.
    pub stride: usize,
    /// Rows and columns that are cut off each side of the output.
    pub padding: usize,
}

impl ConvTranspose2dConfig {
    /// A layer whose weights are zero until [`crate::init`] or a weights file fills them.
    ///
    /// # Panics
    /// If the stride is 0 or nothing is left of the output of a single pixel.
    pub fn init(&self, device: &Device) -> ConvTranspose2d {
        let &Self { input, output, kernel, stride, padding } = self;
        assert!(stride > 0 && kernel > 2 * padding, "kernel {kernel} stride {stride} padding {padding}");
        ConvTranspose2d { weight: zeros_when_read([input, output, kernel, kernel], device), stride, padding }
    }
}

/// A transposed convolution, `[batch, input, height, width]` to `[batch, output, (height - 1) * stride + kernel -
/// 2 * padding, ...]`.
#[derive(Module, Debug)]
pub struct ConvTranspose2d {
    /// `[input, output, kernel, kernel]`, as in PyTorch.
    pub weight: Param<Tensor<4>>,
    stride: usize,
    padding: usize,
}

impl ConvTranspose2d {
    /// Convolves a batch.
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        precision::assert_fits(&self.weight.val(), &x);
        let [_, _, height, width] = x.dims();
        if ops::serves(&x) {
            let side = |size: usize| (size - 1) * self.stride + self.weight.lazy_shape()[2] - 2 * self.padding;
            let places = Places { stride: self.stride, dilation: 1, before: [self.padding; 2], out: [height, width] };
            let size = [side(height), side(width)];
            reserve::like(&x, x.dims()[0] * self.weight.lazy_shape()[1] * size[0] * size[1]);
            return ops::transposed(x, self.weight.val(), places, size);
        }
        if height * width == 1 && self.padding == 0 { self.project(x) } else { self.convolve(x) }
    }

    /// The convolution of a map of one pixel, as a matrix product: every output is a sum over channels.
    fn project(&self, x: Tensor<4>) -> Tensor<4> {
        let weight = precision::like(self.weight.val(), &x);
        let [input, output, kernel, _] = weight.dims();
        let batch = x.dims()[0];
        let product = x.reshape([batch, input]).matmul(weight.reshape([input, output * kernel * kernel]));
        product.reshape([batch, output, kernel, kernel])
    }

    fn convolve(&self, x: Tensor<4>) -> Tensor<4> {
        let options = ConvTransposeOptions::new([self.stride; 2], [self.padding; 2], [0; 2], [1; 2], 1);
        let weight = precision::like(self.weight.val(), &x);
        ops::by_planes(x, |x| module::conv_transpose2d(x, weight, None, options))
    }
}

impl Describe for ConvTranspose2d {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let [fan, channels, kernel, _] = self.weight.lazy_shape().dims();
        let (stride, padding) = (self.stride, self.padding);
        let side = |size: usize| (size - 1) * stride + kernel - 2 * padding;
        let output = FeatureMap { channels, height: side(input.map.height), width: side(input.map.width) };
        let op = Op::ConvTranspose { kernel, stride, padding };
        trace.push(op, &[input], output, (fan * channels * kernel * kernel) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{TensorData, Tolerance};

    fn ramp<const D: usize>(shape: [usize; D]) -> Tensor<D> {
        let values: Vec<f32> =
            (0..shape.iter().product()).map(|i: usize| ((i * 37) % 23) as f32 / 11.0 - 1.0).collect();
        Tensor::from_data(TensorData::new(values, shape), &Device::flex())
    }

    #[test]
    fn a_single_pixel_is_projected_as_it_is_convolved() {
        let config = ConvTranspose2dConfig { input: 5, output: 3, kernel: 4, stride: 1, padding: 0 };
        let mut layer = config.init(&Device::flex());
        layer.weight = Param::from_tensor(ramp([5, 3, 4, 4]));
        let x = ramp([2, 5, 1, 1]);
        let (product, convolution) = (layer.project(x.clone()), layer.convolve(x));
        assert_eq!(product.dims(), [2, 3, 4, 4]);
        product.into_data().assert_approx_eq::<f32>(&convolution.into_data(), Tolerance::absolute(1e-5));
    }

    #[test]
    fn the_trace_knows_the_shape() {
        for (kernel, stride, padding, size) in [(4, 2, 1, 8), (4, 1, 0, 1), (3, 1, 1, 5), (5, 3, 2, 4)] {
            let layer = ConvTranspose2dConfig { input: 2, output: 3, kernel, stride, padding }.init(&Device::flex());
            let trace = Trace::of(&layer, FeatureMap::square(2, size));
            let [_, _, height, width] = layer.forward(ramp([1, 2, size, size])).dims();
            assert_eq!(trace.layers[0].output, FeatureMap { channels: 3, height, width });
        }
    }
}
