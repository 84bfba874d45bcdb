//! Which values are maps in the file and which are matrices.

use kindling_layers::trace::{FeatureMap, Op, Trace};

/// The form of a value in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `[batch, channels, height, width]`.
    Map,
    /// `[batch, channels]`.
    Matrix,
}

impl Form {
    /// The form of the network's input, or of its output if no layer decides: a map of one pixel is a vector.
    pub(crate) fn outside(map: FeatureMap) -> Self {
        if map == FeatureMap::vector(map.channels) { Self::Matrix } else { Self::Map }
    }

    /// The axes after the batch.
    pub(crate) fn axes(self, map: FeatureMap) -> Vec<usize> {
        match self {
            Self::Map => vec![map.channels, map.height, map.width],
            Self::Matrix => vec![map.channels],
        }
    }
}

/// The form of the output of each layer. A linear layer gives a matrix if no later layer needs a map, and linear layers and element-wise
/// operations after it keep the matrix.
pub(crate) fn of_layers(trace: &Trace) -> Vec<Form> {
    // Backwards: the input of a layer that needs maps is a map, and so are the values that it is computed from.
    let mut followed_by_maps = vec![false; trace.layers.len() + 1];
    for (index, layer) in trace.layers.iter().enumerate().rev() {
        if !matches!(layer.op, Op::Linear | Op::Activation(_) | Op::Scale { .. }) || followed_by_maps[index + 1] {
            for &input in &layer.inputs {
                followed_by_maps[input] = true;
            }
        }
    }
    // Forwards: only linear layers create matrices; element-wise operations keep them.
    let mut forms = vec![Form::outside(trace.input)];
    for (layer, &needs_map) in trace.layers.iter().zip(&followed_by_maps[1..]) {
        let matrix = match (&layer.op, layer.inputs.as_slice()) {
            _ if needs_map => false,
            (Op::Linear, _) => true,
            (Op::Activation(_) | Op::Scale { .. }, &[input]) => forms[input] == Form::Matrix,
            _ => false,
        };
        forms.push(if matrix { Form::Matrix } else { Form::Map });
    }
    forms.split_off(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::traced;
    use kindling_layers::{Activation, HeadConfig, HiddenConfig, SqueezeExciteConfig};

    /// Squeeze-excite ends in a product with a map, a classifier in nothing.
    #[test]
    fn linear_layers_that_lead_to_a_map_are_maps_and_the_others_matrices() {
        let device = burn::tensor::Device::flex();
        let activation = Activation::Relu;
        let gate = SqueezeExciteConfig { channels: 8, squeezed: 2, activation, gate: Activation::Sigmoid };
        let head = HeadConfig { features: None, hidden: Some(HiddenConfig::Linear(6, activation)), drop_rate: 0.0 };
        let (gate, head) = (gate.init(&device), head.init(8, 3, Default::default(), &device));
        let trace = traced(FeatureMap::square(8, 4), |input, trace| {
            use kindling_layers::trace::Describe;
            let x = gate.describe(input, trace);
            head.describe(x, trace)
        });
        let linear: Vec<(String, Form)> = trace
            .layers
            .iter()
            .zip(of_layers(&trace))
            .filter(|(layer, _)| layer.op == Op::Linear)
            .map(|(layer, form)| (layer.name.clone(), form))
            .collect();
        let expected = [
            ("reduce", Form::Map),
            ("expand", Form::Map),
            ("hidden.linear", Form::Matrix),
            ("classifier", Form::Matrix),
        ];
        assert_eq!(linear, expected.map(|(name, form)| (name.to_string(), form)));
    }

    /// The activation before a classifier that reads a map stays a map; the one after a linear layer does not.
    #[test]
    fn an_activation_has_the_form_of_what_it_reads() {
        let trace = traced(FeatureMap::square(2, 3), |input, trace| {
            let x = trace.activation(Activation::Relu, input);
            let x = trace.apply("linear", Op::Linear, &[x], FeatureMap::vector(4));
            trace.activation(Activation::Tanh, x)
        });
        assert_eq!(of_layers(&trace), [Form::Map, Form::Matrix, Form::Matrix]);
    }
}
