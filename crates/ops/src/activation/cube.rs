//! Activations and their derivatives inside kernels.
//!
//! The activation is a compile-time parameter, so a kernel contains the code of one activation only. Both sides of a condition are
//! computed and one is selected, which keeps all lanes of a vector together. Where a function has a corner, the derivative is the
//! one that PyTorch uses.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use crate::activation::{Activation, LEAKY_SLOPE};

/// The activation, for `N` neighbouring channels.
#[cube]
pub(crate) fn value<N: Size>(z: Vector<f32, N>, #[comptime] activation: Activation) -> Vector<f32, N> {
    let zero = Vector::<f32, N>::new(0.0);
    match comptime!(activation) {
        Activation::Identity => z,
        Activation::Relu => select_many(z.greater_than(&zero), z, zero),
        Activation::Relu6 => between::<N>(z, 6.0),
        Activation::HardSwish => z * between::<N>(z + Vector::new(3.0), 6.0) * Vector::new(1.0 / 6.0),
        Activation::HardSigmoid => between::<N>(z + Vector::new(3.0), 6.0) * Vector::new(1.0 / 6.0),
        Activation::Sigmoid => sigmoid::<N>(z),
        Activation::Silu => z * sigmoid::<N>(z),
        Activation::LeakyRelu => select_many(z.greater_than(&zero), z, z * Vector::new(comptime!(LEAKY_SLOPE as f32))),
        Activation::Tanh => z.tanh(),
    }
}

/// The derivative of the activation at `z`.
#[cube]
pub(crate) fn derivative<N: Size>(z: Vector<f32, N>, #[comptime] activation: Activation) -> Vector<f32, N> {
    let (zero, one) = (Vector::<f32, N>::new(0.0), Vector::<f32, N>::new(1.0));
    match comptime!(activation) {
        Activation::Identity => one,
        Activation::Relu => select_many(z.greater_than(&zero), one, zero),
        Activation::Relu6 => inside::<N>(z, 0.0, 6.0, 1.0),
        Activation::HardSwish => {
            let middle = z * Vector::new(1.0 / 3.0) + Vector::new(0.5);
            let upper = select_many(z.greater_than(&Vector::new(3.0)), one, middle);
            select_many(z.less_than(&Vector::new(-3.0)), zero, upper)
        }
        Activation::HardSigmoid => inside::<N>(z, -3.0, 3.0, 1.0 / 6.0),
        Activation::Sigmoid => {
            let y = sigmoid::<N>(z);
            y * (one - y)
        }
        Activation::Silu => {
            let gate = sigmoid::<N>(z);
            gate * (one + z * (one - gate))
        }
        Activation::LeakyRelu => select_many(z.greater_than(&zero), one, Vector::new(comptime!(LEAKY_SLOPE as f32))),
        Activation::Tanh => {
            let y = z.tanh();
            one - y * y
        }
    }
}

/// `z` clamped to 0 and `high`.
#[cube]
fn between<N: Size>(z: Vector<f32, N>, #[comptime] high: f32) -> Vector<f32, N> {
    let (zero, high) = (Vector::<f32, N>::new(0.0), Vector::<f32, N>::new(high));
    select_many(z.less_than(&zero), zero, select_many(z.greater_than(&high), high, z))
}

/// `number` where `z` lies strictly between `low` and `high`, and zero elsewhere.
#[cube]
fn inside<N: Size>(
    z: Vector<f32, N>,
    #[comptime] low: f32,
    #[comptime] high: f32,
    #[comptime] number: f32,
) -> Vector<f32, N> {
    let zero = Vector::<f32, N>::new(0.0);
    let below = select_many(z.less_than(&Vector::new(high)), Vector::new(number), zero);
    select_many(z.greater_than(&Vector::new(low)), below, zero)
}

#[cube]
fn sigmoid<N: Size>(z: Vector<f32, N>) -> Vector<f32, N> {
    let one = Vector::<f32, N>::new(1.0);
    one / (one + (-z).exp())
}
