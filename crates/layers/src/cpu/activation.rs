//! Activations and their derivatives as types, so that loops are compiled for each.

use crate::activation::Activation;

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
    }
}
