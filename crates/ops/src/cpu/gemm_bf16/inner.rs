//! Products whose result is made of inner products: sums over two rows of numbers that follow each other in memory, 32 at a time in
//! each of two registers.
//!
//! Both factors are packed as they are read, for a block of rows of the left one and four columns of the right one at a time.

#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m512, __m512i, __mmask8, _mm_add_ps, _mm_mask_storeu_ps, _mm_maskz_loadu_ps, _mm512_add_ps, _mm512_castpd_ps,
    _mm512_castps_pd, _mm512_dpbf16_ps, _mm512_extractf32x4_ps, _mm512_setzero_ps, _mm512_shuffle_f32x4,
    _mm512_unpackhi_pd, _mm512_unpackhi_ps, _mm512_unpacklo_pd, _mm512_unpacklo_ps,
};
use std::ops::Range;

use super::pack::{Factor, Line, PAIRS, Part, Source, halves};
use super::{Target, blocks, with_scratch};

/// Rows and columns of a tile.
pub(super) const SIDE: usize = 4;
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
    let [a, b, c, d] = sums.map(|[a, b, c, d]| four(a, b, c, d));
    quarters(quarters(a, b), quarters(c, d))
}

/// Adds up the numbers of each quarter of four registers. Quarter for quarter, the result has those of the four.
#[target_feature(enable = "avx512f")]
#[inline]
fn four(a: __m512, b: __m512, c: __m512, d: __m512) -> __m512 {
    let two = |a, b| _mm512_castps_pd(_mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b)));
    let (ab, cd) = (two(a, b), two(c, d));
    _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(ab, cd)), _mm512_castpd_ps(_mm512_unpackhi_pd(ab, cd)))
}

/// Adds the second quarter to the first and the fourth to the third, of both registers.
#[target_feature(enable = "avx512f")]
#[inline]
fn quarters(a: __m512, b: __m512) -> __m512 {
    _mm512_add_ps(_mm512_shuffle_f32x4::<0b10_00_10_00>(a, b), _mm512_shuffle_f32x4::<0b11_01_11_01>(a, b))
}

/// Writes or adds the first rows and columns of a tile.
///
/// # Safety
/// The processor has the instructions, and these rows and columns lie in the target.
#[target_feature(enable = "avx512f,avx512vl")]
#[inline]
unsafe fn put(target: Target, sums: __m512, rows: usize, columns: usize, add: bool) {
    let mask: __mmask8 = if columns >= SIDE { 0b1111 } else { (1 << columns) - 1 };
    let of_rows = [
        _mm512_extractf32x4_ps::<0>(sums),
        _mm512_extractf32x4_ps::<1>(sums),
        _mm512_extractf32x4_ps::<2>(sums),
        _mm512_extractf32x4_ps::<3>(sums),
    ];
    for (row, sum) in of_rows.into_iter().enumerate().take(rows) {
        // SAFETY: the mask leaves out what is beyond the columns.
        unsafe {
            let to = target.at(row, 0);
            let sum = if add { _mm_add_ps(_mm_maskz_loadu_ps(mask, to), sum) } else { sum };
            _mm_mask_storeu_ps(to, mask, sum);
        }
    }
}
