//! Numbers rounded to bf16: step by step, or by the processor's own instruction (AVX-512 BF16), with the same bits.
//!
//! The instruction (`VCVTNE2PS2BF16`) rounds to nearest even and quiets NaN as well, in a fifth of the time. But it turns subnormal numbers
//! into zeros. So its loop asks, for all numbers that it rounds together, whether any of them is subnormal, and then rounds these step by
//! step.
//!
//! # Why the unsafe code is sound
//!
//! The loop is called only where the processor has the instructions. It loads and stores whole groups of numbers, by references to as many.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;

use super::lanes::vectorised;

/// The bits of the nearest number of bf16.
#[inline(always)]
pub(super) fn nearest_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    let rounded = (bits.wrapping_add(0x7FFF + ((bits >> 16) & 1)) >> 16) as u16;
    // Rounding would turn some NaNs into infinity.
    let quiet = (bits >> 16) as u16 | 0x40;
    if value.is_nan() { quiet } else { rounded }
}

/// Rounds as many numbers as there are places to their bits.
pub(super) fn round_bf16(from: &[f32], to: &mut [MaybeUninit<u16>]) {
    let done = by_instruction(from, to);
    vectorised(
        #[inline(always)]
        || {
            for (to, from) in to[done..].iter_mut().zip(&from[done..]) {
                to.write(nearest_bf16(*from));
            }
        },
    );
}

#[cfg(not(target_arch = "x86_64"))]
fn by_instruction(_: &[f32], _: &mut [MaybeUninit<u16>]) -> usize {
    0
}

#[cfg(target_arch = "x86_64")]
use x86_64::by_instruction;

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::arch::x86_64::{
        __m512bh, __m512i, _mm512_cvtne2ps_pbh, _mm512_fpclass_ps_mask, _mm512_loadu_ps, _mm512_storeu_si512,
    };
    use std::mem::{MaybeUninit, transmute};

    use super::nearest_bf16;

    /// Numbers that are rounded together: those of four registers.
    const TOGETHER: usize = 64;

    /// Whether this processor has the instructions.
    fn available() -> bool {
        is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512bf16")
    }

    /// Rounds numbers from the first on, and returns how many these are: whole groups, or none without the instructions.
    pub(super) fn by_instruction(from: &[f32], to: &mut [MaybeUninit<u16>]) -> usize {
        if !available() {
            return 0;
        }
        let ((from, _), (to, _)) = (from.as_chunks(), to.as_chunks_mut());
        // SAFETY: the processor has the instructions.
        unsafe { groups(from, to) };
        TOGETHER * from.len().min(to.len())
    }

    /// # Safety
    /// The processor has the instructions.
    #[target_feature(enable = "avx512f,avx512dq,avx512bf16")]
    unsafe fn groups(from: &[[f32; TOGETHER]], to: &mut [[MaybeUninit<u16>; TOGETHER]]) {
        // Of the categories of the instruction that classifies numbers.
        const SUBNORMAL: i32 = 0x20;
        for (from, to) in from.iter().zip(to) {
            let load = |place: usize| {
                // SAFETY: a group has so many numbers.
                unsafe { _mm512_loadu_ps(from.as_ptr().add(place)) }
            };
            let (a, b, c, d) = (load(0), load(16), load(32), load(48));
            let [of_a, of_b] = [_mm512_fpclass_ps_mask::<SUBNORMAL>(a), _mm512_fpclass_ps_mask::<SUBNORMAL>(b)];
            let [of_c, of_d] = [_mm512_fpclass_ps_mask::<SUBNORMAL>(c), _mm512_fpclass_ps_mask::<SUBNORMAL>(d)];
            if of_a | of_b | of_c | of_d != 0 {
                step_by_step(from, to);
                continue;
            }
            // SAFETY: a group has so many places, and any bits are numbers.
            unsafe {
                let [first, second] = [_mm512_cvtne2ps_pbh(b, a), _mm512_cvtne2ps_pbh(d, c)];
                _mm512_storeu_si512(to.as_mut_ptr().cast(), transmute::<__m512bh, __m512i>(first));
                _mm512_storeu_si512(to.as_mut_ptr().add(32).cast(), transmute::<__m512bh, __m512i>(second));
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn step_by_step(from: &[f32; TOGETHER], to: &mut [MaybeUninit<u16>; TOGETHER]) {
        for (from, to) in from.iter().zip(to) {
            to.write(nearest_bf16(*from));
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        /// Numbers of all sizes, with and without subnormal ones in their group, beside those of the crate `half`.
        #[test]
        fn groups_are_rounded_to_the_bits_of_single_numbers() {
            let some = |step: u32| move |number: u32| f32::from_bits(number.wrapping_mul(step));
            let swept = (0..1 << 14).map(some(0x0003_7A11)).chain((0..1 << 10).map(some(0x1F)));
            let mut all: Vec<f32> = swept.chain([f32::NAN, f32::INFINITY, -0.0, 1e-40, -3.4e38, f32::MAX]).collect();
            all.extend((0..TOGETHER).map(|number| number as f32 / 3.0));
            let mut bits = vec![MaybeUninit::new(0x1234); all.len()];
            let done = by_instruction(&all, &mut bits);
            assert_eq!(done, if available() { all.len() - all.len() % TOGETHER } else { 0 });
            for (number, (value, bits)) in all.iter().zip(bits).enumerate() {
                let expected = if number < done { half::bf16::from_f32(*value).to_bits() } else { 0x1234 };
                // SAFETY: it has been written above.
                assert_eq!(unsafe { bits.assume_init() }, expected, "number {number}, {value:e}");
            }
        }
    }
}
