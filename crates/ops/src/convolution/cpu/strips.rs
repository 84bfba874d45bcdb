//! Dense convolutions of stride 1 whose products have factors of bf16, without columns.
//!
//! A strip holds some rows of a map, rounded to bf16, with the zeros around them that the kernel reaches. If a row of output pixels is
//! taken to be as long as a row of the strip, then the values under one tap follow each other in the strip for all pixels of these rows.
//! So a tile of columns ([`super::dense`]) need not be made: its rows are parts of the strip that begin at different places. The few
//! pixels that stand between the end of a row and the beginning of the next are computed in vain.

use half::bf16;
use half::slice::HalfBitsSliceExt;
use rayon::prelude::*;

use super::shape::Dense;
use crate::cpu::bits::{Lines, round_over};
use crate::cpu::gemm::{Matrix, RowsAt, Threads, as_singles_mut};
use crate::cpu::gemm_bf16::{self, Left};
use crate::cpu::halves::{Half, Stored};
use crate::cpu::values::{Source, Target};

/// Bytes of a strip and of what is made of it, so that both stay in the second-level cache.
const BYTES: usize = 1 << 19;
/// The fewest rows of output pixels in a strip, where there are as many: those that the kernel reaches beyond them are copied again for
/// the next strip.
const ROWS: usize = 4;
/// How many times longer rows are than the kernel reaches, at least: otherwise too much is computed in vain.
const LONGER: usize = 8;

/// How a convolution is divided into strips.
pub(super) struct Strips<'a> {
    shape: &'a Dense,
    /// Rows of output pixels of a strip; the last one may have fewer.
    rows: usize,
    /// From the first tap of the kernel to the last, in each direction.
    reach: usize,
}

/// Rows of a map that become a strip.
struct Rows<'a, T> {
    map: Source<'a, T>,
    height: usize,
    width: usize,
    /// Zeros before each row.
    before: usize,
    /// The row of the map that comes first, if it has one of this number.
    first: isize,
    /// Rows that are filled.
    count: usize,
    /// Rows of a channel in the strip.
    of_channel: usize,
}

impl<'a> Strips<'a> {
    /// The strips of a convolution whose products have factors of bf16, if it is computed in them.
    pub(super) fn of(shape: &'a Dense) -> Option<Self> {
        let reach = shape.reach();
        let [height, width] = shape.out;
        if shape.stride != 1 || reach == 0 || width < LONGER * reach {
            return None;
        }
        let line = (width + reach) * size_of::<u16>();
        let of_row = (shape.input + 2 * shape.output) * line;
        let rows = BYTES.saturating_sub(shape.input * reach * line) / of_row.max(1);
        Some(Self { shape, rows: rows.max(ROWS).min(height), reach })
    }

    /// Numbers of a row of a strip.
    fn width(&self) -> usize {
        self.shape.out[1] + self.reach
    }

    /// Bytes of a strip and of the places where its rows begin.
    fn bytes(&self) -> usize {
        let places = self.shape.fan() * size_of::<usize>();
        self.shape.input * (self.rows + self.reach) * self.width() * size_of::<u16>() + places
    }

    /// Bytes of what [`Strips::forward`] computes in.
    pub(super) fn forward_bytes(&self) -> usize {
        self.bytes() + self.shape.output * self.rows * self.width() * size_of::<f32>()
    }

    /// Bytes of what [`Strips::add_gradient`] computes in.
    pub(super) fn gradient_bytes(&self) -> usize {
        self.bytes() + self.shape.output * self.rows * self.width() * size_of::<u16>()
    }

    /// Where the values under each tap of each channel begin in a strip.
    fn starts(&self) -> Vec<usize> {
        let taps = self.shape.kernel * self.shape.kernel;
        let start = |index: usize| {
            let [row, column] = self.shape.under(index % taps);
            (index / taps * (self.rows + self.reach) + row) * self.width() + column
        };
        (0..self.shape.fan()).map(start).collect()
    }

    /// Calls `work` with the first row of output pixels of each strip, and how many there are.
    fn each(&self, mut work: impl FnMut(usize, usize)) {
        let height = self.shape.out[0];
        (0..height).step_by(self.rows).for_each(|first| work(first, self.rows.min(height - first)));
    }

    /// Pixels that are computed for so many rows, with those in vain.
    fn pixels(&self, rows: usize) -> usize {
        rows * self.width() - self.reach
    }

    /// Fills a strip for some rows of output pixels.
    fn fill<T: Stored>(&self, map: Source<'_, T>, first: usize, rows: usize, strip: &mut Vec<u16>, threads: Threads) {
        let &Dense { height, width, before: [above, before], .. } = self.shape;
        let first = first as isize - above as isize;
        let [count, of_channel] = [rows, self.rows].map(|rows| rows + self.reach);
        Rows { map, height, width, before, first, count, of_channel }.fill(self.width(), strip, threads);
    }

    /// Computes the output of one sample.
    pub(super) fn forward<T: Stored>(&self, x: Source<'_, T>, filters: &Left, y: &mut Target<'_, T>) {
        let (threads, starts) = (self.shape.threads(), self.starts());
        let stride = self.rows * self.width();
        let mut strip = Vec::new();
        let mut made = vec![T::of(0.0); self.shape.output * stride];
        self.each(|first, rows| {
            self.fill(x, first, rows, &mut strip, threads);
            let right =
                RowsAt { values: strip.reinterpret_cast::<bf16>(), starts: &starts, columns: self.pixels(rows) };
            filters.multiply_rows(as_singles_mut(&mut made), stride, right, threads);
            self.write(&made, first, rows, y, threads);
        });
    }

    /// Writes some rows of the output.
    fn write<T: Stored>(&self, made: &[T], first: usize, rows: usize, y: &mut Target<'_, T>, threads: Threads) {
        let (plane, width) = (self.shape.out_plane(), self.shape.out[1]);
        let of_plane = self.rows * self.width();
        match y {
            Target::Same(values) => {
                let one = |(made, plane): (&[T], &mut [T])| {
                    let lines = plane[first * width..].chunks_exact_mut(width).take(rows);
                    lines
                        .zip(made.chunks_exact(self.width()))
                        .for_each(|(to, made)| to.copy_from_slice(&made[..width]));
                };
                each_of(made.par_chunks_exact(of_plane).zip(values.par_chunks_exact_mut(plane)), one, threads);
            }
            Target::Halves(bits) => {
                let made = Lines { values: made, of_row: of_plane, of_line: self.width(), width };
                bits.round_columns(plane, first * width..(first + rows) * width, &made, threads);
            }
        }
    }

    /// Adds the gradient of the weight of one sample to `dw`: a strip of the output's gradient times the columns of the map's, which has
    /// zeros where pixels are computed in vain.
    pub(super) fn add_gradient<T: Stored>(&self, x: Source<'_, T>, dy: Source<'_, T>, dw: &mut [T]) {
        let (shape, threads, starts) = (self.shape, self.shape.threads(), self.starts());
        let ([height, width], stride) = (shape.out, self.rows * self.width());
        let (mut of_input, mut of_output) = (Vec::new(), Vec::new());
        self.each(|first, rows| {
            self.fill(x, first, rows, &mut of_input, threads);
            let lines =
                Rows { map: dy, height, width, before: 0, first: first as isize, count: rows, of_channel: self.rows };
            lines.fill(self.width(), &mut of_output, threads);
            let columns = self.pixels(rows);
            let left = Matrix::of_rows(of_output.reinterpret_cast::<bf16>(), shape.output, columns, stride);
            let right = RowsAt { values: of_input.reinterpret_cast::<bf16>(), starts: &starts, columns };
            gemm_bf16::add_product_with_rows(as_singles_mut(dw), shape.fan(), left, right, threads);
        });
    }
}

impl<T: Stored> Rows<'_, T> {
    /// Fills a strip whose rows have `width` numbers.
    fn fill(&self, width: usize, strip: &mut Vec<u16>, threads: Threads) {
        let of_channel = self.of_channel * width;
        let (plane, copied) = (self.height * self.width, self.width.min(width - self.before));
        strip.resize(self.map.len() / plane * of_channel, 0);
        let fill = |(channel, strip): (usize, &mut [u16])| {
            let map = self.map.chunk(channel, plane);
            for (row, to) in strip.chunks_exact_mut(width).take(self.count).enumerate() {
                let line = usize::try_from(self.first + row as isize).ok().filter(|line| *line < self.height);
                let Some(line) = line else {
                    to.fill(0);
                    continue;
                };
                let (before, rest) = to.split_at_mut(self.before);
                let (to, after) = rest.split_at_mut(copied);
                before.fill(0);
                after.fill(0);
                match map.part(line * self.width..line * self.width + copied) {
                    Source::Same(values) => round_over(Half::Bf16, values, to, Threads::One),
                    Source::Halves(_, bits) => to.copy_from_slice(bits),
                }
            }
        };
        each_of(strip.par_chunks_exact_mut(of_channel).enumerate(), fill, threads);
    }
}

/// Does something with each of several things, on one thread or on all.
fn each_of<I: Send>(of: impl IndexedParallelIterator<Item = I>, work: impl Fn(I) + Send + Sync, threads: Threads) {
    match threads {
        Threads::All => of.for_each(work),
        Threads::One => of.with_min_len(usize::MAX).for_each(work),
    }
}
