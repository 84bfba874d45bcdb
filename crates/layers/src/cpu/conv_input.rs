//! The gradient of a dense convolution's input.
//!
//! With stride 1 it is itself a convolution: of the output's gradient, with the filters turned by half a circle and input
//! and output channels exchanged. It is computed as one. With larger strides the gradients of a tile of columns are added
//! back to where its values came from.

use std::borrow::Cow;

use burn::tensor::DType;

use super::autodiff::announce;
use super::conv::{Dense, over_samples};
use super::gemm::{Matrix, Mode, multiply};

/// How the gradient is computed, prepared for all samples.
pub(super) struct InputGradient<'a> {
    shape: Dense,
    /// The convolution of the output's gradient, if it is one; then the filters are its own.
    turned: Option<Dense>,
    filters: Cow<'a, [f32]>,
}

impl<'a> InputGradient<'a> {
    /// For filters `[output, input, k, k]`.
    pub(super) fn new(shape: &Dense, weight: &'a [f32]) -> Self {
        match shape.turned() {
            Some(turned) => {
                announce(weight.len(), DType::F32);
                let filters = turn(weight, shape.output, shape.input, shape.kernel * shape.kernel);
                Self { shape: *shape, turned: Some(turned), filters: filters.into() }
            }
            None => Self { shape: *shape, turned: None, filters: weight.into() },
        }
    }

    /// Of one sample, written over the zeros in `dx`.
    pub(super) fn of_sample(&self, dy: &[f32], dx: &mut [f32]) {
        let Self { shape, turned, filters } = self;
        if let Some(turned) = turned {
            return turned.forward(dy, filters, dx);
        }
        let (plane, threads) = (shape.out_plane(), shape.threads());
        let filters = Matrix::of(filters, shape.output, shape.fan()).transposed();
        if shape.pointwise() {
            return multiply(dx, plane, Mode::Replace, filters, Matrix::of(dy, shape.output, plane), threads);
        }
        let mut tile = Vec::new();
        shape.tiles(|first, rows, start, pixels| {
            tile.resize(shape.fan() * pixels, 0.0);
            let of_pixels = Matrix::of_rows(&dy[start..], shape.output, pixels, plane);
            multiply(&mut tile, pixels, Mode::Replace, filters, of_pixels, threads);
            shape.scatter(dx, first, rows, &tile, threads);
        });
    }
}

impl Dense {
    /// The convolution that makes the input's gradient of the output's.
    fn turned(&self) -> Option<Self> {
        let whole = self.before.iter().all(|before| *before < self.kernel);
        (self.kernel > 1 && self.stride == 1 && whole).then(|| Self {
            batch: self.batch,
            input: self.output,
            output: self.input,
            height: self.out[0],
            width: self.out[1],
            kernel: self.kernel,
            stride: 1,
            before: self.before.map(|before| self.kernel - 1 - before),
            out: [self.height, self.width],
        })
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

/// The gradient of the input for the gradient `dy` of the output.
pub(super) fn backward_input(dy: &[f32], weight: &[f32], shape: &Dense) -> Vec<f32> {
    let mut dx = vec![0.0; shape.batch * shape.in_sample()];
    let gradient = InputGradient::new(shape, weight);
    let of_outputs = dy.chunks_exact(shape.output * shape.out_plane());
    let samples = dx.chunks_exact_mut(shape.in_sample()).zip(of_outputs).collect();
    over_samples(shape.threads(), samples, |(dx, dy)| gradient.of_sample(dy, dx));
    dx
}
