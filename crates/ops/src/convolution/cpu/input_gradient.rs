//! The gradient of the input of a dense convolution.
//!
//! With stride 1 it is itself a convolution, and computed as one: of the output's gradient, with filters rotated by 180 degrees and
//! input and output channels exchanged. With larger strides, the filters times the output's gradient give the gradient of a tile of
//! columns, whose values are added to the pixels that they came from, or with a single tap simply put there.

use super::filters::Filters;
use super::samples::over_samples;
use super::shape::Dense;
use super::strips::OfMap;
use crate::cpu::bits::{Bits, round_over};
use crate::cpu::factors;
use crate::cpu::gemm::{Matrix, Mode, Threads};
use crate::cpu::gemm_bf16::Left;
use crate::cpu::making::Making;
use crate::cpu::values::{Before, Elements, Source, Stored, Target};

/// The way the gradient is computed, with filters prepared for all samples.
pub(crate) struct InputGradient<'a, T: Clone> {
    shape: Dense,
    how: How<'a, T>,
}

enum How<'a, T: Clone> {
    /// As a convolution of the output's gradient, with these filters.
    Convolution(Dense, Filters<'a, T>),
    /// By tiles of columns, with the filters as they are.
    Columns(&'a [T]),
    /// By tiles of columns, with the filters rounded to bf16 and packed, a row for each place under the kernel.
    Packed(Left),
}

impl<'a, T: Stored> InputGradient<'a, T> {
    /// Prepares the gradient for filters `[output, input, k, k]`. `halved` says whether its products have factors of bf16.
    pub(crate) fn new(shape: &Dense, weight: &'a [T], halved: bool) -> Self {
        let how = match shape.turned() {
            Some(turned) => How::Convolution(turned, Filters::turned(shape, &turned, weight, halved)),
            None if halved => How::Packed(factors::packed(columns(shape, weight))),
            None => How::Columns(weight),
        };
        Self { shape: *shape, how }
    }

    /// What the output's gradient is multiplied with if this is not a convolution of it: a matrix with a row for each place under the
    /// kernel.
    pub(crate) fn factor(&self) -> Option<factors::Filters<'_, T>> {
        match &self.how {
            How::Convolution(..) => None,
            How::Columns(filters) => Some(factors::Filters::Plain(columns(&self.shape, filters))),
            How::Packed(left) => Some(factors::Filters::Packed(left)),
        }
    }

    /// Computes the gradient of one sample from strips of the output's, if that is how it is computed. Returns whether it is.
    pub(crate) fn in_strips(&self, dy: Source<'_, T>, dx: &mut Target<'_, T>) -> bool {
        let How::Convolution(turned, filters) = &self.how else { return false };
        turned.forward_in_strips(&OfMap { map: dy, plane: self.shape.out_plane() }, filters, dx)
    }

    /// Computes the gradient of one sample into `dx`, which must hold zeros.
    pub(crate) fn of_sample(&self, dy: Source<'_, T>, mut dx: Target<'_, T>) {
        let shape = &self.shape;
        if let How::Convolution(turned, filters) = &self.how {
            return turned.forward(dy, filters, dx);
        }
        let Some(filters) = self.factor() else { return };
        if shape.pointwise() {
            return shape.product(filters, dy, dx);
        }
        if shape.spreads()
            && let Target::Halves(dx) = &mut dx
        {
            return self.spread(filters, dy, dx);
        }
        let threads = shape.threads();
        dx.write(&mut Vec::new(), Before::Zeros, threads, |dx| {
            self.over_tiles(filters, dy, |first, rows, tile| shape.scatter(dx, first, rows, tile, threads));
        });
    }

    /// Calls `work` with the gradient of each tile of columns, its first row and how many there are.
    fn over_tiles(
        &self,
        filters: factors::Filters<'_, T>,
        dy: Source<'_, T>,
        mut work: impl FnMut(usize, usize, &[T]),
    ) {
        let (shape, threads, mut tile, mut wide) = (&self.shape, self.shape.threads(), Vec::new(), Vec::new());
        shape.tiles(|first, rows, start, pixels| {
            tile.resize(shape.fan() * pixels, T::of(0.0));
            let of_pixels = dy.factor(shape.out_plane(), start..start + pixels, &mut wide, threads);
            filters.multiply(&mut tile, pixels, Mode::Replace, of_pixels, threads);
            work(first, rows, &tile);
        });
    }

    /// The gradient of one sample, in a half format, where each pixel has one tap or none ([`Dense::spreads`]).
    fn spread(&self, filters: factors::Filters<'_, T>, dy: Source<'_, T>, dx: &mut Bits<'_>) {
        let Dense { height, width, stride, out: [_, columns], .. } = self.shape;
        let (threads, half) = (self.shape.threads(), dx.half());
        self.over_tiles(filters, dy, |first, rows, tile| {
            let [from, to] = [first, first + rows].map(|row| (row * stride).min(height) * width);
            dx.fill_columns(height * width, from..to, threads, |channel, dx| {
                let mut bits = vec![0; columns];
                let lines = tile.chunks_exact(columns).skip(channel * rows);
                for (tile, dx) in lines.zip(dx.chunks_mut(stride * width)) {
                    round_over(half, tile, &mut bits, Threads::One);
                    dx[..width].iter_mut().step_by(stride).zip(&bits).for_each(|(dx, bits)| *dx = *bits);
                }
            });
        });
    }
}

/// Filters `[output, input, k, k]` as a matrix with a row for each place under the kernel.
fn columns<'a, T>(shape: &Dense, weight: &'a [T]) -> Matrix<'a, T> {
    Matrix::of(weight, shape.output, shape.fan()).transposed()
}

impl Dense {
    /// Whether the kernel has one tap and steps over pixels, all of which are under it or between those that are.
    pub(crate) fn spreads(&self) -> bool {
        let [rows, columns] = self.out.map(|size| size * self.stride);
        self.kernel == 1 && self.stride > 1 && self.before == [0; 2] && rows >= self.height && columns >= self.width
    }

    /// The convolution that computes the gradient of the input from that of the output, if there is one.
    pub(crate) fn turned(&self) -> Option<Self> {
        let reach = self.reach();
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
pub(crate) fn backward_input<T: Stored>(dy: Source<'_, T>, weight: &[T], shape: &Dense) -> Elements<T> {
    let mut dx = Making::like(dy, shape.batch * shape.in_sample());
    let gradient = InputGradient::new(shape, weight, dy.multiplies_halves());
    let (threads, samples) = (shape.threads(), dx.parts(shape.in_sample()).into_iter().enumerate().collect());
    over_samples(threads, samples, |(sample, dx)| {
        gradient.of_sample(dy.chunk(sample, shape.output * shape.out_plane()), dx.begin(threads));
    });
    dx.made()
}
