//! Activations and their derivatives as types, so that the compiler specialises and vectorises each loop for each activation.

use pulp::Simd;

use crate::activation::{Activation, LEAKY_SLOPE};
use crate::cpu::real::{ABREAST, Real};

/// A function of one number and its derivative. Where a function has a corner, the derivative is the one that PyTorch uses.
pub(crate) trait Function: Copy + Send + Sync {
    fn value<T: Real>(x: T) -> T;
    fn derivative<T: Real>(x: T) -> T;

    /// Whether [`Function::values`] is there: of functions whose chain of operations is long.
    const ABREAST: bool = false;
    /// [`Function::value`] of all numbers, with its bits.
    #[inline(always)]
    fn values<T: Real, S: Simd>(_: S, _: [T::Register<S>; ABREAST]) -> [T::Register<S>; ABREAST] {
        unreachable!("the function has no values abreast")
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Identity;
#[derive(Clone, Copy)]
pub(crate) struct Relu;
#[derive(Clone, Copy)]
pub(crate) struct Relu6;
#[derive(Clone, Copy)]
pub(crate) struct HardSwish;
#[derive(Clone, Copy)]
pub(crate) struct HardSigmoid;
#[derive(Clone, Copy)]
pub(crate) struct Sigmoid;
#[derive(Clone, Copy)]
pub(crate) struct Silu;
/// [`Silu`] for results that are rounded to bf16, to a twentieth of what that rounds by.
#[derive(Clone, Copy)]
pub(crate) struct CoarseSilu;
#[derive(Clone, Copy)]
pub(crate) struct LeakyRelu;
#[derive(Clone, Copy)]
pub(crate) struct Tanh;

impl Function for Identity {
    #[inline(always)]
    fn value<T: Real>(x: T) -> T {
        x
    }
    #[inline(always)]
    fn derivative<T: Real>(_: T) -> T {
        T::of(1.0)
    }
}

impl Function for Relu {
    #[inline(always)]
    fn value<T: Real>(x: T) -> T {
        let zero = T::of(0.0);
        if x > zero { x } else { zero }
    }
    #[inline(always)]
    fn derivative<T: Real>(x: T) -> T {
        if x > T::of(0.0) { T::of(1.0) } else { T::of(0.0) }
    }
}

impl Function for Relu6 {
    #[inline(always)]
    fn value<T: Real>(x: T) -> T {
        x.clamp(T::of(0.0), T::of(6.0))
    }
    #[inline(always)]
    fn derivative<T: Real>(x: T) -> T {
        if x > T::of(0.0) && x < T::of(6.0) { T::of(1.0) } else { T::of(0.0) }
    }
}

impl Function for HardSwish {
    #[inline(always)]
    fn value<T: Real>(x: T) -> T {
        x * (x + T::of(3.0)).clamp(T::of(0.0), T::of(6.0)) * T::of(1.0 / 6.0)
    }
    #[inline(always)]
    fn derivative<T: Real>(x: T) -> T {
        let middle = x * T::of(1.0 / 3.0) + T::of(0.5);
        let upper = if x > T::of(3.0) { T::of(1.0) } else { middle };
        if x < T::of(-3.0) { T::of(0.0) } else { upper }
    }
}

impl Function for HardSigmoid {
    #[inline(always)]
    fn value<T: Real>(x: T) -> T {
        (x + T::of(3.0)).clamp(T::of(0.0), T::of(6.0)) * T::of(1.0 / 6.0)
    }
    #[inline(always)]
    fn derivative<T: Real>(x: T) -> T {
        if x > T::of(-3.0) && x < T::of(3.0) { T::of(1.0 / 6.0) } else { T::of(0.0) }
    }
}

impl Function for Sigmoid {
    #[inline(always)]
    fn value<T: Real>(x: T) -> T {
        T::of(1.0) / (T::of(1.0) + (-x).exp())
    }
    #[inline(always)]
    fn derivative<T: Real>(x: T) -> T {
        let y = Self::value(x);
        y * (T::of(1.0) - y)
    }
}

impl Function for Silu {
    #[inline(always)]
    fn value<T: Real>(x: T) -> T {
        x / (T::of(1.0) + (-x).exp())
    }
    const ABREAST: bool = true;
    #[inline(always)]
    fn values<T: Real, S: Simd>(simd: S, x: [T::Register<S>; ABREAST]) -> [T::Register<S>; ABREAST] {
        silu::<T, S>(simd, x, T::exp_of_negatives(simd, x))
    }
    #[inline(always)]
    fn derivative<T: Real>(x: T) -> T {
        let gate = Sigmoid::value(x);
        gate * (T::of(1.0) + x * (T::of(1.0) - gate))
    }
}

impl Function for CoarseSilu {
    #[inline(always)]
    fn value<T: Real>(x: T) -> T {
        x / (T::of(1.0) + T::coarse_exp(-x))
    }
    const ABREAST: bool = true;
    #[inline(always)]
    fn values<T: Real, S: Simd>(simd: S, x: [T::Register<S>; ABREAST]) -> [T::Register<S>; ABREAST] {
        silu::<T, S>(simd, x, T::coarse_exp_of_negatives(simd, x))
    }
    #[inline(always)]
    fn derivative<T: Real>(x: T) -> T {
        Silu::derivative(x)
    }
}

/// [`Silu`] or [`CoarseSilu`] of registers, from the exponential function of their negatives.
#[inline(always)]
fn silu<T: Real, S: Simd>(
    simd: S,
    mut x: [T::Register<S>; ABREAST],
    exps: [T::Register<S>; ABREAST],
) -> [T::Register<S>; ABREAST] {
    let one = T::of(1.0).splat(simd);
    for (x, exp) in x.iter_mut().zip(exps) {
        *x = T::quotient(simd, *x, T::sum(simd, one, exp));
    }
    x
}

impl Function for LeakyRelu {
    #[inline(always)]
    fn value<T: Real>(x: T) -> T {
        if x > T::of(0.0) { x } else { T::of(LEAKY_SLOPE) * x }
    }
    #[inline(always)]
    fn derivative<T: Real>(x: T) -> T {
        if x > T::of(0.0) { T::of(1.0) } else { T::of(LEAKY_SLOPE) }
    }
}

impl Function for Tanh {
    #[inline(always)]
    fn value<T: Real>(x: T) -> T {
        x.tanh()
    }
    #[inline(always)]
    fn derivative<T: Real>(x: T) -> T {
        let y = Self::value(x);
        T::of(1.0) - y * y
    }
}

/// A computation that is compiled once for each activation.
pub(crate) trait ForActivation {
    type Output;
    fn run<F: Function>(self, function: F) -> Self::Output;
}

/// Runs `work` in its version for `activation`.
pub(crate) fn dispatch<W: ForActivation>(activation: Activation, work: W) -> W::Output {
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

/// An activation of maps of a format: as exact as that is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exact {
    pub(crate) activation: Activation,
    /// Whether the maps are bf16, as which results are rounded.
    pub(crate) to_bf16: bool,
}

impl Exact {
    /// [`dispatch`] for these maps.
    pub(crate) fn dispatch<W: ForActivation>(self, work: W) -> W::Output {
        match self.activation {
            Activation::Silu if self.to_bf16 => work.run(CoarseSilu),
            activation => dispatch(activation, work),
        }
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
            check(&format!("exp {x}"), Real::exp(x), exact.exp(), 3e-7);
            check(&format!("sigmoid {x}"), Sigmoid::value(x), sigmoid, 4e-7);
            check(&format!("silu {x}"), Silu::value(x), exact * sigmoid, 5e-7);
            check(&format!("coarse silu {x}"), CoarseSilu::value(x), exact * sigmoid, 1e-4);
            check(&format!("tanh {x}"), Tanh::value(x), exact.tanh(), 1e-6);
        }
    }

    /// Numbers of all sizes and none, in as many registers as there are abreast.
    #[test]
    fn values_abreast_have_the_bits_of_one_number() {
        struct Values<'a, T, F>(&'a mut [T], F);
        impl<T: Real, F: Function> pulp::WithSimd for Values<'_, T, F> {
            type Output = usize;
            #[inline(always)]
            fn with_simd<S: Simd>(self, simd: S) -> usize {
                let lanes = T::lanes::<S>();
                let load = |register: usize| T::load(simd, &self.0[register * lanes..]);
                let values = F::values::<T, S>(simd, std::array::from_fn(load));
                for (register, values) in values.into_iter().enumerate() {
                    T::store(simd, &mut self.0[register * lanes..][..lanes], values);
                }
                ABREAST * lanes
            }
        }
        fn check<F: Function>(function: F) {
            for start in 0..400 {
                let x: Vec<f32> = (0..256).map(|step| (start * 256 + step) as f32 / 512.0 - 100.0).collect();
                let mut found = x.clone();
                found[3] = f32::NAN;
                let count = pulp::Arch::new().dispatch(Values(&mut found, function));
                let same = |at: usize| if at == 3 { found[at].is_nan() } else { found[at] == F::value(x[at]) };
                assert!((0..count).all(same), "from {}", x[0]);
                let mut wide: Vec<f64> = x.iter().copied().map(f64::from).collect();
                let count = pulp::Arch::new().dispatch(Values(&mut wide, function));
                assert!((0..count).all(|at| wide[at] == F::value(f64::from(x[at]))), "from {}", x[0]);
            }
        }
        check(Silu);
        check(CoarseSilu);
    }

    #[test]
    fn far_out_values_stay_finite() {
        for x in [-1e30f32, -100.0, 100.0, 1e30] {
            let derivatives = [Sigmoid::derivative(x), Tanh::derivative(x)];
            let values = [Real::exp(x), Real::coarse_exp(x), Sigmoid::value(x), CoarseSilu::value(x), Tanh::value(x)];
            for value in values.into_iter().chain(derivatives) {
                assert!(value.is_finite(), "{x}");
            }
            assert!((Silu::derivative(x) - if x > 0.0 { 1.0 } else { 0.0 }).abs() < 1e-6, "{x}");
        }
    }
}
