//! Products whose result is made of inner products: sums over two rows of numbers that follow each other in memory, 32 at a time in
//! each of two registers.
//!
//! Both factors are packed as they are read, for a block of rows of the left one and four columns of the right one at a time.

#![allow(unsafe_code)]

use std::arch::x86_64::{__m512, __m512i, _mm512_dpbf16_ps, _mm512_setzero_ps};
use std::ops::Range;

use super::super::tiles::{SIDE, Target, added_up, blocks, put};
use super::pack::{Factor, Line, PAIRS, Part, Source, halves};
use super::with_scratch;

/// Rows of the left factor that are packed at a time, at most.
const ROWS: usize = 120;
/// The most numbers of the inner dimension that are added up in registers, before the sum is added to the target.
pub(super) const INNER: usize = 1024;
/// Lines that [`block`] packs the factors into.
pub(super) const SCRATCH: usize = (ROWS + SIDE) * INNER / (2 * PAIRS);

/// Computes a block of the product.
///
/// # Safety
/// The processor has the instructions. The numbers of both factors follow each other along the inner dimension, and `inner` of them
/// lie in each for every row and column; rows and columns lie in the target, and nobody else reads or writes them meanwhile.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
pub(super) unsafe fn block<A: Factor, B: Factor>(
    left: Source<'_, A>,
    rows: Range<usize>,
    right: Source<'_, B>,
    columns: Range<usize>,
    inner: usize,
    target: Target,
    add: bool,
) {
    with_scratch(|scratch| {
        let (of_left, of_right) = scratch.split_at_mut(ROWS * INNER / (2 * PAIRS));
        let (of_left, of_right) = (of_left.as_mut_ptr(), of_right.as_mut_ptr());
        for depth in blocks(inner, INNER, 2 * PAIRS) {
            let steps = depth.len().div_ceil(2 * PAIRS);
            let part = |outer: usize, end: usize| Part {
                outer,
                outers: (end - outer).min(SIDE),
                inner: depth.start,
                inners: depth.len(),
            };
            for first in rows.clone().step_by(ROWS) {
                let rows = first..(first + ROWS).min(rows.end);
                for (panel, row) in rows.clone().step_by(SIDE).enumerate() {
                    // SAFETY: there is room for `ROWS` rows of a block of the inner dimension.
                    unsafe { left.lines::<SIDE>(part(row, rows.end), of_left.add(panel * SIDE * steps)) };
                }
                for column in columns.clone().step_by(SIDE) {
                    // SAFETY: there is room for `SIDE` columns.
                    unsafe { right.lines::<SIDE>(part(column, columns.end), of_right) };
                    for (panel, row) in rows.clone().step_by(SIDE).enumerate() {
                        // SAFETY: the panels have been packed above, and the tile is a part of the block.
                        unsafe {
                            let sums = tile(of_left.add(panel * SIDE * steps), of_right, steps);
                            let (rows, columns) = (rows.end - row, columns.end - column);
                            let target = Target { start: target.at(row, column), ..target };
                            put(target, sums, rows, columns, add || depth.start > 0);
                        }
                    }
                }
            }
        }
    });
}

/// The inner products of four rows and four columns: number `4 * row + column` of the register.
///
/// # Safety
/// The processor has the instructions, and the panels have `steps` times four lines.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
#[inline]
unsafe fn tile(left: *const Line, right: *const Line, steps: usize) -> __m512 {
    let mut sums = [[_mm512_setzero_ps(); SIDE]; SIDE];
    for step in 0..steps {
        // SAFETY: the panels have as many lines.
        unsafe {
            let line = |panel: *const Line, row: usize| halves(panel.add(SIDE * step + row).cast::<__m512i>().read());
            let columns = [line(right, 0), line(right, 1), line(right, 2), line(right, 3)];
            for (row, sums) in sums.iter_mut().enumerate() {
                let row = line(left, row);
                for (sum, column) in sums.iter_mut().zip(columns) {
                    *sum = _mm512_dpbf16_ps(*sum, row, column);
                }
            }
        }
    }
    added_up(sums)
}
