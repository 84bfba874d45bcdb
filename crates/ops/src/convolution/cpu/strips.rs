//! Dense convolutions whose products have factors of bf16, without columns.
//!
//! A strip holds some rows of a map, rounded to bf16, with the zeros around them that the kernel reaches. If a row of output pixels is
//! taken to be as long as a row of the strip, then the values under one tap follow each other in the strip for all pixels of these rows.
//! So a tile of columns ([`super::dense`]) need not be made: its rows are parts of the strip that begin at different places. The few
//! pixels that stand between the end of a row and the beginning of the next are computed in vain, or left out.
//!
//! With a stride of 2, a channel of a strip has four phases: even and odd rows, and of each of these even and odd columns. The values under a
//! tap lie in one of them, and follow each other there as they do with a stride of 1.

use std::cell::Cell;
use std::ops::Range;

use half::bf16;
use half::slice::HalfBitsSliceExt;
use rayon::prelude::*;

use super::planes::Planes;
use super::shape::Dense;
use crate::cpu::bits::round_over;
use crate::cpu::gemm::{Matrix, Output, Pixels, Stretches, Strip, Threads, as_singles_mut};
use crate::cpu::gemm_bf16::{self, Taps, Turned};
use crate::cpu::halves::{Half, Stored};
use crate::cpu::lanes::{deal, vectorised};
use crate::cpu::values::{Source, Target};

/// Bytes of a strip and of what it is multiplied with, so that both stay in the second-level cache.
pub(crate) const BYTES: usize = 1 << 19;
/// The fewest rows of output pixels in a strip, where there are as many: those that the kernel reaches beyond them are copied again for
/// the next strip.
pub(crate) const ROWS: usize = 4;
/// How many times longer rows are than the kernel reaches, at least: otherwise too much is computed in vain.
const LONGER: usize = 8;

thread_local! {
    /// The memory of the strip that this thread has computed last. Strips take about the same, half a megabyte ([`BYTES`]), which would be
    /// filled with zeros for each sample of each convolution.
    static KEPT: Cell<Vec<u32>> = const { Cell::new(Vec::new()) };
}

/// The first of these numbers, whatever they are.
fn first_of(kept: &mut Vec<u32>, count: usize) -> &mut [u32] {
    if kept.len() < count {
        kept.resize(count, 0);
    }
    &mut kept[..count]
}

/// How a convolution is divided into strips.
pub(super) struct Strips<'a> {
    shape: &'a Dense,
    /// From the first tap of the kernel to the last, in each direction, within a phase.
    reach: usize,
    /// Phases of a channel.
    phases: usize,
}

/// A map of one sample, of which strips are made.
pub(crate) trait Channels: Sync {
    /// Some pixels of a channel, as the bits of bf16: as they lie in memory, or in `buffer`.
    fn bits<'b>(&'b self, channel: usize, pixels: Range<usize>, buffer: &'b mut Vec<u16>) -> &'b [u16];
}

/// A map as it is, with so many pixels in a channel.
pub(super) struct OfMap<'a, T> {
    pub(super) map: Source<'a, T>,
    pub(super) plane: usize,
}

impl<T: Stored> Channels for OfMap<'_, T> {
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
    /// Rows of each phase that are filled.
    count: usize,
    /// Of the convolution.
    stride: usize,
}

impl<'a> Strips<'a> {
    /// The strips of a convolution whose products have factors of bf16, if it is computed in them.
    pub(super) fn of(shape: &'a Dense) -> Option<Self> {
        let (reach, phases) = (shape.reach() / shape.stride, shape.stride * shape.stride);
        let long = shape.out[1] >= LONGER * reach && shape.out[1] + reach > Strip::BEYOND;
        let serves = shape.stride <= 2 && reach > 0 && long;
        serves.then_some(Self { shape, reach, phases })
    }

    /// Numbers of a row of a phase.
    fn width(&self) -> usize {
        self.shape.out[1] + self.reach
    }

    /// Rows of output pixels of a strip where each takes so many rows of phases; the last strip may have fewer.
    fn rows(&self, of_phases: usize) -> usize {
        let line = self.width() * size_of::<u16>();
        let reached = self.shape.input * self.phases * self.reach * line;
        let rows = BYTES.saturating_sub(reached) / (of_phases * line).max(1);
        rows.max(ROWS).min(self.shape.out[0])
    }

    fn forward_rows(&self) -> usize {
        self.rows(self.shape.input * self.phases)
    }

    /// At least as many as are added up before the sum goes to memory, since otherwise that takes longer than what is longer in the cache.
    fn gradient_rows(&self) -> usize {
        let added_up = (gemm_bf16::INNER / self.stretch()).min(self.shape.out[0]);
        self.rows(self.shape.input * self.phases + 2 * self.shape.output).max(added_up)
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
        self.shape.input * self.channel(rows) + 1
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
        self.shape.input.div_ceil(2) * self.channel(rows) + Strip::BEYOND
    }

    /// Numbers of a channel, or pairs of two, for so many rows of output pixels.
    fn channel(&self, rows: usize) -> usize {
        self.phases * (rows + self.reach) * self.width()
    }

    /// Where the values under each tap begin in a strip with `channels` channels, or pairs of them, for so many rows of output pixels.
    fn starts(&self, channels: usize, rows: usize) -> Vec<usize> {
        let Dense { kernel, stride, .. } = *self.shape;
        let taps = kernel * kernel;
        let start = |index: usize| {
            let [row, column] = self.shape.under(index % taps);
            let phase = index / taps * self.phases + row % stride * stride + column % stride;
            (phase * (rows + self.reach) + row / stride) * self.width() + column / stride
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
        let &Dense { height, width, before: [above, before], stride, .. } = self.shape;
        let first = (first * stride) as isize - above as isize;
        Rows { height, width, before, first, count: rows + self.reach, stride }
    }

    /// Computes the output of one sample.
    pub(super) fn forward<T: Stored>(&self, x: &dyn Channels, filters: &Taps, y: &mut impl Planes<T>) {
        let (shape, threads, of_strip) = (self.shape, self.shape.threads(), self.forward_rows());
        let (width, plane, channels) = (shape.out[1], shape.out_plane(), shape.input);
        let starts = self.starts(channels.div_ceil(2), of_strip);
        let mut kept = KEPT.take();
        // What lies behind the rows of a strip is read, for columns that are not written, but may be anything.
        let pairs = first_of(&mut kept, self.pairs(of_strip));
        self.each(of_strip, |first, rows| {
            let (reached, of_pair) = (self.reached(first, rows), self.channel(of_strip));
            let fill = |[one, other]: &mut [Vec<u16>; 2], (pair, to): (usize, &mut [u32])| {
                let one = reached.of(x, 2 * pair, one);
                let other = if 2 * pair + 1 < channels { reached.of(x, 2 * pair + 1, other) } else { &[] };
                reached.pair(one, other, self.width(), to);
            };
            let of_pairs = channels.div_ceil(2) * of_pair;
            each_of(pairs[..of_pairs].par_chunks_exact_mut(of_pair).enumerate(), Default::default, fill, threads);
            let strip = Strip { pairs, starts: &starts, width: self.width() };
            y.write(plane, first * width..(first + rows) * width, &mut |y, plane, first| {
                let pixels = Pixels { first, rows, width, plane };
                match y {
                    Target::Same(y) => {
                        filters.convolve(&strip, pixels, &mut Output::Singles(as_singles_mut(y.numbers())), threads);
                    }
                    Target::Halves(y) => y.convolve(filters, &strip, pixels, threads),
                }
            });
        });
        KEPT.set(kept);
    }

    /// Adds the gradient of the weight of one sample to `dw`: a strip of the output's gradient times the columns of the map's.
    pub(super) fn add_gradient<T: Stored>(&self, x: &dyn Channels, dy: &dyn Channels, dw: &mut [T]) {
        let (shape, threads, of_strip) = (self.shape, self.shape.threads(), self.gradient_rows());
        let ([height, width], length) = (shape.out, self.stretch());
        let starts = self.starts(shape.input, of_strip);
        let (of_channel, of_plane) = (self.channel(of_strip), of_strip * length);
        let (inputs, outputs) = (self.numbers(of_strip), shape.output * of_plane);
        let mut kept = KEPT.take();
        let numbers: &mut [u16] = bytemuck::cast_slice_mut(first_of(&mut kept, (inputs + outputs).div_ceil(2)));
        if !width.is_multiple_of(2) {
            // A stretch of an odd row ends with the number behind it, which is multiplied by zero.
            numbers.fill(0);
        }
        let (of_input, of_output) = numbers.split_at_mut(inputs);
        let of_output = &mut of_output[..outputs];
        let mut turned = Turned::default();
        self.each(of_strip, |first, rows| {
            self.reached(first, rows).fill(
                x,
                self.width(),
                of_channel,
                &mut of_input[..shape.input * of_channel],
                threads,
            );
            let lines = Rows { height, width, before: 0, first: first as isize, count: rows, stride: 1 };
            lines.fill(dy, length, of_plane, of_output, threads);
            let of_output = of_output.reinterpret_cast::<bf16>();
            turned.fill(Matrix::of_rows(of_output, shape.output, rows * length, of_plane), threads);
            let values = of_input.reinterpret_cast::<bf16>();
            let right = Stretches { values, starts: &starts, count: rows, length, step: self.width() };
            turned.add_product(as_singles_mut(dw), shape.fan(), right, threads);
        });
        KEPT.set(kept);
    }
}

impl Rows {
    /// Those of the rows that the map has.
    fn there(&self) -> Range<usize> {
        let at = |row: isize| usize::try_from(row).unwrap_or(0).min(self.height);
        at(self.first)..at(self.first + (self.stride * self.count) as isize)
    }

    /// The numbers of a channel in these rows.
    fn of<'b>(&self, map: &'b dyn Channels, channel: usize, buffer: &'b mut Vec<u16>) -> &'b [u16] {
        let there = self.there();
        map.bits(channel, there.start * self.width..there.end * self.width, buffer)
    }

    /// Goes through the rows of a channel of a strip, whose phases have rows of `width` places. Calls `work` with the places of the numbers
    /// of a row, which lie in two phases in turn if there are phases, and with where these numbers begin among those of the rows that are
    /// there. All other places become zeros.
    fn each<E: Copy + Default>(&self, width: usize, channel: &mut [E], mut work: impl FnMut([&mut [E]; 2], usize)) {
        let Self { before, stride, .. } = *self;
        let there = self.there();
        for (index, row) in (self.first..).take(stride * self.count).enumerate() {
            let [even, odd] = places(channel, stride, width, index);
            let Some(row) = usize::try_from(row).ok().filter(|row| there.contains(row)) else {
                zero(even);
                zero(odd);
                continue;
            };
            let [first, second] = if before.is_multiple_of(stride) { [even, odd] } else { [odd, even] };
            let first = with_zeros_around(first, before / stride, self.width.div_ceil(stride));
            let second = with_zeros_around(second, (before + 1) / stride, self.width / stride);
            work([first, second], (row - there.start) * self.width);
        }
    }

    /// Fills the channels of a strip, which have `of_channel` numbers and rows of `width`.
    fn fill(&self, map: &dyn Channels, width: usize, of_channel: usize, strip: &mut [u16], threads: Threads) {
        let fill = |buffer: &mut Vec<u16>, (channel, strip): (usize, &mut [u16])| {
            let numbers = self.of(map, channel, buffer);
            self.each(width, strip, |[first, second], from| match self.stride {
                1 => first.copy_from_slice(&numbers[from..from + first.len()]),
                _ => deal(&numbers[from..from + self.width], first, second),
            });
        };
        each_of(strip.par_chunks_exact_mut(of_channel).enumerate(), Vec::new, fill, threads);
    }

    /// Fills the rows of two channels of a strip, whose rows have `width` pairs, with the numbers of these channels; the second may have
    /// none.
    fn pair(&self, one: &[u16], other: &[u16], width: usize, strip: &mut [u32]) {
        self.each(width, strip, |[first, second], from| match self.stride {
            1 => paired(&one[from..from + first.len()], other.get(from..from + first.len()), first),
            _ => {
                let row = from..from + self.width;
                paired_and_dealt(&one[row.clone()], other.get(row), first, second);
            }
        });
    }
}

/// The places of a row of a channel: in its phase, or with a stride of 2 in both of its phases.
fn places<E>(channel: &mut [E], stride: usize, width: usize, row: usize) -> [&mut [E]; 2] {
    let of_phase = channel.len() / (stride * stride);
    let at = row / stride * width;
    let mut phases = channel.chunks_exact_mut(of_phase).skip(row % stride * stride).take(stride);
    [(); 2].map(|()| phases.next().map(|phase| &mut phase[at..at + width]).unwrap_or_default())
}

/// Some places behind the first few, if there are so many. All others become zeros.
fn with_zeros_around<E: Copy + Default>(places: &mut [E], before: usize, count: usize) -> &mut [E] {
    let (zeros, rest) = places.split_at_mut(before.min(places.len()));
    let (places, behind) = rest.split_at_mut(count.min(rest.len()));
    zero(zeros);
    zero(behind);
    places
}

/// An empty slice may have an address that nothing lies at. Some processors take a thousand times longer to write nothing there.
fn zero<E: Copy + Default>(places: &mut [E]) {
    if !places.is_empty() {
        places.fill(E::default());
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

/// [`paired`], to two slices in turn, as far as there is room.
fn paired_and_dealt(one: &[u16], other: Option<&[u16]>, first: &mut [u32], second: &mut [u32]) {
    // Two numbers that follow each other are one of 32 bits, of which each slice gets a half.
    let both = |[number, next]: [u16; 2]| u32::from(number) | u32::from(next) << 16;
    vectorised(
        #[inline(always)]
        || match other {
            Some(other) => {
                let (pairs, others) = (one.as_chunks::<2>().0, other.as_chunks::<2>().0);
                for (((one, other), first), second) in pairs.iter().zip(others).zip(&mut *first).zip(&mut *second) {
                    let (one, other) = (both(*one), both(*other));
                    *first = one & 0xffff | other << 16;
                    *second = one >> 16 | other & 0xffff_0000;
                }
            }
            None => {
                for ((one, first), second) in one.as_chunks::<2>().0.iter().zip(&mut *first).zip(&mut *second) {
                    let one = both(*one);
                    *first = one & 0xffff;
                    *second = one >> 16;
                }
            }
        },
    );
    // A number that is the last, or whose next has no room.
    let last = second.len();
    if let (Some(to), Some(one)) = (first.get_mut(last), one.get(2 * last)) {
        *to = both([*one, other.and_then(|other| other.get(2 * last)).copied().unwrap_or_default()]);
    }
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
