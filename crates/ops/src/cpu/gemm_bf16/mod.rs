//! Matrix products of factors rounded to bf16, on x86-64 processors with instructions for them (AVX-512 BF16, AMX).
//!
//! `VDPBF16PS` multiplies 16 pairs of bf16 with 16 others and adds the two products of each to one of 16 sums of float32: twice the
//! products that an instruction on float32 makes. `TDPBF16PS` does that for all of 16 rows with all of 16 columns, 16 pairs long, in the
//! time of 16 instructions ([`amx`]). Factors are slices of float32, which are rounded while they are packed, or of bf16. The product is
//! float32.
//!
//! # What is computed
//!
//! Everything here is defined to the bit, by the scalar functions of the module `reference`, which the tests compare the kernels with.
//!
//! - A factor of float32 is rounded to the nearest bf16, ties to even. Numbers too small for a normal bf16 (subnormal ones of
//!   float32) become zeros of their sign. NaN stays NaN.
//! - Intel's manual defines `VDPBF16PS`, and processors of AMD do the same: of two products that follow each other along the
//!   inner dimension, the second is added to the sum first, and then the first. Each addition is a fused multiply-add, rounded once,
//!   to nearest even. Subnormal factors and sums count as zeros, and sums that come out subnormal become zeros. The control register
//!   for floats (MXCSR) is neither asked nor changed.
//! - It defines `TDPBF16PS` as well: the first products of up to 16 pairs are added up, from zero, and so are the second ones, by fused
//!   multiply-adds; then one to the other, and both to the sum. The last of a sum's pairs are filled up with zeros.
//! - If the inner dimension has at least [`LONG`] numbers, which follow each other in memory in both factors, as they do for a
//!   gradient of weights, one factor is turned and the other read as it lies ([`contiguous`]). A block of at most [`INNER`] numbers has
//!   one sum for each element of the product, to which its pairs are added in order.
//! - So has the product of a factor that was turned before with stretches of a strip ([`turned`]), where a block is as many stretches as
//!   have so many numbers, and one at least.
//! - A convolution of a strip of a map ([`taps`]) has one sum for each number of the output, to which the pairs of all channels and taps
//!   are added in order: first those of two channels, a tap after the other. What is written as bf16 is rounded as factors are.
//! - All other products are made of outer products ([`outer`]). A block of at most [`outer::INNER`] numbers has one sum for each
//!   element, to which its pairs are added in order.
//! - Tiles add up all of the inner dimension, but for factors that follow each other along it, of which a block has [`INNER`] numbers at
//!   most, whatever stretches they lie in.
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
//!   so all lie there. They assert as well that one stride is 1, and several elements at a time are read only along that one.
//!   Kernels read elements within the shape only: what a register has beyond it is masked, and a masked load does not touch memory. Pairs
//!   that are read as they lie are whole: where the inner dimension is odd, they are packed first.
//! - Stretches: [`Turned::add_product`] asserts that the last stretch of each row lies in the slice and that stretches have whole pairs.
//! - Strips: [`Taps::convolve`] asserts that the furthest pairs that are read lie in the strip and that the last pixel lies in the
//!   output, whose planes do not overlap; its runs have each pixel once, so tiles write to places of their own.
//! - Output: [`Left::write`] asserts that it has as many rows as the product and that the columns lie in them, [`Left::write_rows`] that the
//!   last element lies in its slice, which has been written before.
//! - Target: [`written`] asserts that the last element lies in the slice and that rows do not overlap. The slice is borrowed
//!   exclusively for the whole product, each task writes its own rectangle, and what a register has beyond it is masked. Rows of a
//!   target are read only to be added to.
//! - Packed factors: [`Left`], [`Right`], [`Turned`] and the scratch of a thread have a number of lines that is computed by the very functions that
//!   say where a panel begins; the kernels stay within panels because both take the number of pairs from the same block.
//! - The scratch belongs to one thread, and nothing called while it is borrowed starts other work on that thread.

#![allow(unsafe_code)]

use std::arch::x86_64::__cpuid;
use std::cell::RefCell;
use std::ops::Range;
use std::sync::OnceLock;

use super::matrix::{Matrix, Mode, Output, Threads};
use super::tiles::{at_once, grid, over, part, written};

mod amx;
mod contiguous;
mod outer;
mod output;
mod pack;
#[cfg(test)]
mod reference;
mod right;
mod taps;
#[cfg(test)]
mod tests;
mod tile;
mod turned;

pub(crate) use contiguous::INNER;
use contiguous::{among, turns_columns};
pub(crate) use outer::Left;
use outer::Written;
use output::{Place, To};
pub(crate) use pack::Factor;
use pack::{Line, Source};
pub(crate) use right::Right;
pub(crate) use taps::Taps;
pub(crate) use turned::Turned;

/// Whether this processor multiplies numbers of bf16 faster than those of float32. It is not measured: the answer decides how products are
/// rounded.
pub(crate) fn pays() -> bool {
    static PAYS: OnceLock<bool> = OnceLock::new();
    *PAYS.get_or_init(|| {
        let vendor = __cpuid(0);
        let vendor = [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes);
        let tiles = amx::available();
        available() && is_faster(vendor.as_flattened(), is_x86_feature_detected!("avx512fp16"), tiles)
    })
}

/// Whether numbers of bf16 are multiplied faster by a processor of this vendor, which may have instructions for float16 and lets this process
/// use tiles or not.
///
/// Intel's processors since Sapphire Rapids, the first with instructions for float16, have tiles. Where a hypervisor or the operating system
/// keeps these back, `VDPBF16PS` begins every other cycle (measured on Emerald Rapids): half the products of two multiply-adds of float32 in
/// each.
fn is_faster(vendor: &[u8], float16: bool, tiles: bool) -> bool {
    tiles || !(vendor == b"GenuineIntel" && float16)
}

/// Whether this processor has the instructions.
fn available() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512bf16")
}

/// The instructions that multiply here.
pub(crate) fn instructions() -> Option<&'static str> {
    pays().then(|| match Instruction::fastest() {
        Instruction::OfRegisters => "AVX-512 BF16",
        Instruction::OfTiles => "AMX",
    })
}

/// What multiplies: factors are packed for one or the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Instruction {
    /// `VDPBF16PS`, which multiplies registers of pairs.
    OfRegisters,
    /// `TDPBF16PS`, which multiplies tiles ([`amx`]).
    OfTiles,
}

impl Instruction {
    /// The faster of those that this processor has.
    fn fastest() -> Self {
        if amx::available() { Self::OfTiles } else { Self::OfRegisters }
    }
}

/// Bytes of the buffer that each thread keeps to pack factors. [`Left::bytes`] come on top while a product is computed of
/// factors that are not contiguous along the inner dimension.
pub(crate) fn packing_bytes() -> usize {
    scratch_lines() * size_of::<Line>()
}

/// Multiply-adds below which a product runs on one thread even if it may use all: about 20 microseconds.
const SMALL: usize = 1 << 21;
/// Numbers of a factor below which it is packed by one thread: about as long.
const FEW: usize = 1 << 16;

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
    multiply_with(Instruction::fastest(), target, stride, mode, left, right, threads);
}

/// [`multiply`] with one of the instructions.
fn multiply_with<A: Factor, B: Factor>(
    instruction: Instruction,
    target: &mut [f32],
    stride: usize,
    mode: Mode,
    left: Matrix<'_, A>,
    right: Matrix<'_, B>,
    threads: Threads,
) {
    if !are_contiguous(&left, &right) {
        return Left::packed_for(instruction, left).multiply(target, stride, mode, right, threads);
    }
    let ([rows, inner], [again, columns]) = (left.shape, right.shape);
    assert_eq!(inner, again, "the inner dimensions of a product agree");
    let Some(written) = written(target, stride, mode, [rows, inner, columns]) else { return };
    let (left, right) = (Source::of_left(left), Source::of_right(right));
    assert!(available(), "the processor multiplies numbers of bf16");
    let tasks = at_once([rows, inner, columns], SMALL, threads);
    let turned = !match instruction {
        Instruction::OfRegisters => turns_columns(rows, columns, inner),
        Instruction::OfTiles => amx::turns_columns(rows, columns, inner),
    };
    let place = Place { target: written, turned, add: mode == Mode::Add };
    match turned {
        true => over(tasks, among(rows, columns, tasks), |(rows, columns)| {
            // SAFETY: see the module. Parts do not overlap.
            unsafe { lying_by_turned(instruction, (left, rows), (right, columns), inner, place) }
        }),
        false => over(tasks, among(columns, rows, tasks), |(columns, rows)| {
            // SAFETY: as above.
            unsafe { lying_by_turned(instruction, (right, columns), (left, rows), inner, place) }
        }),
    }
}

/// A part of the product of factors whose numbers follow each other along the inner dimension.
///
/// # Safety
/// As for [`contiguous::block`], with the instruction.
unsafe fn lying_by_turned<A: Factor, B: Factor>(
    instruction: Instruction,
    turned: (Source<'_, A>, Range<usize>),
    lying: (Source<'_, B>, Range<usize>),
    inner: usize,
    place: Place,
) {
    // SAFETY: as the caller promises.
    unsafe {
        match instruction {
            Instruction::OfRegisters => contiguous::block(turned, lying, inner, place),
            Instruction::OfTiles => amx::lying_by_turned(turned, lying, inner, place),
        }
    }
}

/// Whether the inner dimension is long and both factors are contiguous along it, the right one not along its columns as well.
fn are_contiguous<A, B>(left: &Matrix<'_, A>, right: &Matrix<'_, B>) -> bool {
    left.shape[1] >= LONG && left.strides[1] == 1 && right.strides[0] == 1 && right.strides[1] != 1
}

// Strips are as high as is added up at a time ([`Stretches`](super::matrix::Stretches)).
const _: () = assert!(amx::INNER == INNER);

/// The least inner dimension of a product of factors that are contiguous along it. With a shorter one, a tile of a turned factor is written
/// so often that turning both factors takes less time.
pub(crate) const LONG: usize = 192;

impl Left {
    /// Rounds and packs a factor.
    ///
    /// # Panics
    /// If the matrix does not lie in its slice, or the processor lacks the instructions ([`available`]).
    pub(crate) fn new<T: Factor>(matrix: Matrix<'_, T>) -> Self {
        Self::packed_for(Instruction::fastest(), matrix)
    }

    fn packed_for<T: Factor>(instruction: Instruction, matrix: Matrix<'_, T>) -> Self {
        let [rows, inner] = matrix.shape;
        let source = Source::of_left(matrix);
        assert!(available(), "the processor multiplies numbers of bf16");
        // SAFETY: see the module.
        unsafe { Self::pack(instruction, source, rows, inner) }
    }

    /// Writes or adds this factor times `right`, rounded to bf16, to the matrix whose rows begin `stride` elements apart in `target`.
    ///
    /// The product is made of outer products even where [`multiply`] would do otherwise.
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
        let Some(target) = written(target, stride, mode, [rows, inner, columns]) else { return };
        self.product(right, Written { to: To::Singles(target.start), stride, add: mode == Mode::Add }, threads);
    }

    /// Whether [`Left::write`] serves this factor: whether there is an inner dimension, and it is a single block. Tiles add up all of it.
    pub(crate) fn is_one_block(&self) -> bool {
        match self.instruction() {
            Instruction::OfRegisters => (1..=outer::INNER).contains(&self.shape()[1]),
            Instruction::OfTiles => self.shape()[1] > 0,
        }
    }

    /// Writes this factor times `right`, rounded to bf16, to the columns from `first` on of a matrix whose rows begin `stride` elements
    /// apart, and which has as many rows as this factor. All elements of these columns are written. Where they are float32, they are those
    /// of [`Left::multiply`], otherwise these are rounded.
    ///
    /// # Panics
    /// If the shapes do not match, a matrix does not lie in its slice, or the inner dimension is not a single block.
    pub(crate) fn write<T: Factor>(
        &self,
        output: &mut Output<'_>,
        stride: usize,
        first: usize,
        right: Matrix<'_, T>,
        threads: Threads,
    ) {
        let ([rows, inner], [again, columns]) = (self.shape(), right.shape);
        assert_eq!(inner, again, "the inner dimensions of a product agree");
        assert!(self.is_one_block(), "a product that is written at once has one block");
        assert_eq!(output.len(), rows.saturating_mul(stride), "a matrix has as many rows as the left factor");
        assert!(first.saturating_add(columns) <= stride, "the product lies in its matrix");
        if rows > 0 && columns > 0 {
            self.product(right, Written { to: output.from(first), stride, add: false }, threads);
        }
    }

    /// The product, whose shapes and target have been asserted, and which has rows, columns and an inner dimension.
    fn product<T: Factor>(&self, right: Matrix<'_, T>, written: Written, threads: Threads) {
        let ([rows, inner], columns) = (self.shape(), right.shape[1]);
        let right = Source::of_right(right);
        let tasks = at_once([rows, inner, columns], SMALL, threads);
        let (at_most, of_rows) = match self.instruction() {
            Instruction::OfRegisters => (outer::columns_at_once(inner), outer::ROWS),
            Instruction::OfTiles => (usize::MAX, amx::SIDE),
        };
        let wide = part(columns, tasks, outer::LANES).min(at_most);
        // Rows are divided only where there are too few columns for all threads, because every task packs its columns for itself.
        let high = part(rows, tasks.div_ceil(columns.div_ceil(wide)), of_rows);
        over(tasks, grid(rows, high, columns, wide), |(rows, columns)| {
            // SAFETY: see the module; this factor was packed, so the processor has the instructions. Parts do not overlap.
            unsafe {
                match self.instruction() {
                    Instruction::OfRegisters => self.block(rows, right, columns, written),
                    Instruction::OfTiles => self.block_of_tiles(rows, right, columns, written),
                }
            }
        });
    }
}

/// Lines of the scratch: for any way of multiplying.
fn scratch_lines() -> usize {
    let registers = contiguous::SCRATCH.max(outer::SCRATCH);
    match Instruction::fastest() {
        Instruction::OfRegisters => registers,
        Instruction::OfTiles => registers.max(amx::SCRATCH),
    }
}

thread_local! {
    static LINES: RefCell<Vec<Line>> = const { RefCell::new(Vec::new()) };
}

/// Lends this thread's scratch, [`scratch_lines`]. `work` must not lead to another call of this function.
fn with_scratch<R>(work: impl FnOnce(&mut [Line]) -> R) -> R {
    LINES.with_borrow_mut(|lines| {
        lines.resize(scratch_lines(), Line::ZERO);
        work(lines)
    })
}
