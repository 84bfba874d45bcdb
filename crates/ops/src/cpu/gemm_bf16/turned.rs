//! Products of two factors whose numbers follow each other along the inner dimension, as those of a gradient of filters do, where one of
//! them lies in stretches of a strip.
//!
//! One factor is turned once ([`Turned`]), so that a register has the pairs of 16 of its rows. The other is read as it lies: a pair of one
//! row is multiplied with all of these at once. A tile of the product stays in registers for a block of the inner dimension.

#![allow(unsafe_code)]

use std::arch::x86_64::{__m512i, _mm512_dpbf16_ps, _mm512_set1_epi32, _mm512_setzero_ps};
use std::ops::Range;

use half::bf16;

use super::super::matrix::{Matrix, Mode, Stretches, Threads};
use super::super::parts::parts;
use super::super::tiles::{Target, at_once, blocks, grid, over, part, written};
use super::outer::{LANES, ROWS, pack_right};
use super::output::Place;
use super::pack::{Factor, Line, Part, Source, halves};
use super::tile::{Tile, put_turned, vectors};
use super::{FEW, INNER, Instruction, SMALL, amx, available};

/// A factor, rounded to bf16 and turned around. It keeps its memory for the next one.
pub(crate) struct Turned {
    instruction: Instruction,
    pub(super) lines: Vec<Line>,
    rows: usize,
    inner: usize,
}

impl Default for Turned {
    fn default() -> Self {
        Self::empty(Instruction::fastest())
    }
}

impl Turned {
    /// Bytes of a factor.
    pub(crate) fn bytes(rows: usize, inner: usize) -> usize {
        lines(Instruction::fastest(), rows, inner) * size_of::<Line>()
    }

    pub(super) fn empty(instruction: Instruction) -> Self {
        Self { instruction, lines: Vec::new(), rows: 0, inner: 0 }
    }

    /// Takes another factor.
    ///
    /// # Panics
    /// If the matrix does not lie in its slice, or the processor lacks the instructions ([`available`]).
    pub(crate) fn fill<T: Factor>(&mut self, matrix: Matrix<'_, T>, threads: Threads) {
        let [rows, inner] = matrix.shape;
        let source = Source::of_left(matrix);
        assert!(available(), "the processor multiplies numbers of bf16");
        (self.rows, self.inner) = (rows, inner);
        self.lines.resize(lines(self.instruction, rows, inner), Line::ZERO);
        let (high, of_panel) = match self.instruction {
            Instruction::OfRegisters => (LANES * vectors(rows), vectors(rows) * inner.div_ceil(2)),
            Instruction::OfTiles => (amx::SIDE, amx::lines(amx::SIDE, inner.div_ceil(2))),
        };
        if of_panel == 0 {
            return;
        }
        let tasks = at_once([rows, inner, 1], FEW, threads);
        let panels = parts(rows, high).zip(self.lines.chunks_mut(of_panel)).collect();
        over(tasks, panels, |(rows, lines): (Range<usize>, &mut [Line])| {
            let to = lines.as_mut_ptr();
            // SAFETY: the rows lie in the source, and the panel has a line for each of its pairs and every 16 rows begun, or whole tiles.
            unsafe {
                match self.instruction {
                    Instruction::OfRegisters => pack_right(source, &rows, &(0..inner), to),
                    Instruction::OfTiles => {
                        let part = Part { outer: rows.start, outers: rows.len(), inner: 0, inners: inner };
                        amx::columns(source, part, to);
                    }
                }
            };
        });
    }

    /// Adds this factor times the transposed `right` to the matrix whose rows begin `stride` elements apart in `target`.
    ///
    /// # Panics
    /// If the inner dimensions differ, stretches are of an odd length, or a matrix does not lie in its slice.
    pub(crate) fn add_product(&self, target: &mut [f32], stride: usize, right: Stretches<'_>, threads: Threads) {
        let Stretches { values, starts, count, length, step } = right;
        assert_eq!(self.inner, count.saturating_mul(length), "the inner dimensions of a product agree");
        assert!(length.is_multiple_of(2), "stretches have whole pairs");
        let Some(target) = written(target, stride, Mode::Add, [self.rows, self.inner, starts.len()]) else { return };
        let reach = (count - 1).saturating_mul(step).saturating_add(length);
        let lies = |start: &usize| start.checked_add(reach).is_some_and(|end| end <= values.len());
        assert!(starts.iter().all(lies), "a factor lies in its slice");
        let tasks = at_once([self.rows, self.inner, starts.len()], SMALL, threads);
        // The turned factor is there for all of them; what is read as it lies is read by one, or by few.
        let of_tiles = self.instruction == Instruction::OfTiles;
        let triples = !of_tiles && vectors(self.rows) == 1 && are_triples(starts);
        let (of_starts, of_rows) = match self.instruction {
            Instruction::OfRegisters => (if triples { TRIPLES } else { ROWS }, LANES * vectors(self.rows)),
            Instruction::OfTiles => (2 * amx::SIDE, 2 * amx::SIDE),
        };
        let wide = part(starts.len(), tasks, of_starts);
        let high = part(self.rows, tasks.div_ceil(starts.len().div_ceil(wide)), of_rows);
        over(tasks, grid(starts.len(), wide, self.rows, high), |(starts, rows)| {
            // SAFETY: a factor was turned, so the processor has the instructions, and it was asserted that all lies in the slices. Parts
            // do not overlap.
            unsafe {
                if of_tiles {
                    amx::turned_by_stretches((self.lines.as_ptr(), rows), right, starts, target);
                } else if triples {
                    self.triples(right, starts, target);
                } else {
                    self.block(rows, right, starts, target);
                }
            };
        });
    }

    /// # Safety
    /// The processor has the instructions. Rows, whose first is the first of a panel, and starts are those of the product, which lies in
    /// the target, and nobody else reads or writes theirs meanwhile; the stretches lie in their slice.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn block(&self, rows: Range<usize>, right: Stretches<'_>, starts: Range<usize>, target: Target) {
        let (pairs, of_stretch, of_panel) = (self.inner / 2, right.length / 2, vectors(self.rows));
        for stretches in at_a_time(right) {
            for first in starts.clone().step_by(ROWS) {
                let starts = &right.starts[first..starts.end.min(first + ROWS)];
                // Where there are fewer, one again, to no effect.
                let at = |row: usize| starts.get(row).unwrap_or(&starts[0]) + stretches.start * right.step;
                let from = [at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7)];
                let from = from.map(|at| right.values.as_ptr().wrapping_add(at).cast::<i32>());
                for row in rows.clone().step_by(LANES * of_panel) {
                    let high = (rows.end - row).min(LANES * of_panel);
                    let vectors = (self.rows - row).div_ceil(LANES).min(of_panel);
                    let panel = row / LANES * pairs + stretches.start * of_stretch * vectors;
                    // SAFETY: a panel has `vectors` lines for each pair.
                    let lines = unsafe { self.lines.as_ptr().add(panel) };
                    let tile = Tile {
                        from,
                        lines,
                        count: stretches.len(),
                        pairs: of_stretch,
                        step: right.step,
                        turned: high,
                        lying: starts.len(),
                    };
                    let start = target.at(row, first);
                    let place = Place { target: Target { start, ..target }, turned: true, add: true };
                    // SAFETY: as the caller promises.
                    unsafe { tile.compute(place) };
                }
            }
        }
    }

    /// [`Turned::block`] for a factor of at most 16 rows and starts that come in triples.
    ///
    /// # Safety
    /// As there.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn triples(&self, right: Stretches<'_>, starts: Range<usize>, target: Target) {
        let of_stretch = right.length / 2;
        for stretches in at_a_time(right) {
            for first in starts.clone().step_by(TRIPLES) {
                let at = |triple: usize| right.starts[first + 3 * triple] + stretches.start * right.step;
                let from = [at(0), at(1), at(2)].map(|at| right.values.as_ptr().wrapping_add(at));
                let lines = self.lines.as_ptr().wrapping_add(stretches.start * of_stretch);
                let (count, pairs, step) = (stretches.len(), of_stretch, right.step);
                let target = Target { start: target.at(0, first), ..target };
                // SAFETY: as the caller promises.
                unsafe { Triples { from, lines, count, pairs, step }.add(target, self.rows) };
            }
        }
    }
}

/// The stretches that are added up in registers at a time.
fn at_a_time(right: Stretches<'_>) -> impl Iterator<Item = Range<usize>> {
    blocks(right.count, (INNER / right.length).max(1), 1)
}

/// Rows of three triples.
const TRIPLES: usize = 9;

/// Whether every three rows, nine at a time, begin at places that follow each other, as the taps of a row of a 3x3 kernel do.
fn are_triples(starts: &[usize]) -> bool {
    let follow = |[one, two, three]: &[usize; 3]| *two == one + 1 && *three == one + 2;
    starts.len().is_multiple_of(TRIPLES) && starts.as_chunks::<3>().0.iter().all(follow)
}

/// Lines of a factor.
fn lines(instruction: Instruction, rows: usize, inner: usize) -> usize {
    if instruction == Instruction::OfTiles {
        return amx::lines(rows, inner.div_ceil(2));
    }
    rows.div_ceil(LANES) * inner.div_ceil(2)
}

/// Nine rows that begin at places that follow each other by threes, and a turned factor of at most 16 rows. With so few, reading pairs
/// would take as long as multiplying them. But the third row of a triple has the pairs of the first one, one later, so each of these is
/// read once, and multiplied with two registers.
struct Triples {
    /// The first number of each triple.
    from: [*const bf16; 3],
    lines: *const Line,
    count: usize,
    pairs: usize,
    step: usize,
}

impl Triples {
    /// Adds the products to `high` rows of the target.
    ///
    /// # Safety
    /// As for [`Tile::compute`], and there is a pair in a stretch.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn add(&self, target: Target, high: usize) {
        let mut sums = [_mm512_setzero_ps(); TRIPLES];
        let (mut lines, mut from) = (self.lines, self.from);
        for _ in 0..self.count {
            // SAFETY: as the caller promises. The pair behind the last one of a first row is the last one of the third.
            unsafe {
                let line = |pair: usize| halves(lines.add(pair).cast::<__m512i>().read());
                let pair = |from: *const bf16, pair: usize| {
                    halves(_mm512_set1_epi32(from.cast::<i32>().add(pair).read_unaligned()))
                };
                let mut before = line(0);
                for (from, sums) in from.iter().zip(sums.as_chunks_mut::<3>().0) {
                    sums[0] = _mm512_dpbf16_ps(sums[0], pair(*from, 0), before);
                    sums[1] = _mm512_dpbf16_ps(sums[1], pair(from.add(1), 0), before);
                }
                for at in 1..self.pairs {
                    let turned = line(at);
                    for (from, sums) in from.iter().zip(sums.as_chunks_mut::<3>().0) {
                        let first = pair(*from, at);
                        sums[0] = _mm512_dpbf16_ps(sums[0], first, turned);
                        sums[1] = _mm512_dpbf16_ps(sums[1], pair(from.add(1), at), turned);
                        sums[2] = _mm512_dpbf16_ps(sums[2], first, before);
                    }
                    before = turned;
                }
                for (from, sums) in from.iter().zip(sums.as_chunks_mut::<3>().0) {
                    sums[2] = _mm512_dpbf16_ps(sums[2], pair(*from, self.pairs), before);
                }
                lines = lines.add(self.pairs);
            }
            from = from.map(|from| from.wrapping_add(self.step));
        }
        let [a, b, c, d, e, f, g, h, i] = sums;
        let behind = Target { start: target.at(0, ROWS), ..target };
        // SAFETY: as the caller promises.
        unsafe {
            put_turned(target, [a, b, c, d, e, f, g, h], high, ROWS, true);
            put_turned(behind, [i; ROWS], high, 1, true);
        }
    }
}
