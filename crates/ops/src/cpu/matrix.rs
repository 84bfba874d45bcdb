//! The factors of matrix products, and how a product is computed.

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

    pub(crate) fn transposed(self) -> Self {
        let ([rows, columns], [down, right]) = (self.shape, self.strides);
        Self { shape: [columns, rows], strides: [right, down], ..self }
    }
}

/// A matrix whose rows lie anywhere in a slice, and may share numbers: row `row` is `values[starts[row]..][..columns]`.
#[derive(Clone, Copy)]
pub(crate) struct RowsAt<'a, T> {
    pub(crate) values: &'a [T],
    pub(crate) starts: &'a [usize],
    pub(crate) columns: usize,
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
