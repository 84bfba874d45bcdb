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
use kindling_ops::{self as ops, Again, Convolution, Places, plain, room};

/// Configuration of a [`Conv`]: square kernel, no bias.
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
    /// Pixels from one place of the kernel to the next, 1 or more.
    pub dilation: usize,
    /// One filter a channel instead of all channels to all.
    pub depthwise: bool,
    /// Zeros around the image.
    pub padding: Padding,
}

impl ConvConfig {
    /// All channels to all, with a kernel of this side; symmetric padding.
    pub fn dense(input: usize, output: usize, kernel: usize, stride: usize) -> Self {
        Self { input, output, kernel, stride, dilation: 1, depthwise: false, padding: Padding::Symmetric }
    }

    /// All channels to all, pixel by pixel.
    pub fn pointwise(input: usize, output: usize) -> Self {
        Self::dense(input, output, 1, 1)
    }

    /// One filter a channel; symmetric padding.
    pub fn depthwise(channels: usize, kernel: usize, stride: usize) -> Self {
        Self { depthwise: true, ..Self::dense(channels, channels, kernel, stride) }
    }

    /// The same with another padding.
    pub fn padded(self, padding: Padding) -> Self {
        Self { padding, ..self }
    }

    /// The same with the kernel's places so many pixels apart: it reaches as far as a kernel of `(kernel - 1) * dilation + 1`.
    pub fn dilated(self, dilation: usize) -> Self {
        Self { dilation, ..self }
    }

    /// A layer whose weights are zero until [`crate::init::initialise`] or a weights file fills them.
    ///
    /// # Panics
    /// If the kernel is even, stride or dilation is 0, or a depthwise layer changes the number of channels.
    pub fn init(&self, device: &Device) -> Conv {
        assert!(self.kernel % 2 == 1 && self.stride > 0, "kernel {} stride {}", self.kernel, self.stride);
        assert!(self.dilation > 0, "the places of a kernel are 1 pixel apart or more");
        assert!(!self.depthwise || self.input == self.output, "a depthwise convolution keeps its channels");
        let fan = if self.depthwise { 1 } else { self.input };
        Conv {
            weight: zeros_when_read([self.output, fan, self.kernel, self.kernel], device),
            stride: self.stride,
            dilation: self.dilation,
            depthwise: self.depthwise,
            padding: self.padding,
        }
    }
}

/// A convolution, `[batch, input, height, width]` to `[batch, output, ceil(height / stride), ceil(width / stride)]`.
#[derive(Module, Debug)]
pub struct Conv {
    /// `[output, input, kernel, kernel]`, or `[channels, 1, kernel, kernel]` if depthwise.
    pub weight: Param<Tensor<4>>,
    stride: usize,
    dilation: usize,
    depthwise: bool,
    #[module(skip)]
    padding: Padding,
}

impl Conv {
    /// Convolves a batch. The output has the format of `x`.
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        self.read(x.into())
    }

    /// The same for a map that need not be whole.
    pub fn read(&self, x: Map) -> Tensor<4> {
        let own = !self.depthwise || ops::depthwise_kernel(self.weight.dims()[2]);
        precision::assert_fits(&self.weight.val(), x.tensor());
        match x.0 {
            Content::Unread(map) if own => {
                self.announce(&map.x, 1);
                let convolution = self.convolution(map.x.dims());
                map.convolved(self.weight.val(), convolution)
            }
            Content::Whole(x) if own && ops::serves(&x) => {
                self.announce(&x, 1);
                let convolution = self.convolution(x.dims());
                ops::conv(x, self.weight.val(), convolution)
            }
            other => self.forward_with_burns_operation(Map(other).whole(), self.weight.val(), None),
        }
    }

    /// How the convolution of this map is made again, outside any gradient graph.
    pub(crate) fn again(&self, x: &Map) -> Again {
        let x = x.detached();
        let conv = Self { weight: Param::from_tensor(plain(self.weight.val())), ..self.clone() };
        Again(Arc::new(move || conv.read(x.clone())))
    }

    /// The convolution by Burn's operation, each output channel times its `scale` plus its `shift`, both `[output]`.
    pub(crate) fn forward_scaled(&self, x: Tensor<4>, scale: Tensor<1>, shift: Tensor<1>) -> Tensor<4> {
        let [channels, ..] = self.weight.dims();
        let weight = self.weight.val() * scale.reshape([channels, 1, 1, 1]);
        self.forward_with_burns_operation(x, weight, Some(shift))
    }

    fn forward_with_burns_operation(&self, x: Tensor<4>, weight: Tensor<4>, bias: Option<Tensor<1>>) -> Tensor<4> {
        // Burn's CPU backend makes the output, and then copies it.
        self.announce(&x, 2);
        let (weight, bias) = (precision::like(weight, &x), bias.map(|bias| precision::like(bias, &x)));
        let [channels, _, kernel, _] = weight.dims();
        let [.., height, width] = x.dims();
        let zeros = self.zeros(height, width, kernel);
        let groups = if self.depthwise { channels } else { 1 };
        let (x, padding) = if zeros.before == zeros.after { (x, zeros.before) } else { (pad(x, zeros), [0; 2]) };
        module::conv2d(x, weight, bias, ConvOptions::new([self.stride; 2], padding, [self.dilation; 2], groups))
    }

    fn convolution(&self, [.., height, width]: [usize; 4]) -> Convolution {
        let Self { stride, dilation, .. } = *self;
        let before = self.zeros(height, width, self.weight.dims()[2]).before;
        let places = Places { stride, dilation, before, out: [height.div_ceil(stride), width.div_ceil(stride)] };
        if self.depthwise { Convolution::Depthwise(places) } else { Convolution::Dense(places) }
    }

    /// Zeros around a map, for a kernel of this side.
    fn zeros(&self, height: usize, width: usize, kernel: usize) -> Zeros {
        self.padding.of_map(height, width, (kernel - 1) * self.dilation + 1, self.stride)
    }

    /// Announces some maps of the output's shape.
    fn announce(&self, x: &Tensor<4>, maps: usize) {
        let ([channels, ..], [batch, _, height, width]) = (self.weight.dims(), x.dims());
        let pixels = height.div_ceil(self.stride) * width.div_ceil(self.stride);
        room::announce_like(x, maps * batch * channels * pixels);
    }
}

/// Zeros that differ from side to side, which Burn's convolution does not know.
fn pad(x: Tensor<4>, zeros: Zeros) -> Tensor<4> {
    let ([top, left], [bottom, right]) = (zeros.before, zeros.after);
    x.pad((left, right, top, bottom), PadMode::Constant(0.0))
}

impl Describe for Conv {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let [channels, fan, kernel, _] = self.weight.lazy_shape().dims();
        let FeatureMap { height, width, .. } = input.map;
        let stride = self.stride;
        let output = FeatureMap { channels, height: height.div_ceil(stride), width: width.div_ceil(stride) };
        let op = Op::Conv {
            kernel,
            stride,
            dilation: self.dilation,
            groups: if self.depthwise { channels } else { 1 },
            padding: self.zeros(height, width, kernel),
        };
        trace.push(op, &[input], output, (channels * fan * kernel * kernel) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Distribution, Tolerance};

    #[test]
    fn a_dilated_convolution_is_burns_and_keeps_the_map_s_size() {
        let device = Device::flex();
        let x = Tensor::<4>::random([2, 6, 11, 14], Distribution::Normal(0.0, 1.0), &device);
        let dense = ConvConfig::dense(6, 4, 3, 1);
        for config in
            [dense, ConvConfig::depthwise(6, 5, 1), ConvConfig::depthwise(6, 3, 2), dense.padded(Padding::Same)]
        {
            let layer = crate::init::initialise(config.dilated(3).init(&device), 5);
            let y = layer.forward(x.clone());
            assert_eq!(y.dims(), [2, config.output, 11usize.div_ceil(config.stride), 14usize.div_ceil(config.stride)]);
            let burns = layer.forward_with_burns_operation(x.clone(), layer.weight.val(), None);
            y.into_data().assert_approx_eq::<f32>(&burns.into_data(), Tolerance::absolute(1e-5));
        }
    }
}
