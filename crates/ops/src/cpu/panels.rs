//! Matrix products of float32 whose factors are packed once and then multiplied part by part, on x86-64 processors with AVX2 and
//! fused multiply-adds.
//!
//! `gemm` reads, or packs, its factors for each product anew. Where a few rows of filters at a time are multiplied with the same pixels
//! ([`crate::inverted_residual`]), it reads these pixels again for each few, in rows that lie a whole plane apart; as the sizes of
//! planes are powers of two, the rows of a column then compete for the same lines of the cache. And its kernels have six rows, of which
//! eight filters use two thirds.
//!
//! Here the pixels are packed once, in panels of as many columns as a tile has: numbers that are multiplied after each other follow
//! each other. So are the filters, in panels of the rows of a tile. A tile is the sum of the outer products of two panels, which stays in
//! registers until it is written. An element is added up in the order of the inner dimension, one fused multiply-add after the other,
//! as `gemm` does it up to 512 of them.
//!
//! Processors with AVX-512, whose registers `gemm` uses and this module does not, are not served.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::gemm::{Matrix, as_singles, as_singles_mut, is_single};
use super::real::Real;
use crate::reserve;

/// Rows of a tile. With two registers of columns, twelve of the sixteen registers hold sums.
pub(crate) const ROWS: usize = 6;
/// Columns of a tile: two registers.
const COLUMNS: usize = 16;

/// The columns of a tile at one place of the inner dimension. They never cross a line of the cache.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; COLUMNS]);

/// Whether products of numbers of this type are computed here on this processor.
pub(crate) fn serve<T: Real>() -> bool {
    is_single::<T>() && instructions().is_some()
}

/// The instructions that tiles are computed with, on a processor that is served.
#[cfg(target_arch = "x86_64")]
fn instructions() -> Option<pulp::x86::V3> {
    pulp::x86::V3::try_new().filter(|_| !is_x86_feature_detected!("avx512f"))
}

/// Other processors have none.
#[cfg(not(target_arch = "x86_64"))]
fn instructions() -> Option<pulp::Scalar> {
    None
}

/// Filters as a left factor: panels of [`ROWS`] rows, the last one with zeros.
pub(crate) struct Filters {
    /// `[panel, inner]`.
    panels: Vec<[f32; ROWS]>,
    rows: usize,
    inner: usize,
}

impl Filters {
    /// Bytes of packed filters.
    pub(crate) fn bytes(rows: usize, inner: usize) -> usize {
        rows.div_ceil(ROWS) * inner * size_of::<[f32; ROWS]>()
    }

    /// Packs filters, a row for each, with memory reserved for that.
    ///
    /// # Panics
    /// If they are not float32 or do not lie in their slice, or the keeper of memory refuses.
    pub(crate) fn new<T: Real>(filters: Matrix<'_, T>) -> Self {
        let Matrix { values, shape: [rows, inner], strides: [down, right] } = as_singles(filters);
        reserve::bytes(Self::bytes(rows, inner));
        let mut panels = vec![[0.0; ROWS]; rows.div_ceil(ROWS) * inner];
        for row in 0..rows {
            let panel = &mut panels[row / ROWS * inner..][..inner];
            for (place, numbers) in panel.iter_mut().enumerate() {
                numbers[row % ROWS] = values[row * down + place * right];
            }
        }
        Self { panels, rows, inner }
    }
}

/// Pixels as a right factor: panels of [`COLUMNS`] columns. The last one has any numbers behind the last column.
#[derive(Default)]
pub(crate) struct Pixels {
    /// `[panel, inner]`.
    panels: Vec<Line>,
    inner: usize,
    columns: usize,
}

impl Pixels {
    /// Bytes of packed pixels.
    pub(crate) fn bytes(inner: usize, columns: usize) -> usize {
        columns.div_ceil(COLUMNS) * inner * size_of::<Line>()
    }

    /// Packs pixels, a column for each, into the memory of those before.
    ///
    /// # Panics
    /// If they are not float32, do not lie in their slice, or those of a row do not follow each other.
    pub(crate) fn pack<T: Real>(&mut self, pixels: Matrix<'_, T>) {
        let Matrix { values, shape: [inner, columns], strides: [down, right] } = as_singles(pixels);
        assert_eq!(right, 1, "the pixels of a row follow each other");
        (self.inner, self.columns) = (inner, columns);
        let lines = columns.div_ceil(COLUMNS) * inner;
        self.panels.reserve_exact(lines.saturating_sub(self.panels.len()));
        self.panels.resize(lines, Line([0.0; COLUMNS]));
        for place in 0..inner {
            let (whole, rest) = values[place * down..][..columns].as_chunks::<COLUMNS>();
            let mut lines = self.panels[place..].iter_mut().step_by(inner);
            // The lines come second, so that none is lost when there are no more numbers.
            for (numbers, line) in whole.iter().zip(lines.by_ref()) {
                line.0 = *numbers;
            }
            if let Some(line) = lines.next() {
                line.0[..rest.len()].copy_from_slice(rest);
            }
        }
    }
}

/// Writes the product of some filters, which begin with the first of a panel, and pixels to the matrix whose rows begin `stride` elements
/// apart in `target`.
///
/// # Panics
/// If the factors have other inner dimensions, the filters are not there, the product does not lie in its slice, numbers are not float32,
/// or the processor is not served ([`serve`]).
pub(crate) fn multiply<T: Real>(
    target: &mut [T],
    stride: usize,
    (filters, rows): (&Filters, Range<usize>),
    pixels: &Pixels,
) {
    assert_eq!(filters.inner, pixels.inner, "the inner dimensions of a product agree");
    assert!(rows.start.is_multiple_of(ROWS) && rows.end <= filters.rows, "filters begin with a panel");
    assert!(pixels.columns <= stride, "rows of the product do not overlap");
    let panels = &filters.panels[rows.start / ROWS * filters.inner..rows.end.div_ceil(ROWS) * filters.inner];
    let product = Product { target: as_singles_mut(target), stride, rows: rows.len(), filters: panels, pixels };
    if product.rows == 0 || product.pixels.columns == 0 {
        return;
    }
    let Some(simd) = instructions() else { panic!("products in panels are asked for where the processor is served") };
    Simd::vectorize(simd, product);
}

struct Product<'a> {
    target: &'a mut [f32],
    stride: usize,
    rows: usize,
    filters: &'a [[f32; ROWS]],
    pixels: &'a Pixels,
}

impl WithSimd for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { target, stride, rows, filters, pixels: Pixels { panels, inner, columns } } = self;
        for (number, first) in (0..*columns).step_by(COLUMNS).enumerate() {
            let (pixels, width) = (&panels[number * inner..][..*inner], (columns - first).min(COLUMNS));
            for top in (0..rows).step_by(ROWS) {
                let sums = tile(simd, &filters[top / ROWS * inner..][..*inner], pixels);
                let target = &mut target[top * stride + first..];
                if width == COLUMNS && rows - top >= ROWS {
                    put::<S>(sums, target, stride);
                } else {
                    put_part::<S>(sums, target, stride, [(rows - top).min(ROWS), width]);
                }
            }
        }
    }
}

/// The registers of a tile.
type Tile<S> = [[<S as Simd>::f32s; 2]; ROWS];

/// A tile of the product: a panel of filters times a panel of pixels.
#[inline(always)]
fn tile<S: Simd>(simd: S, filters: &[[f32; ROWS]], pixels: &[Line]) -> Tile<S> {
    let mut sums = [[simd.splat_f32s(0.0); 2]; ROWS];
    for (filters, pixels) in filters.iter().zip(pixels) {
        let ([left, right], _) = S::as_simd_f32s(&pixels.0) else {
            unreachable!("a tile has two registers of columns")
        };
        for (filter, sums) in filters.iter().zip(&mut sums) {
            let filter = simd.splat_f32s(*filter);
            sums[0] = simd.mul_add_f32s(filter, *left, sums[0]);
            sums[1] = simd.mul_add_f32s(filter, *right, sums[1]);
        }
    }
    sums
}

/// Writes a whole tile. A loop over as many rows as it has keeps it in registers.
#[inline(always)]
fn put<S: Simd>(sums: Tile<S>, target: &mut [f32], stride: usize) {
    for (row, sums) in sums.into_iter().enumerate() {
        let (to, _) = S::as_mut_simd_f32s(&mut target[row * stride..][..COLUMNS]);
        to.copy_from_slice(&sums);
    }
}

/// Writes some rows and columns of a tile.
#[inline(always)]
fn put_part<S: Simd>(sums: Tile<S>, target: &mut [f32], stride: usize, [rows, columns]: [usize; 2]) {
    for (row, sums) in sums.iter().enumerate().take(rows) {
        let mut line = [0.0; COLUMNS];
        let (to, _) = S::as_mut_simd_f32s(&mut line);
        to.copy_from_slice(sums);
        target[row * stride..][..columns].copy_from_slice(&line[..columns]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::gemm::{Mode, Threads, multiply as by_gemm};
    use super::super::random::random;
    use super::*;

    /// Sides around those of tiles, some of the filters at a time, gaps between rows, and pixels packed where others were.
    #[test]
    fn products_have_the_bits_of_gemm_and_touch_nothing_else() {
        if !serve::<f32>() {
            return;
        }
        let mut pixels = Pixels::default();
        for (case, [rows, inner, columns]) in [
            [96, 16, 500],
            [24, 144, 65],
            [7, 300, 81],
            [65, 512, 70],
            [6, 1, 16],
            [1, 9, 129],
            [80, 24, 1000],
            [12, 3, 15],
        ]
        .into_iter()
        .enumerate()
        {
            let (a, b) = (random(case as u64, rows * inner), random(100 + case as u64, inner * (columns + 9)));
            let (left, right) = (Matrix::of(&a, rows, inner), Matrix::of_rows(&b, inner, columns, columns + 9));
            let stride = columns + case % 3;
            let mut expected = random(200 + case as u64, rows * stride);
            let mut found = expected.clone();
            by_gemm(&mut expected, stride, Mode::Replace, left, right, Threads::One);
            pixels.pack(right);
            let filters = Filters::new(left);
            for first in (0..rows).step_by(2 * ROWS) {
                let some = first..(first + 2 * ROWS).min(rows);
                multiply(&mut found[first * stride..], stride, (&filters, some), &pixels);
            }
            assert!(found == expected, "{rows}x{inner}x{columns}");
        }
    }

    #[test]
    fn float64_is_not_rounded_to_float32() {
        assert!(!serve::<f64>());
    }

    #[test]
    #[should_panic(expected = "filters begin with a panel")]
    fn filters_that_are_not_there_are_refused() {
        let filters = Filters::new(Matrix::of(&[0.0f32; 12], 4, 3));
        let mut pixels = Pixels::default();
        pixels.pack(Matrix::of(&[0.0f32; 6], 3, 2));
        multiply(&mut [0.0f32; 12], 2, (&filters, 0..6), &pixels);
    }
}
