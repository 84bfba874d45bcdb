//! Maps of another size: interpolation and average pooling.

use burn::tensor::ops::{AvgPoolOptions, InterpolateMode, InterpolateOptions};
use burn::tensor::{Tensor, module};

use crate::trace::{Describe, FeatureMap, Op, Trace, Value};
use kindling_ops::{Interpolation, by_planes, reserve, resize, serves};

/// Nearest-neighbour upsampling: every pixel becomes a square of equal pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upsample {
    /// Side of the square.
    pub factor: usize,
}

impl Upsample {
    /// `[batch, channels, height, width]` to `[batch, channels, factor * height, factor * width]`.
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let [_, _, height, width] = x.dims();
        resized(x, [self.factor * height, self.factor * width], Interpolation::Nearest)
    }
}

/// `[batch, channels, height, width]` to `[batch, channels, size[0], size[1]]`, as [`Interpolation`] says.
///
/// # Panics
/// As [`kindling_ops::resize()`].
pub fn resized(x: Tensor<4>, size: [usize; 2], interpolation: Interpolation) -> Tensor<4> {
    let [batch, channels, ..] = x.dims();
    reserve::like(&x, batch * channels * size[0] * size[1]);
    if serves(&x) {
        return resize(x, size, interpolation);
    }
    let (mode, corners) = match interpolation {
        Interpolation::Nearest => (InterpolateMode::Nearest, false),
        Interpolation::Bilinear => (InterpolateMode::Bilinear, false),
        Interpolation::BilinearCorners => (InterpolateMode::Bilinear, true),
    };
    let options = InterpolateOptions::new(mode).with_align_corners(corners);
    by_planes(x, |x| module::interpolate(x, options.with_output_size(size)))
}

/// Adds a [`resized`] to the trace: as an upsampling where it repeats every pixel a whole number of times.
pub fn describe_resized(input: Value, size: [usize; 2], interpolation: Interpolation, trace: &mut Trace) -> Value {
    let FeatureMap { channels, height, width } = input.map;
    let factor = size[0].checked_div(height).unwrap_or(0);
    let even = factor > 0 && size == [factor * height, factor * width];
    let op = match interpolation {
        Interpolation::Nearest if even => Op::Upsample { factor },
        _ => Op::Resize { interpolation },
    };
    trace.push(op, &[input], FeatureMap { channels, height: size[0], width: size[1] }, 0)
}

impl Describe for Upsample {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let size = [self.factor * input.map.height, self.factor * input.map.width];
        describe_resized(input, size, Interpolation::Nearest, trace)
    }
}

/// The mean over windows that do not overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AveragePool {
    /// Side and stride.
    pub kernel: usize,
}

impl AveragePool {
    /// `[batch, channels, height, width]` to `[batch, channels, height / kernel, width / kernel]`.
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let options = AvgPoolOptions::new([self.kernel; 2]).with_stride([self.kernel; 2]);
        by_planes(x, |x| module::avg_pool2d(x, options))
    }
}

impl Describe for AveragePool {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let FeatureMap { channels, height, width } = input.map;
        let kernel = self.kernel;
        let output = FeatureMap { channels, height: height / kernel, width: width / kernel };
        trace.push(Op::AveragePool { kernel }, &[input], output, 0)
    }
}

/// The mean over each cell of a square grid over the map, as in PyTorch's `AdaptiveAvgPool2d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdaptiveAveragePool {
    /// Side of the grid.
    pub output: usize,
}

impl AdaptiveAveragePool {
    /// `[batch, channels, height, width]` to `[batch, channels, output, output]`.
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        by_planes(x, |x| module::adaptive_avg_pool2d(x, [self.output; 2]))
    }
}

impl Describe for AdaptiveAveragePool {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let Self { output } = *self;
        trace.push(Op::AdaptiveAveragePool { output }, &[input], FeatureMap::square(input.map.channels, output), 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    #[test]
    fn a_pixel_becomes_a_square_and_a_square_its_mean() {
        let x = Tensor::<4>::from_floats([[[[1.0, 2.0], [3.0, 5.0]]]], &Device::flex());
        let large = Upsample { factor: 2 }.forward(x.clone());
        let expected = [[[[1.0f32, 1.0, 2.0, 2.0], [1.0, 1.0, 2.0, 2.0], [3.0, 3.0, 5.0, 5.0], [3.0, 3.0, 5.0, 5.0]]]];
        large.clone().into_data().assert_eq(&expected.into(), true);
        AveragePool { kernel: 2 }.forward(large).into_data().assert_eq(&x.clone().into_data(), true);
        AveragePool { kernel: 2 }.forward(x).into_data().assert_eq(&[[[[2.75f32]]]].into(), true);
    }
}
