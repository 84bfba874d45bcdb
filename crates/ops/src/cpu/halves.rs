//! Numbers of the half formats, widened and rounded in loops that are vectorised.

use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::thread::LocalKey;

use burn::tensor::{DType, bf16, f16};
use rayon::prelude::*;

use super::float16::{nearest_f16, round_f16, widen_f16};
use super::gemm::Threads;
use super::lanes::{BLOCK, vectorised};
use super::real::Real;
use super::rounding::{nearest_bf16, round_bf16, wide_bf16};

/// Elements that one thread converts at a time where all threads share a conversion, or a result.
pub(crate) const SHARE: usize = 1 << 15;

/// Elements that a loop over elements takes at a time from a map of a half format. Sums are the same however many blocks there are in a
/// piece.
pub(crate) const PIECE: usize = 2 * BLOCK;

/// A half format. Its numbers are held as their bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    Bf16,
    F16,
}

impl Half {
    /// The format of tensors of this type, if it is a half format.
    pub(crate) fn of(dtype: DType) -> Option<Self> {
        match dtype {
            DType::BF16 => Some(Self::Bf16),
            DType::F16 => Some(Self::F16),
            _ => None,
        }
    }
}

/// A number type that numbers of the half formats are widened to, and rounded from.
pub(crate) trait Stored: Real {
    /// Widens numbers of a half format into as many places.
    fn widen(half: Half, from: &[u16], to: &mut [Self]);
    /// Rounds numbers to a half format, to nearest even, into as many places, each of which is written.
    fn round(half: Half, from: &[Self], to: &mut [MaybeUninit<u16>]);
    /// Replaces numbers by the nearest ones of a half format.
    fn nearest(half: Half, values: &mut [Self]);
    /// Buffers for pieces of maps that this thread keeps and does not use at the moment.
    fn kept() -> &'static LocalKey<RefCell<Vec<Vec<Self>>>>;
}

thread_local! {
    static KEPT_SINGLE: RefCell<Vec<Vec<f32>>> = const { RefCell::new(Vec::new()) };
    static KEPT_DOUBLE: RefCell<Vec<Vec<f64>>> = const { RefCell::new(Vec::new()) };
}

impl Stored for f32 {
    fn widen(half: Half, from: &[u16], to: &mut [Self]) {
        match half {
            Half::Bf16 => vectorised(
                #[inline(always)]
                || widen_bf16(from, to),
            ),
            Half::F16 => widen_f16(from, to),
        }
    }

    fn round(half: Half, from: &[Self], to: &mut [MaybeUninit<u16>]) {
        match half {
            Half::Bf16 => round_bf16(from, to),
            Half::F16 => round_f16(from, to),
        }
    }

    fn nearest(half: Half, values: &mut [Self]) {
        match half {
            Half::Bf16 => vectorised(
                #[inline(always)]
                || values.iter_mut().for_each(|value| *value = wide_bf16(nearest_bf16(*value))),
            ),
            Half::F16 => nearest_f16(values),
        }
    }

    fn kept() -> &'static LocalKey<RefCell<Vec<Vec<Self>>>> {
        &KEPT_SINGLE
    }
}

/// Maps of half formats are computed in float32, so none of this runs.
impl Stored for f64 {
    fn widen(half: Half, from: &[u16], to: &mut [Self]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = match half {
                Half::Bf16 => bf16::from_bits(*from).to_f64(),
                Half::F16 => f16::from_bits(*from).to_f64(),
            };
        }
    }

    fn round(half: Half, from: &[Self], to: &mut [MaybeUninit<u16>]) {
        for (to, from) in to.iter_mut().zip(from) {
            to.write(match half {
                Half::Bf16 => bf16::from_f64(*from).to_bits(),
                Half::F16 => f16::from_f64(*from).to_bits(),
            });
        }
    }

    fn nearest(half: Half, values: &mut [Self]) {
        values.iter_mut().for_each(|value| {
            *value = match half {
                Half::Bf16 => bf16::from_f64(*value).to_f64(),
                Half::F16 => f16::from_f64(*value).to_f64(),
            }
        });
    }

    fn kept() -> &'static LocalKey<RefCell<Vec<Vec<Self>>>> {
        &KEPT_DOUBLE
    }
}

/// [`Stored::widen`] on one thread or on all.
pub(crate) fn widen<T: Stored>(half: Half, from: &[u16], to: &mut [T], threads: Threads) {
    match threads {
        Threads::One => T::widen(half, from, to),
        Threads::All => {
            let shares = to.par_chunks_mut(SHARE).zip(from.par_chunks(SHARE));
            shares.for_each(|(to, from)| T::widen(half, from, to));
        }
    }
}

/// Lends a buffer of `length` numbers, whatever they are. The thread keeps the buffer, so it should be small.
pub(crate) fn with_buffer<T: Stored, R>(length: usize, work: impl FnOnce(&mut [T]) -> R) -> R {
    let mut buffer = T::kept().with_borrow_mut(Vec::pop).unwrap_or_default();
    if buffer.len() < length {
        buffer.resize(length, T::of(0.0));
    }
    let made = work(&mut buffer[..length]);
    T::kept().with_borrow_mut(|kept| kept.push(buffer));
    made
}

#[inline(always)]
fn widen_bf16(from: &[u16], to: &mut [f32]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = wide_bf16(*from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::bits::round_over;

    #[test]
    fn halves_are_rounded_as_the_crate_half_rounds_them() {
        let special = [0.0, -0.0, 1.0, 1.003_906_2, 1.011_718_8, 65504.0, 65520.0, 1e-8, f32::MAX, f32::MIN_POSITIVE];
        let swept = (0..200_000u32).map(|step| f32::from_bits(step.wrapping_mul(21_473)));
        let all: Vec<f32> = special.into_iter().chain([f32::INFINITY, f32::NAN]).chain(swept).collect();
        for (half, round) in [
            (Half::Bf16, (|value| bf16::from_f32(value).to_f32()) as fn(f32) -> f32),
            (Half::F16, |value| f16::from_f32(value).to_f32()),
        ] {
            for threads in [Threads::One, Threads::All] {
                let (mut bits, mut back) = (vec![0; all.len()], vec![0.0f32; all.len()]);
                round_over(half, &all, &mut bits, threads);
                widen(half, &bits, &mut back, threads);
                let mut nearest = all.clone();
                f32::nearest(half, &mut nearest);
                let same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
                assert!(nearest.iter().zip(&back).all(same));
                for (found, value) in back.iter().zip(&all) {
                    let expected = round(*value);
                    assert!(
                        found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan()),
                        "{value:e}"
                    );
                }
            }
        }
    }

    #[test]
    fn buffers_that_are_lent_at_the_same_time_are_different_ones() {
        with_buffer(3, |first: &mut [f32]| {
            first.fill(1.0);
            with_buffer(5, |second: &mut [f32]| second.fill(2.0));
            assert_eq!(first, [1.0; 3]);
        });
        f32::kept().with_borrow(|kept| assert_eq!(kept.len(), 2));
    }
}
