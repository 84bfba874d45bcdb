//! Correlation of a plane with a few taps: the inner loops of depthwise convolutions and of their gradients.
//!
//! A plane is padded with zeros before it is read, so the loops have no conditions. They go over vector registers of neighbouring
//! pixels and keep the sums of several rows in registers, so each tap's factor is broadcast once for all of them. Registers are
//! explicit (`pulp`), because the compiler did not vectorise loops over arrays of lanes here.
//!
//! # Why the unsafe code is sound
//!
//! A pixel is read for each multiplication, and asking each time whether it lies in its slice took longer than multiplying. So
//! [`Rows::assert_inside`] asks once: the last pixel that any tap meets lies in the slice with [`SLACK`] more behind the first of its
//! register, and no register has more lanes than that. All other reads begin before it, as rows, columns and offsets are not negative.

#![allow(unsafe_code)]

use pulp::{Arch, Simd, WithSimd};

use crate::cpu::real::Real;

/// Rows that are computed together and share the broadcast of a tap's factor.
const ROWS: usize = 4;
/// Rows whose products are added up in the kernel's own format before they go into a float64 sum. Longer sums would lose digits.
const SUMMED: usize = 16;
/// The most pixels that are read beyond the end of a row: the lanes of the widest register.
pub(crate) const SLACK: usize = 16;

/// A factor, and the offset of the pixel that it multiplies from the first pixel of an output's window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tap<T> {
    pub(crate) offset: usize,
    pub(crate) factor: T,
}

/// Where the rows of a plane are in a slice: the index of the first pixel, and the distance between the beginnings of rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    pub(crate) first: usize,
    pub(crate) pitch: usize,
}

impl Rows {
    /// Asserts that all registers of pixels lie in a slice that are read at these offsets from each pixel of `rows` rows of `columns`.
    fn assert_inside<T>(self, from: &[T], offsets: impl Iterator<Item = usize>, [rows, columns]: [usize; 2]) {
        let (Some(row), Some(column), Some(offset)) = (rows.checked_sub(1), columns.checked_sub(1), offsets.max())
        else {
            return;
        };
        let last = row.checked_mul(self.pitch).and_then(|at| at.checked_add(self.first + column));
        let end = last.and_then(|at| at.checked_add(offset)).and_then(|at| at.checked_add(SLACK));
        assert!(end.is_some_and(|end| end <= from.len()), "the pixels under all taps lie in the slice");
    }
}

/// A register of the pixels from a place on.
///
/// # Safety
/// [`SLACK`] pixels from there on lie in the slice.
#[inline(always)]
unsafe fn read<T: Real, S: Simd>(simd: S, from: &[T], at: usize) -> T::Register<S> {
    debug_assert!(T::lanes::<S>() <= SLACK);
    // SAFETY: a register has no more lanes than that.
    T::load(simd, unsafe { from.get_unchecked(at..at + T::lanes::<S>()) })
}

/// For each pixel of `rows` rows of `columns`, writes to `to` the sum over the taps of factor times the pixel of `from` at the tap's
/// offset from the same position.
///
/// # Panics
/// If a pixel, or one of [`SLACK`] behind a row's last one, is outside its slice.
pub(crate) fn correlate<T: Real>(
    taps: &[Tap<T>],
    (from, source): (&[T], Rows),
    (to, target): (&mut [T], Rows),
    [rows, columns]: [usize; 2],
) {
    source.assert_inside(from, taps.iter().map(|tap| tap.offset), [rows, columns]);
    Arch::new().dispatch(Correlate { taps, from, source, to, target, rows, columns });
}

/// The pixels under all taps lie in `from` ([`Rows::assert_inside`]).
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
    /// Computes `N` rows from `row` on, one register of columns after the other.
    #[inline(always)]
    fn block<S: Simd, const N: usize>(&mut self, simd: S, row: usize) {
        let Self { taps, from, source, ref mut to, target, columns, .. } = *self;
        for start in (0..columns).step_by(T::lanes::<S>()) {
            let mut sums = [T::of(0.0).splat(simd); N];
            let first = source.first + row * source.pitch + start;
            for tap in taps {
                let (factor, at) = (tap.factor.splat(simd), first + tap.offset);
                for (index, sum) in sums.iter_mut().enumerate() {
                    // SAFETY: a pixel under a tap; see the module.
                    let pixels = unsafe { read(simd, from, at + index * source.pitch) };
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

/// For each offset, the sum over all pixels of `rows` rows of `columns` of `dy` times the pixel of `from` at that offset from the same
/// position: the gradient of the factors of [`correlate`].
///
/// # Panics
/// As [`correlate`].
pub(crate) fn products<T: Real, const N: usize>(
    offsets: [usize; N],
    (from, source): (&[T], Rows),
    dy: &[T],
    [rows, columns]: [usize; 2],
) -> [f64; N] {
    source.assert_inside(from, offsets.into_iter(), [rows, columns]);
    Arch::new().dispatch(Products { offsets, from, source, dy, rows, columns })
}

/// The pixels at all offsets lie in `from` ([`Rows::assert_inside`]).
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
                        // SAFETY: a pixel at an offset; see the module.
                        let pixels = unsafe { read(simd, from, first + start + offset) };
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

#[cfg(test)]
mod tests {
    use super::*;
    use rand::RngExt;

    #[test]
    fn sums_over_taps_are_taken_in_their_order() {
        let mut rng = kindling_random::rng(5, kindling_random::Purpose::Display, 0, 0);
        let [rows, columns] = [11, 37];
        let source = Rows { first: 3 * 60 + 3, pitch: 60 };
        let from: Vec<f32> = (0..60 * 60 + SLACK).map(|_| rng.random::<f32>() - 0.5).collect();
        for (kernel, below, across) in [(3, 60, 1), (5, 60, 1), (3, -60, -1), (5, -60, 2), (3, 30, 1), (2, 60, 1)] {
            let first = if below < 0 { 8 * 60 } else { 0 };
            let tap = |index: usize| first + (index / kernel) as isize * below + (index % kernel) as isize * across;
            let mut factor = || rng.random::<f32>() - 0.5;
            let taps: Vec<_> =
                (0..kernel * kernel).map(|index| Tap { offset: tap(index) as usize, factor: factor() }).collect();
            let mut found = vec![f32::NAN; rows * columns];
            correlate(&taps, (&from, source), (&mut found, Rows { first: 0, pitch: columns }), [rows, columns]);
            for (pixel, found) in found.iter().enumerate() {
                let at = source.first + pixel / columns * source.pitch + pixel % columns;
                let sum = taps.iter().fold(0.0f32, |sum, tap| tap.factor.mul_add(from[at + tap.offset], sum));
                assert_eq!(found.to_bits(), sum.to_bits(), "{kernel} {below} {across}, pixel {pixel}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "the pixels under all taps lie in the slice")]
    fn a_tap_beyond_the_slice_is_refused() {
        let taps = [Tap { offset: 5, factor: 1.0f32 }];
        let from = [0.0; 8 + SLACK];
        correlate(&taps, (&from, Rows { first: 0, pitch: 4 }), (&mut [0.0; 8], Rows { first: 0, pitch: 4 }), [2, 4]);
    }
}
