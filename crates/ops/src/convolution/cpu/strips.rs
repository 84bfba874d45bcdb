//! Dense convolutions of stride 1 whose products have factors of bf16, without columns.
//!
//! A strip holds some rows of a map, rounded to bf16, with the zeros around them that the kernel reaches. If a row of output pixels is
//! taken to be as long as a row of the strip, then the values under one tap follow each other in the strip for all pixels of these rows.
//! So a tile of columns ([`super::dense`]) need not be made: its rows are parts of the strip that begin at different places. The few
//! pixels that stand between the end of a row and the beginning of the next are computed in vain, or left out.

use std::ops::Range;

use half::bf16;
use half::slice::HalfBitsSliceExt;
use rayon::prelude::*;

use super::shape::Dense;
use crate::cpu::bits::round_over;
use crate::cpu::gemm::{Matrix, Output, Pixels, Stretches, Strip, Threads, as_singles_mut};
use crate::cpu::gemm_bf16::{self, Taps, Turned};
use crate::cpu::halves::{Half, Stored};
use crate::cpu::lanes::vectorised;
use crate::cpu::values::{Source, Target};

/// Bytes of a strip and of what it is multiplied with, so that both stay in the second-level cache.
pub(crate) const BYTES: usize = 1 << 19;
/// The fewest rows of output pixels in a strip, where there are as many: those that the kernel reaches beyond them are copied again for
/// the next strip.
pub(crate) const ROWS: usize = 4;
/// How many times longer rows are than the kernel reaches, at least: otherwise too much is computed in vain.
const LONGER: usize = 8;

/// How a convolution is divided into strips.
pub(super) struct Strips<'a> {
    shape: &'a Dense,
    /// From the first tap of the kernel to the last, in each direction.
    reach: usize,
}

/// A map of one sample, of which strips are made.
pub(crate) trait Channels: Sync {
    /// Some pixels of a channel, as the bits of bf16: as they lie in memory, or in `buffer`.
    fn bits<'b>(&'b self, channel: usize, pixels: Range<usize>, buffer: &'b mut Vec<u16>) -> &'b [u16];
}

/// A map as it is, with so many pixels in a channel.
pub(super) struct Planes<'a, T> {
    pub(super) map: Source<'a, T>,
    pub(super) plane: usize,
}

impl<T: Stored> Channels for Planes<'_, T> {
    fn bits<'b>(&'b self, channel: usize, pixels: Range<usize>, buffer: &'b mut Vec<u16>) -> &'b [u16] {
        match self.map.chunk(channel, self.plane).part(pixels) {
            Source::Halves(_, bits) => bits,
            Source::Same(values) => {
                buffer.resize(values.len(), 0);
                round_over(Half::Bf16, values, buffer, Threads::One);
                buffer
            }
        }
    }
}

/// Rows of a map that become a strip.
#[derive(Clone, Copy)]
struct Rows {
    height: usize,
    width: usize,
    /// Zeros before each row.
    before: usize,
    /// The row of the map that comes first, if it has one of this number.
    first: isize,
    /// Rows that are filled.
    count: usize,
}

impl<'a> Strips<'a> {
    /// The strips of a convolution whose products have factors of bf16, if it is computed in them.
    pub(super) fn of(shape: &'a Dense) -> Option<Self> {
        let reach = shape.reach();
        let serves = shape.stride == 1 && reach > 0 && shape.out[1] >= LONGER * reach;
        serves.then_some(Self { shape, reach })
    }

    /// Numbers of a row of a strip.
    fn width(&self) -> usize {
        self.shape.out[1] + self.reach
    }

    /// Rows of output pixels of a strip where each takes `channels` rows of a channel; the last strip may have fewer.
    fn rows(&self, channels: usize) -> usize {
        let line = self.width() * size_of::<u16>();
        let rows = BYTES.saturating_sub(self.shape.input * self.reach * line) / (channels * line).max(1);
        rows.max(ROWS).min(self.shape.out[0])
    }

    fn forward_rows(&self) -> usize {
        self.rows(self.shape.input)
    }

    /// At least as many as are added up before the sum goes to memory, since otherwise that takes longer than what is longer in the cache.
    fn gradient_rows(&self) -> usize {
        let added_up = (gemm_bf16::INNER / self.stretch()).min(self.shape.out[0]);
        self.rows(self.shape.input + 2 * self.shape.output).max(added_up)
    }

    /// Bytes of what [`Strips::forward`] computes in.
    pub(super) fn forward_bytes(&self) -> usize {
        let Dense { input, kernel, .. } = *self.shape;
        let starts = input.div_ceil(2) * kernel * kernel * size_of::<usize>();
        self.pairs(self.forward_rows()) * size_of::<u32>() + starts
    }

    /// Numbers of a row of the output's gradient, with a zero behind them if they are odd.
    fn stretch(&self) -> usize {
        self.shape.out[1].next_multiple_of(2)
    }

    /// Numbers of a strip of the map for so many rows of output pixels, and one that a stretch of an odd row ends with.
    fn numbers(&self, rows: usize) -> usize {
        self.shape.input * (rows + self.reach) * self.width() + 1
    }

    /// Bytes of what [`Strips::add_gradient`] computes in.
    pub(super) fn gradient_bytes(&self) -> usize {
        let (shape, rows) = (self.shape, self.gradient_rows());
        let of_output = rows * self.stretch();
        let strips = self.numbers(rows) + shape.output * of_output;
        strips * size_of::<u16>() + Turned::bytes(shape.output, of_output) + shape.fan() * size_of::<usize>()
    }

    /// Pairs of a strip of so many rows of output pixels.
    fn pairs(&self, rows: usize) -> usize {
        self.shape.input.div_ceil(2) * (rows + self.reach) * self.width() + Strip::BEYOND
    }

    /// Where the values under each tap begin in a strip with `channels` channels, or pairs of them, for so many rows of output pixels.
    fn starts(&self, channels: usize, rows: usize) -> Vec<usize> {
        let taps = self.shape.kernel * self.shape.kernel;
        let start = |index: usize| {
            let [row, column] = self.shape.under(index % taps);
            (index / taps * (rows + self.reach) + row) * self.width() + column
        };
        (0..channels * taps).map(start).collect()
    }

    /// Calls `work` with the first row of output pixels of each strip, and how many there are.
    fn each(&self, rows: usize, mut work: impl FnMut(usize, usize)) {
        let height = self.shape.out[0];
        (0..height).step_by(rows).for_each(|first| work(first, rows.min(height - first)));
    }

    /// The rows of the map that the kernel reaches from some rows of output pixels.
    fn reached(&self, first: usize, rows: usize) -> Rows {
        let &Dense { height, width, before: [above, before], .. } = self.shape;
        Rows { height, width, before, first: first as isize - above as isize, count: rows + self.reach }
    }

    /// Computes the output of one sample.
    pub(super) fn forward<T: Stored>(&self, x: &dyn Channels, filters: &Taps, y: &mut Target<'_, T>) {
        let (shape, threads, of_strip) = (self.shape, self.shape.threads(), self.forward_rows());
        let (width, plane, channels) = (shape.out[1], shape.out_plane(), shape.input);
        let starts = self.starts(channels.div_ceil(2), of_strip);
        let mut pairs = vec![0; self.pairs(of_strip)];
        self.each(of_strip, |first, rows| {
            let (reached, of_pair) = (self.reached(first, rows), (of_strip + self.reach) * self.width());
            let fill = |[one, other]: &mut [Vec<u16>; 2], (pair, to): (usize, &mut [u32])| {
                let one = reached.of(x, 2 * pair, one);
                let other = if 2 * pair + 1 < channels { reached.of(x, 2 * pair + 1, other) } else { &[] };
                reached.pair(one, other, self.width(), to);
            };
            let of_pairs = channels.div_ceil(2) * of_pair;
            each_of(pairs[..of_pairs].par_chunks_exact_mut(of_pair).enumerate(), Default::default, fill, threads);
            let strip = Strip { pairs: &pairs, starts: &starts, width: self.width() };
            let pixels = Pixels { first: first * width, rows, width, plane };
            match y {
                Target::Same(y) => {
                    filters.convolve(&strip, pixels, &mut Output::Singles(as_singles_mut(y.numbers())), threads);
                }
                Target::Halves(y) => y.convolve(filters, &strip, pixels, threads),
            }
        });
    }

    /// Adds the gradient of the weight of one sample to `dw`: a strip of the output's gradient times the columns of the map's.
    pub(super) fn add_gradient<T: Stored>(&self, x: &dyn Channels, dy: &dyn Channels, dw: &mut [T]) {
        let (shape, threads, of_strip) = (self.shape, self.shape.threads(), self.gradient_rows());
        let ([height, width], length) = (shape.out, self.stretch());
        let starts = self.starts(shape.input, of_strip);
        let (of_channel, of_plane) = ((of_strip + self.reach) * self.width(), of_strip * length);
        let (mut of_input, mut of_output) = (vec![0; self.numbers(of_strip)], vec![0; shape.output * of_plane]);
        let mut turned = Turned::default();
        self.each(of_strip, |first, rows| {
            self.reached(first, rows).fill(
                x,
                self.width(),
                of_channel,
                &mut of_input[..shape.input * of_channel],
                threads,
            );
            let lines = Rows { height, width, before: 0, first: first as isize, count: rows };
            lines.fill(dy, length, of_plane, &mut of_output, threads);
            let of_output = of_output.reinterpret_cast::<bf16>();
            turned.fill(Matrix::of_rows(of_output, shape.output, rows * length, of_plane), threads);
            let values = of_input.reinterpret_cast::<bf16>();
            let right = Stretches { values, starts: &starts, count: rows, length, step: self.width() };
            turned.add_product(as_singles_mut(dw), shape.fan(), right, threads);
        });
    }
}

impl Rows {
    /// Those of the rows that the map has.
    fn there(&self) -> Range<usize> {
        let at = |row: isize| usize::try_from(row).unwrap_or(0).min(self.height);
        at(self.first)..at(self.first + self.count as isize)
    }

    /// The numbers of a channel in these rows.
    fn of<'b>(&self, map: &'b dyn Channels, channel: usize, buffer: &'b mut Vec<u16>) -> &'b [u16] {
        let there = self.there();
        map.bits(channel, there.start * self.width..there.end * self.width, buffer)
    }

    /// Calls `work` with each row of `width` numbers of a strip, where the numbers of the map begin in it and how many there are, and where
    /// these begin among those of the rows that are there.
    fn each<'s, E>(&self, width: usize, strip: &'s mut [E], mut work: impl FnMut(&'s mut [E], Range<usize>, usize)) {
        let (there, copied) = (self.there(), self.width.min(width - self.before));
        for (row, to) in (self.first..).zip(strip.chunks_exact_mut(width)).take(self.count) {
            match usize::try_from(row).ok().filter(|row| there.contains(row)) {
                Some(row) => work(to, self.before..self.before + copied, (row - there.start) * self.width),
                None => work(to, 0..0, 0),
            }
        }
    }

    /// Fills the channels of a strip, which have `of_channel` numbers and rows of `width`.
    fn fill(&self, map: &dyn Channels, width: usize, of_channel: usize, strip: &mut [u16], threads: Threads) {
        let fill = |buffer: &mut Vec<u16>, (channel, strip): (usize, &mut [u16])| {
            let numbers = self.of(map, channel, buffer);
            self.each(width, strip, |to, copied, from| {
                to[..copied.start].fill(0);
                to[copied.end..].fill(0);
                let count = copied.len();
                to[copied].copy_from_slice(&numbers[from..from + count]);
            });
        };
        each_of(strip.par_chunks_exact_mut(of_channel).enumerate(), Vec::new, fill, threads);
    }

    /// Fills the rows of two channels of a strip, whose rows have `width` pairs, with the numbers of these channels; the second may have
    /// none.
    fn pair(&self, one: &[u16], other: &[u16], width: usize, strip: &mut [u32]) {
        self.each(width, strip, |to, copied, from| {
            to[..copied.start].fill(0);
            to[copied.end..].fill(0);
            let count = copied.len();
            paired(&one[from..from + count], other.get(from..from + count), &mut to[copied]);
        });
    }
}

/// Pairs of numbers; where there is no other, of a number and zero.
pub(crate) fn paired(one: &[u16], other: Option<&[u16]>, to: &mut [u32]) {
    vectorised(
        #[inline(always)]
        || match other {
            Some(other) => {
                for ((to, one), other) in to.iter_mut().zip(one).zip(other) {
                    *to = u32::from(*one) | u32::from(*other) << 16;
                }
            }
            None => to.iter_mut().zip(one).for_each(|(to, one)| *to = u32::from(*one)),
        },
    );
}

/// Does something with each of several things, on one thread or on all, with something that each thread keeps.
pub(crate) fn each_of<I: Send, B: Send>(
    of: impl IndexedParallelIterator<Item = I>,
    kept: impl Fn() -> B + Send + Sync,
    work: impl Fn(&mut B, I) + Send + Sync,
    threads: Threads,
) {
    match threads {
        Threads::All => of.for_each_init(kept, work),
        Threads::One => of.with_min_len(usize::MAX).for_each_init(kept, work),
    }
}
