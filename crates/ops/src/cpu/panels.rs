//! Matrix products of float32 whose factors are packed once and then multiplied part by part, on x86-64 processors with AVX-512, or with
//! AVX2 and fused multiply-adds.
//!
//! `gemm` reads, or packs, its factors for each product anew. Where a few rows of filters at a time are multiplied with the same pixels
//! ([`mod@crate::inverted_residual`]), it reads these pixels again for each few, in rows that lie a whole plane apart; as the sizes of
//! planes are powers of two, the rows of a column then compete for the same lines of the cache. And its kernels have six rows, of which
//! eight filters use two thirds.
//!
//! Here the pixels are packed once, in panels of as many columns as a tile has: numbers that are multiplied after each other follow
//! each other. So are the filters, in panels of the rows of a tile. A tile is the sum of the outer products of two panels, which stays in
//! registers until it is written. An element is added up in the order of the inner dimension, one fused multiply-add after the other,
//! as `gemm` does it up to 512 of them.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::gemm::{Matrix, as_singles, as_singles_mut, is_single};
use super::lanes::vectorised;
use super::parts::parts;
use super::real::Real;
use crate::reserve;

/// Rows of a tile. Sums take 12 of the 16 registers of AVX2, and 24 of the 32 of AVX-512.
pub(crate) const ROWS: usize = 6;
/// Columns of a line: two registers of AVX2, one of AVX-512.
const LANES: usize = 16;

/// Neighbouring columns at one place of the inner dimension, in a line of the cache.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; LANES]);

/// The instructions that tiles are computed with.
#[derive(Clone, Copy)]
enum Instructions {
    #[cfg(target_arch = "x86_64")]
    Avx2(pulp::x86::V3),
    #[cfg(target_arch = "x86_64")]
    Avx512(pulp::x86::V4),
}

impl Instructions {
    /// All that this processor has, the fastest first.
    #[cfg(target_arch = "x86_64")]
    fn all() -> impl Iterator<Item = Self> {
        let wide = pulp::x86::V4::try_new().map(Self::Avx512);
        wide.into_iter().chain(pulp::x86::V3::try_new().map(Self::Avx2))
    }

    /// Other processors are not served.
    #[cfg(not(target_arch = "x86_64"))]
    fn all() -> impl Iterator<Item = Self> {
        std::iter::empty()
    }

    /// Those of this processor, if it is served.
    fn fastest() -> Option<Self> {
        Self::all().next()
    }

    /// Lines of a panel of pixels at one place of the inner dimension. The last panel may have fewer.
    fn lines(self) -> usize {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) => 1,
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) => 4,
        }
    }
}

/// Whether products of numbers of this type are computed here on this processor.
pub(crate) fn serve<T: Real>() -> bool {
    is_single::<T>() && Instructions::fastest().is_some()
}

/// Whether they are faster than those of `gemm` where no numbers have to be widened: with AVX2. Its kernels for AVX-512 have as many rows and
/// columns as these.
pub(crate) fn outdo_gemm() -> bool {
    #[cfg(target_arch = "x86_64")]
    return matches!(Instructions::fastest(), Some(Instructions::Avx2(_)));
    #[cfg(not(target_arch = "x86_64"))]
    false
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

/// Pixels as a right factor: panels of the columns of a tile. The last line of a row has any numbers behind the last column.
#[derive(Default)]
pub(crate) struct Pixels {
    /// `[panel, inner, line]`.
    lines: Vec<Line>,
    /// What they are packed for, on a processor that is served.
    instructions: Option<Instructions>,
    inner: usize,
    columns: usize,
}

impl Pixels {
    /// Bytes of packed pixels.
    pub(crate) fn bytes(inner: usize, columns: usize) -> usize {
        columns.div_ceil(LANES) * inner * size_of::<Line>()
    }

    /// Makes room for so many columns of `inner` numbers in the memory of those before, whose numbers it holds until others are put in
    /// their place.
    pub(crate) fn begin(&mut self, inner: usize, columns: usize) {
        self.begin_for(Instructions::fastest(), inner, columns);
    }

    fn begin_for(&mut self, instructions: Option<Instructions>, inner: usize, columns: usize) {
        (self.instructions, self.inner, self.columns) = (instructions, inner, columns);
        let lines = columns.div_ceil(LANES) * inner;
        self.lines.reserve_exact(lines.saturating_sub(self.lines.len()));
        self.lines.resize(lines, Line([0.0; LANES]));
    }

    /// Puts numbers of a row in their place, from a column on.
    ///
    /// # Panics
    /// If there are no such rows or columns, or the numbers are not float32.
    pub(crate) fn put<T: Real>(&mut self, row: usize, first: usize, numbers: &[T]) {
        assert!(is_single::<T>(), "pixels in panels are float32");
        assert!(row < self.inner && first + numbers.len() <= self.columns, "the pixels have a place");
        vectorised(
            #[inline(always)]
            || self.put_singles(row, first, bytemuck::cast_slice(numbers)),
        );
    }

    #[inline(always)]
    fn put_singles(&mut self, row: usize, first: usize, numbers: &[f32]) {
        let (begun, numbers) = numbers.split_at((first.next_multiple_of(LANES) - first).min(numbers.len()));
        if !begun.is_empty() {
            self.lines_of(row, first / LANES)[0].0[first % LANES..][..begun.len()].copy_from_slice(begun);
        }
        let (mut whole, rest) = numbers.as_chunks::<LANES>();
        let mut line = first.div_ceil(LANES);
        while !whole.is_empty() {
            let lines = self.lines_of(row, line);
            let (now, later) = whole.split_at(lines.len().min(whole.len()));
            // Whole panels apart, since a copy of known length is no call.
            match (<&mut [Line; 4]>::try_from(&mut *lines), <&[_; 4]>::try_from(now)) {
                (Ok(lines), Ok(now)) => lines.iter_mut().zip(now).for_each(|(line, numbers)| line.0 = *numbers),
                _ => lines.iter_mut().zip(now).for_each(|(line, numbers)| line.0 = *numbers),
            }
            line += now.len();
            whole = later;
        }
        if !rest.is_empty() {
            self.lines_of(row, line)[0].0[..rest.len()].copy_from_slice(rest);
        }
    }

    /// Lines of a row of each panel but the last.
    #[inline(always)]
    fn wide(&self) -> usize {
        self.instructions.map_or(1, Instructions::lines)
    }

    /// The lines of a row from one on that follow each other: up to the end of its panel.
    #[inline(always)]
    fn lines_of(&mut self, row: usize, line: usize) -> &mut [Line] {
        let most = self.wide();
        let (first, at) = (line - line % most, line % most);
        let wide = most.min(self.columns.div_ceil(LANES) - first);
        &mut self.lines[first * self.inner + row * wide..][at..wide]
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
    match pixels.instructions {
        #[cfg(target_arch = "x86_64")]
        Some(Instructions::Avx2(simd)) => Simd::vectorize(simd, product),
        #[cfg(target_arch = "x86_64")]
        Some(Instructions::Avx512(simd)) => Simd::vectorize(simd, product),
        _ => panic!("products in panels are asked for where the processor is served"),
    }
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
    fn with_simd<S: Simd>(mut self, simd: S) {
        let Pixels { lines, inner, columns, .. } = self.pixels;
        // A panel of pixels stays in the first-level cache for all filters.
        for some in parts(*columns, self.pixels.wide() * LANES) {
            let width = some.len().div_ceil(LANES);
            let panel = &lines[some.start / LANES * inner..][..width * inner];
            match (S::F32_LANES, width) {
                (LANES, 1) => self.panel::<S, 1>(simd, panel, some),
                (LANES, 2) => self.panel::<S, 2>(simd, panel, some),
                (LANES, 3) => self.panel::<S, 3>(simd, panel, some),
                (LANES, 4) => self.panel::<S, 4>(simd, panel, some),
                (_, 1) => self.panel::<S, 2>(simd, panel, some),
                _ => unreachable!("a panel has as many lines as a tile"),
            }
        }
    }
}

impl Product<'_> {
    /// The products of all filters and a panel of pixels, in tiles of `V` registers of columns.
    #[inline(always)]
    fn panel<S: Simd, const V: usize>(&mut self, simd: S, pixels: &[Line], columns: Range<usize>) {
        let (inner, stride) = (self.pixels.inner, self.stride);
        for top in (0..self.rows).step_by(ROWS) {
            let sums = tile::<S, V>(simd, &self.filters[top / ROWS * inner..][..inner], pixels);
            let target = &mut self.target[top * stride + columns.start..];
            let high = (self.rows - top).min(ROWS);
            if high == ROWS && columns.len() == V * S::F32_LANES {
                put::<S, V>(sums, target, stride);
            } else {
                put_part::<S, V>(simd, sums, target, stride, [high, columns.len()]);
            }
        }
    }
}

/// The registers of a tile.
type Tile<S, const V: usize> = [[<S as Simd>::f32s; V]; ROWS];

/// A tile of the product: a panel of filters times a panel of pixels.
#[inline(always)]
fn tile<S: Simd, const V: usize>(simd: S, filters: &[[f32; ROWS]], pixels: &[Line]) -> Tile<S, V> {
    // Registers of a line.
    let each = LANES / S::F32_LANES;
    let mut sums = [[simd.splat_f32s(0.0); V]; ROWS];
    for (filters, lines) in filters.iter().zip(pixels.chunks_exact(V / each)) {
        let mut pixels = [simd.splat_f32s(0.0); V];
        for (index, pixels) in pixels.iter_mut().enumerate() {
            *pixels = S::as_simd_f32s(&lines[index / each].0).0[index % each];
        }
        for (filter, sums) in filters.iter().zip(&mut sums) {
            let filter = simd.splat_f32s(*filter);
            for (sum, pixels) in sums.iter_mut().zip(pixels) {
                *sum = simd.mul_add_f32s(filter, pixels, *sum);
            }
        }
    }
    sums
}

/// Writes a whole tile. A loop over as many rows as it has keeps it in registers.
#[inline(always)]
fn put<S: Simd, const V: usize>(sums: Tile<S, V>, target: &mut [f32], stride: usize) {
    for (row, sums) in sums.into_iter().enumerate() {
        let (to, _) = S::as_mut_simd_f32s(&mut target[row * stride..][..V * S::F32_LANES]);
        to.copy_from_slice(&sums);
    }
}

/// Writes some rows and columns of a tile.
#[inline(always)]
fn put_part<S: Simd, const V: usize>(
    simd: S,
    sums: Tile<S, V>,
    target: &mut [f32],
    stride: usize,
    [rows, columns]: [usize; 2],
) {
    for (row, sums) in sums.iter().enumerate().take(rows) {
        let target = &mut target[row * stride..][..columns];
        for (to, sum) in target.chunks_mut(S::F32_LANES).zip(sums) {
            simd.partial_store_f32s(to, *sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::gemm::{Mode, Threads, multiply as by_gemm};
    use super::super::random::random;
    use super::*;

    /// Sides around those of tiles, some of the filters at a time, gaps between rows, and pixels packed where others were, at once or some
    /// of a row after the other.
    #[test]
    fn products_have_the_bits_of_gemm_and_touch_nothing_else() {
        Instructions::all().for_each(check);
    }

    fn check(instructions: Instructions) {
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
            [13, 31, 191],
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
            pixels.begin_for(Some(instructions), inner, columns);
            for place in 0..inner {
                let row = &b[place * (columns + 9)..][..columns];
                for some in parts(columns, [columns, 7, 48, 16, 100][case % 5]) {
                    pixels.put(place, some.start, &row[some]);
                }
            }
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
    #[should_panic(expected = "the pixels have a place")]
    fn pixels_that_have_no_place_are_refused() {
        let mut pixels = Pixels::default();
        pixels.begin(3, 2);
        pixels.put(1, 1, &[0.0f32; 2]);
    }

    #[test]
    #[should_panic(expected = "filters begin with a panel")]
    fn filters_that_are_not_there_are_refused() {
        let filters = Filters::new(Matrix::of(&[0.0f32; 12], 4, 3));
        let mut pixels = Pixels::default();
        pixels.begin(3, 2);
        multiply(&mut [0.0f32; 12], 2, (&filters, 0..6), &pixels);
    }
}
