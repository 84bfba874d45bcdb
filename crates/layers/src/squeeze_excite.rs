//! Squeeze-and-excitation.

use burn::module::Module;
use burn::tensor::{Device, Tensor};

use crate::linear::Linear;
use crate::map::Map;
use crate::pass;
use crate::trace::{Describe, FeatureMap, Op, Trace, Value};
use kindling_ops::{Activation, on_cpu};

/// Configuration of a [`SqueezeExcite`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SqueezeExciteConfig {
    /// Channels of the map that is gated.
    pub channels: usize,
    /// Channels of the bottleneck.
    pub squeezed: usize,
    /// Activation between the two layers.
    pub activation: Activation,
    /// Activation after the second layer, which gives the gate.
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

/// Multiplies each channel by a gate that is computed from the means of all channels ("Squeeze-and-Excitation Networks", section 3).
///
/// The two 1x1 convolutions of the reference implementations act on a map of one pixel, so they are linear layers here.
#[derive(Module, Debug)]
pub struct SqueezeExcite {
    /// From channels to the bottleneck.
    pub reduce: Linear,
    /// From the bottleneck to the gate.
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

    /// As [`SqueezeExcite::forward`], for a map whose normalisation may be deferred.
    pub fn gate(&self, x: Map) -> Map {
        let tensor = x.tensor();
        // What is read twice is computed once where it need not be kept for gradients. GPUs compute faster than they read.
        let x = if !pass::is_training() && on_cpu(tensor) && !tensor.is_autodiff() { x.stored() } else { x };
        self.gate_by(x.global_average_pool(), x)
    }

    /// The same, for a map whose planes have these means, `[batch, channels]`.
    pub(crate) fn gate_by(&self, means: Tensor<2>, x: Map) -> Map {
        let squeezed = self.activation.forward(self.reduce.forward(means));
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
