//! Turns a trace into a graph of the format.

use kindling_layers::tensors::Tensors;
use kindling_layers::trace::{FeatureMap, LayerTrace, Trace};

use crate::error::OnnxError;
use crate::export::Export;
use crate::form::{self, Form};
use crate::graph::Graph;
use crate::operation::Layer;
use crate::proto::{AttributeProto, GraphProto, ValueInfoProto};
use crate::shape;

/// A value of the trace in the file.
#[derive(Debug)]
struct Value {
    name: String,
    form: Form,
    /// The same value in the other form, once a layer has needed it.
    other: Option<String>,
}

impl Value {
    fn new(name: &str, form: Form) -> Self {
        Self { name: name.to_string(), form, other: None }
    }
}

/// Writes the graph of a network whose output is the trace's last layer.
pub(crate) fn lower(trace: &Trace, tensors: &Tensors, export: &Export) -> Result<GraphProto, OnnxError> {
    let last = trace.layers.last().ok_or(OnnxError::NoLayers)?;
    if export.model_name.is_empty() {
        return Err(OnnxError::Name(String::new()));
    }
    let maps = shape::check(trace)?;
    let forms = form::of_layers(trace);
    let output_form = if forms.last() == Some(&Form::Matrix) { Form::Matrix } else { Form::outside(last.output) };

    let mut graph = Graph::new(tensors)?;
    graph.names.claim(export.input_name)?;
    graph.names.claim(export.output_name)?;
    let mut values = vec![Value::new(export.input_name, Form::outside(trace.input))];
    let mut value_info = Vec::with_capacity(trace.layers.len());
    for (index, (layer, &form)) in trace.layers.iter().zip(&forms).enumerate() {
        let name = graph.names.unique(&node_name(layer));
        let is_output = index + 1 == trace.layers.len() && form == output_form;
        let output = if is_output { export.output_name.to_string() } else { name.clone() };
        let read = |&id: &usize| in_form(&mut graph, &mut values[id], form);
        let inputs = layer.inputs.iter().map(read).collect();
        let layer = Layer {
            trace: layer,
            name,
            form,
            inputs,
            maps: layer.inputs.iter().map(|&id| maps[id]).collect(),
            output: output.clone(),
        };
        layer.add_to(&mut graph)?;
        if !is_output {
            value_info.push(described(&output, form, maps[index + 1]));
        }
        values.push(Value::new(&output, form));
    }
    if let Some(value) = values.last().filter(|value| value.form != output_form) {
        let (name, input) = (graph.names.unique("flatten"), value.name.clone());
        flatten(&mut graph, &name, input, export.output_name);
    }
    Ok(GraphProto {
        node: graph.nodes,
        name: export.model_name.to_string(),
        initializer: graph.initializers,
        input: described(export.input_name, Form::outside(trace.input), trace.input),
        output: described(export.output_name, output_form, last.output),
        value_info,
    })
}

/// The path of a layer; a network that is one layer has none.
fn node_name(layer: &LayerTrace) -> String {
    if layer.name.is_empty() { layer.op.to_string() } else { layer.name.clone() }
}

/// A value in the form that a layer reads.
fn in_form(graph: &mut Graph, value: &mut Value, form: Form) -> String {
    if value.form == form {
        return value.name.clone();
    }
    if let Some(other) = &value.other {
        return other.clone();
    }
    let input = value.name.clone();
    let name = match form {
        Form::Matrix => {
            let name = graph.names.unique(&format!("{input}.flatten"));
            flatten(graph, &name, input, &name);
            name
        }
        Form::Map => {
            let name = graph.names.unique(&format!("{input}.map"));
            let pixel = graph.integers(&[2, 3]);
            graph.node(&name, "Unsqueeze", vec![input, pixel], &name, vec![]);
            name
        }
    };
    value.other = Some(name.clone());
    name
}

fn flatten(graph: &mut Graph, name: &str, input: String, output: &str) {
    graph.node(name, "Flatten", vec![input], output, vec![AttributeProto::int("axis", 1)]);
}

fn described(name: &str, form: Form, map: FeatureMap) -> ValueInfoProto {
    ValueInfoProto { name: name.to_string(), axes: form.axes(map) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{lowered, tensors, told, traced};
    use kindling_layers::trace::{Describe, Op};
    use kindling_layers::{Activation, SqueezeExciteConfig};

    #[test]
    fn squeeze_excite_needs_no_reshaping_and_the_classifier_one() {
        let (activation, gate) = (Activation::Relu, Activation::HardSigmoid);
        let squeeze = SqueezeExciteConfig { channels: 8, squeezed: 2, activation, gate };
        let squeeze = squeeze.init(&burn::tensor::Device::flex());
        let trace = traced(FeatureMap::square(8, 4), |input, trace| {
            let x = trace.scope("se", |trace| squeeze.describe(input, trace));
            let x = trace.apply("pool", Op::GlobalAveragePool, &[x], FeatureMap::vector(8));
            trace.apply("classifier", Op::Linear, &[x], FeatureMap::vector(3))
        });
        let tensors = tensors(&[
            ("classifier.bias", &[3]),
            ("classifier.weight", &[3, 8]),
            ("se.expand.bias", &[8]),
            ("se.expand.weight", &[8, 2]),
            ("se.reduce.bias", &[2]),
            ("se.reduce.weight", &[2, 8]),
        ]);
        let graph = lowered(&trace, &tensors).expect("writable");
        let expected = [
            "GlobalAveragePool(images) -> se.squeeze",
            "Conv(se.squeeze, se.reduce.weight, se.reduce.bias) -> se.reduce",
            "Relu(se.reduce) -> se.reduce.act",
            "Conv(se.reduce.act, se.expand.weight, se.expand.bias) -> se.expand",
            "HardSigmoid(se.expand) -> se.expand.act",
            "Mul(images, se.expand.act) -> se.scale",
            "GlobalAveragePool(se.scale) -> pool",
            "Flatten(pool) -> pool.flatten",
            "Gemm(pool.flatten, classifier.weight, classifier.bias) -> logits",
        ];
        assert_eq!(told(&graph), expected);
        assert_eq!(graph.input.axes, [8, 4, 4]);
        assert_eq!(graph.output.axes, [3]);
        // Every value between input and output has its shape, but for those the format itself asks for.
        assert_eq!(graph.value_info.len(), graph.node.len() - 2);
    }

    #[test]
    fn a_latent_vector_becomes_a_map_and_a_last_map_of_one_pixel_a_vector() {
        let up = Op::ConvTranspose { kernel: 4, stride: 1, padding: 0 };
        let trace = traced(FeatureMap::vector(6), |input, trace| {
            let a = trace.apply("up", up, &[input], FeatureMap::square(2, 4));
            let b = trace.apply("up", up, &[input], FeatureMap::square(2, 4));
            let x = trace.add(a, b);
            trace.apply("pool", Op::GlobalAveragePool, &[x], FeatureMap::vector(2))
        });
        let graph = lowered(&trace, &tensors(&[("up.weight", &[6, 2, 4, 4])])).expect("writable");
        let expected = [
            "Unsqueeze(images, constant) -> images.map",
            "ConvTranspose(images.map, up.weight) -> up",
            "ConvTranspose(images.map, up.weight) -> up_2",
            "Add(up, up_2) -> add",
            "GlobalAveragePool(add) -> pool",
            "Flatten(pool) -> logits",
        ];
        assert_eq!(told(&graph), expected);
        assert_eq!(graph.input.axes, [6]);
        assert_eq!(graph.output.axes, [2]);
    }

    #[test]
    fn names_of_nodes_and_values_are_unique_even_where_layers_are_called_like_tensors() {
        let trace = traced(FeatureMap::square(1, 2), |input, trace| {
            let x = trace.apply("x", Op::BatchNorm { epsilon: 1e-5 }, &[input], input.map);
            let x = trace.apply("x.weight", Op::Activation(Activation::Relu), &[x], input.map);
            let x = trace.apply("logits", Op::Activation(Activation::Silu), &[x], input.map);
            trace.apply("x", Op::Activation(Activation::Silu), &[x], input.map)
        });
        let parts = ["x.weight", "x.bias", "x.running_mean", "x.running_var"].map(|name| (name, [1].as_slice()));
        let graph = lowered(&trace, &tensors(&parts)).expect("writable");
        let mut names: Vec<&str> = graph.initializer.iter().map(|tensor| tensor.name.as_str()).collect();
        names.extend(graph.node.iter().map(|node| node.output.as_str()));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "{names:?}");
        let mut nodes: Vec<&str> = graph.node.iter().map(|node| node.name.as_str()).collect();
        nodes.sort_unstable();
        nodes.dedup();
        assert_eq!(nodes.len(), graph.node.len(), "{nodes:?}");
    }
}
