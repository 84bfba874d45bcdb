//! Dense convolution as matrix products.
//!
//! 1x1 filters are multiplied with the map as it is in memory, 3x3 filters go through [`super::winograd`], and for all others the
//! map is rearranged into tiles of columns (im2col). Where maps of bf16 are multiplied as they are stored, 3x3 filters are among these,
//! and with stride 1 no columns are made ([`super::strips`]).
//!
//! A tile holds, for some rows of output pixels, the input values under each tap of the kernel: `[input * k * k, pixels]`. The
//! filters times the tile are the output; the output's gradient times the transposed tile is the gradient of the filters. Only one
//! tile exists at a time, and it fits into the second-level cache, so the rearranged map never goes to main memory.

use std::ops::Range;

use rayon::prelude::*;

use super::filters::Filters;
use super::planes::Planes;
use super::pointwise;
use super::samples::{over_samples, sum_over_samples};
use super::shape::Dense;
use super::strips::{Channels, OfMap, Strips};
use super::winograd;
use crate::cpu::factors::{self, Part};
use crate::cpu::gemm::{IN_ONE_GO, Matrix, Threads};
use crate::cpu::lanes::vectorised;
use crate::cpu::making::Making;
use crate::cpu::real::Real;
use crate::cpu::tensors::Values;
use crate::cpu::values::{Elements, Source, Stored, Target};

/// Pixels of one product of the gradient of 1x1 filters with factors of bf16.
const PIXELS: usize = 8192;

/// A number that is copied to tiles. The default is zero.
trait Number: Copy + Default + Send + Sync {}

impl<E: Copy + Default + Send + Sync> Number for E {}

/// The tiles of one sample.
impl Dense {
    /// Calls `work` with each tile of a sample, as a matrix with a column for each of some pixels, and these pixels.
    fn over_tiles<E: Number>(&self, x: &[E], threads: Threads, mut work: impl FnMut(Matrix<'_, E>, Range<usize>)) {
        let mut tile = Vec::new();
        self.tiles(|first, rows, start, pixels| {
            tile.resize(self.fan() * pixels, E::default());
            self.gather(x, first, rows, &mut tile, threads);
            work(Matrix::of(&tile, self.fan(), pixels), start..start + pixels);
        });
    }

    /// [`Dense::over_tiles`] for a map of any format: `work` gets its numbers as they are stored if products have factors of bf16.
    fn over_factors<T: Stored>(
        &self,
        x: Source<'_, T>,
        threads: Threads,
        mut work: impl FnMut(Part<'_, T>, Range<usize>),
    ) {
        match x.halves() {
            Some(x) => self.over_tiles(x, threads, |tile, pixels| work(Part::Halves(tile), pixels)),
            None => {
                let mut wide = Vec::new();
                let x = x.read(&mut wide, threads);
                self.over_tiles(x, threads, |tile, pixels| work(Part::Wide(tile), pixels));
            }
        }
    }

    /// Fills a tile for `rows` rows of output pixels, beginning with row `first`.
    fn gather<E: Number>(&self, x: &[E], first: usize, rows: usize, tile: &mut [E], threads: Threads) {
        let (taps, plane) = (self.kernel * self.kernel, self.height * self.width);
        let fill = |(index, row): (usize, &mut [E])| {
            let (channel, tap) = (index / taps, index % taps);
            self.gather_tap(&x[channel * plane..][..plane], first, tap, row);
        };
        let lines = rows * self.out[1];
        match threads {
            Threads::All => tile.par_chunks_exact_mut(lines).enumerate().for_each(fill),
            Threads::One => tile.chunks_exact_mut(lines).enumerate().for_each(fill),
        }
    }

    /// Fills one row of a tile: the values under one tap for the output pixels from row `first` on. Pixels whose tap falls outside the
    /// map get zeros; the others are copied, whole rows at once where the stride allows it.
    fn gather_tap<E: Number>(&self, plane: &[E], first: usize, tap: usize, out: &mut [E]) {
        let width = self.out[1];
        let [tap_row, tap_column] = self.under(tap);
        let columns = self.columns(tap_column);
        let line_of = |row: usize| {
            ((first + row) * self.stride + tap_row).checked_sub(self.before[0]).filter(|line| *line < self.height)
        };
        let rows = out.len() / width;
        let inside = (0..rows).find(|row| line_of(*row).is_some()).unwrap_or(rows);
        let outside = (inside..rows).find(|row| line_of(*row).is_none()).unwrap_or(rows);
        out[..inside * width].fill(E::default());
        out[outside * width..].fill(E::default());
        let out = &mut out[inside * width..outside * width];
        let Some(line) = line_of(inside).filter(|_| !out.is_empty() && !columns.is_empty()) else {
            return out.fill(E::default());
        };
        let begin = line * self.width + columns.start * self.stride + tap_column - self.before[1];
        if self.stride == 1 && width == self.width {
            // The rows are contiguous, so copy all at once. Columns that came from the next or previous row get zeros below.
            let count = out.len() - columns.start - (width - columns.end);
            out[columns.start..][..count].copy_from_slice(&plane[begin..][..count]);
        } else {
            for (row, out) in out.chunks_exact_mut(width).enumerate() {
                every(self.stride, &plane[begin + row * self.stride * self.width..], &mut out[columns.clone()]);
            }
        }
        for out in out.chunks_exact_mut(width) {
            out[..columns.start].fill(E::default());
            out[columns.end..].fill(E::default());
        }
    }

    /// Adds a tile of gradients to the pixels that the tile's values came from (col2im).
    pub(crate) fn scatter<T: Real>(&self, dx: &mut [T], first: usize, rows: usize, tile: &[T], threads: Threads) {
        let width = self.out[1];
        let taps = self.kernel * self.kernel;
        let add = |(plane, tile): (&mut [T], &[T])| {
            for (tap, row) in tile.chunks_exact(rows * width).enumerate() {
                for (line, values) in row.chunks_exact(width).enumerate() {
                    let Some((at, columns, begin)) = self.meeting(first + line, tap) else { continue };
                    let target = &mut plane[at * self.width + begin..(at + 1) * self.width];
                    for (target, value) in target.iter_mut().step_by(self.stride).zip(&values[columns]) {
                        *target += *value;
                    }
                }
            }
        };
        let (plane, of_channel) = (self.height * self.width, taps * rows * width);
        match threads {
            Threads::All => dx.par_chunks_exact_mut(plane).zip(tile.par_chunks_exact(of_channel)).for_each(add),
            Threads::One => dx.chunks_exact_mut(plane).zip(tile.chunks_exact(of_channel)).for_each(add),
        }
    }
}

/// Copies every `stride`-th value.
fn every<E: Number>(stride: usize, values: &[E], out: &mut [E]) {
    match stride {
        1 => out.copy_from_slice(&values[..out.len()]),
        2 => vectorised(
            #[inline(always)]
            || {
                let (pairs, rest) = values.as_chunks::<2>();
                for (out, pair) in out.iter_mut().zip(pairs) {
                    *out = pair[0];
                }
                if let (Some(out), Some(value)) = (out.get_mut(pairs.len()), rest.first()) {
                    *out = *value;
                }
            },
        ),
        _ => out.iter_mut().zip(values.iter().step_by(stride)).for_each(|(out, value)| *out = *value),
    }
}

/// The passes for one sample.
impl Dense {
    /// Computes the output.
    pub(crate) fn forward<T: Stored>(&self, x: Source<'_, T>, filters: &Filters<'_, T>, mut y: Target<'_, T>) {
        let (plane, threads) = (self.out_plane(), self.threads());
        if let Filters::Transformed(filters) = filters {
            return winograd::forward(self, x, filters, y);
        }
        if self.forward_in_strips(&OfMap { map: x, plane: self.height * self.width }, filters, &mut y) {
            return;
        }
        let Some(filters) = filters.factor(self) else { return };
        if self.pointwise() {
            return self.product(filters, x, y);
        }
        let mut made = Vec::new();
        self.over_factors(x, threads, |tile, pixels| {
            y.multiply_columns(plane, pixels, (filters, tile), &mut made, threads);
        });
    }

    /// Computes the output from strips of a map, if the filters are prepared for that. Returns whether they are.
    pub(crate) fn forward_in_strips<T: Stored>(
        &self,
        x: &dyn Channels,
        filters: &Filters<'_, T>,
        y: &mut impl Planes<T>,
    ) -> bool {
        let (Filters::Taps(filters), Some(strips)) = (filters, Strips::of(self)) else { return false };
        strips.forward(x, filters, y);
        true
    }

    /// Whether [`Dense::forward_in_strips`] computes the output with these filters.
    pub(crate) fn is_in_strips<T: Stored>(&self, filters: &Filters<'_, T>) -> bool {
        matches!(filters, Filters::Taps(_)) && Strips::of(self).is_some()
    }

    /// Adds the gradient of the weight to `dw` by products with factors of bf16, from strips of both maps, if this convolution is
    /// computed in them. Returns whether it is.
    pub(crate) fn backward_weight_in_strips<T: Stored>(
        &self,
        x: &dyn Channels,
        dy: Source<'_, T>,
        dw: &mut [T],
    ) -> bool {
        let strips = Strips::of(self);
        if let Some(strips) = &strips {
            strips.add_gradient(x, &OfMap { map: dy, plane: self.out_plane() }, dw);
        }
        strips.is_some()
    }

    /// The product of filters and the pixels of a map, which has a column for each pixel of a plane, in pieces.
    pub(crate) fn product<T: Stored>(&self, filters: factors::Filters<'_, T>, x: Source<'_, T>, mut y: Target<'_, T>) {
        let (plane, threads) = (self.out_plane(), self.threads());
        let (mut wide, mut made) = (Vec::new(), Vec::new());
        let multiplied = |pixels: Range<usize>| {
            let columns = x.factor(plane, pixels.clone(), &mut wide, threads);
            y.multiply_columns(plane, pixels, (filters, columns), &mut made, threads);
        };
        if x.widens() {
            self.pieces_of_both(plane).for_each(multiplied);
        } else {
            self.pieces(self.columns_at_once()).for_each(multiplied);
        }
    }

    /// Columns of a product of whole maps that are computed at a time. One thread takes as many as stay in its cache, unless that would change
    /// the order of a sum ([`IN_ONE_GO`]). All threads together take all.
    fn columns_at_once(&self) -> usize {
        let keeps_order = self.input.max(self.output) <= IN_ONE_GO && self.out_plane() % pointwise::PIXELS != 1;
        if self.threads() == Threads::One && keeps_order { pointwise::PIXELS } else { self.out_plane() }
    }

    /// Adds the gradient of the weight to `dw`.
    pub(crate) fn backward_weight<T: Stored>(&self, x: Source<'_, T>, dy: Source<'_, T>, dw: &mut [T]) {
        if winograd::serves(self, dy.multiplies_halves()) {
            return winograd::backward_weight(self, x, dy, dw);
        }
        let planes = OfMap { map: x, plane: self.height * self.width };
        if (x.multiplies_halves() || dy.multiplies_halves()) && self.backward_weight_in_strips(&planes, dy, dw) {
            return;
        }
        let (plane, threads) = (self.out_plane(), self.threads());
        let (mut wide, mut made) = (Vec::new(), Vec::new());
        if self.pointwise() {
            for pixels in self.pieces(PIXELS) {
                let of_output = dy.factor(plane, pixels.clone(), &mut made, threads);
                let of_input = x.factor(plane, pixels, &mut wide, threads);
                of_output.add_product(dw, self.fan(), of_input.transposed(), threads);
            }
            return;
        }
        self.over_factors(x, threads, |tile, pixels| {
            let of_output = dy.factor(plane, pixels, &mut made, threads);
            of_output.add_product(dw, self.fan(), tile.transposed(), threads);
        });
    }
}

/// The output for a map `[batch, input, height, width]` and weights `[output, input, k, k]`.
pub(crate) fn forward<T: Stored>(x: Source<'_, T>, weight: &Values<T>, shape: &Dense) -> Elements<T> {
    let of_sample = shape.output * shape.out_plane();
    let mut y = Making::like(x, shape.batch * of_sample);
    let filters = Filters::new(shape, weight, x.multiplies_halves());
    let (threads, samples) = (shape.threads(), y.parts(of_sample).into_iter().enumerate().collect());
    over_samples(threads, samples, |(sample, y)| {
        shape.forward(x.chunk(sample, shape.in_sample()), &filters, y.begin(threads));
    });
    y.made()
}

/// The gradient of the weight for the gradient `dy` of the output: `[output, input, k, k]`.
pub(crate) fn backward_weight<T: Stored>(x: Source<'_, T>, dy: Source<'_, T>, shape: &Dense) -> Vec<T> {
    if pointwise::serves(shape, dy.multiplies_halves()) {
        return pointwise::backward_weight(x, dy, shape);
    }
    let samples = (0..shape.batch).collect();
    sum_over_samples(shape.threads(), shape.output * shape.fan(), samples, |sample, dw| {
        let dy = dy.chunk(sample, shape.output * shape.out_plane());
        shape.backward_weight(x.chunk(sample, shape.in_sample()), dy, dw);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Includes tiles of one row, which wide layers have and which may lie outside the map entirely.
    #[test]
    fn a_tile_holds_the_values_under_each_kernel_position_whatever_rows_it_has() {
        for (case, (height, width)) in [(5, 7), (1, 1), (2, 9), (8, 3), (6, 6)].into_iter().enumerate() {
            let steps = [
                (1, 2, 1),
                (2, 1, 1),
                (3, 1, 1),
                (3, 2, 1),
                (5, 1, 1),
                (5, 2, 1),
                (7, 2, 1),
                (3, 3, 1),
                (3, 1, 2),
                (3, 2, 3),
            ];
            for (kernel, stride, dilation) in steps {
                let reach: usize = (kernel - 1) * dilation;
                let before = [reach / 2, reach.div_ceil(2)];
                let out = [height, width].map(|size: usize| size.div_ceil(stride));
                let shape =
                    Dense { batch: 1, input: 2, output: 1, height, width, kernel, stride, dilation, before, out };
                let x: Vec<f32> = (0..2 * height * width).map(|at| (at + case + 1) as f32).collect();
                let value = |channel: usize, row: usize, column: usize, tap: usize| {
                    let line =
                        (row * stride + tap / kernel * dilation).checked_sub(before[0]).filter(|line| *line < height);
                    let at =
                        (column * stride + tap % kernel * dilation).checked_sub(before[1]).filter(|at| *at < width);
                    line.zip(at).map_or(0.0, |(line, at)| x[(channel * height + line) * width + at])
                };
                for first in 0..out[0] {
                    for rows in 1..=out[0] - first {
                        let mut tile = vec![f32::NAN; shape.fan() * rows * out[1]];
                        shape.gather(&x, first, rows, &mut tile, Threads::One);
                        for (place, found) in tile.iter().enumerate() {
                            let (index, pixel) = (place / (rows * out[1]), place % (rows * out[1]));
                            let (channel, tap) = (index / (kernel * kernel), index % (kernel * kernel));
                            let expected = value(channel, first + pixel / out[1], pixel % out[1], tap);
                            assert_eq!(*found, expected, "{shape:?}, {rows} rows from {first}, place {place}");
                        }
                    }
                }
            }
        }
    }
}
