//! The gradients of 1x1 convolutions, whose maps are multiplied in the type that they are computed in.
//!
//! Both gradients read the gradient of the output, which an expansion makes many times as large as its input. So a piece of a sample is
//! taken for both while it is in the cache. It is copied there: rows of a map lie a whole plane apart, which tends to be a power of two, and
//! would compete for the same lines of the cache. Measured for the expansions of MobileNetV2 at 512x512 pixels on a Zen 3 processor, this
//! took 0.4 to 0.9 of the time of one gradient after the other, for all of whose pieces the map was read from memory.

use std::ops::Range;

use super::input_gradient::InputGradient;
use super::samples::sum_over_samples;
use super::shape::Dense;
use crate::cpu::factors::Part;
use crate::cpu::gemm::apart;
use crate::cpu::making::Making;
use crate::cpu::values::{Elements, Source, Stored};

/// Pixels of a piece.
pub(super) const PIXELS: usize = 1024;

/// Whether gradients are computed here: of 1x1 convolutions, unless their maps are multiplied as they are stored, in halves.
pub(super) fn serves(shape: &Dense, halved: bool) -> bool {
    shape.pointwise() && !halved
}

/// Pixels of a piece of these maps.
pub(super) fn piece(shape: &Dense) -> usize {
    PIXELS.min(shape.out_plane())
}

/// Numbers of the pieces of one sample.
pub(super) fn scratch(shape: &Dense) -> usize {
    (shape.input + shape.output) * apart(piece(shape))
}

/// The gradients of the input and of the weight `[output, input, 1, 1]`, for the gradient `dy` of the output.
pub(crate) fn backward<T: Stored>(
    x: Source<'_, T>,
    weight: &[T],
    dy: Source<'_, T>,
    shape: &Dense,
) -> (Elements<T>, Vec<T>) {
    let (threads, plane) = (shape.threads(), shape.out_plane());
    let of_input = InputGradient::new(shape, weight, false);
    let mut dx = Making::like(x, shape.batch * shape.in_sample());
    let samples = dx.parts(shape.in_sample()).into_iter().enumerate().collect();
    let dw = sum_over_samples(threads, shape.output * shape.input, samples, |(sample, dx), dw| {
        let mut dx = dx.begin(threads);
        let mut made = Vec::new();
        shape.add_pointwise(x, dy, sample, dw, |pixels, dy| {
            let Some(filters) = of_input.factor() else { return };
            dx.multiply_columns(plane, pixels, (filters, dy), &mut made, threads);
        });
    });
    (dx.made(), dw)
}

/// The gradient of the weight alone, with the same bits.
pub(super) fn backward_weight<T: Stored>(x: Source<'_, T>, dy: Source<'_, T>, shape: &Dense) -> Vec<T> {
    let samples = (0..shape.batch).collect();
    sum_over_samples(shape.threads(), shape.output * shape.input, samples, |sample, dw| {
        shape.add_pointwise(x, dy, sample, dw, |_, _| {});
    })
}

impl Dense {
    /// Adds the gradient of the weight in a sample to `dw`, and calls `with` for each piece of it with its pixels and the gradient of the
    /// output there.
    fn add_pointwise<T: Stored>(
        &self,
        x: Source<'_, T>,
        dy: Source<'_, T>,
        sample: usize,
        dw: &mut [T],
        mut with: impl FnMut(Range<usize>, Part<'_, T>),
    ) {
        let (threads, plane) = (self.threads(), self.out_plane());
        let (x, dy) = (x.chunk(sample, self.in_sample()), dy.chunk(sample, self.output * plane));
        let (mut from_x, mut from_dy) = (Vec::new(), Vec::new());
        for pixels in self.pieces(piece(self)) {
            let of_input = x.copied_factor(plane, pixels.clone(), &mut from_x, threads);
            let of_output = dy.copied_factor(plane, pixels.clone(), &mut from_dy, threads);
            of_output.add_product(dw, self.input, of_input.transposed(), threads);
            with(pixels, of_output);
        }
    }
}
