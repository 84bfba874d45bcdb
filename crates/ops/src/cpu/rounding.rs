//! Numbers rounded to bf16, alone or before and after a function of them: step by step, or by the processor's own instruction (AVX-512 BF16), with the same bits.
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

/// The number that these bits of bf16 are.
#[inline(always)]
pub(super) fn wide_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

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

/// Rounds numbers to bf16, and a function of each to its bits, in as many places: one after the other where the processor has no instruction
/// for that.
#[inline(always)]
pub(crate) fn round_through(from: &[f32], to: &mut [u16], function: impl Fn(f32) -> f32 + Copy) {
    let done = through_by_instruction(from, to, function);
    for (to, from) in to[done..].iter_mut().zip(&from[done..]) {
        *to = nearest_bf16(function(wide_bf16(nearest_bf16(*from))));
    }
}

/// Rounds a function of two numbers of bf16 to its bits, in as many places.
#[inline(always)]
pub(super) fn round_of_two(
    [x, y]: [&[u16]; 2],
    to: &mut [MaybeUninit<u16>],
    function: impl Fn(f32, f32) -> f32 + Copy,
) {
    let done = of_two_by_instruction([x, y], to, function);
    vectorised(
        #[inline(always)]
        || {
            for ((to, x), y) in to[done..].iter_mut().zip(&x[done..]).zip(&y[done..]) {
                to.write(nearest_bf16(function(wide_bf16(*x), wide_bf16(*y))));
            }
        },
    );
}

/// Replaces numbers of bf16 by a function of each and of another one, rounded.
#[inline(always)]
pub(super) fn round_over_own(others: &[u16], own: &mut [u16], function: impl Fn(f32, f32) -> f32 + Copy) {
    let done = over_own_by_instruction(others, own, function);
    vectorised(
        #[inline(always)]
        || {
            for (own, other) in own[done..].iter_mut().zip(&others[done..]) {
                *own = nearest_bf16(function(wide_bf16(*own), wide_bf16(*other)));
            }
        },
    );
}

#[cfg(not(target_arch = "x86_64"))]
fn by_instruction(_: &[f32], _: &mut [MaybeUninit<u16>]) -> usize {
    0
}

#[cfg(not(target_arch = "x86_64"))]
fn through_by_instruction(_: &[f32], _: &mut [u16], _: impl Fn(f32) -> f32) -> usize {
    0
}

#[cfg(not(target_arch = "x86_64"))]
fn of_two_by_instruction(_: [&[u16]; 2], _: &mut [MaybeUninit<u16>], _: impl Fn(f32, f32) -> f32) -> usize {
    0
}

#[cfg(not(target_arch = "x86_64"))]
fn over_own_by_instruction(_: &[u16], _: &mut [u16], _: impl Fn(f32, f32) -> f32) -> usize {
    0
}

#[cfg(target_arch = "x86_64")]
use x86_64::{by_instruction, of_two_by_instruction, over_own_by_instruction, through_by_instruction};

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::arch::x86_64::{
        __m256i, __m512, __m512bh, __m512i, _mm512_castsi512_ps, _mm512_castsi512_si256, _mm512_cvtepu16_epi32,
        _mm512_cvtne2ps_pbh, _mm512_extracti64x4_epi64, _mm512_fpclass_ps_mask, _mm512_loadu_ps, _mm512_slli_epi32,
        _mm512_storeu_ps, _mm512_storeu_si512,
    };
    use std::mem::{MaybeUninit, transmute};

    use super::{nearest_bf16, wide_bf16};

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

    /// Rounds numbers and a function of each, from the first on, and returns how many these are.
    #[inline(always)]
    pub(super) fn through_by_instruction(from: &[f32], to: &mut [u16], function: impl Fn(f32) -> f32 + Copy) -> usize {
        if !available() {
            return 0;
        }
        let ((from, _), (to, _)) = (from.as_chunks(), to.as_chunks_mut());
        // SAFETY: the processor has the instructions.
        unsafe { groups_through(from, to, function) };
        TOGETHER * from.len().min(to.len())
    }

    /// Rounds a function of two numbers, from the first ones on, and returns how many these are.
    #[inline(always)]
    pub(super) fn of_two_by_instruction(
        [x, y]: [&[u16]; 2],
        to: &mut [MaybeUninit<u16>],
        function: impl Fn(f32, f32) -> f32 + Copy,
    ) -> usize {
        if !available() {
            return 0;
        }
        let ((x, _), (y, _), (to, _)) = (x.as_chunks(), y.as_chunks(), to.as_chunks_mut());
        // SAFETY: the processor has the instructions.
        unsafe { groups_of_two(x, y, to, function) };
        TOGETHER * x.len().min(y.len()).min(to.len())
    }

    /// Replaces numbers by a function of each and of another one, from the first on, and returns how many these are.
    #[inline(always)]
    pub(super) fn over_own_by_instruction(
        others: &[u16],
        own: &mut [u16],
        function: impl Fn(f32, f32) -> f32 + Copy,
    ) -> usize {
        if !available() {
            return 0;
        }
        let ((others, _), (own, _)) = (others.as_chunks(), own.as_chunks_mut());
        // SAFETY: the processor has the instructions.
        unsafe { groups_over_own(others, own, function) };
        TOGETHER * others.len().min(own.len())
    }

    /// # Safety
    /// The processor has the instructions.
    #[target_feature(enable = "avx512f,avx512dq,avx512bf16")]
    unsafe fn groups_over_own(
        others: &[[u16; TOGETHER]],
        own: &mut [[u16; TOGETHER]],
        function: impl Fn(f32, f32) -> f32 + Copy,
    ) {
        let mut wide = [0.0; TOGETHER];
        for (others, own) in others.iter().zip(own) {
            for ((number, other), own) in wide.iter_mut().zip(others).zip(&*own) {
                *number = function(wide_bf16(*own), wide_bf16(*other));
            }
            match rounded(&wide) {
                // SAFETY: a group has so many places.
                Some(rounded) => unsafe { put(rounded, own.as_mut_ptr()) },
                None => own.iter_mut().zip(&wide).for_each(|(own, number)| *own = nearest_bf16(*number)),
            }
        }
    }

    /// # Safety
    /// The processor has the instructions.
    #[target_feature(enable = "avx512f,avx512dq,avx512bf16")]
    unsafe fn groups_of_two(
        x: &[[u16; TOGETHER]],
        y: &[[u16; TOGETHER]],
        to: &mut [[MaybeUninit<u16>; TOGETHER]],
        function: impl Fn(f32, f32) -> f32 + Copy,
    ) {
        let mut wide = [0.0; TOGETHER];
        for ((x, y), to) in x.iter().zip(y).zip(to) {
            for ((number, x), y) in wide.iter_mut().zip(x).zip(y) {
                *number = function(wide_bf16(*x), wide_bf16(*y));
            }
            match rounded(&wide) {
                // SAFETY: a group has so many places.
                Some(rounded) => unsafe { put(rounded, to.as_mut_ptr().cast()) },
                None => step_by_step(&wide, to),
            }
        }
    }

    /// # Safety
    /// The processor has the instructions.
    #[target_feature(enable = "avx512f,avx512dq,avx512bf16")]
    unsafe fn groups(from: &[[f32; TOGETHER]], to: &mut [[MaybeUninit<u16>; TOGETHER]]) {
        for (from, to) in from.iter().zip(to) {
            let Some(rounded) = rounded(from) else {
                step_by_step(from, to);
                continue;
            };
            // SAFETY: a group has so many places, and any bits are numbers.
            unsafe { put(rounded, to.as_mut_ptr().cast()) };
        }
    }

    /// # Safety
    /// The processor has the instructions.
    #[target_feature(enable = "avx512f,avx512dq,avx512bf16")]
    unsafe fn groups_through(
        from: &[[f32; TOGETHER]],
        to: &mut [[u16; TOGETHER]],
        function: impl Fn(f32) -> f32 + Copy,
    ) {
        let mut wide = [0.0; TOGETHER];
        for (from, to) in from.iter().zip(to) {
            let stored = rounded(from);
            if let Some([first, second]) = stored {
                let [a, b] = widened(first);
                let [c, d] = widened(second);
                for (register, place) in [a, b, c, d].into_iter().zip(wide.as_chunks_mut::<16>().0) {
                    // SAFETY: there is room for a register.
                    unsafe { _mm512_storeu_ps(place.as_mut_ptr(), register) };
                }
                for number in &mut wide {
                    *number = function(*number);
                }
            }
            match rounded(&wide) {
                // SAFETY: as above.
                Some(rounded) if stored.is_some() => unsafe { put(rounded, to.as_mut_ptr()) },
                _ => {
                    for (to, from) in to.iter_mut().zip(from) {
                        *to = nearest_bf16(function(wide_bf16(nearest_bf16(*from))));
                    }
                }
            }
        }
    }

    /// The bits of the numbers of a group, unless one of them is subnormal.
    #[target_feature(enable = "avx512f,avx512dq,avx512bf16")]
    #[inline]
    fn rounded(from: &[f32; TOGETHER]) -> Option<[__m512i; 2]> {
        // Of the categories of the instruction that classifies numbers.
        const SUBNORMAL: i32 = 0x20;
        let load = |place: usize| {
            // SAFETY: a group has so many numbers.
            unsafe { _mm512_loadu_ps(from.as_ptr().add(place)) }
        };
        let (a, b, c, d) = (load(0), load(16), load(32), load(48));
        let [of_a, of_b] = [_mm512_fpclass_ps_mask::<SUBNORMAL>(a), _mm512_fpclass_ps_mask::<SUBNORMAL>(b)];
        let [of_c, of_d] = [_mm512_fpclass_ps_mask::<SUBNORMAL>(c), _mm512_fpclass_ps_mask::<SUBNORMAL>(d)];
        if of_a | of_b | of_c | of_d != 0 {
            return None;
        }
        // SAFETY: both are 64 bytes without a meaning of their own.
        let bits =
            |low: __m512, high: __m512| unsafe { transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(high, low)) };
        Some([bits(a, b), bits(c, d)])
    }

    /// Numbers of bf16 in float32.
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn widened(bits: __m512i) -> [__m512; 2] {
        let wide = |half: __m256i| _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(half)));
        [wide(_mm512_castsi512_si256(bits)), wide(_mm512_extracti64x4_epi64::<1>(bits))]
    }

    /// # Safety
    /// The processor has the instructions, and there are places for a group.
    #[target_feature(enable = "avx512f")]
    #[inline]
    unsafe fn put([first, second]: [__m512i; 2], to: *mut u16) {
        // SAFETY: as the caller promises.
        unsafe {
            _mm512_storeu_si512(to.cast(), first);
            _mm512_storeu_si512(to.add(TOGETHER / 2).cast(), second);
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

        /// A function of which rounding before it counts as well as after it, and that makes numbers subnormal.
        #[test]
        fn functions_of_groups_are_those_of_single_numbers() {
            let function = |x: f32| (x + 1e-38) * 0.37;
            let mut all: Vec<f32> =
                (0..1u32 << 13).map(|number| f32::from_bits(number.wrapping_mul(0x0007_A11B))).collect();
            all.extend([f32::NAN, f32::NEG_INFINITY, 1e-41, -0.0, f32::MAX]);
            all.extend((0..TOGETHER).map(|number| number as f32 / 3.0));
            let mut bits = vec![0x1234; all.len()];
            super::super::round_through(&all, &mut bits, function);
            for (value, bits) in all.iter().zip(bits) {
                let expected = half::bf16::from_f32(function(half::bf16::from_f32(*value).to_f32()));
                let same = bits == expected.to_bits() || expected.is_nan() && half::bf16::from_bits(bits).is_nan();
                assert!(same, "{value:e}: {bits:#x} for {expected:e}");
            }
        }

        #[test]
        fn functions_of_groups_of_two_are_those_of_single_numbers() {
            let function = |x: f32, y: f32| (x - y) * 0.37;
            // Of all sizes, and of the smallest.
            let some =
                |step: u32, mask: u16| (0..512u32).map(move |number| (number.wrapping_mul(step) >> 3) as u16 & mask);
            let x: Vec<u16> = some(0x7_A11B, 0xFFFF).chain(some(0x7_A11B, 0x81FF)).collect();
            let y: Vec<u16> = some(0x3_5F17, 0xFFFF).chain(some(0x3_5F17, 0x81FF)).collect();
            let mut bits = vec![MaybeUninit::new(0x1234); x.len()];
            super::super::round_of_two([&x, &y], &mut bits, function);
            let mut own = x.clone();
            super::super::round_over_own(&y, &mut own, function);
            let mut subnormal = 0;
            for (((x, y), bits), own) in x.into_iter().zip(y).zip(bits).zip(own) {
                let expected = function(wide_bf16(x), wide_bf16(y));
                subnormal += usize::from(expected.is_subnormal());
                // SAFETY: it has been written above.
                let bits = unsafe { bits.assume_init() };
                assert_eq!(bits, own, "in place or not");
                let same = bits == half::bf16::from_f32(expected).to_bits();
                assert!(same || expected.is_nan() && wide_bf16(bits).is_nan(), "{bits:#x} for {expected:e}");
            }
            assert!(subnormal > 0);
        }
    }
}
