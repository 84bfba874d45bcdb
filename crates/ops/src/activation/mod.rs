//! Activation functions: as Burn's operations, and for use inside the CPU's loops (`cpu`) and CubeCL's kernels (`cube`).

pub(crate) mod cpu;
#[cfg(feature = "cube")]
pub(crate) mod cube;

use burn::tensor::{Tensor, activation};

/// An activation function, applied element by element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum Activation {
    /// `x`.
    Identity,
    /// `max(0, x)`.
    Relu,
    /// `min(max(0, x), 6)` (MobileNetV2).
    Relu6,
    /// `x * relu6(x + 3) / 6` (MobileNetV3, section 5.2).
    #[strum(to_string = "hard swish")]
    HardSwish,
    /// `relu6(x + 3) / 6` (MobileNetV3, the gate of squeeze-excite).
    #[strum(to_string = "hard sigmoid")]
    HardSigmoid,
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    /// `x * sigmoid(x)`, also called swish (EfficientNet).
    Silu,
    /// `x` above zero, `0.2 x` below (the discriminators of GANs).
    #[strum(to_string = "leaky relu")]
    LeakyRelu,
    /// Hyperbolic tangent (the last activation of generators).
    Tanh,
}

impl Activation {
    /// Applies the function to a tensor of any shape.
    pub fn forward<const D: usize>(self, x: Tensor<D>) -> Tensor<D> {
        match self {
            Self::Identity => x,
            Self::Relu => activation::relu(x),
            Self::Relu6 => x.clamp(0.0, 6.0),
            // Burn's own functions, and the gradient of its division, round 1/6 to float32 even in float64.
            Self::HardSwish => x.clone() * Self::HardSigmoid.forward(x),
            Self::HardSigmoid => x.add_scalar(3.0).clamp(0.0, 6.0).mul_scalar(1.0 / 6.0),
            Self::Sigmoid => activation::sigmoid(x),
            Self::Silu => x.clone() * activation::sigmoid(x),
            Self::LeakyRelu => activation::leaky_relu(x, LEAKY_SLOPE),
            Self::Tanh => x.tanh(),
        }
    }
}

/// Slope of [`Activation::LeakyRelu`] below zero (Radford et al. 2015, section 3).
pub(crate) const LEAKY_SLOPE: f64 = 0.2;

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Device, Tolerance};

    /// Expected values by hand from the definitions.
    #[test]
    fn activations_follow_their_definitions() {
        let inputs = [-4.0f32, -3.0, -1.5, 0.0, 1.5, 3.0, 7.0];
        let x = Tensor::<1>::from_floats(inputs, &Device::flex());
        let sigmoid = inputs.map(|x| 1.0 / (1.0 + (-x).exp()));
        let cases = [
            (Activation::Identity, [-4.0, -3.0, -1.5, 0.0, 1.5, 3.0, 7.0]),
            (Activation::Relu, [0.0, 0.0, 0.0, 0.0, 1.5, 3.0, 7.0]),
            (Activation::Relu6, [0.0, 0.0, 0.0, 0.0, 1.5, 3.0, 6.0]),
            (Activation::HardSwish, [0.0, 0.0, -0.375, 0.0, 1.125, 3.0, 7.0]),
            (Activation::HardSigmoid, [0.0, 0.0, 0.25, 0.5, 0.75, 1.0, 1.0]),
            (Activation::Sigmoid, sigmoid),
            (Activation::Silu, std::array::from_fn(|i| inputs[i] * sigmoid[i])),
            (Activation::LeakyRelu, [-0.8, -0.6, -0.3, 0.0, 1.5, 3.0, 7.0]),
            (Activation::Tanh, inputs.map(f32::tanh)),
        ];
        for (activation, expected) in cases {
            activation
                .forward(x.clone())
                .into_data()
                .assert_approx_eq::<f32>(&expected.into(), Tolerance::absolute(1e-6));
        }
    }
}
