//! Sums over a few places of a plane, for all pixels of another: what a depthwise convolution and its gradients consist of.
//!
//! The plane that is read has zeros around it, so that there are no conditions in the loops, which run over registers of
//! neighbouring pixels. The compiler left loops over arrays of lanes as single numbers here; so registers are named.

use pulp::{Arch, Simd, WithSimd};

use crate::cpu::real::Real;

/// Rows that are computed together: each tap is brought into a register once for all of them.
const ROWS: usize = 4;
/// Rows whose products are added up in the map's format: longer sums lose digits.
const SUMMED: usize = 16;
/// The most pixels that are read beyond the last of a row.
pub(crate) const SLACK: usize = 16;

/// A place, counted from the pixel in question, and the factor of what is there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tap<T> {
    pub(crate) offset: usize,
    pub(crate) factor: T,
}

/// Rows of a plane: the first pixel, and how far apart they begin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    pub(crate) first: usize,
    pub(crate) pitch: usize,
}

/// Writes to each pixel of `rows` rows of `columns` in `to` the sum over the taps in `from`, counted from the pixel at the same
/// place of rows there.
///
/// # Panics
/// If a pixel, or one of [`SLACK`] behind a row's last one, is outside its slice.
pub(crate) fn correlate<T: Real>(
    taps: &[Tap<T>],
    (from, source): (&[T], Rows),
    (to, target): (&mut [T], Rows),
    [rows, columns]: [usize; 2],
) {
    Arch::new().dispatch(Correlate { taps, from, source, to, target, rows, columns });
}

struct Correlate<'a, T> {
    taps: &'a [Tap<T>],
    from: &'a [T],
    source: Rows,
    to: &'a mut [T],
    target: Rows,
    rows: usize,
    columns: usize,
}

impl<T: Real> WithSimd for Correlate<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let whole = self.rows - self.rows % ROWS;
        for row in (0..whole).step_by(ROWS) {
            self.block::<S, ROWS>(simd, row);
        }
        for row in whole..self.rows {
            self.block::<S, 1>(simd, row);
        }
    }
}

impl<T: Real> Correlate<'_, T> {
    #[inline(always)]
    fn block<S: Simd, const N: usize>(&mut self, simd: S, row: usize) {
        let Self { taps, from, source, ref mut to, target, columns, .. } = *self;
        for start in (0..columns).step_by(T::lanes::<S>()) {
            let mut sums = [T::of(0.0).splat(simd); N];
            let first = source.first + row * source.pitch + start;
            for tap in taps {
                let (factor, at) = (tap.factor.splat(simd), first + tap.offset);
                for (index, sum) in sums.iter_mut().enumerate() {
                    let pixels = T::load(simd, &from[at + index * source.pitch..]);
                    *sum = T::mul_add(simd, factor, pixels, *sum);
                }
            }
            let kept = T::lanes::<S>().min(columns - start);
            for (index, sum) in sums.into_iter().enumerate() {
                let to = &mut to[target.first + (row + index) * target.pitch + start..][..kept];
                T::store(simd, to, sum);
            }
        }
    }
}

/// For each of the offsets, the sum over `rows` rows of `columns` of each pixel in `dy` times the one at that offset from the same
/// place in `from`.
///
/// # Panics
/// As [`correlate`].
pub(crate) fn products<T: Real, const N: usize>(
    offsets: [usize; N],
    (from, source): (&[T], Rows),
    dy: &[T],
    [rows, columns]: [usize; 2],
) -> [f64; N] {
    Arch::new().dispatch(Products { offsets, from, source, dy, rows, columns })
}

struct Products<'a, T, const N: usize> {
    offsets: [usize; N],
    from: &'a [T],
    source: Rows,
    dy: &'a [T],
    rows: usize,
    columns: usize,
}

impl<T: Real, const N: usize> WithSimd for Products<'_, T, N> {
    type Output = [f64; N];

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> [f64; N] {
        let Self { offsets, from, source, dy, rows, columns } = self;
        let mut totals = [0.0; N];
        for together in (0..rows).step_by(SUMMED) {
            let mut sums = [T::of(0.0).splat(simd); N];
            for row in together..(together + SUMMED).min(rows) {
                let (first, dy) = (source.first + row * source.pitch, &dy[row * columns..][..columns]);
                for start in (0..columns).step_by(T::lanes::<S>()) {
                    let dy = &dy[start..columns.min(start + T::lanes::<S>())];
                    let whole = dy.len() == T::lanes::<S>();
                    let dy = if whole { T::load(simd, dy) } else { T::load_part(simd, dy) };
                    for (sum, offset) in sums.iter_mut().zip(&offsets) {
                        let pixels = T::load(simd, &from[first + start + offset..]);
                        *sum = T::mul_add(simd, dy, pixels, *sum);
                    }
                }
            }
            for (total, sum) in totals.iter_mut().zip(sums) {
                *total += T::sum_of(simd, sum).wide();
            }
        }
        totals
    }
}
