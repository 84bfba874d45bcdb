//! Helpers for the tests of several files.

use std::cell::RefCell;

use burn::tensor::TensorData;
use kindling_layers::tensors::Tensors;
use kindling_layers::trace::{Describe, FeatureMap, Trace, Value};

use crate::error::OnnxError;
use crate::export::Export;
use crate::lowering::lower;
use crate::proto::{GraphProto, NodeProto};

/// A network that a function describes.
struct Described<F>(RefCell<F>);

impl<F: FnMut(Value, &mut Trace) -> Value> Describe for Described<F> {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        (self.0.borrow_mut())(input, trace)
    }
}

/// The trace of a network that `describe` describes.
pub(crate) fn traced(input: FeatureMap, describe: impl FnMut(Value, &mut Trace) -> Value) -> Trace {
    Trace::of(&Described(RefCell::new(describe)), input)
}

/// Tensors of these names and shapes, each filled with 0, 1, 2, ...
pub(crate) fn tensors(shapes: &[(&str, &[usize])]) -> Tensors {
    let counted = |&(name, shape): &(&str, &[usize])| {
        let count: usize = shape.iter().product();
        let values: Vec<f32> = (0..count).map(|value| value as f32).collect();
        (name.to_string(), TensorData::new(values, shape.to_vec()))
    };
    shapes.iter().map(counted).collect()
}

/// The graph of a network from `images` to `logits`.
pub(crate) fn lowered(trace: &Trace, tensors: &Tensors) -> Result<GraphProto, OnnxError> {
    lower(trace, tensors, &Export::classifier("test"))
}

/// `operation(inputs) -> output` of each node.
pub(crate) fn told(graph: &GraphProto) -> Vec<String> {
    let tell = |node: &NodeProto| format!("{}({}) -> {}", node.op_type, node.input.join(", "), node.output);
    graph.node.iter().map(tell).collect()
}
