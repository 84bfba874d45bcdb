//! Activations and their derivatives as types, so that loops are compiled for each.

use crate::activation::{Activation, LEAKY_SLOPE};

/// A function of one number and its derivative. At its corners the derivative is PyTorch's.
pub(super) trait Function: Copy + Send + Sync {
    fn value(x: f32) -> f32;
    fn derivative(x: f32) -> f32;
}

#[derive(Clone, Copy)]
pub(super) struct Identity;
#[derive(Clone, Copy)]
pub(super) struct Relu;
#[derive(Clone, Copy)]
pub(super) struct Relu6;
#[derive(Clone, Copy)]
pub(super) struct HardSwish;
#[derive(Clone, Copy)]
pub(super) struct HardSigmoid;
#[derive(Clone, Copy)]
pub(super) struct Sigmoid;
#[derive(Clone, Copy)]
pub(super) struct Silu;
#[derive(Clone, Copy)]
pub(super) struct LeakyRelu;
#[derive(Clone, Copy)]
pub(super) struct Tanh;

impl Function for Identity {
    #[inline(always)]
    fn value(x: f32) -> f32 {
        x
    }
    #[inline(always)]
    fn derivative(_: f32) -> f32 {
        1.0
    }
}

impl Function for Relu {
    #[inline(always)]
    fn value(x: f32) -> f32 {
        if x > 0.0 { x } else { 0.0 }
    }
    #[inline(always)]
    fn derivative(x: f32) -> f32 {
        if x > 0.0 { 1.0 } else { 0.0 }
    }
}

impl Function for Relu6 {
    #[inline(always)]
    fn value(x: f32) -> f32 {
        x.clamp(0.0, 6.0)
    }
    #[inline(always)]
    fn derivative(x: f32) -> f32 {
        if x > 0.0 && x < 6.0 { 1.0 } else { 0.0 }
    }
}

impl Function for HardSwish {
    #[inline(always)]
    fn value(x: f32) -> f32 {
        x * (x + 3.0).clamp(0.0, 6.0) * (1.0 / 6.0)
    }
    #[inline(always)]
    fn derivative(x: f32) -> f32 {
        let middle = x * (1.0 / 3.0) + 0.5;
        let upper = if x > 3.0 { 1.0 } else { middle };
        if x < -3.0 { 0.0 } else { upper }
    }
}

impl Function for HardSigmoid {
    #[inline(always)]
    fn value(x: f32) -> f32 {
        (x + 3.0).clamp(0.0, 6.0) * (1.0 / 6.0)
    }
    #[inline(always)]
    fn derivative(x: f32) -> f32 {
        if x > -3.0 && x < 3.0 { 1.0 / 6.0 } else { 0.0 }
    }
}

impl Function for Sigmoid {
    #[inline(always)]
    fn value(x: f32) -> f32 {
        1.0 / (1.0 + exp(-x))
    }
    #[inline(always)]
    fn derivative(x: f32) -> f32 {
        let y = Self::value(x);
        y * (1.0 - y)
    }
}

impl Function for Silu {
    #[inline(always)]
    fn value(x: f32) -> f32 {
        x * Sigmoid::value(x)
    }
    #[inline(always)]
    fn derivative(x: f32) -> f32 {
        let gate = Sigmoid::value(x);
        gate * (1.0 + x * (1.0 - gate))
    }
}

impl Function for LeakyRelu {
    #[inline(always)]
    fn value(x: f32) -> f32 {
        if x > 0.0 { x } else { LEAKY_SLOPE as f32 * x }
    }
    #[inline(always)]
    fn derivative(x: f32) -> f32 {
        if x > 0.0 { 1.0 } else { LEAKY_SLOPE as f32 }
    }
}

impl Function for Tanh {
    #[inline(always)]
    fn value(x: f32) -> f32 {
        // 2 sigmoid(2x) - 1 loses the small ones; tanh(x) = (1 - e) / (1 + e) with e = exp(-2 |x|) does not above 0.1.
        let e = exp(-2.0 * x.abs());
        let large = (1.0 - e) / (1.0 + e);
        let square = x * x;
        let small = x.abs() * (1.0 - square * (1.0 / 3.0 - square * (2.0 / 15.0 - square * (17.0 / 315.0))));
        (if square < 0.01 { small } else { large }).copysign(x)
    }
    #[inline(always)]
    fn derivative(x: f32) -> f32 {
        let y = Self::value(x);
        1.0 - y * y
    }
}

/// The exponential function to two units in the last place, in arithmetic that compiles to vectors.
///
/// `exp(x) = 2^n exp(r)` with `n` the nearest integer to `x / ln 2`; `exp(r)` is its Taylor polynomial, whose next term
/// is below 1e-8 for `|r| <= ln 2 / 2`. Beyond +-87 the result stays finite and positive.
#[inline(always)]
fn exp(x: f32) -> f32 {
    // ln 2 in two parts, so that n times the first is exact.
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let x = x.clamp(-87.0, 87.0);
    // A float32 of this size has no places behind the point, so adding rounds; and its last digits are n + 127, the exponent of
    // 2^n. Converting to an integer would be done lane by lane.
    const ROUNDING: f32 = 12_582_912.0 + 127.0;
    let rounded = x * std::f32::consts::LOG2_E + ROUNDING;
    let n = rounded - ROUNDING;
    let r = x - n * LN_2_HIGH - n * LN_2_LOW;
    let mut polynomial = 1.0 / 5040.0;
    for factor in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        polynomial = polynomial * r + factor;
    }
    polynomial * f32::from_bits(rounded.to_bits() << 23)
}

/// Work that is compiled once for each activation.
pub(super) trait ForActivation {
    type Output;
    fn run<F: Function>(self, function: F) -> Self::Output;
}

/// Runs the version of `work` for an activation.
pub(super) fn dispatch<W: ForActivation>(activation: Activation, work: W) -> W::Output {
    match activation {
        Activation::Identity => work.run(Identity),
        Activation::Relu => work.run(Relu),
        Activation::Relu6 => work.run(Relu6),
        Activation::HardSwish => work.run(HardSwish),
        Activation::HardSigmoid => work.run(HardSigmoid),
        Activation::Sigmoid => work.run(Sigmoid),
        Activation::Silu => work.run(Silu),
        Activation::LeakyRelu => work.run(LeakyRelu),
        Activation::Tanh => work.run(Tanh),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, found: f32, expected: f64, room: f64) {
        let error = (f64::from(found) - expected).abs() / expected.abs().max(1e-30);
        assert!(error < room, "{name}: {found} for {expected}");
    }

    /// Against float64 over the range where the results are neither 0 nor infinite.
    #[test]
    fn exponential_functions_keep_float32_precision() {
        for step in -8600..=8600 {
            let x = step as f32 / 100.0;
            let exact = f64::from(x);
            let sigmoid = 1.0 / (1.0 + (-exact).exp());
            check(&format!("exp {x}"), exp(x), exact.exp(), 3e-7);
            check(&format!("sigmoid {x}"), Sigmoid::value(x), sigmoid, 4e-7);
            check(&format!("silu {x}"), Silu::value(x), exact * sigmoid, 5e-7);
            check(&format!("tanh {x}"), Tanh::value(x), exact.tanh(), 1e-6);
        }
    }

    #[test]
    fn far_out_values_stay_finite() {
        for x in [-1e30f32, -100.0, 100.0, 1e30] {
            for value in [exp(x), Sigmoid::value(x), Tanh::value(x), Sigmoid::derivative(x), Tanh::derivative(x)] {
                assert!(value.is_finite(), "{x}");
            }
            assert!((Silu::derivative(x) - if x > 0.0 { 1.0 } else { 0.0 }).abs() < 1e-6, "{x}");
        }
    }
}
