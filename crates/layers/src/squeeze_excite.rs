//! Squeeze-and-excitation.

use burn::module::Module;
use burn::tensor::{Device, Tensor};

use crate::linear::Linear;
use crate::map::Map;
use crate::trace::{Describe, FeatureMap, Op, Trace, Value};
use kindling_ops::Activation;

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
        self.gate(x.into()).whole()
    }

    /// The same for a map that may not be whole.
    pub fn gate(&self, x: Map) -> Map {
        let squeezed = self.activation.forward(self.reduce.forward(x.global_average_pool()));
        x.gated(self.gate.forward(self.expand.forward(squeezed)))
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
