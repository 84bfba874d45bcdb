//! Correlation of a plane with a few taps: the inner loops of depthwise convolutions and of their gradients.
//!
//! A plane is padded with zeros before it is read, so the loops have no conditions. They go over vector registers of neighbouring
//! pixels and keep the sums of several rows in registers, so each tap's factor is broadcast once for all of them. Where rows of taps are
//! as far apart as rows of outputs, or half as far, a register of pixels is read once and serves all of these rows ([`Shared`]). Registers are
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
pub(crate) const ROWS: usize = 4;
/// Rows whose products are added up in the kernel's own format before they go into a float64 sum. Longer sums would lose digits.
pub(crate) const SUMMED: usize = 16;
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

/// Calls a macro with the number of each line that several rows read: so many, at most nine. They are written out, because a compiler then
/// knows which sums belong to a line, and keeps these in registers.
macro_rules! each_line {
    ($count:expr, $line:ident) => {
        const { assert!($count <= 9, "all lines are written out") }
        each_line!($count, $line, 0 1 2 3 4 5 6 7 8);
    };
    ($count:expr, $line:ident, $($number:literal)*) => {
        $(if $number < $count {
            $line!($number);
        })*
    };
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

/// What lies in a slice from the offset of each of the taps of a row on: addresses that one distance is added to.
#[inline(always)]
fn under<T, const K: usize>(from: &[T], offset: impl Fn(usize) -> usize) -> [&[T]; K] {
    let mut under = [from; K];
    for (across, under) in under.iter_mut().enumerate() {
        *under = &from[offset(across)..];
    }
    under
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
    let shared = Shared::of(taps.len(), |tap| taps[tap].offset, source.pitch).filter(|_| columns >= WORTH_SHARING);
    Arch::new().dispatch(Correlate { taps, shared, from, source, to, target, rows, columns });
}

/// Columns below which pixels are not shared: the factors of all taps are broadcast for each few rows, which so few columns do not repay.
const WORTH_SHARING: usize = 24;

/// Taps in a square whose rows follow each other as rows of outputs do, or twice as closely: a tap of an output and one of another, above or below it,
/// meet the same pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shared {
    side: usize,
    /// Rows of taps from one row of outputs to the next: 1 or 2.
    step: usize,
    /// Whether a row of taps is above the one before it; with a step of 1.
    upwards: bool,
}

impl Shared {
    /// With so many taps, their offsets, and the distance of rows of outputs.
    fn of(taps: usize, offset: impl Fn(usize) -> usize, pitch: usize) -> Option<Self> {
        let side = taps.isqrt();
        if side < 2 || side * side != taps {
            return None;
        }
        let upwards = offset(side) < offset(0);
        let follow = |tap: usize, step: usize| {
            let (one, next) = (offset(tap), offset(tap + side));
            let (above, below) = if upwards { (next, one) } else { (one, next) };
            below.checked_sub(above).and_then(|apart| apart.checked_mul(step)) == Some(pitch)
        };
        let steps = if upwards { 1..=1 } else { 1..=2 };
        steps.into_iter().find(|step| (0..taps - side).all(|tap| follow(tap, *step))).map(|step| Self {
            side,
            step,
            upwards,
        })
    }
}

/// The pixels under all taps lie in `from` ([`Rows::assert_inside`]).
struct Correlate<'a, T> {
    taps: &'a [Tap<T>],
    shared: Option<Shared>,
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
        // Broadcast factors, sums and a register of pixels have to find room: AVX-512 has 32 registers, others 16.
        let many = S::F32_LANES >= 16;
        match self.shared {
            Some(Shared { side: 3, step: 1, upwards }) if many => self.shared::<S, 3, 4, 1>(simd, upwards),
            Some(Shared { side: 3, step: 1, upwards }) => self.shared::<S, 3, 2, 1>(simd, upwards),
            Some(Shared { side: 3, .. }) if many => self.shared::<S, 3, 4, 2>(simd, false),
            Some(Shared { side: 3, .. }) => self.shared::<S, 3, 2, 2>(simd, false),
            Some(Shared { side: 5, step: 1, upwards }) if many => self.shared::<S, 5, 2, 1>(simd, upwards),
            Some(Shared { side: 5, .. }) if many => self.shared::<S, 5, 2, 2>(simd, false),
            _ => self.apart(simd),
        }
    }
}

impl<T: Real> Correlate<'_, T> {
    /// Computes all rows, where each output reads the pixels under all of its taps.
    #[inline(always)]
    fn apart<S: Simd>(&mut self, simd: S) {
        let whole = self.rows - self.rows % ROWS;
        for row in (0..whole).step_by(ROWS) {
            self.block::<S, ROWS>(simd, row);
        }
        for row in whole..self.rows {
            self.block::<S, 1>(simd, row);
        }
    }

    /// Computes all rows, `N` at a time, where `K` rows of as many taps share pixels; `STEP` of them go from one row to the next.
    #[inline(always)]
    fn shared<S: Simd, const K: usize, const N: usize, const STEP: usize>(&mut self, simd: S, upwards: bool) {
        let mut factors = [[T::of(0.0).splat(simd); K]; K];
        for (factors, taps) in factors.iter_mut().zip(self.taps.chunks_exact(K)) {
            for (factor, tap) in factors.iter_mut().zip(taps) {
                *factor = tap.factor.splat(simd);
            }
        }
        let whole = self.rows - self.rows % N;
        for row in (0..whole).step_by(N) {
            self.block_shared::<S, K, N, STEP>(simd, row, &factors, upwards);
        }
        for row in whole..self.rows {
            self.block_shared::<S, K, 1, STEP>(simd, row, &factors, upwards);
        }
    }

    /// Computes `N` rows from `row` on, one register of columns after the other. Rows are taken in the order of the rows of taps: the first
    /// reads lines of pixels from its own on, the second from the one after, or the one after that. So each adds up its taps in their order.
    #[inline(always)]
    fn block_shared<S: Simd, const K: usize, const N: usize, const STEP: usize>(
        &mut self,
        simd: S,
        row: usize,
        factors: &[[T::Register<S>; K]; K],
        upwards: bool,
    ) {
        let Self { taps, from, source, ref mut to, target, columns, .. } = *self;
        let (lines, apart) = (STEP * (N - 1) + K, source.pitch / STEP);
        let (uppermost, top, step) =
            if upwards { (K * (K - 1), (lines - 1) * apart, apart.wrapping_neg()) } else { (0, 0, apart) };
        let under = under::<T, K>(from, |across| taps[uppermost + across].offset);
        for start in (0..columns).step_by(T::lanes::<S>()) {
            let mut sums = [T::of(0.0).splat(simd); N];
            let mut at = source.first + row * source.pitch + top + start;
            macro_rules! line {
                ($line:literal) => {
                    if $line > 0 {
                        at = at.wrapping_add(step);
                    }
                    for (across, from) in under.into_iter().enumerate() {
                        // SAFETY: the pixel of one of these rows under a tap; see the module.
                        let pixels = unsafe { read(simd, from, at) };
                        for (row, sum) in sums.iter_mut().enumerate() {
                            if STEP * row <= $line && $line - STEP * row < K {
                                *sum = T::mul_add(simd, factors[$line - STEP * row][across], pixels, *sum);
                            }
                        }
                    }
                };
            }
            each_line!(STEP * (N - 1) + K, line);
            let kept = T::lanes::<S>().min(columns - start);
            for (index, sum) in sums.into_iter().enumerate() {
                let row = if upwards { row + N - 1 - index } else { row + index };
                T::store(simd, &mut to[target.first + row * target.pitch + start..][..kept], sum);
            }
        }
    }

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

/// For each offset, adds to its sum that over all pixels of `rows` rows of `columns` of `dy` times the pixel of `from` at that offset from
/// the same position: the gradient of the factors of [`correlate`].
///
/// # Panics
/// As [`correlate`].
pub(crate) fn add_products<T: Real>(
    offsets: &[usize],
    (from, source): (&[T], Rows),
    dy: &[T],
    [rows, columns]: [usize; 2],
    sums: &mut [f64],
) {
    source.assert_inside(from, offsets.iter().copied(), [rows, columns]);
    let shared = Shared::of(offsets.len(), |tap| offsets[tap], source.pitch);
    let products = Products { offsets, shared, from, source, dy, rows, columns };
    Arch::new().dispatch(AddProducts { products, sums });
}

/// The pixels at all offsets lie in `from` ([`Rows::assert_inside`]).
struct Products<'a, T> {
    offsets: &'a [usize],
    shared: Option<Shared>,
    from: &'a [T],
    source: Rows,
    dy: &'a [T],
    rows: usize,
    columns: usize,
}

/// [`Products`] that are added to a sum for each offset.
struct AddProducts<'a, 's, T> {
    products: Products<'a, T>,
    sums: &'s mut [f64],
}

impl<T: Real> WithSimd for AddProducts<'_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // As for `Correlate`; here sums and gradients of several rows have to find room.
        let (many, Self { products: of, sums }) = (S::F32_LANES >= 16, self);
        match of.shared {
            Some(Shared { side: 3, step: 1, upwards: false }) if many => {
                of.shared::<S, 3, 3, 4, 1>(simd, of.offsets, sums);
            }
            Some(Shared { side: 3, step: 1, upwards: false }) => of.shared::<S, 3, 3, 2, 1>(simd, of.offsets, sums),
            Some(Shared { side: 3, step: 2, .. }) if many => of.shared::<S, 3, 3, 4, 2>(simd, of.offsets, sums),
            Some(Shared { side: 3, step: 2, .. }) => of.shared::<S, 3, 3, 2, 2>(simd, of.offsets, sums),
            Some(Shared { side: 5, step: 1, upwards: false }) if many => of.of_five::<S, 1>(simd, sums),
            Some(Shared { side: 5, step: 2, .. }) if many => of.of_five::<S, 2>(simd, sums),
            _ => match of.offsets.len() {
                9 => of.apart::<S, 9>(simd, sums),
                25 => of.apart::<S, 5>(simd, sums),
                49 => of.apart::<S, 7>(simd, sums),
                _ => of.apart::<S, 1>(simd, sums),
            },
        }
    }
}

impl<T: Real> Products<'_, T> {
    /// The sums for `N` offsets at a time, where each reads its own pixels.
    #[inline(always)]
    fn apart<S: Simd, const N: usize>(&self, simd: S, sums: &mut [f64]) {
        let Self { offsets, from, source, columns, .. } = *self;
        for (offsets, all) in offsets.as_chunks::<N>().0.iter().zip(sums.as_chunks_mut::<N>().0) {
            let mut totals = [0.0; N];
            for together in (0..self.rows).step_by(SUMMED) {
                let mut sums = [T::of(0.0).splat(simd); N];
                for row in together..(together + SUMMED).min(self.rows) {
                    let first = source.first + row * source.pitch;
                    for start in (0..columns).step_by(T::lanes::<S>()) {
                        let dy = self.gradient(simd, row, start);
                        for (sum, offset) in sums.iter_mut().zip(offsets) {
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
            add(all, &totals);
        }
    }

    /// The sums for five rows of five offsets: more than registers hold together.
    #[inline(always)]
    fn of_five<S: Simd, const STEP: usize>(&self, simd: S, sums: &mut [f64]) {
        let ((above, below), (of_above, of_below)) = (self.offsets.split_at(2 * 5), sums.split_at_mut(2 * 5));
        self.shared::<S, 5, 2, 2, STEP>(simd, above, of_above);
        self.shared::<S, 5, 3, 2, STEP>(simd, below, of_below);
    }

    /// The sums for `R` rows of `K` offsets, which share pixels, from `N` rows of gradients at a time, `STEP` rows of offsets apart.
    #[inline(always)]
    fn shared<S: Simd, const K: usize, const R: usize, const N: usize, const STEP: usize>(
        &self,
        simd: S,
        offsets: &[usize],
        all: &mut [f64],
    ) {
        let mut totals = [[0.0; K]; R];
        for together in (0..self.rows).step_by(SUMMED) {
            let mut sums = [[T::of(0.0).splat(simd); K]; R];
            let end = (together + SUMMED).min(self.rows);
            let whole = end - (end - together) % N;
            for row in (together..whole).step_by(N) {
                sums = self.add_rows::<S, K, R, N, STEP>(simd, offsets, row, sums);
            }
            for row in whole..end {
                sums = self.add_rows::<S, K, R, 1, STEP>(simd, offsets, row, sums);
            }
            for (total, sum) in totals.as_flattened_mut().iter_mut().zip(sums.as_flattened()) {
                *total += T::sum_of(simd, *sum).wide();
            }
        }
        add(all, totals.as_flattened());
    }

    /// Adds the products of `N` rows of gradients from `row` on.
    #[inline(always)]
    fn add_rows<S: Simd, const K: usize, const R: usize, const N: usize, const STEP: usize>(
        &self,
        simd: S,
        offsets: &[usize],
        row: usize,
        mut sums: [[T::Register<S>; K]; R],
    ) -> [[T::Register<S>; K]; R] {
        let Self { from, source, columns, .. } = *self;
        let under = under::<T, K>(from, |across| offsets[across]);
        for start in (0..columns).step_by(T::lanes::<S>()) {
            let mut gradients = [T::of(0.0).splat(simd); N];
            for (index, gradient) in gradients.iter_mut().enumerate() {
                *gradient = self.gradient(simd, row + index, start);
            }
            let mut at = source.first + row * source.pitch + start;
            macro_rules! line {
                ($line:literal) => {
                    if $line > 0 {
                        at += source.pitch / STEP;
                    }
                    for (across, from) in under.into_iter().enumerate() {
                        // SAFETY: the pixel at an offset from one of these rows; see the module.
                        let pixels = unsafe { read(simd, from, at) };
                        for (row, gradient) in gradients.iter().enumerate() {
                            if STEP * row <= $line && $line - STEP * row < R {
                                let sum = &mut sums[$line - STEP * row][across];
                                *sum = T::mul_add(simd, *gradient, pixels, *sum);
                            }
                        }
                    }
                };
            }
            each_line!(STEP * (N - 1) + R, line);
        }
        sums
    }

    /// A register of a row of gradients, with zeros behind its last.
    #[inline(always)]
    fn gradient<S: Simd>(&self, simd: S, row: usize, start: usize) -> T::Register<S> {
        let of_row = &self.dy[row * self.columns..][..self.columns];
        let dy = &of_row[start..self.columns.min(start + T::lanes::<S>())];
        if dy.len() == T::lanes::<S>() { T::load(simd, dy) } else { T::load_part(simd, dy) }
    }
}

/// Adds numbers to as many sums.
#[inline(always)]
fn add(sums: &mut [f64], numbers: &[f64]) {
    for (sum, number) in sums.iter_mut().zip(numbers) {
        *sum += number;
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
        let cases =
            [(3, 60, 1), (5, 60, 1), (3, -60, -1), (5, -60, 2), (3, 30, 1), (5, 30, 1), (3, -30, 1), (2, 60, 1)];
        for (kernel, below, across) in cases {
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

    /// Numbers whose sums are exact, in whatever order they are added up.
    #[test]
    fn products_are_summed_over_all_pixels_whether_offsets_share_them_or_not() {
        let mut rng = kindling_random::rng(6, kindling_random::Purpose::Display, 0, 0);
        let mut whole = |count: usize| (0..count).map(|_| rng.random_range(-8..=8) as f32).collect::<Vec<_>>();
        let from = whole(90 * 90 + SLACK);
        for (kernel, below, across, pitch) in [
            (3, 60, 1, 60),
            (5, 60, 1, 60),
            (5, 60, 2, 60),
            (3, 30, 1, 60),
            (5, 30, 2, 60),
            (7, 60, 1, 60),
            (2, 60, 1, 60),
            (1, 0, 0, 60),
        ] {
            for [rows, columns] in [[1, 1], [11, 37], [39, 5], [34, 16]] {
                let (dy, source) = (whole(rows * columns), Rows { first: 3, pitch });
                let offsets: Vec<usize> =
                    (0..kernel * kernel).map(|tap| tap / kernel * below + tap % kernel * across).collect();
                // Added to what is there.
                let mut found = vec![3.0; offsets.len()];
                add_products(&offsets, (&from, source), &dy, [rows, columns], &mut found);
                let pixel = |at: usize, offset: usize| from[3 + at / columns * pitch + at % columns + offset];
                let sum = |offset: &usize| dy.iter().enumerate().map(|(at, dy)| dy * pixel(at, *offset)).sum::<f32>();
                let expected: Vec<f64> = offsets.iter().map(|offset| 3.0 + f64::from(sum(offset))).collect();
                assert_eq!(found, expected, "{kernel} {below} {across}, {rows}x{columns}");
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
