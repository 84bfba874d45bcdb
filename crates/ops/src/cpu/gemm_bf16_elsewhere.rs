//! Products of factors rounded to bf16, on processors without an instruction for them: there are none.

use std::ops::Range;

use half::bf16;

use super::matrix::{Matrix, Mode, Output, Pixels, Stretches, Strip, Threads};

/// Whether this processor multiplies numbers of bf16 faster than those of float32: no.
pub(crate) fn pays() -> bool {
    false
}

/// The instructions that multiply here: none.
pub(crate) fn instructions() -> Option<&'static str> {
    None
}

/// Bytes of the buffer that each thread keeps to pack factors: none.
pub(crate) const fn packing_bytes() -> usize {
    0
}

/// The least inner dimension of a product of factors that are contiguous along it.
pub(crate) const LONG: usize = 1;

/// The most numbers of the inner dimension that are added up at a time.
pub(crate) const INNER: usize = 1;

/// A format that factors are stored in.
pub(crate) trait Factor: Copy + Send + Sync {}

impl Factor for f32 {}

impl Factor for bf16 {}

/// A packed left factor, which nobody has.
pub(crate) struct Left;

impl Left {
    /// Rows that are written by themselves begin at a multiple of this.
    pub(crate) const PANEL: usize = 1;

    /// Bytes of a packed factor: none.
    pub(crate) fn bytes(_: usize, _: usize) -> usize {
        0
    }

    /// # Panics
    /// Always.
    pub(crate) fn new<T>(_: Matrix<'_, T>) -> Self {
        unreachable!("the processor multiplies numbers of bf16")
    }

    /// # Panics
    /// Always.
    pub(crate) fn multiply<T>(&self, _: &mut [f32], _: usize, _: Mode, _: Matrix<'_, T>, _: Threads) {
        unreachable!("the processor multiplies numbers of bf16")
    }

    /// # Panics
    /// Always.
    pub(crate) fn is_one_block(&self) -> bool {
        unreachable!("the processor multiplies numbers of bf16")
    }

    /// # Panics
    /// Always.
    pub(crate) fn write<T>(&self, _: &mut Output<'_>, _: usize, _: usize, _: Matrix<'_, T>, _: Threads) {
        unreachable!("the processor multiplies numbers of bf16")
    }

    /// # Panics
    /// Always.
    pub(crate) fn write_rows(&self, _: Range<usize>, _: &Right, _: &mut [u16], _: usize) {
        unreachable!("the processor multiplies numbers of bf16")
    }
}

/// A packed right factor, which nobody fills.
#[derive(Default)]
pub(crate) struct Right;

impl Right {
    /// Bytes of a packed factor: none.
    pub(crate) fn bytes(_: usize, _: usize) -> usize {
        0
    }

    /// # Panics
    /// Always.
    pub(crate) fn pack<T>(&mut self, _: Matrix<'_, T>) {
        unreachable!("the processor multiplies numbers of bf16")
    }
}

/// Packed filters of a convolution, which nobody has.
pub(crate) struct Taps;

impl Taps {
    /// Bytes of packed filters: none.
    pub(crate) fn bytes(_: usize, _: usize, _: usize) -> usize {
        0
    }

    /// # Panics
    /// Always.
    pub(crate) fn new<T>(_: &[T], _: [usize; 3]) -> Self {
        unreachable!("the processor multiplies numbers of bf16")
    }

    /// # Panics
    /// Always.
    pub(crate) fn convolve(&self, _: &Strip<'_>, _: Pixels, _: &mut Output<'_>, _: Threads) {
        unreachable!("the processor multiplies numbers of bf16")
    }
}

/// A turned factor, which nobody fills.
#[derive(Default)]
pub(crate) struct Turned;

impl Turned {
    /// Bytes of a factor: none.
    pub(crate) fn bytes(_: usize, _: usize) -> usize {
        0
    }

    /// # Panics
    /// Always.
    pub(crate) fn fill<T>(&mut self, _: Matrix<'_, T>, _: Threads) {
        unreachable!("the processor multiplies numbers of bf16")
    }

    /// # Panics
    /// Always.
    pub(crate) fn add_product(&self, _: &mut [f32], _: usize, _: Stretches<'_>, _: Threads) {
        unreachable!("the processor multiplies numbers of bf16")
    }
}

/// # Panics
/// Always.
pub(crate) fn multiply<A, B>(_: &mut [f32], _: usize, _: Mode, _: Matrix<'_, A>, _: Matrix<'_, B>, _: Threads) {
    unreachable!("the processor multiplies numbers of bf16")
}
