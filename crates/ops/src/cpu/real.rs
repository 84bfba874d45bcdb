//! The number types that the CPU's kernels compute with.
//!
//! Kernels compute in float32 for maps of float32 and of the half formats, and in float64 for maps of float64. Nobody trains in
//! float64: it is there so that the strict tests of gradients run the very kernels that users run.

use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

use burn::tensor::{DType, Element};
use bytemuck::Pod;
use pulp::Simd;

/// A number type, and the vector registers that hold several of its numbers.
pub(crate) trait Real:
    Element
    + Pod
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
{
    /// The format of weights, statistics and sums over maps.
    const DTYPE: DType;

    /// The number nearest to `value`.
    fn of(value: f64) -> Self;
    fn wide(self) -> f64;
    fn is_nan(self) -> bool;
    fn clamp(self, least: Self, most: Self) -> Self;
    /// The exponential function. Beyond +-87 the result stays finite and positive.
    fn exp(self) -> Self;
    /// The same to a 10,000th part, for what is rounded to bf16.
    fn coarse_exp(self) -> Self;
    fn tanh(self) -> Self;

    type Register<S: Simd>: Copy;
    /// How many numbers a register holds.
    fn lanes<S: Simd>() -> usize;
    fn splat<S: Simd>(self, simd: S) -> Self::Register<S>;
    /// Loads the first [`Real::lanes`] numbers of `from`.
    fn load<S: Simd>(simd: S, from: &[Self]) -> Self::Register<S>;
    /// Loads fewer than [`Real::lanes`] numbers and fills the rest of the register with zeros.
    fn load_part<S: Simd>(simd: S, from: &[Self]) -> Self::Register<S>;
    /// Writes as many numbers as `to` has room for.
    fn store<S: Simd>(simd: S, to: &mut [Self], register: Self::Register<S>);
    fn sum<S: Simd>(simd: S, a: Self::Register<S>, b: Self::Register<S>) -> Self::Register<S>;
    fn difference<S: Simd>(simd: S, a: Self::Register<S>, b: Self::Register<S>) -> Self::Register<S>;
    fn product<S: Simd>(simd: S, a: Self::Register<S>, b: Self::Register<S>) -> Self::Register<S>;
    /// `a * b + c`, rounded once.
    fn mul_add<S: Simd>(simd: S, a: Self::Register<S>, b: Self::Register<S>, c: Self::Register<S>)
    -> Self::Register<S>;
    fn negative<S: Simd>(simd: S, a: Self::Register<S>) -> Self::Register<S>;
    fn quotient<S: Simd>(simd: S, a: Self::Register<S>, b: Self::Register<S>) -> Self::Register<S>;
    /// The sum of a register's numbers.
    fn sum_of<S: Simd>(simd: S, a: Self::Register<S>) -> Self;
    /// [`Real::exp`] of the negatives of all numbers, with its bits.
    fn exp_of_negatives<S: Simd>(simd: S, x: [Self::Register<S>; ABREAST]) -> [Self::Register<S>; ABREAST];
    /// [`Real::coarse_exp`] of the negatives of all numbers, with its bits.
    fn coarse_exp_of_negatives<S: Simd>(simd: S, x: [Self::Register<S>; ABREAST]) -> [Self::Register<S>; ABREAST];
}

/// Registers that go through a long chain of operations together. Each operation of the chain waits for the one before; a processor that
/// meets one chain after the other has too few places for operations that wait, and starves.
pub(crate) const ABREAST: usize = 8;

/// Implements the functions on registers for a type. [`Simd`] has them under a different name for each type.
macro_rules! registers {
    ($number:ident, $register:ident, $lanes:ident, $splat:ident, $from:ident, $from_mut:ident, $load:ident, $store:ident,
     $add:ident, $sub:ident, $mul:ident, $div:ident, $mul_add:ident, $neg:ident, $sum:ident) => {
        type Register<S: Simd> = S::$register;

        #[inline(always)]
        fn lanes<S: Simd>() -> usize {
            S::$lanes
        }
        #[inline(always)]
        fn splat<S: Simd>(self, simd: S) -> S::$register {
            simd.$splat(self)
        }
        #[inline(always)]
        fn load<S: Simd>(_: S, from: &[Self]) -> S::$register {
            S::$from(&from[..S::$lanes]).0[0]
        }
        #[inline(always)]
        fn load_part<S: Simd>(simd: S, from: &[Self]) -> S::$register {
            simd.$load(from)
        }
        #[inline(always)]
        fn store<S: Simd>(simd: S, to: &mut [Self], register: S::$register) {
            match S::$from_mut(to).0 {
                [to] => *to = register,
                _ => simd.$store(to, register),
            }
        }
        #[inline(always)]
        fn sum<S: Simd>(simd: S, a: S::$register, b: S::$register) -> S::$register {
            simd.$add(a, b)
        }
        #[inline(always)]
        fn difference<S: Simd>(simd: S, a: S::$register, b: S::$register) -> S::$register {
            simd.$sub(a, b)
        }
        #[inline(always)]
        fn product<S: Simd>(simd: S, a: S::$register, b: S::$register) -> S::$register {
            simd.$mul(a, b)
        }
        #[inline(always)]
        fn quotient<S: Simd>(simd: S, a: S::$register, b: S::$register) -> S::$register {
            simd.$div(a, b)
        }
        #[inline(always)]
        fn mul_add<S: Simd>(simd: S, a: S::$register, b: S::$register, c: S::$register) -> S::$register {
            simd.$mul_add(a, b, c)
        }
        #[inline(always)]
        fn negative<S: Simd>(simd: S, a: S::$register) -> S::$register {
            simd.$neg(a)
        }
        #[inline(always)]
        fn sum_of<S: Simd>(simd: S, a: S::$register) -> Self {
            simd.$sum(a)
        }
    };
}

impl Real for f32 {
    const DTYPE: DType = DType::F32;

    #[inline(always)]
    fn of(value: f64) -> Self {
        value as Self
    }
    #[inline(always)]
    fn wide(self) -> f64 {
        self.into()
    }
    #[inline(always)]
    fn is_nan(self) -> bool {
        self.is_nan()
    }
    #[inline(always)]
    fn clamp(self, least: Self, most: Self) -> Self {
        self.clamp(least, most)
    }
    #[inline(always)]
    fn exp(self) -> Self {
        exp(self)
    }
    #[inline(always)]
    fn coarse_exp(self) -> Self {
        coarse_exp(self)
    }
    #[inline(always)]
    fn tanh(self) -> Self {
        // 2 sigmoid(2x) - 1 cancels for small x. (1 - e) / (1 + e) with e = exp(-2 |x|) is accurate above 0.1, and below that the
        // Taylor polynomial is.
        let e = exp(-2.0 * self.abs());
        let large = (1.0 - e) / (1.0 + e);
        let square = self * self;
        let small = self.abs() * (1.0 - square * (1.0 / 3.0 - square * (2.0 / 15.0 - square * (17.0 / 315.0))));
        (if square < 0.01 { small } else { large }).copysign(self)
    }
    #[inline(always)]
    fn exp_of_negatives<S: Simd>(simd: S, x: [S::f32s; ABREAST]) -> [S::f32s; ABREAST] {
        exp_of_negatives(simd, x)
    }
    #[inline(always)]
    fn coarse_exp_of_negatives<S: Simd>(simd: S, x: [S::f32s; ABREAST]) -> [S::f32s; ABREAST] {
        coarse_exp_of_negatives(simd, x)
    }

    registers!(
        f32,
        f32s,
        F32_LANES,
        splat_f32s,
        as_simd_f32s,
        as_mut_simd_f32s,
        partial_load_f32s,
        partial_store_f32s,
        add_f32s,
        sub_f32s,
        mul_f32s,
        div_f32s,
        mul_add_f32s,
        neg_f32s,
        reduce_sum_f32s
    );
}

impl Real for f64 {
    const DTYPE: DType = DType::F64;

    #[inline(always)]
    fn of(value: f64) -> Self {
        value
    }
    #[inline(always)]
    fn wide(self) -> f64 {
        self
    }
    #[inline(always)]
    fn is_nan(self) -> bool {
        self.is_nan()
    }
    #[inline(always)]
    fn clamp(self, least: Self, most: Self) -> Self {
        self.clamp(least, most)
    }
    #[inline(always)]
    fn exp(self) -> Self {
        self.clamp(-87.0, 87.0).exp()
    }
    #[inline(always)]
    fn coarse_exp(self) -> Self {
        Real::exp(self)
    }
    #[inline(always)]
    fn tanh(self) -> Self {
        self.tanh()
    }
    #[inline(always)]
    fn exp_of_negatives<S: Simd>(_: S, mut x: [S::f64s; ABREAST]) -> [S::f64s; ABREAST] {
        for x in bytemuck::cast_slice_mut::<S::f64s, f64>(&mut x) {
            *x = Real::exp(-*x);
        }
        x
    }
    #[inline(always)]
    fn coarse_exp_of_negatives<S: Simd>(simd: S, x: [S::f64s; ABREAST]) -> [S::f64s; ABREAST] {
        Self::exp_of_negatives(simd, x)
    }

    registers!(
        f64,
        f64s,
        F64_LANES,
        splat_f64s,
        as_simd_f64s,
        as_mut_simd_f64s,
        partial_load_f64s,
        partial_store_f64s,
        add_f64s,
        sub_f64s,
        mul_f64s,
        div_f64s,
        mul_add_f64s,
        neg_f64s,
        reduce_sum_f64s
    );
}

/// ln 2 in two parts, so that a small integer times the first is exact.
const LN_2_HIGH: f32 = 0.693_359_4;
const LN_2_LOW: f32 = -2.121_944_4e-4;
/// Adding 1.5 * 2^23 rounds to an integer, because floats of this size have no fractional bits. The lowest bits of the sum are then
/// n + 127, the exponent field of 2^n, ready to be shifted into place. A conversion to an integer type would not be vectorised.
const ROUNDING: f32 = 12_582_912.0 + 127.0;
/// Factors of powers, from the sixth to that of one: of the Taylor polynomial, whose seventh power is replaced by what comes nearest to it among the
/// lower ones (of the Chebyshev polynomial: `x^7 = (112 x^5 - 56 x^3 + 7 x) / 64` but for 1 / 64, where `x` is 1 for `r = ln 2 / 2`).
const FACTORS: [f32; 7] = [1.0 / 720.0, 0.008_375_036, 1.0 / 24.0, 0.166_664_16, 0.5, 1.0, 1.0];
/// The furthest from zero that the argument of the exponential function may be.
const FURTHEST: f32 = 87.0;

/// The exponential function, accurate to two units in the last place, in arithmetic that compiles to vector instructions.
///
/// `exp(x) = 2^n exp(r)` with `n` the nearest integer to `x / ln 2`; `exp(r)` is a polynomial ([`FACTORS`]) with an error
/// below 2e-8 for `|r| <= ln 2 / 2`. Beyond +-87 the result stays finite and positive.
///
/// Products and sums are rounded once together. Processors of x86-64 that have no instruction for that (those from before 2013) call a
/// function, which is slow and has the same bits.
#[inline(always)]
fn exp(x: f32) -> f32 {
    let x = x.clamp(-FURTHEST, FURTHEST);
    let rounded = x.mul_add(std::f32::consts::LOG2_E, ROUNDING);
    let n = rounded - ROUNDING;
    let r = (-n).mul_add(LN_2_LOW, (-n).mul_add(LN_2_HIGH, x));
    let [mut polynomial, factors @ ..] = FACTORS;
    for factor in factors {
        polynomial = polynomial.mul_add(r, factor);
    }
    polynomial * f32::from_bits(rounded.to_bits() << 23)
}

/// The same of the negatives of all numbers, step by step for all registers.
#[inline(always)]
fn exp_of_negatives<S: Simd>(simd: S, mut x: [S::f32s; ABREAST]) -> [S::f32s; ABREAST] {
    let (least, most) = (simd.splat_f32s(-FURTHEST), simd.splat_f32s(FURTHEST));
    let rounding = simd.splat_f32s(ROUNDING);
    let mut rounded = [rounding; ABREAST];
    for (x, rounded) in x.iter_mut().zip(&mut rounded) {
        // NaN stays NaN, as in `clamp`.
        *x = simd.min_f32s(most, simd.max_f32s(least, simd.neg_f32s(*x)));
        *rounded = simd.mul_add_f32s(*x, simd.splat_f32s(std::f32::consts::LOG2_E), rounding);
    }
    for (x, rounded) in x.iter_mut().zip(&rounded) {
        let n = simd.sub_f32s(rounding, *rounded);
        let high = simd.mul_add_f32s(n, simd.splat_f32s(LN_2_HIGH), *x);
        *x = simd.mul_add_f32s(n, simd.splat_f32s(LN_2_LOW), high);
    }
    let mut polynomial = [simd.splat_f32s(FACTORS[0]); ABREAST];
    for factor in &FACTORS[1..] {
        let factor = simd.splat_f32s(*factor);
        for (polynomial, r) in polynomial.iter_mut().zip(&x) {
            *polynomial = simd.mul_add_f32s(*polynomial, *r, factor);
        }
    }
    for (polynomial, rounded) in polynomial.iter_mut().zip(rounded) {
        let power = simd.wrapping_dyn_shl_u32s(bytemuck::cast(rounded), simd.splat_u32s(23));
        *polynomial = simd.mul_f32s(*polynomial, bytemuck::cast(power));
    }
    polynomial
}

/// 1.5 * 2^23: see [`ROUNDING`]. The lowest bits of a sum with it are the integer itself.
const TO_INTEGER: f32 = 12_582_912.0;
/// Factors of the powers of `2^f` for `|f| <= 1/2`, from the third to that of one, whose largest relative error, 7.5e-5, is the least.
const COARSE_FACTORS: [f32; 4] = [0.055_171_67, 0.242_611_12, 0.693_261, 0.999_928_07];
/// The furthest from zero that the argument of `2^t` may be.
const FURTHEST_POWER: f32 = 126.0;

/// The exponential function to a 10,000th part: `exp(x) = 2^t` with `t = x / ln 2`, and `2^t = 2^n 2^f` with `n` the nearest integer to `t`.
/// `2^f` is a polynomial, and `n` is added to its exponent.
#[inline(always)]
fn coarse_exp(x: f32) -> f32 {
    let t = (x * std::f32::consts::LOG2_E).clamp(-FURTHEST_POWER, FURTHEST_POWER);
    let rounded = t + TO_INTEGER;
    let f = t - (rounded - TO_INTEGER);
    let [mut polynomial, factors @ ..] = COARSE_FACTORS;
    for factor in factors {
        polynomial = polynomial.mul_add(f, factor);
    }
    f32::from_bits(polynomial.to_bits().wrapping_add(rounded.to_bits() << 23))
}

/// The same of the negatives of all numbers, step by step for all registers.
#[inline(always)]
fn coarse_exp_of_negatives<S: Simd>(simd: S, mut x: [S::f32s; ABREAST]) -> [S::f32s; ABREAST] {
    let (least, most) = (simd.splat_f32s(-FURTHEST_POWER), simd.splat_f32s(FURTHEST_POWER));
    let (to_integer, negative) = (simd.splat_f32s(TO_INTEGER), simd.splat_f32s(-std::f32::consts::LOG2_E));
    let mut rounded = [to_integer; ABREAST];
    for (x, rounded) in x.iter_mut().zip(&mut rounded) {
        // NaN stays NaN, as in `clamp`.
        let t = simd.min_f32s(most, simd.max_f32s(least, simd.mul_f32s(*x, negative)));
        *rounded = simd.add_f32s(t, to_integer);
        *x = simd.sub_f32s(t, simd.sub_f32s(*rounded, to_integer));
    }
    let mut polynomial = [simd.splat_f32s(COARSE_FACTORS[0]); ABREAST];
    for factor in &COARSE_FACTORS[1..] {
        let factor = simd.splat_f32s(*factor);
        for (polynomial, f) in polynomial.iter_mut().zip(&x) {
            *polynomial = simd.mul_add_f32s(*polynomial, *f, factor);
        }
    }
    for (polynomial, rounded) in polynomial.iter_mut().zip(rounded) {
        let exponent = simd.wrapping_dyn_shl_u32s(bytemuck::cast(rounded), simd.splat_u32s(23));
        *polynomial = bytemuck::cast(simd.add_u32s(bytemuck::cast(*polynomial), exponent));
    }
    polynomial
}
