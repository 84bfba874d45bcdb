//! A graph under construction.

use burn::tensor::{DType, TensorData};
use kindling_layers::tensors::Tensors;
use kindling_layers::trace::LayerTrace;

use crate::error::OnnxError;
use crate::names::Names;
use crate::proto::{AttributeProto, DataType, NodeProto, TensorProto};

/// The nodes and initializers that are written so far, and the tensors that they come from.
#[derive(Debug)]
pub(crate) struct Graph<'a> {
    tensors: &'a Tensors,
    /// Names in use, which include those of all tensors from the start.
    pub(crate) names: Names,
    /// The nodes, each after the nodes whose values it reads.
    pub(crate) nodes: Vec<NodeProto>,
    /// Weights and constants in the order they are first read.
    pub(crate) initializers: Vec<TensorProto>,
}

impl<'a> Graph<'a> {
    pub(crate) fn new(tensors: &'a Tensors) -> Result<Self, OnnxError> {
        let mut names = Names::default();
        for name in tensors.keys() {
            names.claim(name)?;
        }
        Ok(Self { tensors, names, nodes: Vec::new(), initializers: Vec::new() })
    }

    /// Adds a node with one output.
    pub(crate) fn node(
        &mut self,
        name: &str,
        op: &'static str,
        inputs: Vec<String>,
        output: &str,
        attributes: Vec<AttributeProto>,
    ) {
        self.nodes.push(NodeProto {
            input: inputs,
            output: output.to_string(),
            name: name.to_string(),
            op_type: op,
            attribute: attributes,
        });
    }

    /// Whether a layer has this tensor.
    pub(crate) fn has(&self, layer: &LayerTrace, part: &str) -> bool {
        self.tensors.contains_key(&tensor_name(layer, part))
    }

    /// Adds a layer's tensor, which must have the shape `stored`, as an initializer of shape `written`, and returns its name.
    pub(crate) fn weight(
        &mut self,
        layer: &LayerTrace,
        part: &str,
        stored: &[usize],
        written: &[usize],
    ) -> Result<String, OnnxError> {
        let name = tensor_name(layer, part);
        let data = self.tensors.get(&name).ok_or_else(|| OnnxError::MissingTensor(name.clone()))?;
        let found = data.shape().as_slice();
        if found != stored {
            return Err(OnnxError::TensorShape { name, expected: stored.to_vec(), found: found.to_vec() });
        }
        let dims = written.to_vec();
        match self.initializers.iter().find(|initializer| initializer.name == name) {
            // The weights of a layer that runs twice are written once.
            Some(same) if same.dims == dims => {}
            Some(_) => {
                let reason = format!("`{name}` is needed both for maps and for vectors");
                return Err(OnnxError::unsupported(layer, reason));
            }
            None => {
                let raw_data = float32(&name, data)?;
                self.initializers.push(TensorProto { dims, data_type: DataType::Float, name: name.clone(), raw_data });
            }
        }
        Ok(name)
    }

    /// A constant of float32 numbers: a vector, or one number without axes.
    pub(crate) fn floats(&mut self, dims: &[usize], values: &[f32]) -> String {
        let raw_data = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(dims, DataType::Float, raw_data)
    }

    /// A constant vector of whole numbers.
    pub(crate) fn integers(&mut self, values: &[usize]) -> String {
        let raw_data = values.iter().flat_map(|&value| (value as i64).to_le_bytes()).collect();
        self.constant(&[values.len()], DataType::Int64, raw_data)
    }

    /// Adds a constant, or returns an equal one that exists already.
    fn constant(&mut self, dims: &[usize], data_type: DataType, raw_data: Vec<u8>) -> String {
        let equal = |other: &&TensorProto| {
            (other.data_type, other.dims.as_slice(), &other.raw_data) == (data_type, dims, &raw_data)
                && !self.tensors.contains_key(&other.name)
        };
        if let Some(same) = self.initializers.iter().find(equal) {
            return same.name.clone();
        }
        let name = self.names.unique("constant");
        self.initializers.push(TensorProto { dims: dims.to_vec(), data_type, name: name.clone(), raw_data });
        name
    }
}

/// The name of a layer's tensor; a network that is one layer has no path.
fn tensor_name(layer: &LayerTrace, part: &str) -> String {
    if layer.name.is_empty() { part.to_string() } else { format!("{}.{part}", layer.name) }
}

/// Little-endian float32.
fn float32(name: &str, data: &TensorData) -> Result<Vec<u8>, OnnxError> {
    let refuse = |reason: String| OnnxError::TensorType { name: name.to_string(), reason };
    match data.dtype() {
        DType::F32 => {
            let values = data.as_slice::<f32>().map_err(|error| refuse(error.to_string()))?;
            Ok(values.iter().flat_map(|value| value.to_le_bytes()).collect())
        }
        DType::F64 => {
            let values = data.as_slice::<f64>().map_err(|error| refuse(error.to_string()))?;
            Ok(values.iter().flat_map(|&value| (value as f32).to_le_bytes()).collect())
        }
        other => Err(refuse(format!("it is {other:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{lowered, tensors, traced};
    use kindling_layers::trace::{FeatureMap, Op};

    #[test]
    fn float64_is_written_as_float32_and_other_types_are_refused() {
        let data = TensorData::new(vec![1.0f64 / 3.0, -2.0], [2]);
        let expected: Vec<u8> = [1.0f32 / 3.0, -2.0].iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(float32("weight", &data), Ok(expected));
        let refused = float32("weight", &TensorData::new(vec![1i32], [1])).expect_err("integers");
        assert_eq!(refused.to_string(), "the tensor `weight` cannot be written as float32: it is I32");
    }

    #[test]
    fn equal_constants_are_one_and_no_weight() {
        let tensors = tensors(&[("weight", &[1])]);
        let mut graph = Graph::new(&tensors).expect("names differ");
        graph.initializers.push(TensorProto {
            dims: vec![1],
            data_type: DataType::Float,
            name: "weight".to_string(),
            raw_data: vec![0; 4],
        });
        assert_eq!(graph.floats(&[1], &[0.0]), "constant");
        assert_eq!(graph.floats(&[], &[0.0]), "constant_2");
        assert_eq!(graph.integers(&[0]), "constant_3");
        assert_eq!(graph.integers(&[0]), "constant_3");
    }

    /// One layer applied twice.
    #[test]
    fn weights_that_are_read_twice_are_written_once() {
        let trace = traced(FeatureMap::vector(2), |input, trace| {
            let x = trace.apply("linear", Op::Linear, &[input], FeatureMap::vector(2));
            trace.apply("linear", Op::Linear, &[x], FeatureMap::vector(2))
        });
        let graph = lowered(&trace, &tensors(&[("linear.weight", &[2, 2]), ("linear.bias", &[2])])).expect("writable");
        assert_eq!(graph.initializer.len(), 2);
        assert_eq!(graph.node.len(), 2);
    }
}
