//! Matrix products of float32 that are made of inner products, on x86-64 processors with AVX-512.
//!
//! A gradient of weights has few rows and columns, one for each channel, and a long inner dimension, the pixels, along which both
//! factors lie in memory. The kernels of `gemm` broadcast numbers of one factor and multiply them with registers of the other, so they
//! have to turn one around, and a narrow product has too little work to pay for that. Here registers of both are multiplied as they
//! are, and added up in the end.
//!
//! # The order of the sum
//!
//! The inner dimension is divided into blocks, as few as possible of at most [`INNER`] numbers. A block has 16 sums of its own for each
//! element of the product, and product `k` is added to sum `k % 16` by a fused multiply-add. Then these sums are added up, by twos.
//! The sum of the first block replaces the target or is added to it, those of all others are added to it in order. So the order depends
//! on the inner dimension alone.
//!
//! # Why the unsafe code is sound
//!
//! - Instructions: [`multiply`] asserts [`available`], which asks for all that kernels are compiled for.
//! - Factors are read as slices.
//! - Target: [`written`] asserts that the last element lies in the slice and that rows do not overlap. The slice is borrowed
//!   exclusively for the whole product, each task writes its own rectangle, and [`put`] only the rows and columns of a tile that lie in
//!   the rectangle. Rows of a target are read only to be added to.

#![allow(unsafe_code)]

use std::arch::x86_64::{__m512, _mm512_fmadd_ps, _mm512_load_ps, _mm512_setzero_ps};
use std::cell::RefCell;
use std::ops::Range;

use super::matrix::{Matrix, Mode, Threads};
use super::tiles::{SIDE, Target, added_up, along_the_longer_side, at_once, blocks, over, put, written};

/// Numbers of a register.
const LANES: usize = 16;
/// The most numbers of the inner dimension that are added up in registers. A tile's rows and columns of so many take 32 KiB, which
/// is the first-level cache of most processors.
const INNER: usize = 1024;
/// Rows of the left factor that are packed at a time, at most. So many of a block take 256 KiB, which leave room in a second-level
/// cache.
const ROWS: usize = 64;

/// Numbers of a register, where it can be loaded from at once.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; LANES]);

/// A register of each row or column of a tile.
type Step = [Line; SIDE];

/// Steps of the scratch of a thread.
const SCRATCH: usize = (ROWS / SIDE + 1) * INNER / LANES;

/// Whether this processor has the instructions.
pub(super) fn available() -> bool {
    is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl")
}

/// Bytes of the buffer that each thread keeps to pack factors, once it has multiplied this way.
pub(super) fn packing_bytes() -> usize {
    if available() { SCRATCH * size_of::<Step>() } else { 0 }
}

/// Whether a product of these factors can be computed here, and is expected to be faster than by `gemm`.
pub(super) fn serves(left: &Matrix<'_, f32>, right: &Matrix<'_, f32>) -> bool {
    let ([rows, inner], columns) = (left.shape, right.shape[1]);
    left.strides[1] == 1 && right.strides[0] == 1 && pays([rows, inner, columns]) && available()
}

/// The least inner dimension of inner products. With a shorter one, adding up the sums of a register takes too long.
const LONG: usize = 192;
/// The fewest rows and columns.
const NARROW: usize = 8;
/// Rows times columns up to which `gemm` takes its factors as they lie in memory, where it is hard to beat.
const TINY: usize = 256;

/// Whether a product of the shape `[rows, inner, columns]` is faster here, on one thread, going by what was measured on a Zen 4
/// processor for 8 to 1024 rows and columns and inner dimensions of 192 to 4096, with `gemm` 0.19.0.
///
/// Beside a multiply-add of registers for each row and column, packing a row or a column here takes the time of 4.5 of them. `gemm`
/// multiplies whole registers of columns, and turning a column around takes it the time of 17 multiply-adds. Where columns are a
/// multiple of 1 KiB long, which then compete for the same lines of the cache, it is 50 to 160 if all lies in the second-level cache
/// and less beyond it or with few columns. So `gemm` is faster from about 50 rows on if there are 16 columns, from 150 if there are 64, and 15% at most;
/// with 16 to 64 rows and more columns than 32, products here are 1.1 to 6 times as fast.
fn pays([rows, inner, columns]: [usize; 3]) -> bool {
    if inner < LONG || rows < NARROW || columns < NARROW || rows * columns <= TINY {
        return false;
    }
    let turning = if inner.is_multiple_of(256) && columns > LANES { 32 } else { 17 };
    let [high, wide] = [rows, columns].map(|side| side.next_multiple_of(SIDE));
    2 * high * wide + 9 * (rows + columns) < 2 * (rows + turning) * columns.next_multiple_of(LANES)
}

/// A factor whose numbers follow each other along the inner dimension: the rows of the left one, the columns of the right one.
#[derive(Clone, Copy)]
struct Rows<'a> {
    values: &'a [f32],
    stride: usize,
}

impl Rows<'_> {
    /// Copies a block of some rows to the steps of a tile, and fills the rest of the steps with zeros.
    #[target_feature(enable = "avx512f,avx512vl")]
    #[inline]
    fn pack(self, rows: Range<usize>, depth: &Range<usize>, steps: &mut [Step]) {
        for at in 0..SIDE {
            let row = rows.start + at;
            if row >= rows.end {
                steps.iter_mut().for_each(|step| step[at] = Line([0.0; LANES]));
                continue;
            }
            let (whole, rest) = self.values[row * self.stride..][depth.clone()].as_chunks::<LANES>();
            for (step, numbers) in steps.iter_mut().zip(whole) {
                step[at] = Line(*numbers);
            }
            if let Some(last) = steps.get_mut(whole.len()) {
                last[at] = Line([0.0; LANES]);
                last[at].0[..rest.len()].copy_from_slice(rest);
            }
        }
    }
}

/// Writes or adds `left * right` to the matrix whose rows begin `stride` elements apart in `target`.
///
/// # Panics
/// If the shapes do not match, a matrix does not lie in its slice or its numbers do not follow each other along the inner dimension,
/// or the processor lacks the instructions ([`available`]).
pub(super) fn multiply(
    target: &mut [f32],
    stride: usize,
    mode: Mode,
    left: Matrix<'_, f32>,
    right: Matrix<'_, f32>,
    threads: Threads,
) {
    let ([rows, inner], [again, columns]) = (left.shape, right.shape);
    assert_eq!(inner, again, "the inner dimensions of a product agree");
    assert!(left.strides[1] == 1 && right.strides[0] == 1, "the factors are contiguous along the inner dimension");
    assert!(available(), "the processor has the instructions");
    let Some(written) = written(target, stride, mode, [rows, inner, columns]) else { return };
    let left = Rows { values: left.values, stride: left.strides[0] };
    let right = Rows { values: right.values, stride: right.strides[1] };
    // As `gemm` does, so that the plan of memory knows how many threads pack.
    let alone = gemm_common::gemm::get_threading_threshold() + 1;
    let tasks = at_once([rows, inner, columns], alone, threads);
    over(tasks, along_the_longer_side(rows, columns, tasks), |(rows, columns)| {
        // SAFETY: see the module. Parts do not overlap.
        unsafe { block(left, rows, right, columns, inner, written, mode == Mode::Add) }
    });
}

/// Computes a block of the product.
///
/// # Safety
/// The processor has the instructions. Rows and columns lie in the target, and nobody else reads or writes them meanwhile.
#[target_feature(enable = "avx512f,avx512vl")]
unsafe fn block(
    left: Rows<'_>,
    rows: Range<usize>,
    right: Rows<'_>,
    columns: Range<usize>,
    inner: usize,
    target: Target,
    add: bool,
) {
    with_scratch(|scratch| {
        let (of_left, of_right) = scratch.split_at_mut(ROWS / SIDE * INNER / LANES);
        for depth in blocks(inner, INNER, LANES) {
            let steps = depth.len().div_ceil(LANES);
            let of_right = &mut of_right[..steps];
            for first in rows.clone().step_by(ROWS) {
                let rows = first..(first + ROWS).min(rows.end);
                for (panel, row) in of_left.chunks_exact_mut(steps).zip(rows.clone().step_by(SIDE)) {
                    left.pack(row..rows.end, &depth, panel);
                }
                for column in columns.clone().step_by(SIDE) {
                    right.pack(column..columns.end, &depth, of_right);
                    for (panel, row) in of_left.chunks_exact(steps).zip(rows.clone().step_by(SIDE)) {
                        let sums = tile(panel, of_right);
                        let target = Target { start: target.at(row, column), ..target };
                        // SAFETY: the tile is a part of the block as far as it is written.
                        unsafe { put(target, sums, rows.end - row, columns.end - column, add || depth.start > 0) };
                    }
                }
            }
        }
    });
}

/// The inner products of four rows and four columns: number `4 * row + column` of the register.
#[target_feature(enable = "avx512f,avx512vl")]
#[inline]
fn tile(left: &[Step], right: &[Step]) -> __m512 {
    let mut sums = [[_mm512_setzero_ps(); SIDE]; SIDE];
    for (rows, columns) in left.iter().zip(right) {
        // SAFETY: a line has as many numbers as a register, and begins at a multiple of its size.
        let load = |line: &Line| unsafe { _mm512_load_ps(line.0.as_ptr()) };
        let columns = [load(&columns[0]), load(&columns[1]), load(&columns[2]), load(&columns[3])];
        for (row, sums) in rows.iter().zip(&mut sums) {
            let row = load(row);
            for (sum, column) in sums.iter_mut().zip(columns) {
                *sum = _mm512_fmadd_ps(row, column, *sum);
            }
        }
    }
    added_up(sums)
}

thread_local! {
    static STEPS: RefCell<Vec<Step>> = const { RefCell::new(Vec::new()) };
}

/// Lends this thread's scratch, [`SCRATCH`] steps. `work` must not lead to another call of this function.
fn with_scratch<R>(work: impl FnOnce(&mut [Step]) -> R) -> R {
    STEPS.with_borrow_mut(|steps| {
        steps.resize(SCRATCH, [Line([0.0; LANES]); SIDE]);
        work(steps)
    })
}

#[cfg(test)]
mod tests;
