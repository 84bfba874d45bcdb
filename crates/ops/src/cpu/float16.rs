//! Numbers of float16, widened and rounded by the processor's own instructions (F16C), eight at a time. Elsewhere, and for the last few, the
//! crate `half` does it. It uses these instructions too, but calls a function for each eight, and for each number that is converted by itself
//! asks what the processor has.
//!
//! # Why the unsafe code is sound
//!
//! Loops are called only where the processor has the instructions. They load and store whole groups of numbers, by references to as many.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;

use half::f16;
use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};

use super::lanes::BLOCK;

/// Widens numbers into as many places.
pub(super) fn widen_f16(from: &[u16], to: &mut [f32]) {
    let done = widen_by_instruction(from, to);
    from[done..].reinterpret_cast::<f16>().convert_to_f32_slice(&mut to[done..]);
}

/// Rounds numbers to the nearest ones of float16, ties to even, into as many places, each of which is written.
pub(super) fn round_f16(from: &[f32], to: &mut [MaybeUninit<u16>]) {
    let done = round_by_instruction(from, to);
    let mut some = [f16::ZERO; BLOCK];
    for (from, to) in from[done..].chunks(BLOCK).zip(to[done..].chunks_mut(BLOCK)) {
        let some = &mut some[..from.len()];
        some.convert_from_f32_slice(from);
        for (to, number) in to.iter_mut().zip(some) {
            to.write(number.to_bits());
        }
    }
}

/// Replaces numbers by the nearest ones of float16.
pub(super) fn nearest_f16(values: &mut [f32]) {
    let done = nearest_by_instruction(values);
    values[done..].iter_mut().for_each(|value| *value = f16::from_f32(*value).to_f32());
}

#[cfg(not(target_arch = "x86_64"))]
fn widen_by_instruction(_: &[u16], _: &mut [f32]) -> usize {
    0
}

#[cfg(not(target_arch = "x86_64"))]
fn round_by_instruction(_: &[f32], _: &mut [MaybeUninit<u16>]) -> usize {
    0
}

#[cfg(not(target_arch = "x86_64"))]
fn nearest_by_instruction(_: &mut [f32]) -> usize {
    0
}

#[cfg(target_arch = "x86_64")]
use x86_64::{nearest_by_instruction, round_by_instruction, widen_by_instruction};

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::arch::x86_64::{
        _MM_FROUND_TO_NEAREST_INT, _mm_loadu_si128, _mm_storeu_si128, _mm256_cvtph_ps, _mm256_cvtps_ph,
        _mm256_loadu_ps, _mm256_storeu_ps,
    };
    use std::mem::MaybeUninit;

    /// Numbers that are converted together: those of a register.
    const TOGETHER: usize = 8;

    /// Whether this processor has the instructions.
    fn available() -> bool {
        is_x86_feature_detected!("avx") && is_x86_feature_detected!("f16c")
    }

    /// Widens numbers from the first on, and returns how many these are: whole groups, or none without the instructions.
    pub(super) fn widen_by_instruction(from: &[u16], to: &mut [f32]) -> usize {
        if !available() {
            return 0;
        }
        let ((from, _), (to, _)) = (from.as_chunks(), to.as_chunks_mut());
        // SAFETY: the processor has the instructions.
        unsafe { widen(from, to) };
        TOGETHER * from.len().min(to.len())
    }

    /// The same for rounding.
    pub(super) fn round_by_instruction(from: &[f32], to: &mut [MaybeUninit<u16>]) -> usize {
        if !available() {
            return 0;
        }
        let ((from, _), (to, _)) = (from.as_chunks(), to.as_chunks_mut());
        // SAFETY: as above.
        unsafe { round(from, to) };
        TOGETHER * from.len().min(to.len())
    }

    /// The same for replacing numbers by the nearest ones.
    pub(super) fn nearest_by_instruction(values: &mut [f32]) -> usize {
        if !available() {
            return 0;
        }
        let groups = values.as_chunks_mut().0;
        // SAFETY: as above.
        unsafe { nearest(groups) };
        TOGETHER * groups.len()
    }

    /// # Safety
    /// The processor has the instructions.
    #[target_feature(enable = "avx,f16c")]
    unsafe fn widen(from: &[[u16; TOGETHER]], to: &mut [[f32; TOGETHER]]) {
        for (from, to) in from.iter().zip(to) {
            // SAFETY: a group has the numbers of a register.
            unsafe { _mm256_storeu_ps(to.as_mut_ptr(), _mm256_cvtph_ps(_mm_loadu_si128(from.as_ptr().cast()))) };
        }
    }

    /// # Safety
    /// The processor has the instructions.
    #[target_feature(enable = "avx,f16c")]
    unsafe fn round(from: &[[f32; TOGETHER]], to: &mut [[MaybeUninit<u16>; TOGETHER]]) {
        for (from, to) in from.iter().zip(to) {
            // SAFETY: as above; any bits are numbers.
            unsafe {
                let bits = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(from.as_ptr()));
                _mm_storeu_si128(to.as_mut_ptr().cast(), bits);
            }
        }
    }

    /// # Safety
    /// The processor has the instructions.
    #[target_feature(enable = "avx,f16c")]
    unsafe fn nearest(groups: &mut [[f32; TOGETHER]]) {
        for group in groups {
            // SAFETY: as above.
            unsafe {
                let bits = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(group.as_ptr()));
                _mm256_storeu_ps(group.as_mut_ptr(), _mm256_cvtph_ps(bits));
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use half::f16;

        use super::*;

        /// Every number of float16, and numbers of float32 of all sizes, halfway between two of float16 and a bit beyond as well. What is expected is
        /// computed without instructions for it.
        #[test]
        fn groups_are_converted_to_the_bits_of_single_numbers() {
            let halves: Vec<u16> = (0..=u16::MAX).collect();
            let swept = (0..1u32 << 16).map(|number| f32::from_bits(number.wrapping_mul(0x0001_7A11)));
            let near = halves.iter().map(|bits| f16::from_bits(*bits).to_f32_const()).flat_map(|wide| {
                [
                    wide,
                    f32::from_bits(wide.to_bits().wrapping_add(1 << 12)),
                    f32::from_bits(wide.to_bits().wrapping_add(0x1001)),
                ]
            });
            let singles: Vec<f32> = swept.chain(near).collect();
            if !available() {
                return;
            }
            let mut wide = vec![0.0; halves.len()];
            assert_eq!(widen_by_instruction(&halves, &mut wide), halves.len());
            for (bits, wide) in halves.iter().zip(wide) {
                let expected = f16::from_bits(*bits).to_f32_const();
                assert!(wide.to_bits() == expected.to_bits() || wide.is_nan() && expected.is_nan(), "{bits:#x}");
            }
            let mut rounded = vec![MaybeUninit::new(0x1234); singles.len()];
            assert_eq!(round_by_instruction(&singles, &mut rounded), singles.len());
            let mut nearest = singles.clone();
            assert_eq!(nearest_by_instruction(&mut nearest), singles.len());
            for ((single, rounded), nearest) in singles.iter().zip(rounded).zip(nearest) {
                let expected = f16::from_f32_const(*single);
                // SAFETY: it has been written above.
                let rounded = f16::from_bits(unsafe { rounded.assume_init() });
                assert!(rounded.to_bits() == expected.to_bits() || rounded.is_nan() && expected.is_nan(), "{single:e}");
                let same = nearest.to_bits() == expected.to_f32_const().to_bits();
                assert!(same || nearest.is_nan() && expected.is_nan(), "{single:e}");
            }
        }
    }
}
