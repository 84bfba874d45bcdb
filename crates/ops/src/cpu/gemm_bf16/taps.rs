//! Convolutions of a strip of a map: outer products ([`super::outer`]) whose right factor is multiplied as it lies in the strip.
//!
//! A strip holds rows of a map, two channels in one: a pair is a pixel's number of one channel and that of the next. So 16 pixels that
//! follow each other are a register of pairs, for every tap of the kernel, and nothing is packed but the filters ([`Taps`]). A tile of
//! the output, some channels of some runs of 16 pixels, stays in registers until all channels and taps have been added, and is written in
//! the format of the output.

#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m512, __m512i, __mmask16, __mmask32, _mm512_dpbf16_ps, _mm512_loadu_si512, _mm512_set1_epi32, _mm512_setzero_ps,
    _mm512_setzero_si512,
};
use std::mem::MaybeUninit;
use std::ops::Range;

use super::super::matrix::{Output, Pixels, Strip, Threads};
use super::super::tiles::{at_once, grid, over, part};
use super::outer::{LANES, ROWS};
use super::output::{To, abreast};
use super::pack::{Factor, Line, PAIRS, halves, lowest, turn};
use super::{FEW, Instruction, SMALL, amx, available};

/// Runs in a tile.
const RUNS: usize = 3;

/// The filters of a convolution, rounded to bf16 and packed: for eight of them, pair by pair of channels and tap by tap, the pair of
/// each.
pub(crate) struct Taps {
    instruction: Instruction,
    pub(super) lines: Vec<Line>,
    filters: usize,
    /// Pairs of each filter.
    pairs: usize,
}

// What is read beyond the last pair is a register less that pair.
const _: () = assert!(Strip::BEYOND == LANES - 1);

impl Taps {
    /// Bytes of packed filters.
    pub(crate) fn bytes(filters: usize, channels: usize, taps: usize) -> usize {
        lines(Instruction::fastest(), filters, channels.div_ceil(2) * taps) * size_of::<Line>()
    }

    /// Rounds and packs `weight` `[filters, channels, taps]`.
    ///
    /// # Panics
    /// If it has another size, or the processor lacks the instructions ([`available`]).
    pub(crate) fn new<T: Factor>(weight: &[T], shape: [usize; 3]) -> Self {
        Self::packed_for(Instruction::fastest(), weight, shape)
    }

    pub(super) fn packed_for<T: Factor>(
        instruction: Instruction,
        weight: &[T],
        [filters, channels, taps]: [usize; 3],
    ) -> Self {
        assert_eq!(weight.len(), filters * channels * taps, "as many numbers as filters have");
        assert!(available(), "the processor multiplies numbers of bf16");
        let pairs = channels.div_ceil(2) * taps;
        let count = lines(instruction, filters, pairs);
        let mut lines: Vec<Line> = Vec::with_capacity(count);
        let places = &mut lines.spare_capacity_mut()[..count];
        if let Some(last) = places.last_mut() {
            // The last panel may end in the middle of it.
            last.write(Line::ZERO);
        }
        if pairs > 0 {
            // Two panels of registers have a line for each pair, and so has one of tiles, of which some are zeros.
            let of_sixteen = match instruction {
                Instruction::OfRegisters => pairs,
                Instruction::OfTiles => amx::lines(amx::SIDE, pairs),
            };
            let sixteens = (0..filters).step_by(2 * ROWS).zip(places.chunks_mut(of_sixteen)).collect();
            let tasks = at_once([filters, channels, taps], FEW, Threads::All);
            over(tasks, sixteens, |(first, places): (usize, &mut [MaybeUninit<Line>])| {
                let (shape, to) = ([filters, channels, taps], places.as_mut_ptr());
                // SAFETY: the processor has the instructions, the weight has as many numbers, and there is a line for each pair, or half
                // of one if there is only one panel.
                unsafe {
                    match instruction {
                        Instruction::OfRegisters => pack(weight, shape, first, to.cast()),
                        Instruction::OfTiles => amx::taps(weight, shape, first, to.cast()),
                    }
                };
            });
        }
        // SAFETY: panels follow each other without gaps, and each is written as a whole: eight places for each of its pairs, or whole tiles.
        unsafe { lines.set_len(count) };
        Self { instruction, lines, filters, pairs }
    }

    /// Computes these pixels of all planes of the output, a plane for each filter, and writes every one of them. Each is a sum over the
    /// strip's pairs of channels and over taps, in this order, from zero.
    ///
    /// # Panics
    /// If the strip has not as many taps and channels as the filters, the output has not a plane for each, or a number does not lie in them.
    pub(crate) fn convolve(&self, strip: &Strip<'_>, pixels: Pixels, output: &mut Output<'_>, threads: Threads) {
        let Pixels { first, rows, width, plane } = pixels;
        assert_eq!(output.len(), self.filters.saturating_mul(plane), "an output has a plane for each filter");
        if self.filters == 0 || rows == 0 || width == 0 {
            return;
        }
        assert_eq!(strip.starts.len(), self.pairs, "a strip has the channels and taps of the filters");
        assert!(width <= strip.width && strip.width >= LANES, "rows of the output lie in those of the strip");
        assert!(rows.saturating_mul(width).saturating_add(first) <= plane, "the pixels lie in a plane");
        let runs = runs(rows, width, strip.width);
        let furthest = runs.iter().map(|run| run.from).max().unwrap_or(0);
        let last = strip.starts.iter().max().map_or(0, |start| start.saturating_add(furthest + Strip::BEYOND));
        assert!(last < strip.pairs.len(), "a strip has room behind its last pair");
        let job = Job { taps: self, strip, plane, to: output.from(first) };
        let tasks = at_once([self.filters, 2 * self.pairs, LANES * runs.len()], SMALL, threads);
        let (runs_at_once, filters_at_once) = match self.instruction {
            Instruction::OfRegisters => (RUNS, ROWS),
            Instruction::OfTiles => (2, 2 * amx::SIDE),
        };
        let wide = part(runs.len(), tasks, runs_at_once);
        let high = part(self.filters, tasks.div_ceil(runs.len().div_ceil(wide)), filters_at_once);
        over(tasks, grid(self.filters, high, runs.len(), wide), |(filters, part)| {
            if self.instruction == Instruction::OfTiles {
                // SAFETY: as below.
                return unsafe { job.tiles(filters, &runs[part]) };
            }
            for eight in filters.clone().step_by(ROWS) {
                for runs in runs[part.clone()].chunks(RUNS) {
                    // SAFETY: filters were packed, so the processor has the instructions. It was asserted that what is read and
                    // written lies in the slices. Tiles do not overlap, since runs do not.
                    unsafe { job.tile(eight, (filters.end - eight).min(ROWS), runs) };
                }
            }
        });
    }
}

/// Packs 16 filters from one on, or those that there are, into two panels.
///
/// # Safety
/// The processor has the instructions, the weight has `filters * channels * taps` numbers, and there are eight places for each pair of every
/// eight filters begun.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
unsafe fn pack<T: Factor>(weight: &[T], [filters, channels, taps]: [usize; 3], first: usize, to: *mut u32) {
    let pairs = channels.div_ceil(2) * taps;
    for (panel, eight) in (first..filters.min(first + 2 * ROWS)).step_by(ROWS).enumerate() {
        for (pair, channel) in (0..channels).step_by(2).enumerate() {
            for tap in (0..taps).step_by(PAIRS) {
                let mask = lowest(taps - tap) as __mmask16;
                let of_second = if channel + 1 < channels { mask } else { 0 };
                let filter = |row: usize| {
                    if eight + row >= filters {
                        return _mm512_setzero_si512();
                    }
                    let first = weight.as_ptr().wrapping_add(((eight + row) * channels + channel) * taps + tap);
                    // SAFETY: the masks leave out what is behind the taps of a channel, and a channel that there is not.
                    unsafe { T::pairs(first, mask, first.wrapping_add(taps), of_second) }
                };
                let rows = [filter(0), filter(1), filter(2), filter(3), filter(4), filter(5), filter(6), filter(7)];
                // SAFETY: as the caller promises.
                unsafe {
                    let to = to.add(ROWS * (panel * pairs + pair * taps + tap));
                    turn(rows, to, ROWS, (taps - tap).min(PAIRS));
                }
            }
        }
    }
}

/// Lines of packed filters.
fn lines(instruction: Instruction, filters: usize, pairs: usize) -> usize {
    if instruction == Instruction::OfTiles {
        return amx::lines(filters, pairs);
    }
    (filters.next_multiple_of(ROWS) * pairs).div_ceil(PAIRS)
}

/// 16 pixels that follow each other in a strip, and which of them are pixels of the output.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// Pairs from the first pixel of the strip.
    from: usize,
    /// Those of one row, and those of the next: where the first of the 16 would lie in the output, behind its first pixel, and which
    /// of them do.
    rows: [(isize, __mmask16); 2],
}

impl Run {
    /// Where the pixels of this run and of another one lie, and which they are, if they are of one row and follow each other.
    fn with(&self, other: Self) -> Option<(isize, __mmask32)> {
        let [(place, mask), (_, of_next)] = self.rows;
        let [(behind, rest), (_, of_its_next)] = other.rows;
        let follows = mask == __mmask16::MAX && behind == place + LANES as isize && (of_next, of_its_next) == (0, 0);
        follows.then(|| (place, __mmask32::from(mask) | __mmask32::from(rest) << LANES))
    }
}

/// The runs that have every pixel of `rows` rows of `width` pixels once: each within a row of the strip, or one after the other over all
/// rows, with what lies between them in vain, if these are fewer. Rows of the strip have at least 16 pairs.
fn runs(rows: usize, width: usize, strip_width: usize) -> Vec<Run> {
    let of_row = width.div_ceil(LANES);
    let over_rows = ((rows - 1) * strip_width + width).div_ceil(LANES);
    if rows * of_row <= over_rows {
        let run = |index: usize| {
            let (row, column) = (index / of_row, index % of_row * LANES);
            let places = (row * width + column) as isize;
            Run { from: row * strip_width + column, rows: [(places, lowest(width - column) as __mmask16), (0, 0)] }
        };
        return (0..rows * of_row).map(run).collect();
    }
    let run = |index: usize| {
        let from = index * LANES;
        let (row, column) = (from / strip_width, from % strip_width);
        // Of the row that it begins in, and from its beginning those of the next.
        let here = lowest(width.saturating_sub(column)) as __mmask16;
        let next = strip_width - column;
        let there = if next < LANES && row + 1 < rows { (lowest(width) << next) as __mmask16 } else { 0 };
        let place = |row: usize, column: isize| (row * width) as isize + column;
        Run { from, rows: [(place(row, column as isize), here), (place(row + 1, -(next as isize)), there)] }
    };
    (0..over_rows).map(run).collect()
}

/// A convolution of a strip.
#[derive(Clone, Copy)]
struct Job<'a> {
    taps: &'a Taps,
    strip: &'a Strip<'a>,
    plane: usize,
    /// The first pixel of the output.
    to: To,
}

impl Job<'_> {
    /// Computes the pixels of some runs for filters from a multiple of 16 on, with tiles.
    ///
    /// # Safety
    /// As for [`Job::tile`], with filters that were packed for tiles.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn tiles(&self, filters: Range<usize>, runs: &[Run]) {
        let (starts, pairs) = (self.strip.starts, self.strip.pairs.as_ptr());
        let pack = |run: usize, tiles: Range<usize>, to: *mut Line| {
            let from = pairs.wrapping_add(runs[run].from);
            let starts = &starts[tiles.start * amx::SIDE..starts.len().min(tiles.end * amx::SIDE)];
            for place in 0..tiles.len() * amx::SIDE {
                // SAFETY: 16 pairs of the run lie behind each start, and there is room for these tiles.
                unsafe {
                    let line = match starts.get(place) {
                        Some(start) => _mm512_loadu_si512(from.add(*start).cast()),
                        None => _mm512_setzero_si512(),
                    };
                    to.add(place).cast::<__m512i>().write(line);
                }
            }
            to.cast_const()
        };
        let put = |panel: usize, some: Range<usize>, sums: [[__m512; amx::SIDE]; 2]| {
            let first = filters.start + panel * amx::SIDE;
            let (high, start) = ((filters.end - first).min(amx::SIDE), (first * self.plane) as isize);
            if let [one, other] = runs[some.clone()]
                && let Some((place, mask)) = one.with(other)
            {
                // SAFETY: the pixels that the mask leaves lie in the output, in the plane of each filter.
                return unsafe { self.to.put_both(start + place, self.plane, abreast(sums, high), mask, false) };
            }
            for (run, sums) in runs[some].iter().zip(sums) {
                for (place, mask) in run.rows {
                    let of_run = sums.into_iter().take(high);
                    // SAFETY: as above.
                    unsafe { self.to.put(start + place, self.plane, of_run, mask, false) };
                }
            }
        };
        let tiles = amx::tiles(self.taps.pairs);
        let rows = self.taps.lines.as_ptr().wrapping_add(amx::lines(filters.start, self.taps.pairs));
        let factors = amx::Factors { rows, tiles, columns: pack };
        // SAFETY: filters were packed for tiles, so the processor has them.
        unsafe { amx::product(&factors, 0..filters.len().div_ceil(amx::SIDE), 0..runs.len(), put) };
    }

    /// Computes the pixels of at most three runs for `filters` filters, at most eight, from one whose number is a multiple of eight.
    ///
    /// # Safety
    /// The processor has the instructions. There are so many filters; 16 pairs from each run on lie in the strip for every one of its
    /// starts; the pixels of the runs lie in the output, where nobody else reads or writes them meanwhile.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn tile(&self, first: usize, filters: usize, runs: &[Run]) {
        // SAFETY: as the caller promises. A panel has eight filters even if fewer are in use.
        unsafe {
            match (filters.div_ceil(2), runs) {
                (1, [a]) => self.of::<2, 1>(first, filters, &[*a]),
                (1, [a, b]) => self.of::<2, 2>(first, filters, &[*a, *b]),
                (1, [a, b, c, ..]) => self.of::<2, 3>(first, filters, &[*a, *b, *c]),
                (2, [a]) => self.of::<4, 1>(first, filters, &[*a]),
                (2, [a, b]) => self.of::<4, 2>(first, filters, &[*a, *b]),
                (2, [a, b, c, ..]) => self.of::<4, 3>(first, filters, &[*a, *b, *c]),
                (_, [a]) => self.of::<8, 1>(first, filters, &[*a]),
                (_, [a, b]) => self.of::<8, 2>(first, filters, &[*a, *b]),
                (_, [a, b, c, ..]) => self.of::<8, 3>(first, filters, &[*a, *b, *c]),
                (_, []) => {}
            }
        }
    }

    /// # Safety
    /// As for [`Job::tile`], with at most `F` filters.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn of<const F: usize, const R: usize>(&self, first: usize, filters: usize, runs: &[Run; R]) {
        let mut sums = [[_mm512_setzero_ps(); R]; F];
        let pairs = self.strip.pairs.as_ptr();
        // SAFETY: a panel begins at every eighth filter, with eight places for each of its pairs.
        let mut left = unsafe { self.taps.lines.as_ptr().cast::<u32>().add(first * self.taps.pairs) };
        for start in self.strip.starts {
            // SAFETY: 16 pairs lie there, and the panel has as many pairs as the strip has starts.
            unsafe {
                let mut pixels = [halves(_mm512_setzero_si512()); R];
                for (pixels, run) in pixels.iter_mut().zip(runs) {
                    *pixels = halves(_mm512_loadu_si512(pairs.add(start + run.from).cast()));
                }
                for (filter, sums) in sums.iter_mut().enumerate() {
                    let pair = halves(_mm512_set1_epi32(left.add(filter).read() as i32));
                    for (sum, pixels) in sums.iter_mut().zip(pixels) {
                        *sum = _mm512_dpbf16_ps(*sum, pair, pixels);
                    }
                }
                left = left.add(ROWS);
            }
        }
        // A copy, so that they need no place in memory before.
        let made = sums;
        for (index, run) in runs.iter().enumerate() {
            let of_run = made.iter().take(filters).map(|sums| sums[index]);
            for (place, mask) in run.rows {
                let place = (first * self.plane) as isize + place;
                // SAFETY: the pixels that the mask leaves lie in the output, in the plane of each filter.
                unsafe { self.to.put(place, self.plane, of_run.clone(), mask, false) };
            }
        }
    }
}
