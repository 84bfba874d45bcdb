//! Activation functions as operations of the format.

use kindling_layers::Activation;

use crate::graph::Graph;
use crate::proto::AttributeProto;

/// Adds the nodes that apply a function to `input`.
pub(crate) fn add(graph: &mut Graph, activation: Activation, name: &str, input: String, output: &str) {
    let simple =
        |graph: &mut Graph, op: &'static str, input, attributes| graph.node(name, op, vec![input], output, attributes);
    match activation {
        Activation::Identity => simple(graph, "Identity", input, vec![]),
        Activation::Relu => simple(graph, "Relu", input, vec![]),
        Activation::Relu6 => {
            let (least, most) = (graph.floats(&[], &[0.0]), graph.floats(&[], &[6.0]));
            graph.node(name, "Clip", vec![input, least, most], output, vec![]);
        }
        Activation::HardSwish => simple(graph, "HardSwish", input, vec![]),
        Activation::HardSigmoid => {
            let line = vec![AttributeProto::float("alpha", 1.0 / 6.0), AttributeProto::float("beta", 0.5)];
            simple(graph, "HardSigmoid", input, line);
        }
        Activation::Sigmoid => simple(graph, "Sigmoid", input, vec![]),
        Activation::Silu => {
            let gate = graph.names.unique(&format!("{name}.sigmoid"));
            graph.node(&gate, "Sigmoid", vec![input.clone()], &gate, vec![]);
            graph.node(name, "Mul", vec![input, gate], output, vec![]);
        }
        Activation::LeakyRelu => simple(graph, "LeakyRelu", input, vec![AttributeProto::float("alpha", 0.2)]),
        Activation::Tanh => simple(graph, "Tanh", input, vec![]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{lowered, told, traced};
    use kindling_layers::tensors::Tensors;
    use kindling_layers::trace::{FeatureMap, Op};

    fn alone(activation: Activation) -> (Vec<String>, Vec<AttributeProto>) {
        let trace = traced(FeatureMap::square(2, 3), |input, trace| {
            trace.apply("act", Op::Activation(activation), &[input], input.map)
        });
        let graph = lowered(&trace, &Tensors::new()).expect("writable");
        (told(&graph), graph.node[0].attribute.clone())
    }

    #[test]
    fn functions_the_format_lacks_are_composed() {
        let (silu, _) = alone(Activation::Silu);
        assert_eq!(silu, ["Sigmoid(images) -> act.sigmoid", "Mul(images, act.sigmoid) -> logits"]);
        let (relu6, _) = alone(Activation::Relu6);
        assert_eq!(relu6, ["Clip(images, constant, constant_2) -> logits"]);
    }

    #[test]
    fn slopes_are_kindlings_and_not_the_formats_defaults() {
        let (_, hard) = alone(Activation::HardSigmoid);
        assert_eq!(hard, [AttributeProto::float("alpha", 1.0 / 6.0), AttributeProto::float("beta", 0.5)]);
        let (_, leaky) = alone(Activation::LeakyRelu);
        assert_eq!(leaky, [AttributeProto::float("alpha", 0.2)]);
    }
}
