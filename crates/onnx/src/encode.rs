//! Writes the file.

use kindling_layers::tensors::Tensors;
use kindling_layers::trace::Trace;
use kindling_protobuf as wire;

use crate::error::OnnxError;
use crate::export::Export;
use crate::lowering::lower;
use crate::proto::{ModelProto, OperatorSetIdProto, StringStringEntryProto};

/// The version of ONNX's operators that files use (ONNX 1.12, June 2022). Version 14 is the first with everything that is needed here, and
/// readers of version 17 are widespread.
pub const OPSET: i64 = 17;

/// The version of the file format that belongs to [`OPSET`].
const IR_VERSION: i64 = 8;

/// The library of the format does not read messages of 2 GB or more.
const MOST_BYTES: usize = i32::MAX as usize;

/// Writes a network for inference as an ONNX file: float32, with any number of images at once, and with the height and width of the
/// trace. Equal inputs give equal bytes.
///
/// The output of the network is that of the last layer of the trace. Weights keep their names, and the node of a layer has the name of the
/// layer, with a number if several layers share a name. Tensors that no layer of the trace reads, such as the strength of noise that is
/// added only in training, are left out.
///
/// # Errors
/// If a tensor is missing or of another shape than the trace needs, if a layer has no counterpart in ONNX, if
/// the trace contradicts itself, if a name is empty or taken, or if the file would not fit into 2 GB.
pub fn encode(trace: &Trace, tensors: &Tensors, export: &Export) -> Result<Vec<u8>, OnnxError> {
    let note = |(key, value): (&String, &String)| StringStringEntryProto { key: key.clone(), value: value.clone() };
    let model = ModelProto {
        ir_version: IR_VERSION,
        producer_name: "kindling",
        producer_version: env!("CARGO_PKG_VERSION"),
        graph: lower(trace, tensors, export)?,
        opset_import: OperatorSetIdProto { version: OPSET },
        metadata_props: export.metadata.iter().map(note).collect(),
    };
    encode_within(&model, MOST_BYTES)
}

fn encode_within(model: &ModelProto, limit: usize) -> Result<Vec<u8>, OnnxError> {
    match wire::length(model) {
        bytes if bytes > limit => Err(OnnxError::TooLarge { bytes, limit }),
        bytes => Ok(wire::bytes(model, bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{tensors, traced};
    use kindling_layers::trace::{Describe, FeatureMap, Op};
    use kindling_layers::{Activation, BatchNormConfig, Conv2dConfig, ConvNormConfig};

    fn conv_norm() -> Trace {
        let conv = Conv2dConfig::new(3, 4, 3, 2);
        let block = ConvNormConfig { conv, norm: BatchNormConfig::default(), activation: Activation::Relu6 };
        let block = block.init(&burn::tensor::Device::flex());
        traced(FeatureMap::square(3, 8), |input, trace| trace.scope("stem", |trace| block.describe(input, trace)))
    }

    const TENSORS: [(&str, &[usize]); 5] = [
        ("stem.conv.weight", &[4, 3, 3, 3]),
        ("stem.norm.bias", &[4]),
        ("stem.norm.running_mean", &[4]),
        ("stem.norm.running_var", &[4]),
        ("stem.norm.weight", &[4]),
    ];

    #[test]
    fn the_file_says_what_it_is() {
        let mut export = Export::classifier("small");
        export.metadata.insert("classes".to_string(), "cat,dog".to_string());
        let bytes = encode(&conv_norm(), &tensors(&TENSORS), &export).expect("writable");
        let model = onnx_rs::parse(&bytes).expect("a reader of others reads it");
        assert_eq!((model.ir_version, model.opset_import[0].version), (8, 17));
        assert_eq!((model.producer_name, model.producer_version), ("kindling", env!("CARGO_PKG_VERSION")));
        assert_eq!((model.metadata_props[0].key, model.metadata_props[0].value), ("classes", "cat,dog"));
        let graph = model.graph.expect("a graph");
        assert_eq!(graph.name, "small");

        let told: Vec<(&str, Vec<&str>)> =
            graph.node.iter().map(|node| (node.op_type.as_str(), node.input.clone())).collect();
        let expected = [
            ("Conv", vec!["images", TENSORS[0].0]),
            ("BatchNormalization", vec!["stem.conv", TENSORS[4].0, TENSORS[1].0, TENSORS[2].0, TENSORS[3].0]),
            ("Clip", vec!["stem.norm", "constant", "constant_2"]),
        ];
        assert_eq!(told, expected);
        let strides = graph.node[0].attribute.iter().find(|attribute| attribute.name == "strides");
        assert_eq!(strides.map(|attribute| attribute.ints.as_slice()), Some([2, 2].as_slice()));
        for (name, shape) in TENSORS {
            let tensor = graph.get_initializer(name).expect("every tensor is there under its name");
            assert!(tensor.dims().iter().map(|&size| size as usize).eq(shape.iter().copied()), "{name}");
            let values = tensor.as_f32().expect("float32");
            assert!(values.iter().enumerate().all(|(index, &value)| value == index as f32), "{name}");
        }
        assert_eq!(graph.get_initializer("constant_2").and_then(|six| six.as_f32()).as_deref(), Some([6.0].as_slice()));
        let dims = |value: &onnx_rs::ast::ValueInfo| format!("{:?}", value.tensor_shape().expect("a shape").dim);
        assert!(dims(&graph.input[0]).contains("Param(\"batch\")"), "{}", dims(&graph.input[0]));
        assert!(dims(&graph.output[0]).contains("Value(4)"), "{}", dims(&graph.output[0]));
    }

    #[test]
    fn a_tensor_that_only_training_reads_is_left_out() {
        let export = Export::classifier("small");
        let write = |tensors: &Tensors| encode(&conv_norm(), tensors, &export).expect("writable");
        let mut more = tensors(&TENSORS);
        more.extend(tensors(&[("stem.noise.weight", &[1])]));
        assert_eq!(write(&more), write(&tensors(&TENSORS)));
    }

    #[test]
    fn equal_networks_give_equal_bytes() {
        let write = || encode(&conv_norm(), &tensors(&TENSORS), &Export::classifier("small")).expect("writable");
        assert_eq!(write(), write());
    }

    #[test]
    fn a_tensor_that_is_missing_or_of_another_shape_is_refused_by_name() {
        let refused = |tensors: &Tensors| {
            encode(&conv_norm(), tensors, &Export::classifier("small")).expect_err("not this network's").to_string()
        };
        assert_eq!(refused(&tensors(&TENSORS[..4])), "the tensor `stem.norm.weight` is missing");
        let mut other = tensors(&TENSORS);
        other.extend(tensors(&[("stem.norm.bias", &[5])]));
        assert_eq!(refused(&other), "the tensor `stem.norm.bias` has shape [5] where its layer needs [4]");
    }

    #[test]
    fn a_file_of_more_than_2_gb_is_refused() {
        let export = Export::classifier("small");
        let graph = lower(&conv_norm(), &tensors(&TENSORS), &export).expect("writable");
        let model = ModelProto {
            ir_version: 1,
            producer_name: "",
            producer_version: "",
            graph,
            opset_import: OperatorSetIdProto { version: OPSET },
            metadata_props: vec![],
        };
        let bytes = wire::length(&model);
        assert_eq!(encode_within(&model, bytes).map(|bytes| bytes.len()), Ok(bytes));
        assert_eq!(encode_within(&model, bytes - 1), Err(OnnxError::TooLarge { bytes, limit: bytes - 1 }));
    }

    #[test]
    fn a_name_that_is_taken_or_empty_is_refused() {
        let write = |export: Export| encode(&conv_norm(), &tensors(&TENSORS), &export);
        for name in ["", "stem.norm.bias", "logits"] {
            let export = Export { input_name: name, ..Export::classifier("small") };
            assert_eq!(write(export), Err(OnnxError::Name(name.to_string())));
        }
        assert_eq!(write(Export::classifier("")), Err(OnnxError::Name(String::new())));
    }

    #[test]
    fn a_network_without_layers_is_refused_and_one_of_a_single_nameless_layer_is_not() {
        let export = Export::classifier("small");
        let nothing = traced(FeatureMap::square(1, 1), |input, _| input);
        assert_eq!(encode(&nothing, &Tensors::new(), &export), Err(OnnxError::NoLayers));
        let linear =
            traced(FeatureMap::vector(2), |input, trace| trace.push(Op::Linear, &[input], FeatureMap::vector(3), 9));
        assert!(encode(&linear, &tensors(&[("weight", &[3, 2]), ("bias", &[3])]), &export).is_ok());
    }
}
