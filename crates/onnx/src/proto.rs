//! The messages of an ONNX file, as far as Kindling writes them.
//!
//! Names and numbers are those of `onnx.proto` (<https://github.com/onnx/onnx/blob/main/onnx/onnx.proto>).
//! `tests/run_onnx.py` checks that the format's own library writes the same bytes.

use kindling_protobuf::{Message, Output};

/// `ModelProto`: the whole file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ModelProto {
    pub(crate) ir_version: i64,
    pub(crate) producer_name: &'static str,
    pub(crate) producer_version: &'static str,
    pub(crate) graph: GraphProto,
    pub(crate) opset_import: OperatorSetIdProto,
    pub(crate) metadata_props: Vec<StringStringEntryProto>,
}

impl Message for ModelProto {
    fn write(&self, out: &mut Output) {
        out.int(1, self.ir_version);
        out.bytes(2, self.producer_name);
        out.bytes(3, self.producer_version);
        out.message(7, &self.graph);
        out.message(8, &self.opset_import);
        out.messages(14, &self.metadata_props);
    }
}

/// `OperatorSetIdProto`: the version of the format's own operators, whose domain is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OperatorSetIdProto {
    pub(crate) version: i64,
}

impl Message for OperatorSetIdProto {
    fn write(&self, out: &mut Output) {
        out.bytes(1, "");
        out.int(2, self.version);
    }
}

/// `StringStringEntryProto`: a free note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StringStringEntryProto {
    pub(crate) key: String,
    pub(crate) value: String,
}

impl Message for StringStringEntryProto {
    fn write(&self, out: &mut Output) {
        out.bytes(1, &self.key);
        out.bytes(2, &self.value);
    }
}

/// `GraphProto`: nodes in an order they can run in, weights, input and output.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GraphProto {
    pub(crate) node: Vec<NodeProto>,
    pub(crate) name: String,
    pub(crate) initializer: Vec<TensorProto>,
    pub(crate) input: ValueInfoProto,
    pub(crate) output: ValueInfoProto,
    /// Types of the values in between.
    pub(crate) value_info: Vec<ValueInfoProto>,
}

impl Message for GraphProto {
    fn write(&self, out: &mut Output) {
        out.messages(1, &self.node);
        out.bytes(2, &self.name);
        out.messages(5, &self.initializer);
        out.message(11, &self.input);
        out.message(12, &self.output);
        out.messages(13, &self.value_info);
    }
}

/// `NodeProto`: an operation. Every operation here has one output.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NodeProto {
    /// An empty name is an optional input that is left out.
    pub(crate) input: Vec<String>,
    pub(crate) output: String,
    pub(crate) name: String,
    pub(crate) op_type: &'static str,
    pub(crate) attribute: Vec<AttributeProto>,
}

impl Message for NodeProto {
    fn write(&self, out: &mut Output) {
        for input in &self.input {
            out.bytes(1, input);
        }
        out.bytes(2, &self.output);
        out.bytes(3, &self.name);
        out.bytes(4, self.op_type);
        out.messages(5, &self.attribute);
    }
}

/// `AttributeProto`: a setting of an operation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AttributeProto {
    pub(crate) name: &'static str,
    pub(crate) value: AttributeValue,
}

/// What an attribute is set to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AttributeValue {
    Float(f32),
    Int(usize),
    String(&'static str),
    Ints(Vec<usize>),
}

impl AttributeProto {
    pub(crate) fn float(name: &'static str, value: f32) -> Self {
        Self { name, value: AttributeValue::Float(value) }
    }

    pub(crate) fn int(name: &'static str, value: usize) -> Self {
        Self { name, value: AttributeValue::Int(value) }
    }

    pub(crate) fn string(name: &'static str, value: &'static str) -> Self {
        Self { name, value: AttributeValue::String(value) }
    }

    pub(crate) fn ints(name: &'static str, values: &[usize]) -> Self {
        Self { name, value: AttributeValue::Ints(values.to_vec()) }
    }
}

impl Message for AttributeProto {
    fn write(&self, out: &mut Output) {
        out.bytes(1, self.name);
        // `AttributeType` says which field holds the value.
        let kind = match &self.value {
            AttributeValue::Float(value) => {
                out.float(2, *value);
                1
            }
            AttributeValue::Int(value) => {
                out.int(3, *value as i64);
                2
            }
            AttributeValue::String(value) => {
                out.bytes(4, value);
                3
            }
            AttributeValue::Ints(values) => {
                out.ints(8, values);
                7
            }
        };
        out.int(20, kind);
    }
}

/// `TensorProto`: numbers with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TensorProto {
    pub(crate) dims: Vec<usize>,
    pub(crate) data_type: DataType,
    pub(crate) name: String,
    /// Little-endian, row by row.
    pub(crate) raw_data: Vec<u8>,
}

/// `TensorProto.DataType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataType {
    Float = 1,
    Int64 = 7,
}

impl Message for TensorProto {
    fn write(&self, out: &mut Output) {
        out.ints(1, &self.dims);
        out.int(2, self.data_type as i64);
        out.bytes(8, &self.name);
        out.bytes(9, &self.raw_data);
    }
}

/// `ValueInfoProto`: the name of a value, a float32 tensor whose first axis is the batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ValueInfoProto {
    pub(crate) name: String,
    /// Sizes of the axes after the batch.
    pub(crate) axes: Vec<usize>,
}

impl Message for ValueInfoProto {
    fn write(&self, out: &mut Output) {
        out.bytes(1, &self.name);
        out.message(2, &TypeProto(&self.axes));
    }
}

/// `TypeProto`, of whose many kinds only tensors are used.
struct TypeProto<'a>(&'a [usize]);

impl Message for TypeProto<'_> {
    fn write(&self, out: &mut Output) {
        out.message(1, &TensorTypeProto(self.0));
    }
}

/// `TypeProto.Tensor`.
struct TensorTypeProto<'a>(&'a [usize]);

impl Message for TensorTypeProto<'_> {
    fn write(&self, out: &mut Output) {
        out.int(1, DataType::Float as i64);
        out.message(2, &TensorShapeProto(self.0));
    }
}

/// `TensorShapeProto`.
struct TensorShapeProto<'a>(&'a [usize]);

impl Message for TensorShapeProto<'_> {
    fn write(&self, out: &mut Output) {
        out.message(1, &Dimension::Named("batch"));
        for &size in self.0 {
            out.message(1, &Dimension::Fixed(size));
        }
    }
}

/// `TensorShapeProto.Dimension`.
enum Dimension {
    Fixed(usize),
    Named(&'static str),
}

impl Message for Dimension {
    fn write(&self, out: &mut Output) {
        match self {
            Self::Fixed(size) => out.int(1, *size as i64),
            Self::Named(name) => out.bytes(2, name),
        }
    }
}
