//! Dense convolution as matrix products: pointwise on the maps as they lie, 3x3 filters by [`super::winograd`], others on tiles
//! of columns.
//!
//! A tile holds, for some rows of output pixels, the input values under each kernel position: `[input * k * k, pixels]`.
//! Its product with the filters is the output, and the product of the output's gradient with the tile's transpose is the
//! filters' gradient. A tile stays in the second cache.

use rayon::prelude::*;

use super::filters::Filters;
use super::winograd;
use crate::cpu::announce;
use crate::cpu::gemm::{Matrix, Mode, Threads, multiply};
use crate::cpu::lanes::vectorised;
use crate::cpu::real::Real;

/// Bytes a tile should not exceed.
const TILE: usize = 1 << 20;
/// Pixels that the matrix product's kernel for the widest registers takes at a time.
const BLOCK: usize = 64;
/// Bytes of a piece of a map: it stays in the second cache.
const PIECE: usize = 1 << 20;
/// Pixels of a piece at least, and in multiples.
const PIECE_PIXELS: usize = 256;
/// Pixels of a product that adds up a pointwise filter's gradient.
const PIXELS: usize = 8192;

/// The shapes of one convolution.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dense {
    pub(crate) batch: usize,
    pub(crate) input: usize,
    pub(crate) output: usize,
    pub(crate) height: usize,
    pub(crate) width: usize,
    pub(crate) kernel: usize,
    pub(crate) stride: usize,
    pub(crate) dilation: usize,
    /// Zeros above and to the left; below and to the right there are as many as the output needs.
    pub(crate) before: [usize; 2],
    /// Height and width of the output.
    pub(crate) out: [usize; 2],
}

impl Dense {
    pub(crate) fn pointwise(&self) -> bool {
        self.kernel == 1 && self.stride == 1 && self.before == [0; 2] && self.out == [self.height, self.width]
    }

    pub(crate) fn input_shape(&self) -> [usize; 4] {
        [self.batch, self.input, self.height, self.width]
    }

    pub(crate) fn output_shape(&self) -> [usize; 4] {
        [self.batch, self.output, self.out[0], self.out[1]]
    }

    pub(crate) fn in_sample(&self) -> usize {
        self.input * self.height * self.width
    }

    pub(crate) fn out_plane(&self) -> usize {
        self.out[0] * self.out[1]
    }

    /// Rows of a tile, and of the filters: input values under the kernel.
    pub(crate) fn fan(&self) -> usize {
        self.input * self.kernel * self.kernel
    }

    /// Rows of output pixels in a tile: as many as it should hold, and up to three more where that makes whole blocks of
    /// pixels, for what is left over is slower.
    fn tile_rows(&self) -> usize {
        let [height, width] = self.out.map(|size| size.max(1));
        let fitting = (TILE / size_of::<f32>() / (self.fan() * width).max(1)).max(1);
        let whole = (fitting..fitting + 4).find(|rows| (rows * width).is_multiple_of(BLOCK));
        whole.unwrap_or(fitting).min(height)
    }

    /// Numbers in a tile.
    pub(crate) fn tile(&self) -> usize {
        if self.pointwise() { 0 } else { self.fan() * self.tile_rows() * self.out[1] }
    }

    /// How many pixels a pointwise convolution of a map takes at a time that is made for it piece by piece. It does not depend on
    /// batch or threads.
    pub(crate) fn piece(&self) -> usize {
        let pixels = PIECE / size_of::<f32>() / self.input.max(1);
        (pixels - pixels % PIECE_PIXELS).max(PIECE_PIXELS).min(self.out_plane())
    }

    /// Samples are spread over the threads where there are enough of them, and computed by all threads otherwise.
    pub(crate) fn threads(&self) -> Threads {
        if self.batch < rayon::current_num_threads() { Threads::All } else { Threads::One }
    }

    /// Fills a tile for `rows` rows of output pixels from `first` on.
    fn gather<T: Real>(&self, x: &[T], first: usize, rows: usize, tile: &mut [T], threads: Threads) {
        let (taps, plane) = (self.kernel * self.kernel, self.height * self.width);
        let fill = |(index, row): (usize, &mut [T])| {
            let (channel, tap) = (index / taps, index % taps);
            self.gather_tap(&x[channel * plane..][..plane], first, tap, row);
        };
        let lines = rows * self.out[1];
        match threads {
            Threads::All => tile.par_chunks_exact_mut(lines).enumerate().for_each(fill),
            Threads::One => tile.chunks_exact_mut(lines).enumerate().for_each(fill),
        }
    }

    /// The values of some rows of output pixels, from `first` on, under one kernel position.
    fn gather_tap<T: Real>(&self, plane: &[T], first: usize, tap: usize, out: &mut [T]) {
        let width = self.out[1];
        let [tap_row, tap_column] = self.under(tap);
        let columns = self.columns(tap_column);
        let line_of = |row: usize| {
            ((first + row) * self.stride + tap_row).checked_sub(self.before[0]).filter(|line| *line < self.height)
        };
        let rows = out.len() / width;
        let inside = (0..rows).find(|row| line_of(*row).is_some()).unwrap_or(rows);
        let outside = (inside..rows).find(|row| line_of(*row).is_none()).unwrap_or(rows);
        out[..inside * width].fill(T::of(0.0));
        out[outside * width..].fill(T::of(0.0));
        let out = &mut out[inside * width..outside * width];
        let Some(line) = line_of(inside).filter(|_| !out.is_empty() && !columns.is_empty()) else {
            return out.fill(T::of(0.0));
        };
        let begin = line * self.width + columns.start * self.stride + tap_column - self.before[1];
        if self.stride == 1 && width == self.width {
            // All rows at once; what comes from the row before or after is written over with zeros.
            let count = out.len() - columns.start - (width - columns.end);
            out[columns.start..][..count].copy_from_slice(&plane[begin..][..count]);
        } else {
            for (row, out) in out.chunks_exact_mut(width).enumerate() {
                every(self.stride, &plane[begin + row * self.stride * self.width..], &mut out[columns.clone()]);
            }
        }
        for out in out.chunks_exact_mut(width) {
            out[..columns.start].fill(T::of(0.0));
            out[columns.end..].fill(T::of(0.0));
        }
    }

    /// Adds a tile of gradients back to where its values came from.
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

    /// How far a place of the kernel is from its first.
    fn under(&self, tap: usize) -> [usize; 2] {
        [tap / self.kernel, tap % self.kernel].map(|at| at * self.dilation)
    }

    /// The output columns that meet the input this far to the right of the kernel's first column.
    fn columns(&self, tap_column: usize) -> std::ops::Range<usize> {
        let start = self.before[1].saturating_sub(tap_column).div_ceil(self.stride);
        let end = (self.width + self.before[1]).saturating_sub(tap_column).div_ceil(self.stride).min(self.out[1]);
        start..end.max(start)
    }

    /// Where output row `row` and kernel position `tap` meet the input: its line, the output columns that meet it, and the
    /// input column of the first of them.
    fn meeting(&self, row: usize, tap: usize) -> Option<(usize, std::ops::Range<usize>, usize)> {
        let [tap_row, tap_column] = self.under(tap);
        let line = (row * self.stride + tap_row).checked_sub(self.before[0]).filter(|line| *line < self.height)?;
        let columns = self.columns(tap_column);
        let first = columns.start * self.stride + tap_column;
        (!columns.is_empty()).then(|| (line, columns, first - self.before[1]))
    }

    /// Calls `work` for each tile of a sample: first row, rows, pixels before it, pixels in it.
    pub(crate) fn tiles(&self, mut work: impl FnMut(usize, usize, usize, usize)) {
        let [height, width] = self.out;
        let each = self.tile_rows();
        for first in (0..height).step_by(each) {
            let rows = each.min(height - first);
            work(first, rows, first * width, rows * width);
        }
    }
}

/// Every `stride`th of the values.
fn every<T: Real>(stride: usize, values: &[T], out: &mut [T]) {
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

/// Runs `work` for each sample: on all threads at once, or one after the other with all threads inside.
pub(crate) fn over_samples<T: Send>(threads: Threads, samples: Vec<T>, work: impl Fn(T) + Send + Sync) {
    match threads {
        Threads::One => samples.into_par_iter().for_each(work),
        Threads::All => samples.into_iter().for_each(work),
    }
}

/// One sample.
impl Dense {
    /// The output.
    pub(crate) fn forward<T: Real>(&self, x: &[T], filters: &Filters<'_, T>, y: &mut [T]) {
        let (plane, threads) = (self.out_plane(), self.threads());
        let filters = match filters {
            Filters::Transformed(filters) => return winograd::forward(self, x, filters, y),
            Filters::Rows(rows) => Matrix::of(rows, self.output, self.fan()),
        };
        if self.pointwise() {
            return multiply(y, plane, Mode::Replace, filters, Matrix::of(x, self.input, plane), threads);
        }
        let mut tile = Vec::new();
        self.tiles(|first, rows, start, pixels| {
            tile.resize(self.fan() * pixels, T::of(0.0));
            self.gather(x, first, rows, &mut tile, threads);
            let columns = Matrix::of(&tile, self.fan(), pixels);
            multiply(&mut y[start..], plane, Mode::Replace, filters, columns, threads);
        });
    }

    /// The gradient of the weight, added to `dw`.
    pub(crate) fn backward_weight<T: Real>(&self, x: &[T], dy: &[T], dw: &mut [T]) {
        if winograd::serves(self) {
            return winograd::backward_weight(self, x, dy, dw);
        }
        let (plane, threads) = (self.out_plane(), self.threads());
        if self.pointwise() {
            for start in (0..plane).step_by(PIXELS) {
                let pixels = PIXELS.min(plane - start);
                let of_output = Matrix::of_rows(&dy[start..], self.output, pixels, plane);
                let of_input = Matrix::of_rows(&x[start..], self.input, pixels, plane);
                multiply(dw, self.fan(), Mode::Add, of_output, of_input.transposed(), threads);
            }
            return;
        }
        let mut tile = Vec::new();
        self.tiles(|first, rows, start, pixels| {
            tile.resize(self.fan() * pixels, T::of(0.0));
            self.gather(x, first, rows, &mut tile, threads);
            let of_output = Matrix::of_rows(&dy[start..], self.output, pixels, plane);
            let columns = Matrix::of(&tile, self.fan(), pixels).transposed();
            multiply(dw, self.fan(), Mode::Add, of_output, columns, threads);
        });
    }
}

/// `[batch, input, height, width]` and `[output, input, k, k]` to the output.
pub(crate) fn forward<T: Real>(x: &[T], weight: &[T], shape: &Dense) -> Vec<T> {
    let of_sample = shape.output * shape.out_plane();
    let mut y = vec![T::of(0.0); shape.batch * of_sample];
    let samples = y.chunks_exact_mut(of_sample).zip(x.chunks_exact(shape.in_sample())).collect();
    let filters = Filters::new(shape, weight);
    over_samples(shape.threads(), samples, |(y, x)| shape.forward(x, &filters, y));
    y
}

/// The gradient of the weight for the gradient `dy` of the output: `[output, input, k, k]`.
pub(crate) fn backward_weight<T: Real>(x: &[T], dy: &[T], shape: &Dense) -> Vec<T> {
    let inputs = x.chunks_exact(shape.in_sample());
    let samples = inputs.zip(dy.chunks_exact(shape.output * shape.out_plane()));
    sum_over_samples(shape.threads(), shape.output * shape.fan(), samples.collect(), |(x, dy), dw| {
        shape.backward_weight(x, dy, dw);
    })
}

/// The sum of `size` numbers that `work` adds to zeros for each sample.
///
/// They are added in the order of the samples, whatever thread made them; only as many are held as are made at once.
pub(crate) fn sum_over_samples<S: Send, T: Real>(
    threads: Threads,
    size: usize,
    samples: Vec<S>,
    work: impl Fn(S, &mut [T]) + Send + Sync,
) -> Vec<T> {
    let at_once = match threads {
        Threads::One => rayon::current_num_threads().min(samples.len()),
        Threads::All => 1,
    };
    announce((at_once + 1) * size, T::DTYPE);
    let mut sum = vec![T::of(0.0); size];
    let mut parts = vec![T::of(0.0); at_once * size];
    let mut samples = samples.into_iter().peekable();
    while samples.peek().is_some() {
        parts.fill(T::of(0.0));
        let wave: Vec<_> = parts.chunks_exact_mut(size).zip(samples.by_ref().take(at_once)).collect();
        let made = wave.len() * size;
        over_samples(threads, wave, |(part, sample)| work(sample, part));
        for part in parts[..made].chunks_exact(size) {
            sum.iter_mut().zip(part).for_each(|(sum, value)| *sum += *value);
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tiles of one row too, as wide networks have them: all of it may be outside.
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
