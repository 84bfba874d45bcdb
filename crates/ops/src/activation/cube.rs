//! Activations and their derivatives in kernels. At its corners a derivative is PyTorch's.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use crate::activation::{Activation, LEAKY_SLOPE};

/// The activation of four channels.
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

/// Its derivative.
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

/// At least zero, at most `high`.
#[cube]
fn between<N: Size>(z: Vector<f32, N>, #[comptime] high: f32) -> Vector<f32, N> {
    let (zero, high) = (Vector::<f32, N>::new(0.0), Vector::<f32, N>::new(high));
    select_many(z.less_than(&zero), zero, select_many(z.greater_than(&high), high, z))
}

/// A number between two others, zero outside.
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
