//! Gated linear unit.

use burn::tensor::Tensor;
use kindling_layers::Activation;
use kindling_layers::trace::{Describe, FeatureMap, Op, Trace, Value};

/// One half of the channels gated by the other ("Language Modeling with Gated Convolutional Networks", Dauphin et al.
/// 2016): `x[.. c / 2] * sigmoid(x[c / 2 ..])`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Glu;

impl Glu {
    /// `[batch, channels, height, width]` to `[batch, channels / 2, height, width]`.
    ///
    /// # Panics
    /// If the channels are odd.
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let channels = x.dims()[1];
        assert!(channels.is_multiple_of(2), "a gated linear unit halves its channels, {channels} here");
        let half = channels / 2;
        x.clone().narrow(1, 0, half) * Activation::Sigmoid.forward(x.narrow(1, half, half))
    }
}

impl Describe for Glu {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let channels = input.map.channels;
        let half = FeatureMap { channels: channels / 2, ..input.map };
        trace.scope("glu", |trace| {
            let value = trace.apply("value", Op::Slice { start: 0, end: channels / 2 }, &[input], half);
            let gate = trace.apply("gate", Op::Slice { start: channels / 2, end: channels }, &[input], half);
            let gate = trace.activation(Activation::Sigmoid, gate);
            trace.apply("scale", Op::Multiply, &[value, gate], half)
        })
    }
}
