//! Convolution that is told its padding, without bias.

use burn::module::{Module, Param};
use burn::tensor::ops::ConvOptions;
use burn::tensor::{Device, Tensor, module};

use crate::parameters::zeros_when_read;
use crate::precision;
use crate::trace::{Describe, FeatureMap, Op, Trace, Value, Zeros};
use kindling_ops::{self as ops, Places, room};

/// Configuration of a [`PaddedConv`]: square kernel of any side, all channels to all, no bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaddedConvConfig {
    /// Input channels.
    pub input: usize,
    /// Output channels.
    pub output: usize,
    /// Side of the kernel.
    pub kernel: usize,
    /// Stride, 1 or more.
    pub stride: usize,
    /// Zeros on each side.
    pub padding: usize,
}

impl PaddedConvConfig {
    /// Without padding: on a map of the kernel's size, a linear layer over all its pixels.
    pub fn valid(input: usize, output: usize, kernel: usize) -> Self {
        Self { input, output, kernel, stride: 1, padding: 0 }
    }

    /// A 4x4 kernel that halves the map: what discriminators are made of.
    pub fn halving(input: usize, output: usize) -> Self {
        Self { input, output, kernel: 4, stride: 2, padding: 1 }
    }

    /// A layer whose weights are zero until [`crate::init`] or a weights file fills them.
    ///
    /// # Panics
    /// If kernel or stride is 0.
    pub fn init(&self, device: &Device) -> PaddedConv {
        let &Self { input, output, kernel, stride, padding } = self;
        assert!(kernel > 0 && stride > 0, "kernel {kernel} stride {stride}");
        PaddedConv { weight: zeros_when_read([output, input, kernel, kernel], device), stride, padding }
    }
}

/// A convolution, `[batch, input, height, width]` to `[batch, output, (height + 2 * padding - kernel) / stride + 1,
/// ...]`. [`crate::Conv`] is for odd kernels that keep the map or divide it by the stride.
#[derive(Module, Debug)]
pub struct PaddedConv {
    /// `[output, input, kernel, kernel]`.
    pub weight: Param<Tensor<4>>,
    stride: usize,
    padding: usize,
}

impl PaddedConv {
    /// Convolves a batch.
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        precision::assert_fits(&self.weight.val(), &x);
        let [_, _, height, width] = x.dims();
        let kernel = self.weight.lazy_shape()[2];
        let one_place = self.padding == 0 && [height, width] == [kernel; 2];
        if ops::serves_on_cpu(&x) || (ops::serves(&x) && !one_place) {
            let side = |size: usize| (size + 2 * self.padding - kernel) / self.stride + 1;
            let places = Places {
                stride: self.stride,
                dilation: 1,
                before: [self.padding; 2],
                out: [side(height), side(width)],
            };
            let output = x.dims()[0] * self.weight.lazy_shape()[0] * places.out[0] * places.out[1];
            room::announce_like(&x, output);
            return ops::dense(x, self.weight.val(), places);
        }
        if one_place { self.reduce(x) } else { self.convolve(x) }
    }

    /// A kernel as large as the map has one place: a matrix product.
    fn reduce(&self, x: Tensor<4>) -> Tensor<4> {
        let weight = precision::like(self.weight.val(), &x);
        let [output, input, kernel, _] = weight.dims();
        let (batch, fan) = (x.dims()[0], input * kernel * kernel);
        let product = x.reshape([batch, fan]).matmul(weight.reshape([output, fan]).transpose());
        product.reshape([batch, output, 1, 1])
    }

    fn convolve(&self, x: Tensor<4>) -> Tensor<4> {
        let options = ConvOptions::new([self.stride; 2], [self.padding; 2], [1; 2], 1);
        let weight = precision::like(self.weight.val(), &x);
        module::conv2d(x, weight, None, options)
    }
}

impl Describe for PaddedConv {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let [channels, fan, kernel, _] = self.weight.lazy_shape().dims();
        let (stride, padding) = (self.stride, self.padding);
        let side = |size: usize| (size + 2 * padding - kernel) / stride + 1;
        let output = FeatureMap { channels, height: side(input.map.height), width: side(input.map.width) };
        let zeros = Zeros { before: [padding; 2], after: [padding; 2] };
        let op = Op::Conv { kernel, stride, dilation: 1, groups: 1, padding: zeros };
        trace.push(op, &[input], output, (channels * fan * kernel * kernel) as u64)
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
    fn a_map_of_the_kernels_size_is_reduced_as_it_is_convolved() {
        let mut layer = PaddedConvConfig::valid(5, 3, 4).init(&Device::flex());
        layer.weight = Param::from_tensor(ramp([3, 5, 4, 4]));
        let x = ramp([2, 5, 4, 4]);
        let (product, convolution) = (layer.reduce(x.clone()), layer.convolve(x));
        assert_eq!(product.dims(), [2, 3, 1, 1]);
        product.into_data().assert_approx_eq::<f32>(&convolution.into_data(), Tolerance::absolute(1e-5));
    }

    #[test]
    fn the_trace_knows_the_shape() {
        let halving = PaddedConvConfig::halving(2, 3);
        let valid = PaddedConvConfig::valid(2, 3, 4);
        for (config, size) in [(halving, 8), (halving, 7), (valid, 4), (valid, 9)] {
            let layer = config.init(&Device::flex());
            let trace = Trace::of(&layer, FeatureMap::square(2, size));
            let [_, _, height, width] = layer.forward(ramp([1, 2, size, size])).dims();
            assert_eq!(trace.layers[0].output, FeatureMap { channels: 3, height, width });
        }
    }
}
