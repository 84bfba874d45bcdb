//! Squeeze-and-excitation.

use burn::module::Module;
use burn::tensor::{Device, Tensor};

use crate::activation::Activation;
use crate::cpu;
use crate::linear::{Linear, global_average_pool};
use crate::precision;
use crate::room;
use crate::trace::{Describe, FeatureMap, Op, Trace, Value};

/// Configuration of a [`SqueezeExcite`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SqueezeExciteConfig {
    /// Channels of the map that is gated.
    pub channels: usize,
    /// Channels of the bottleneck.
    pub squeezed: usize,
    /// Between the two layers.
    pub activation: Activation,
    /// Turns the second layer's output into the gate.
    pub gate: Activation,
}

impl SqueezeExciteConfig {
    /// A block on `device`.
    pub fn init(&self, device: &Device) -> SqueezeExcite {
        SqueezeExcite {
            reduce: Linear::new(self.channels, self.squeezed, device),
            expand: Linear::new(self.squeezed, self.channels, device),
            activation: self.activation,
            gate: self.gate,
        }
    }
}

/// Scales each channel by a gate computed from all channels' means ("Squeeze-and-Excitation Networks", section 3).
///
/// The two 1x1 convolutions of the reference implementations act on a 1x1 map, where they are linear layers.
#[derive(Module, Debug)]
pub struct SqueezeExcite {
    /// Channels to bottleneck.
    pub reduce: Linear,
    /// Bottleneck to gate.
    pub expand: Linear,
    #[module(skip)]
    activation: Activation,
    #[module(skip)]
    gate: Activation,
}

impl SqueezeExcite {
    /// `[batch, channels, height, width]` in and out.
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let [batch, channels, ..] = x.dims();
        room::announce_like(&x, x.shape().num_elements());
        let squeezed = self.activation.forward(self.reduce.forward(global_average_pool(x.clone())));
        let gate = self.gate.forward(self.expand.forward(squeezed));
        if cpu::serves(&x) {
            return cpu::scale(x, gate);
        }
        let gate = precision::like(gate, &x);
        x * gate.reshape([batch, channels, 1, 1])
    }
}

impl Describe for SqueezeExcite {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let mean = FeatureMap::vector(input.map.channels);
        let mean = trace.apply("squeeze", Op::GlobalAveragePool, &[input], mean);
        let squeezed = trace.scope("reduce", |trace| {
            let squeezed = self.reduce.describe(mean, trace);
            trace.activation(self.activation, squeezed)
        });
        let gate = trace.scope("expand", |trace| {
            let gate = self.expand.describe(squeezed, trace);
            trace.activation(self.gate, gate)
        });
        trace.apply("scale", Op::Multiply, &[input, gate], input.map)
    }
}
