//! Matrix products of factors rounded to bf16, on x86-64 processors with an instruction for them (AVX-512 BF16).
//!
//! `VDPBF16PS` multiplies 32 pairs of bf16 and adds them to 16 sums of float32, two pairs to each: twice the products that an
//! instruction on float32 makes. Factors are slices of float32, which are rounded while they are packed, or of bf16. The product is
//! float32.
//!
//! # What is computed
//!
//! Everything here is defined to the bit, by the scalar functions of the module `reference`, which the tests compare the kernels with.
//!
//! - A factor of float32 is rounded to the nearest bf16, ties to even. Numbers too small for a normal bf16 (subnormal ones of
//!   float32) become zeros of their sign. NaN stays NaN.
//! - Intel's manual defines the instruction, and processors of AMD do the same: of two products that follow each other along the
//!   inner dimension, the second is added to the sum first, and then the first. Each addition is a fused multiply-add, rounded once,
//!   to nearest even. Subnormal factors and sums count as zeros, and sums that come out subnormal become zeros. The control register
//!   for floats (MXCSR) is neither asked nor changed.
//! - If the inner dimension has at least [`LONG`] numbers, which follow each other in memory in both factors, as they do for a
//!   gradient of weights, the product is made of inner products ([`inner`]). A block of at most [`inner::INNER`] numbers has 16 sums
//!   of its own for each element of the product, and pair `p` is added to sum `p % 16`. Then these sums are added up, by twos.
//! - All other products are made of outer products ([`outer`]). A block of at most [`outer::INNER`] numbers has one sum for each
//!   element, to which its pairs are added in order.
//! - The sum of the first block replaces the target or is added to it, those of all others are added to it in order: additions of
//!   float32.
//!
//! So the order of a sum depends on the shape and on which strides are 1, and not on the number of threads, nor on how large the
//! tiles are or where in the product an element lies.
//!
//! # Why the unsafe code is sound
//!
//! - Instructions: every safe function here that leads to a kernel asserts [`available`], and the kernels are compiled for just the
//!   instruction sets that it asks for.
//! - Factors: [`Source::of_left`] and [`Source::of_right`] assert that the last element lies in the slice. Strides are not negative,
//!   so all lie there. They assert as well that one stride is 1, and several elements at a time are read only along that one. Kernels
//!   read elements within the shape only: what a register has beyond it is masked, and a masked load does not touch memory.
//! - Target: [`written`] asserts that the last element lies in the slice and that rows do not overlap. The slice is borrowed
//!   exclusively for the whole product, each task writes its own rectangle, and what a register has beyond it is masked. Rows of a
//!   target are read only to be added to.
//! - Packed factors: [`Left`] and the scratch of a thread have a number of lines that is computed by the very functions that say where
//!   a panel begins; the kernels stay within panels because both take the number of pairs from the same block.
//! - The scratch belongs to one thread, and nothing called while it is borrowed starts other work on that thread.

#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ops::Range;

use rayon::prelude::*;

use super::gemm::{Matrix, Mode, Threads};

mod inner;
mod outer;
mod pack;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

pub(crate) use outer::Left;
pub(crate) use pack::Factor;
use pack::{Line, Source};

/// Whether this processor has the instructions.
pub(crate) fn available() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512bf16")
}

/// Bytes of the buffer that each thread keeps to pack factors. [`Left::bytes`] come on top while a product is computed that is not
/// made of inner products.
pub(crate) const fn packing_bytes() -> usize {
    SCRATCH * size_of::<Line>()
}

/// Multiply-adds below which a product runs on one thread even if it may use all: about 20 microseconds.
const SMALL: usize = 1 << 21;

/// Writes or adds `left * right`, both rounded to bf16, to the matrix whose rows begin `stride` elements apart in `target`.
///
/// See the module for the order of the sum. Where the same left factor is used again and again, pack it once: [`Left`].
///
/// # Panics
/// If the shapes do not match, a matrix does not lie in its slice, or the processor lacks the instructions ([`available`]).
pub(crate) fn multiply<A: Factor, B: Factor>(
    target: &mut [f32],
    stride: usize,
    mode: Mode,
    left: Matrix<'_, A>,
    right: Matrix<'_, B>,
    threads: Threads,
) {
    if !of_inner_products(&left, &right) {
        return Left::new(left).multiply(target, stride, mode, right, threads);
    }
    let ([rows, inner], [again, columns]) = (left.shape, right.shape);
    assert_eq!(inner, again, "the inner dimensions of a product agree");
    let Some(written) = written(target, stride, mode, [rows, inner, columns]) else { return };
    let (left, right) = (Source::of_left(left), Source::of_right(right));
    assert!(available(), "the processor multiplies numbers of bf16");
    let tasks = at_once([rows, inner, columns], threads);
    // The longer side is divided, because every task packs the other side for itself.
    let parts = match rows >= columns {
        true => grid(rows, part(rows, tasks, inner::SIDE), columns, columns),
        false => grid(rows, rows, columns, part(columns, tasks, inner::SIDE)),
    };
    over(tasks, parts, |(rows, columns)| {
        // SAFETY: see the module. Parts do not overlap.
        unsafe { inner::block(left, rows, right, columns, inner, written, mode == Mode::Add) }
    });
}

/// Whether a product of these factors is made of inner products: whether the inner dimension is long and both are contiguous along it,
/// the right one not along its columns as well.
fn of_inner_products<A, B>(left: &Matrix<'_, A>, right: &Matrix<'_, B>) -> bool {
    left.shape[1] >= LONG && left.strides[1] == 1 && right.strides[0] == 1 && right.strides[1] != 1
}

/// The least inner dimension of inner products. With a shorter one, adding up the sums of a register takes longer than turning the
/// right factor for outer products.
const LONG: usize = 192;

impl Left {
    /// Rounds and packs a factor.
    ///
    /// # Panics
    /// If the matrix does not lie in its slice, or the processor lacks the instructions ([`available`]).
    pub(crate) fn new<T: Factor>(matrix: Matrix<'_, T>) -> Self {
        let [rows, inner] = matrix.shape;
        let source = Source::of_left(matrix);
        assert!(available(), "the processor multiplies numbers of bf16");
        // SAFETY: see the module.
        unsafe { Self::pack(source, rows, inner) }
    }

    /// Writes or adds this factor times `right`, rounded to bf16, to the matrix whose rows begin `stride` elements apart in `target`.
    ///
    /// The product is made of outer products even where [`multiply`] would choose inner ones.
    ///
    /// # Panics
    /// If the shapes do not match, or a matrix does not lie in its slice.
    pub(crate) fn multiply<T: Factor>(
        &self,
        target: &mut [f32],
        stride: usize,
        mode: Mode,
        right: Matrix<'_, T>,
        threads: Threads,
    ) {
        let ([rows, inner], [again, columns]) = (self.shape(), right.shape);
        assert_eq!(inner, again, "the inner dimensions of a product agree");
        let Some(written) = written(target, stride, mode, [rows, inner, columns]) else { return };
        let right = Source::of_right(right);
        let tasks = at_once([rows, inner, columns], threads);
        let wide = part(columns, tasks, outer::LANES).min(outer::columns_at_once(inner));
        // Rows are divided only where there are too few columns for all threads, because every task packs its columns for itself.
        let high = part(rows, tasks.div_ceil(columns.div_ceil(wide)), outer::ROWS);
        over(tasks, grid(rows, high, columns, wide), |(rows, columns)| {
            // SAFETY: see the module; this factor was packed, so the processor has the instructions. Parts do not overlap.
            unsafe { self.block(rows, right, columns, written, mode == Mode::Add) }
        });
    }
}

/// Where a product is written: element (row, column) at `row * stride + column`.
#[derive(Clone, Copy)]
struct Target {
    start: *mut f32,
    stride: usize,
}

// SAFETY: an address. What may be written there is argued in the module.
unsafe impl Send for Target {}
// SAFETY: as above.
unsafe impl Sync for Target {}

impl Target {
    fn at(self, row: usize, column: usize) -> *mut f32 {
        self.start.wrapping_add(row * self.stride + column)
    }
}

/// The target of a product of the shape `[rows, inner, columns]`, if anything is left to be computed: a product without an inner
/// dimension is zero, and one without rows or columns is nothing.
///
/// # Panics
/// If the product does not lie in the slice.
fn written(target: &mut [f32], stride: usize, mode: Mode, [rows, inner, columns]: [usize; 3]) -> Option<Target> {
    if rows == 0 || columns == 0 {
        return None;
    }
    let end = (rows - 1).saturating_mul(stride).saturating_add(columns);
    assert!(columns <= stride && end <= target.len(), "the product lies in its slice");
    if inner == 0 {
        if mode == Mode::Replace {
            target.chunks_mut(stride).take(rows).for_each(|row| row[..columns].fill(0.0));
        }
        return None;
    }
    Some(Target { start: target.as_mut_ptr(), stride })
}

/// Tasks that a product is divided into at least, if it can be.
fn at_once([rows, inner, columns]: [usize; 3], threads: Threads) -> usize {
    let small = rows.saturating_mul(inner).saturating_mul(columns) < SMALL;
    if threads == Threads::One || small { 1 } else { rayon::current_num_threads() }
}

/// The size of the parts of a side that is divided among tasks into whole tiles.
fn part(side: usize, tasks: usize, tile: usize) -> usize {
    side.div_ceil(tasks).next_multiple_of(tile)
}

/// Rows and columns divided into parts of at most these sizes.
fn grid(rows: usize, high: usize, columns: usize, wide: usize) -> Vec<(Range<usize>, Range<usize>)> {
    let of_columns = || parts(columns, wide);
    parts(rows, high).flat_map(|rows| of_columns().map(move |columns| (rows.clone(), columns))).collect()
}

fn parts(side: usize, each: usize) -> impl Iterator<Item = Range<usize>> {
    (0..side).step_by(each).map(move |start| start..(start + each).min(side))
}

/// The blocks of the inner dimension: as few as possible with at most `most` numbers, about equally long, and of a length that is a
/// multiple of `multiple` but for the last. `most` must be such a multiple.
fn blocks(inner: usize, most: usize, multiple: usize) -> impl Iterator<Item = Range<usize>> {
    let count = inner.div_ceil(most).max(1);
    parts(inner, inner.div_ceil(count).next_multiple_of(multiple).max(multiple))
}

/// Runs `work` for each part, on the pool if there may be several tasks.
fn over<T: Send>(tasks: usize, parts: Vec<T>, work: impl Fn(T) + Send + Sync) {
    match tasks {
        1 => parts.into_iter().for_each(work),
        _ => parts.into_par_iter().for_each(work),
    }
}

/// Lines of the scratch: for one way of multiplying or the other.
const SCRATCH: usize = if inner::SCRATCH > outer::SCRATCH { inner::SCRATCH } else { outer::SCRATCH };

thread_local! {
    static LINES: RefCell<Vec<Line>> = const { RefCell::new(Vec::new()) };
}

/// Lends this thread's scratch, [`SCRATCH`] lines. `work` must not lead to another call of this function.
fn with_scratch<R>(work: impl FnOnce(&mut [Line]) -> R) -> R {
    LINES.with_borrow_mut(|lines| {
        lines.resize(SCRATCH, Line::ZERO);
        work(lines)
    })
}
