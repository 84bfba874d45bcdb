//! Sums over a few places of a plane, for all pixels of another: what a depthwise convolution and its gradients consist of.
//!
//! The plane that is read has zeros around it, so that there are no conditions in the loops, which run over registers of
//! neighbouring pixels. The compiler left loops over arrays of lanes as single numbers here; so registers are named.

use pulp::{Arch, Simd, WithSimd};

/// Rows that are computed together: each tap is brought into a register once for all of them.
const ROWS: usize = 4;
/// Rows whose products are added up in float32: longer sums lose digits.
const SUMMED: usize = 16;
/// The most pixels that are read beyond the last of a row.
pub(super) const SLACK: usize = 16;

/// A place, counted from the pixel in question, and the factor of what is there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tap {
    pub(super) offset: usize,
    pub(super) factor: f32,
}

/// Rows of a plane: the first pixel, and how far apart they begin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows {
    pub(super) first: usize,
    pub(super) pitch: usize,
}

/// Writes to each pixel of `rows` rows of `columns` in `to` the sum over the taps in `from`, counted from the pixel at the same
/// place of rows there.
///
/// # Panics
/// If a pixel, or one of [`SLACK`] behind a row's last one, is outside its slice.
pub(super) fn correlate(
    taps: &[Tap],
    (from, source): (&[f32], Rows),
    (to, target): (&mut [f32], Rows),
    [rows, columns]: [usize; 2],
) {
    Arch::new().dispatch(Correlate { taps, from, source, to, target, rows, columns });
}

struct Correlate<'a> {
    taps: &'a [Tap],
    from: &'a [f32],
    source: Rows,
    to: &'a mut [f32],
    target: Rows,
    rows: usize,
    columns: usize,
}

impl WithSimd for Correlate<'_> {
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

impl Correlate<'_> {
    #[inline(always)]
    fn block<S: Simd, const N: usize>(&mut self, simd: S, row: usize) {
        let Self { taps, from, source, ref mut to, target, columns, .. } = *self;
        for start in (0..columns).step_by(S::F32_LANES) {
            let mut sums = [simd.splat_f32s(0.0); N];
            let first = source.first + row * source.pitch + start;
            for tap in taps {
                let (factor, at) = (simd.splat_f32s(tap.factor), first + tap.offset);
                for (index, sum) in sums.iter_mut().enumerate() {
                    let pixels = S::as_simd_f32s(&from[at + index * source.pitch..][..S::F32_LANES]).0[0];
                    *sum = simd.mul_add_f32s(factor, pixels, *sum);
                }
            }
            let kept = S::F32_LANES.min(columns - start);
            for (index, sum) in sums.into_iter().enumerate() {
                let to = &mut to[target.first + (row + index) * target.pitch + start..][..kept];
                match S::as_mut_simd_f32s(to).0 {
                    [to] => *to = sum,
                    _ => simd.partial_store_f32s(to, sum),
                }
            }
        }
    }
}

/// For each of the offsets, the sum over `rows` rows of `columns` of each pixel in `dy` times the one at that offset from the same
/// place in `from`.
///
/// # Panics
/// As [`correlate`].
pub(super) fn products<const N: usize>(
    offsets: [usize; N],
    (from, source): (&[f32], Rows),
    dy: &[f32],
    [rows, columns]: [usize; 2],
) -> [f64; N] {
    Arch::new().dispatch(Products { offsets, from, source, dy, rows, columns })
}

struct Products<'a, const N: usize> {
    offsets: [usize; N],
    from: &'a [f32],
    source: Rows,
    dy: &'a [f32],
    rows: usize,
    columns: usize,
}

impl<const N: usize> WithSimd for Products<'_, N> {
    type Output = [f64; N];

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> [f64; N] {
        let Self { offsets, from, source, dy, rows, columns } = self;
        let mut totals = [0.0; N];
        for together in (0..rows).step_by(SUMMED) {
            let mut sums = [simd.splat_f32s(0.0); N];
            for row in together..(together + SUMMED).min(rows) {
                let (first, dy) = (source.first + row * source.pitch, &dy[row * columns..][..columns]);
                for start in (0..columns).step_by(S::F32_LANES) {
                    let dy = &dy[start..columns.min(start + S::F32_LANES)];
                    let dy = match S::as_simd_f32s(dy).0 {
                        [dy] => *dy,
                        _ => simd.partial_load_f32s(dy),
                    };
                    for (sum, offset) in sums.iter_mut().zip(&offsets) {
                        let pixels = S::as_simd_f32s(&from[first + start + offset..][..S::F32_LANES]).0[0];
                        *sum = simd.mul_add_f32s(dy, pixels, *sum);
                    }
                }
            }
            for (total, sum) in totals.iter_mut().zip(sums) {
                *total += f64::from(simd.reduce_sum_f32s(sum));
            }
        }
        totals
    }
}
