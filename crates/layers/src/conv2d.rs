//! Convolution without bias.

use std::sync::Arc;

use burn::module::{Module, Param};
use burn::tensor::ops::{ConvOptions, PadMode};
use burn::tensor::{Device, Tensor, module};

use crate::map::{Content, Map};
use crate::padding::Padding;
use crate::parameters::zeros_when_read;
use crate::precision;
use crate::trace::{Describe, FeatureMap, Op, Trace, Value, Zeros};
use kindling_ops::{self as ops, Convolution, Places, Rebuild, plain, reserve};

/// Configuration of a [`Conv2d`]: square kernel, no bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv2dConfig {
    /// Input channels.
    pub input: usize,
    /// Output channels.
    pub output: usize,
    /// Side of the kernel; odd, except with [`Padding::Zeros`].
    pub kernel: usize,
    /// Stride, 1 or more.
    pub stride: usize,
    /// Pixels from one tap of the kernel to the next, 1 or more.
    pub dilation: usize,
    /// Whether each channel has one filter of its own.
    pub depthwise: bool,
    /// Zeros around the image.
    pub padding: Padding,
}

impl Conv2dConfig {
    /// From all channels to all, with symmetric padding.
    pub fn new(input: usize, output: usize, kernel: usize, stride: usize) -> Self {
        Self { input, output, kernel, stride, dilation: 1, depthwise: false, padding: Padding::Symmetric }
    }

    /// A 1x1 convolution.
    pub fn pointwise(input: usize, output: usize) -> Self {
        Self::new(input, output, 1, 1)
    }

    /// A depthwise convolution with symmetric padding.
    pub fn depthwise(channels: usize, kernel: usize, stride: usize) -> Self {
        Self { depthwise: true, ..Self::new(channels, channels, kernel, stride) }
    }

    /// From all channels to all, without padding. On a map of the size of the kernel, it is a linear layer over all pixels.
    pub fn valid(input: usize, output: usize, kernel: usize) -> Self {
        Self::new(input, output, kernel, 1).padded(Padding::Zeros(0))
    }

    /// A 4x4 kernel that halves height and width, as in discriminators.
    pub fn halving(input: usize, output: usize) -> Self {
        Self::new(input, output, 4, 2).padded(Padding::Zeros(1))
    }

    /// The same configuration with another padding.
    pub fn padded(self, padding: Padding) -> Self {
        Self { padding, ..self }
    }

    /// The same configuration with another dilation. The kernel then reaches as far as one of side `(kernel - 1) * dilation + 1`.
    pub fn dilated(self, dilation: usize) -> Self {
        Self { dilation, ..self }
    }

    /// A layer whose weights are zero until [`crate::init::initialise`] or a weights file fills them.
    ///
    /// # Panics
    /// If kernel, stride or dilation is 0, the kernel is even and its padding follows from it, or a depthwise layer changes
    /// the number of channels.
    pub fn init(&self, device: &Device) -> Conv2d {
        let any_kernel = matches!(self.padding, Padding::Zeros(_));
        assert!(self.kernel % 2 == 1 || any_kernel, "a kernel of {} has no middle to pad around", self.kernel);
        assert!(self.kernel > 0 && self.stride > 0, "kernel {} stride {}", self.kernel, self.stride);
        assert!(self.dilation > 0, "the places of a kernel are 1 pixel apart or more");
        assert!(!self.depthwise || self.input == self.output, "a depthwise convolution keeps its channels");
        let fan = if self.depthwise { 1 } else { self.input };
        self.with(zeros_when_read([self.output, fan, self.kernel, self.kernel], device))
    }

    /// The layer with these weights.
    pub(crate) fn with(&self, weight: Param<Tensor<4>>) -> Conv2d {
        Conv2d {
            weight,
            stride: self.stride,
            dilation: self.dilation,
            depthwise: self.depthwise,
            padding: self.padding,
        }
    }
}

/// A convolution, `[batch, input, height, width]` to `[batch, output, ceil(height / stride), ceil(width / stride)]`; with
/// [`Padding::Zeros`] to `(height + 2 * zeros - kernel) / stride + 1` rows, and columns alike.
#[derive(Module, Debug)]
pub struct Conv2d {
    /// `[output, input, kernel, kernel]`, or `[channels, 1, kernel, kernel]` if depthwise.
    pub weight: Param<Tensor<4>>,
    stride: usize,
    dilation: usize,
    depthwise: bool,
    #[module(skip)]
    padding: Padding,
}

impl Conv2d {
    /// The same filters, put on every pixel instead of every `stride`-th, with taps `dilation` pixels apart. That is how a classifier's
    /// filters read a map that is not divided: "Rethinking Atrous Convolution for Semantic Image Segmentation", section 3.1.
    pub fn atrous(self, dilation: usize) -> Self {
        // The taps of a 1x1 kernel have no distance.
        let dilation = if self.weight.lazy_shape()[2] > 1 { dilation } else { 1 };
        Self { stride: 1, dilation, ..self }
    }

    /// Convolves a batch. The output has the format of `x`.
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        self.read(x.into())
    }

    /// As [`Conv2d::forward`], for a map whose normalisation may be deferred.
    pub fn read(&self, x: Map) -> Tensor<4> {
        let own = !self.depthwise || ops::depthwise_kernel(self.weight.dims()[2]);
        precision::assert_fits(&self.weight.val(), x.tensor());
        match x.0 {
            Content::Deferred(map) if own => {
                let convolution = self.reserved(&map.x);
                map.convolved(self.weight.val(), convolution)
            }
            Content::Whole(x) if own && ops::serves(&x) && (ops::on_cpu(&x) || !self.has_one_place(&x)) => {
                let convolution = self.reserved(&x);
                ops::conv(x, self.weight.val(), convolution)
            }
            other => {
                let x = Map(other).whole();
                match self.has_one_place(&x) {
                    true => self.reduce(x),
                    false => self.forward_with_burns_operation(x, self.weight.val(), None),
                }
            }
        }
    }

    /// Whether the kernel covers the whole map, so that the output has one pixel.
    fn has_one_place(&self, x: &Tensor<4>) -> bool {
        let [.., height, width] = x.dims();
        let [.., kernel, _] = self.weight.dims();
        self.padding == Padding::Zeros(0) && !self.depthwise && self.dilation == 1 && [height, width] == [kernel; 2]
    }

    /// Whether this is a 3x3 convolution from all channels to all whose output has the size of a map of so many rows and columns.
    pub(crate) fn keeps_size_with_3x3(&self, size: [usize; 2]) -> bool {
        let [.., kernel, _] = self.weight.dims();
        let places = Places { stride: 1, dilation: 1, before: [1; 2], out: size };
        // Batch and channels do not matter.
        kernel == 3 && !self.depthwise && self.places([1, 1, size[0], size[1]]) == places
    }

    /// The convolution with a kernel that covers the whole map, as a matrix product.
    fn reduce(&self, x: Tensor<4>) -> Tensor<4> {
        let weight = precision::like(self.weight.val(), &x);
        let [output, input, kernel, _] = weight.dims();
        let (batch, fan) = (x.dims()[0], input * kernel * kernel);
        let product = x.reshape([batch, fan]).matmul(weight.reshape([output, fan]).transpose());
        product.reshape([batch, output, 1, 1])
    }

    /// Recomputes the convolution of this map, outside any gradient graph.
    pub(crate) fn rebuild(&self, x: &Map) -> Rebuild {
        let x = x.detached();
        let conv = Self { weight: Param::from_tensor(plain(self.weight.val())), ..self.clone() };
        Rebuild(Arc::new(move || conv.read(x.clone())))
    }

    /// The convolution by Burn's operation, with each output channel multiplied by `scale` and increased by `shift`, both
    /// `[output]`.
    pub(crate) fn forward_scaled(&self, x: Tensor<4>, scale: Tensor<1>, shift: Tensor<1>) -> Tensor<4> {
        let [channels, ..] = self.weight.dims();
        let weight = self.weight.val() * scale.reshape([channels, 1, 1, 1]);
        self.forward_with_burns_operation(x, weight, Some(shift))
    }

    fn forward_with_burns_operation(&self, x: Tensor<4>, weight: Tensor<4>, bias: Option<Tensor<1>>) -> Tensor<4> {
        // Burn's CPU backend computes the output, and then copies it.
        self.reserve(&x, 2);
        let (weight, bias) = (precision::like(weight, &x), bias.map(|bias| precision::like(bias, &x)));
        let [channels, _, kernel, _] = weight.dims();
        let [.., height, width] = x.dims();
        let (zeros, _) = self.geometry(height, width, kernel);
        let groups = if self.depthwise { channels } else { 1 };
        let (x, padding) = if zeros.before == zeros.after { (x, zeros.before) } else { (pad(x, zeros), [0; 2]) };
        module::conv2d(x, weight, bias, ConvOptions::new([self.stride; 2], padding, [self.dilation; 2], groups))
    }

    /// The convolution of a map, for whose output memory is reserved.
    pub(crate) fn reserved(&self, x: &Tensor<4>) -> Convolution {
        self.reserve(x, 1);
        let places = self.places(x.dims());
        if self.depthwise { Convolution::Depthwise(places) } else { Convolution::Dense(places) }
    }

    /// The places of the kernel on a map of this shape.
    pub(crate) fn places(&self, [.., height, width]: [usize; 4]) -> Places {
        let Self { stride, dilation, .. } = *self;
        let (zeros, out) = self.geometry(height, width, self.weight.lazy_shape()[2]);
        Places { stride, dilation, before: zeros.before, out }
    }

    /// The padding of a map, and rows and columns of the output, for a kernel of this side.
    fn geometry(&self, height: usize, width: usize, kernel: usize) -> (Zeros, [usize; 2]) {
        let reach = (kernel - 1) * self.dilation + 1;
        let zeros = self.padding.of_map(height, width, reach, self.stride);
        let side = |axis: usize, size: usize| (size + zeros.before[axis] + zeros.after[axis] - reach) / self.stride + 1;
        let out = [side(0, height), side(1, width)];
        (zeros, out)
    }

    /// Reserves memory for `maps` maps of the shape of the output.
    fn reserve(&self, x: &Tensor<4>, maps: usize) {
        let ([channels, _, kernel, _], [batch, _, height, width]) = (self.weight.dims(), x.dims());
        let (_, [rows, columns]) = self.geometry(height, width, kernel);
        reserve::like(x, maps * batch * channels * rows * columns);
    }
}

/// Pads with zeros that differ from side to side, which Burn's convolution does not support.
fn pad(x: Tensor<4>, zeros: Zeros) -> Tensor<4> {
    let ([top, left], [bottom, right]) = (zeros.before, zeros.after);
    x.pad((left, right, top, bottom), PadMode::Constant(0.0))
}

impl Describe for Conv2d {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let [channels, fan, kernel, _] = self.weight.lazy_shape().dims();
        let FeatureMap { height, width, .. } = input.map;
        let (padding, [rows, columns]) = self.geometry(height, width, kernel);
        let output = FeatureMap { channels, height: rows, width: columns };
        let groups = if self.depthwise { channels } else { 1 };
        let op = Op::Conv { kernel, stride: self.stride, dilation: self.dilation, groups, padding };
        trace.push(op, &[input], output, (channels * fan * kernel * kernel) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Distribution, TensorData, Tolerance};

    #[test]
    fn a_dilated_convolution_is_burns_and_keeps_the_map_s_size() {
        let device = Device::flex();
        let x = Tensor::<4>::random([2, 6, 11, 14], Distribution::Normal(0.0, 1.0), &device);
        let dense = Conv2dConfig::new(6, 4, 3, 1);
        for config in
            [dense, Conv2dConfig::depthwise(6, 5, 1), Conv2dConfig::depthwise(6, 3, 2), dense.padded(Padding::Same)]
        {
            let layer = crate::init::initialise(config.dilated(3).init(&device), 5);
            let y = layer.forward(x.clone());
            assert_eq!(y.dims(), [2, config.output, 11usize.div_ceil(config.stride), 14usize.div_ceil(config.stride)]);
            let burns = layer.forward_with_burns_operation(x.clone(), layer.weight.val(), None);
            y.into_data().assert_approx_eq::<f32>(&burns.into_data(), Tolerance::absolute(1e-5));
        }
    }

    fn ramp<const D: usize>(shape: [usize; D]) -> Tensor<D> {
        let values: Vec<f32> =
            (0..shape.iter().product()).map(|i: usize| ((i * 37) % 23) as f32 / 11.0 - 1.0).collect();
        Tensor::from_data(TensorData::new(values, shape), &Device::flex())
    }

    #[test]
    fn a_map_of_the_kernels_size_is_reduced_as_it_is_convolved() {
        let mut layer = Conv2dConfig::valid(5, 3, 4).init(&Device::flex());
        layer.weight = Param::from_tensor(ramp([3, 5, 4, 4]));
        let x = ramp([2, 5, 4, 4]);
        let (product, convolution) =
            (layer.reduce(x.clone()), layer.forward_with_burns_operation(x, layer.weight.val(), None));
        assert_eq!(product.dims(), [2, 3, 1, 1]);
        product.into_data().assert_approx_eq::<f32>(&convolution.into_data(), Tolerance::absolute(1e-5));
    }

    #[test]
    fn the_trace_knows_the_shape_of_any_padding() {
        let halving = Conv2dConfig::halving(2, 3);
        let valid = Conv2dConfig::valid(2, 3, 4);
        for (config, size) in [(halving, 8), (halving, 7), (valid, 4), (valid, 9)] {
            let layer = config.init(&Device::flex());
            let trace = Trace::of(&layer, FeatureMap::square(2, size));
            let [_, _, height, width] = layer.forward(ramp([1, 2, size, size])).dims();
            assert_eq!(trace.layers[0].output, FeatureMap { channels: 3, height, width });
        }
    }
}
