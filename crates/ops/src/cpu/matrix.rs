//! The factors of matrix products and of convolutions of strips, where these are written, and how they are computed.

use std::mem::MaybeUninit;
use std::ops::Range;

use half::bf16;

/// A matrix in a slice: element (row, column) lies at `row * strides[0] + column * strides[1]`.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a, T> {
    pub(super) values: &'a [T],
    pub(super) shape: [usize; 2],
    pub(super) strides: [usize; 2],
}

impl<'a, T> Matrix<'a, T> {
    /// A matrix whose rows follow each other.
    pub(crate) fn of(values: &'a [T], rows: usize, columns: usize) -> Self {
        Self::of_rows(values, rows, columns, columns)
    }

    /// A matrix whose rows begin `stride` elements apart.
    pub(crate) fn of_rows(values: &'a [T], rows: usize, columns: usize, stride: usize) -> Self {
        Self { values, shape: [rows, columns], strides: [stride, 1] }
    }

    pub(crate) fn rows(&self) -> usize {
        self.shape[0]
    }

    pub(crate) fn columns(&self) -> usize {
        self.shape[1]
    }

    /// Some of its rows.
    pub(crate) fn some_rows(self, rows: Range<usize>) -> Self {
        let ([_, columns], [down, _]) = (self.shape, self.strides);
        Self { values: &self.values[rows.start * down..], shape: [rows.len(), columns], ..self }
    }

    pub(crate) fn transposed(self) -> Self {
        let ([rows, columns], [down, right]) = (self.shape, self.strides);
        Self { shape: [columns, rows], strides: [right, down], ..self }
    }
}

/// How far apart rows of so many numbers should begin if columns are read as well: an odd number of lines of the cache. Rows of powers of two
/// would compete for the same few lines.
pub(crate) fn apart(numbers: usize) -> usize {
    /// Numbers of float32 in a line.
    const LINE: usize = 16;
    numbers.next_multiple_of(LINE) | LINE
}

/// A matrix whose rows lie anywhere in a slice, and may share numbers: `count` stretches of `length` numbers, `step` apart, the first of
/// row `row` at place `starts[row]`.
#[derive(Clone, Copy)]
pub(crate) struct Stretches<'a> {
    pub(crate) values: &'a [bf16],
    pub(crate) starts: &'a [usize],
    pub(crate) count: usize,
    pub(crate) length: usize,
    pub(crate) step: usize,
}

/// Some rows of a map as pairs of channels, the first in the lower half; the last of an odd number is paired with zeros.
pub(crate) struct Strip<'a> {
    /// The pairs, and [`Strip::BEYOND`] after the last that is used.
    pub(crate) pairs: &'a [u32],
    /// Where the first pixel's pairs lie: for each two channels, those under each tap.
    pub(crate) starts: &'a [usize],
    /// Pairs from a pixel to the one below it.
    pub(crate) width: usize,
}

impl Strip<'_> {
    /// Pairs that may be read behind the last one, to no effect.
    pub(crate) const BEYOND: usize = 15;
}

/// The pixels of an output: `rows` of `width`, which follow each other from place `first` of each plane of `plane` places on.
#[derive(Clone, Copy)]
pub(crate) struct Pixels {
    pub(crate) first: usize,
    pub(crate) rows: usize,
    pub(crate) width: usize,
    pub(crate) plane: usize,
}

/// A matrix that is made: planes, or rows, that begin some places apart.
pub(crate) enum Output<'a> {
    Singles(&'a mut [f32]),
    /// The bits of bf16.
    Halves(&'a mut [MaybeUninit<u16>]),
}

/// The threads that a product runs on: all of the pool, or only the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Threads {
    All,
    One,
}

/// Whether a product replaces its target or is added to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Replace,
    Add,
}
