//! What the kernels of matrix products share that are written here: where a product is written, how it is divided among threads and
//! its inner dimension into blocks, and how a tile of inner products is added up and written.

#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m512, __mmask8, _mm_add_ps, _mm_mask_storeu_ps, _mm_maskz_loadu_ps, _mm512_add_ps, _mm512_castpd_ps,
    _mm512_castps_pd, _mm512_extractf32x4_ps, _mm512_shuffle_f32x4, _mm512_unpackhi_pd, _mm512_unpackhi_ps,
    _mm512_unpacklo_pd, _mm512_unpacklo_ps,
};
use std::ops::Range;

use rayon::prelude::*;

use super::matrix::{Mode, Threads};
use super::parts::parts;

/// Rows and columns of a tile of inner products.
pub(super) const SIDE: usize = 4;

/// Where a product is written: element (row, column) at `row * stride + column`.
#[derive(Clone, Copy)]
pub(super) struct Target {
    pub(super) start: *mut f32,
    pub(super) stride: usize,
}

// SAFETY: an address. What may be written there is argued by those who write.
unsafe impl Send for Target {}
// SAFETY: as above.
unsafe impl Sync for Target {}

impl Target {
    pub(super) fn at(self, row: usize, column: usize) -> *mut f32 {
        self.start.wrapping_add(row * self.stride + column)
    }
}

/// The target of a product of the shape `[rows, inner, columns]`, if anything is left to be computed: a product without an inner
/// dimension is zero, and one without rows or columns is nothing.
///
/// # Panics
/// If the product does not lie in the slice.
pub(super) fn written(
    target: &mut [f32],
    stride: usize,
    mode: Mode,
    [rows, inner, columns]: [usize; 3],
) -> Option<Target> {
    if rows == 0 || columns == 0 {
        return None;
    }
    assert_inside(target.len(), stride, [rows, columns]);
    if inner == 0 {
        if mode == Mode::Replace {
            target.chunks_mut(stride).take(rows).for_each(|row| row[..columns].fill(0.0));
        }
        return None;
    }
    Some(Target { start: target.as_mut_ptr(), stride })
}

/// Asserts that a matrix of one row and column at least, whose rows begin `stride` elements apart, lies in a slice of so many elements.
pub(super) fn assert_inside(elements: usize, stride: usize, [rows, columns]: [usize; 2]) {
    let end = (rows - 1).saturating_mul(stride).saturating_add(columns);
    assert!(columns <= stride && end <= elements, "the product lies in its slice");
}

/// Tasks that a product is divided into at least, if it can be. One with fewer than `alone` multiply-adds is not.
pub(super) fn at_once([rows, inner, columns]: [usize; 3], alone: usize, threads: Threads) -> usize {
    let small = rows.saturating_mul(inner).saturating_mul(columns) < alone;
    if threads == Threads::One || small { 1 } else { rayon::current_num_threads() }
}

/// The size of the parts of a side that is divided among tasks into whole tiles.
pub(super) fn part(side: usize, tasks: usize, tile: usize) -> usize {
    side.div_ceil(tasks).next_multiple_of(tile)
}

/// Rows and columns divided into parts of at most these sizes.
pub(super) fn grid(rows: usize, high: usize, columns: usize, wide: usize) -> Vec<(Range<usize>, Range<usize>)> {
    let of_columns = || parts(columns, wide);
    parts(rows, high).flat_map(|rows| of_columns().map(move |columns| (rows.clone(), columns))).collect()
}

/// A product of inner products divided among tasks: the longer side is, because every task packs the other side for itself.
pub(super) fn along_the_longer_side(rows: usize, columns: usize, tasks: usize) -> Vec<(Range<usize>, Range<usize>)> {
    match rows >= columns {
        true => grid(rows, part(rows, tasks, SIDE), columns, columns),
        false => grid(rows, rows, columns, part(columns, tasks, SIDE)),
    }
}

/// The blocks of the inner dimension: as few as possible with at most `most` numbers, about equally long, and of a length that is a
/// multiple of `multiple` but for the last. `most` must be such a multiple.
pub(super) fn blocks(inner: usize, most: usize, multiple: usize) -> impl Iterator<Item = Range<usize>> {
    let count = inner.div_ceil(most).max(1);
    parts(inner, inner.div_ceil(count).next_multiple_of(multiple).max(multiple))
}

/// Runs `work` for each part, on the pool if there may be several tasks.
pub(super) fn over<T: Send>(tasks: usize, parts: Vec<T>, work: impl Fn(T) + Send + Sync) {
    match tasks {
        1 => parts.into_iter().for_each(work),
        _ => parts.into_par_iter().for_each(work),
    }
}

/// The sums of the registers of a tile: number `4 * row + column` of the result.
#[target_feature(enable = "avx512f")]
#[inline]
pub(super) fn added_up(tile: [[__m512; SIDE]; SIDE]) -> __m512 {
    let [a, b, c, d] = tile.map(|[a, b, c, d]| four(a, b, c, d));
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
pub(super) unsafe fn put(target: Target, sums: __m512, rows: usize, columns: usize, add: bool) {
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
