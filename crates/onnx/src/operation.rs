//! Writes each operation of a trace as nodes of the format.

use kindling_layers::Interpolation;
use kindling_layers::trace::{FeatureMap, LayerTrace, Op};

use crate::activation;
use crate::error::OnnxError;
use crate::form::Form;
use crate::graph::Graph;
use crate::proto::AttributeProto;

/// A layer whose inputs are in the form that it needs.
#[derive(Debug)]
pub(crate) struct Layer<'a> {
    /// The layer in the trace.
    pub(crate) trace: &'a LayerTrace,
    /// Its node's name.
    pub(crate) name: String,
    /// The form of its inputs and its output.
    pub(crate) form: Form,
    /// Names of its inputs.
    pub(crate) inputs: Vec<String>,
    /// Their maps.
    pub(crate) maps: Vec<FeatureMap>,
    /// Name of its output.
    pub(crate) output: String,
}

impl Layer<'_> {
    /// Adds the layer's nodes and weights. Its shapes have been checked.
    pub(crate) fn add_to(mut self, graph: &mut Graph) -> Result<(), OnnxError> {
        let ints = AttributeProto::ints;
        let channels = self.trace.output.channels;
        match self.trace.op {
            Op::Conv { kernel, stride, dilation, groups, padding } => {
                let ([top, left], [bottom, right]) = (padding.before, padding.after);
                let fan = self.maps[0].channels.checked_div(groups).unwrap_or(0);
                let shape = [channels, fan, kernel, kernel];
                self.weights(graph, &[("weight", &shape, &shape)])?;
                self.bias(graph)?;
                let attributes = vec![
                    ints("dilations", &[dilation; 2]),
                    AttributeProto::int("group", groups),
                    ints("kernel_shape", &[kernel; 2]),
                    ints("pads", &[top, left, bottom, right]),
                    ints("strides", &[stride; 2]),
                ];
                self.node(graph, "Conv", attributes);
            }
            Op::ConvTranspose { kernel, stride, padding } => {
                let shape = [self.maps[0].channels, channels, kernel, kernel];
                self.weights(graph, &[("weight", &shape, &shape)])?;
                self.bias(graph)?;
                let attributes = vec![
                    ints("kernel_shape", &[kernel; 2]),
                    ints("pads", &[padding; 4]),
                    ints("strides", &[stride; 2]),
                ];
                self.node(graph, "ConvTranspose", attributes);
            }
            Op::Linear => self.linear(graph)?,
            Op::BatchNorm { epsilon } => {
                let shape: &[usize] = &[channels];
                let parts = ["weight", "bias", "running_mean", "running_var"].map(|part| (part, shape, shape));
                self.weights(graph, &parts)?;
                self.node(graph, "BatchNormalization", vec![AttributeProto::float("epsilon", epsilon as f32)]);
            }
            Op::Activation(function) => {
                activation::add(graph, function, &self.name, self.inputs.swap_remove(0), &self.output);
            }
            Op::Add => self.node(graph, "Add", vec![]),
            Op::Multiply => self.node(graph, "Mul", vec![]),
            Op::Scale { factor } => {
                self.inputs.push(graph.floats(&[], &[factor as f32]));
                self.node(graph, "Mul", vec![]);
            }
            Op::GlobalAveragePool => self.node(graph, "GlobalAveragePool", vec![]),
            Op::AdaptiveAveragePool { output } => {
                let FeatureMap { height, width, .. } = self.maps[0];
                let cell = [height / output, width / output];
                self.node(graph, "AveragePool", vec![ints("kernel_shape", &cell), ints("strides", &cell)]);
            }
            Op::AveragePool { kernel } => {
                let cell = [kernel; 2];
                self.node(graph, "AveragePool", vec![ints("kernel_shape", &cell), ints("strides", &cell)]);
            }
            Op::MaxPool { kernel, stride, padding } => {
                let attributes = vec![
                    ints("kernel_shape", &[kernel; 2]),
                    ints("pads", &[padding; 4]),
                    ints("strides", &[stride; 2]),
                ];
                self.node(graph, "MaxPool", attributes);
            }
            Op::Concat => self.node(graph, "Concat", vec![AttributeProto::int("axis", 1)]),
            Op::Slice { start, end } => {
                self.inputs.extend([[start], [end], [1]].map(|values| graph.integers(&values)));
                self.node(graph, "Slice", vec![]);
            }
            Op::Upsample { factor } => {
                let nearest = AttributeProto::string("nearest_mode", "floor");
                self.resize(graph, [factor as f32; 2], vec![nearest], ["asymmetric", "nearest"]);
            }
            Op::Resize { interpolation } => {
                let corners = interpolation == Interpolation::BilinearCorners;
                let coordinates = if corners { "align_corners" } else { "half_pixel" };
                let (from, to) = (self.maps[0], self.trace.output);
                let factors = [(from.height, to.height), (from.width, to.width)].map(|(from, to)| factor(from, to));
                // Interpolation by the nearest pixel, and factors that round to other sizes, are refused with the shape.
                let [Some(rows), Some(columns)] = factors else {
                    return Err(OnnxError::unsupported(self.trace, "it has any size".to_string()));
                };
                self.resize(graph, [rows, columns], vec![], [coordinates, "linear"]);
            }
        }
        Ok(())
    }

    /// A map of another size.
    fn resize(
        &mut self,
        graph: &mut Graph,
        [rows, columns]: [f32; 2],
        mut attributes: Vec<AttributeProto>,
        [coordinates, mode]: [&'static str; 2],
    ) {
        // No region of interest.
        self.inputs.push(String::new());
        self.inputs.push(graph.floats(&[4], &[1.0, 1.0, rows, columns]));
        attributes.push(AttributeProto::string("coordinate_transformation_mode", coordinates));
        attributes.push(AttributeProto::string("mode", mode));
        self.node(graph, "Resize", attributes);
    }

    /// A linear layer as a matrix product, or on maps as a convolution whose window is the whole map.
    fn linear(&mut self, graph: &mut Graph) -> Result<(), OnnxError> {
        let FeatureMap { channels, height, width } = self.maps[0];
        let stored = [self.trace.output.channels, channels * height * width];
        match self.form {
            Form::Matrix => {
                self.weights(graph, &[("weight", &stored, &stored)])?;
                self.bias(graph)?;
                self.node(graph, "Gemm", vec![AttributeProto::int("transB", 1)]);
            }
            Form::Map => {
                let window = [stored[0], channels, height, width];
                self.weights(graph, &[("weight", &stored, &window)])?;
                self.bias(graph)?;
                self.node(graph, "Conv", vec![AttributeProto::ints("kernel_shape", &[height, width])]);
            }
        }
        Ok(())
    }

    /// Appends tensors to the inputs: name, shape, shape in the file.
    fn weights(&mut self, graph: &mut Graph, parts: &[(&str, &[usize], &[usize])]) -> Result<(), OnnxError> {
        for (part, stored, written) in parts {
            self.inputs.push(graph.weight(self.trace, part, stored, written)?);
        }
        Ok(())
    }

    /// Appends the bias to the inputs, if there is one.
    fn bias(&mut self, graph: &mut Graph) -> Result<(), OnnxError> {
        let shape: &[usize] = &[self.trace.output.channels];
        let parts: &[_] = if graph.has(self.trace, "bias") { &[("bias", shape, shape)] } else { &[] };
        self.weights(graph, parts)
    }

    fn node(&mut self, graph: &mut Graph, op: &'static str, attributes: Vec<AttributeProto>) {
        graph.node(&self.name, op, std::mem::take(&mut self.inputs), &self.output, attributes);
    }
}

/// The factor that makes `to` pixels of `from`, as ONNX multiplies and rounds down, if a number of float32 does, whether products are
/// rounded to float32 (onnxruntime) or to float64 (the shape inference of the package `onnx`).
pub(crate) fn factor(from: usize, to: usize) -> Option<f32> {
    let near = to as f32 / from as f32;
    let makes = |factor: &f32| {
        (from as f32 * factor).floor() == to as f32 && (from as f64 * f64::from(*factor)).floor() == to as f64
    };
    [near, near.next_up()].into_iter().find(makes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{AttributeValue, NodeProto};
    use crate::testing::{lowered, tensors, told, traced};
    use kindling_layers::trace::Zeros;

    fn setting<'a>(node: &'a NodeProto, name: &str) -> Option<&'a AttributeValue> {
        node.attribute.iter().find(|attribute| attribute.name == name).map(|attribute| &attribute.value)
    }

    fn ints(values: &[usize]) -> Option<AttributeValue> {
        Some(AttributeValue::Ints(values.to_vec()))
    }

    #[test]
    fn every_size_has_a_factor_that_makes_it() {
        // 7 times the nearest number of float32 is below 50, and rounds to 50 in float32.
        assert!(factor(7, 50).is_some_and(|factor| 7.0 * f64::from(factor) >= 50.0));
        for (from, to) in (1..40).flat_map(|from| (from..=40 * from).step_by(7).map(move |to| (from, to))) {
            assert!(factor(from, to).is_some(), "{from} to {to}");
        }
    }

    /// TensorFlow's "SAME" at 7 rows of 8 columns with stride 2: one row above and below, one column to the right.
    #[test]
    fn zeros_may_differ_from_side_to_side() {
        let padding = Zeros { before: [1, 0], after: [1, 1] };
        let op = Op::Conv { kernel: 3, stride: 2, dilation: 1, groups: 2, padding };
        let input = FeatureMap { channels: 4, height: 7, width: 8 };
        let trace = traced(input, |input, trace| {
            trace.apply("conv", op, &[input], FeatureMap { channels: 6, height: 4, width: 4 })
        });
        let graph = lowered(&trace, &tensors(&[("conv.weight", &[6, 2, 3, 3])])).expect("writable");
        assert_eq!(told(&graph), ["Conv(images, conv.weight) -> logits"]);
        assert_eq!(setting(&graph.node[0], "pads"), ints(&[1, 0, 1, 1]).as_ref());
        assert_eq!(setting(&graph.node[0], "strides"), ints(&[2, 2]).as_ref());
        assert_eq!(setting(&graph.node[0], "group"), Some(&AttributeValue::Int(2)));
        assert_eq!(graph.initializer[0].dims, [6, 2, 3, 3]);
    }

    /// Linear layers flatten row by row, as a convolution over the whole map multiplies.
    #[test]
    fn a_linear_layer_on_maps_is_a_convolution_over_the_whole_map() {
        let trace = traced(FeatureMap { channels: 2, height: 3, width: 5 }, |input, trace| {
            let gate = trace.apply("gate", Op::Linear, &[input], FeatureMap::vector(2));
            trace.apply("scale", Op::Multiply, &[input, gate], input.map)
        });
        let graph = lowered(&trace, &tensors(&[("gate.weight", &[2, 30]), ("gate.bias", &[2])])).expect("writable");
        assert_eq!(told(&graph), ["Conv(images, gate.weight, gate.bias) -> gate", "Mul(images, gate) -> logits"]);
        assert_eq!(graph.initializer[0].dims, [2, 2, 3, 5]);
        assert_eq!(setting(&graph.node[0], "kernel_shape"), ints(&[3, 5]).as_ref());
    }

    #[test]
    fn channels_are_taken_and_put_together_along_the_second_axis() {
        let trace = traced(FeatureMap::square(5, 2), |input, trace| {
            let take = |trace: &mut kindling_layers::trace::Trace, start, end| {
                let map = FeatureMap { channels: end - start, ..input.map };
                trace.apply("take", Op::Slice { start, end }, &[input], map)
            };
            let parts = [take(trace, 3, 5), take(trace, 0, 3)];
            trace.apply("concat", Op::Concat, &parts, input.map)
        });
        let graph = lowered(&trace, &tensors(&[])).expect("writable");
        let expected = [
            "Slice(images, constant, constant_2, constant_3) -> take",
            "Slice(images, constant_4, constant, constant_3) -> take_2",
            "Concat(take, take_2) -> logits",
        ];
        assert_eq!(told(&graph), expected);
    }
}
