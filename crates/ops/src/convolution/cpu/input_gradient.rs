//! The gradient of a dense convolution's input.
//!
//! With stride 1 it is itself a convolution: of the output's gradient, with the filters turned by half a circle and input
//! and output channels exchanged. It is computed as one. With larger strides the gradients of a tile of columns are added
//! back to where its values came from.

use super::dense::{Dense, over_samples};
use super::filters::Filters;
use crate::cpu::gemm::{Matrix, Mode, multiply};
use crate::cpu::real::Real;

/// How the gradient is computed, prepared for all samples.
pub(crate) struct InputGradient<'a, T: Clone> {
    shape: Dense,
    how: How<'a, T>,
}

enum How<'a, T: Clone> {
    /// As a convolution of the output's gradient, with filters of its own.
    Convolution(Dense, Filters<'a, T>),
    /// By the products with these filters' columns.
    Columns(&'a [T]),
}

impl<'a, T: Real> InputGradient<'a, T> {
    /// For filters `[output, input, k, k]`.
    pub(crate) fn new(shape: &Dense, weight: &'a [T]) -> Self {
        let how = match shape.turned() {
            Some(turned) => How::Convolution(turned, Filters::turned(shape, weight)),
            None => How::Columns(weight),
        };
        Self { shape: *shape, how }
    }

    /// Of one sample, written over the zeros in `dx`.
    pub(crate) fn of_sample(&self, dy: &[T], dx: &mut [T]) {
        let shape = &self.shape;
        let filters = match &self.how {
            How::Convolution(turned, filters) => return turned.forward(dy, filters, dx),
            How::Columns(filters) => *filters,
        };
        let (plane, threads) = (shape.out_plane(), shape.threads());
        let filters = Matrix::of(filters, shape.output, shape.fan()).transposed();
        if shape.pointwise() {
            return multiply(dx, plane, Mode::Replace, filters, Matrix::of(dy, shape.output, plane), threads);
        }
        let mut tile = Vec::new();
        shape.tiles(|first, rows, start, pixels| {
            tile.resize(shape.fan() * pixels, T::of(0.0));
            let of_pixels = Matrix::of_rows(&dy[start..], shape.output, pixels, plane);
            multiply(&mut tile, pixels, Mode::Replace, filters, of_pixels, threads);
            shape.scatter(dx, first, rows, &tile, threads);
        });
    }
}

impl Dense {
    /// The convolution that makes the input's gradient of the output's.
    pub(crate) fn turned(&self) -> Option<Self> {
        let reach = (self.kernel - 1) * self.dilation;
        let whole = self.before.iter().all(|before| *before <= reach);
        (self.kernel > 1 && self.stride == 1 && whole).then(|| Self {
            batch: self.batch,
            input: self.output,
            output: self.input,
            height: self.out[0],
            width: self.out[1],
            kernel: self.kernel,
            stride: 1,
            dilation: self.dilation,
            before: self.before.map(|before| reach - before),
            out: [self.height, self.width],
        })
    }
}

/// The gradient of the input for the gradient `dy` of the output.
pub(crate) fn backward_input<T: Real>(dy: &[T], weight: &[T], shape: &Dense) -> Vec<T> {
    let mut dx = vec![T::of(0.0); shape.batch * shape.in_sample()];
    let gradient = InputGradient::new(shape, weight);
    let of_outputs = dy.chunks_exact(shape.output * shape.out_plane());
    let samples = dx.chunks_exact_mut(shape.in_sample()).zip(of_outputs).collect();
    over_samples(shape.threads(), samples, |(dx, dy)| gradient.of_sample(dy, dx));
    dx
}
