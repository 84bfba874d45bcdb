//! A convolution's filters as its products need them, prepared once for all samples.

use std::borrow::Cow;

use burn::tensor::DType;

use super::autodiff::announce;
use super::conv::Dense;
use super::winograd;

/// See the module.
pub(super) enum Filters<'a> {
    /// A row for each output channel.
    Rows(Cow<'a, [f32]>),
    /// For [`winograd::forward`].
    Transformed(winograd::Filters),
}

impl<'a> Filters<'a> {
    /// Of the convolution `shape` with `weight`, `[output, input, k, k]`.
    pub(super) fn new(shape: &Dense, weight: &'a [f32]) -> Self {
        if !winograd::serves(shape) {
            return Self::Rows(weight.into());
        }
        announce(winograd::Filters::size(shape.output, shape.input), DType::F32);
        Self::Transformed(winograd::Filters::new(weight, shape.output, shape.input))
    }

    /// Of the convolution that makes the input's gradient of the output's, with the same `weight`: input and output channels
    /// are exchanged, and the filters turned by half a circle.
    pub(super) fn turned(shape: &Dense, weight: &[f32]) -> Self {
        let (output, input) = (shape.output, shape.input);
        if winograd::serves(shape) {
            announce(winograd::Filters::size(output, input), DType::F32);
            return Self::Transformed(winograd::Filters::new(weight, output, input).turned());
        }
        announce(weight.len(), DType::F32);
        Self::Rows(turn(weight, output, input, shape.kernel * shape.kernel).into())
    }
}

/// `[output, input, taps]` to `[input, output, taps]`, the taps of each filter in reverse.
fn turn(weight: &[f32], output: usize, input: usize, taps: usize) -> Vec<f32> {
    let mut turned = vec![0.0; weight.len()];
    for (index, filter) in weight.chunks_exact(taps).enumerate() {
        let (of_output, of_input) = (index / input, index % input);
        let place = (of_input * output + of_output) * taps;
        for (to, from) in turned[place..place + taps].iter_mut().rev().zip(filter) {
            *to = *from;
        }
    }
    turned
}
