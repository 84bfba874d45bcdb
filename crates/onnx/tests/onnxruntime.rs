//! What onnxruntime makes of the files is what Burn makes of the networks.

mod support;

use std::cell::RefCell;
use std::process::ExitCode;

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kindling_classification::efficientnet::efficientnet;
use kindling_classification::ghostnet::ghostnet;
use kindling_classification::mixnet::mixnet_s;
use kindling_classification::mobilenet_v3::mobilenet_v3_small;
use kindling_classification::mobilenet_v4::mobilenet_v4_conv_small;
use kindling_classification::resnet::resnet18;
use kindling_classification::{NetworkConfig, mobilenet_v3, resnet};
use kindling_gan::{DcganConfig, FastGanConfig, Upsampling};
use kindling_layers::names::Library;
use kindling_layers::tensors::Tensors;
use kindling_layers::trace::{Describe, FeatureMap, Op, Trace, Value, Zeros};
use kindling_layers::{Activation, Classifier, Segmenter};
use kindling_onnx::{Export, OPSET, encode};
use kindling_segmentation::{DecoderKind, Encoder, SegmentationConfig, encoder};
use kindling_tests::{Optional, Test, run_optional_and_nightly};
use serde_json::json;
use support::python::Report;
use support::{interpreter, python, weights};

fn main() -> ExitCode {
    let need = Optional { missing: python::missing(), required_by: "KINDLING_REQUIRE_PYTHON" };
    let tests = TESTS.iter().map(|&(name, test)| Test::new(name, test)).collect();
    let large = vec![Test::new("every_network_for_segmentation_runs_in_onnxruntime_at_512", segmentation_at_512)];
    run_optional_and_nightly(need, tests, large, "minutes")
}

const TESTS: [(&str, fn()); 13] = [
    ("mobilenet_v3_runs_in_onnxruntime", || classifier("mobilenet_v3", mobilenet_v3_small(Library::Torchvision), 64)),
    ("mobilenet_v4_runs_in_onnxruntime", || classifier("mobilenet_v4", mobilenet_v4_conv_small(), 64)),
    // TensorFlow's padding where sizes are odd at first and even later: 75, 38, 19, 10, 5, 3.
    ("efficientnet_padded_as_tensorflow_does_runs_in_onnxruntime", || {
        classifier("efficientnet", efficientnet(0, Library::TimmTensorFlow), 75);
    }),
    ("mixnet_runs_in_onnxruntime", || classifier("mixnet", mixnet_s(Library::TimmTensorFlow), 65)),
    ("ghostnet_runs_in_onnxruntime", || classifier("ghostnet", ghostnet(), 64)),
    ("resnet_runs_in_onnxruntime", || classifier("resnet", resnet18(), 64)),
    ("dcgan_runs_in_onnxruntime", dcgan),
    ("fastgan_runs_in_onnxruntime", fastgan),
    ("segmentation_runs_in_onnxruntime", segmentation),
    ("every_activation_runs_in_onnxruntime", every_activation),
    ("every_way_to_another_size_runs_in_onnxruntime", every_size),
    ("linear_layers_on_maps_and_vectors_run_in_onnxruntime", linear_layers),
    ("linear_layers_alone_run_in_onnxruntime", linear_layers_alone),
];

/// A network with drawn weights against its own `forward`, for three inputs of this shape.
fn network<M: Module + Describe, const I: usize, const O: usize>(
    name: &str,
    network: M,
    input: FeatureMap,
    shape: [usize; I],
    forward: impl Fn(&M, Tensor<I>) -> Tensor<O>,
) -> Report {
    let values = weights::inputs(3, shape);
    let (network, tensors) = weights::filled(network, shape, &forward);
    let file = encode(&Trace::of(&network, input), &tensors, &Export::classifier(name)).expect("writable");
    let (found, report) = python::run(&file, values.clone());
    assert_eq!(report.opset, OPSET);
    python::assert_equal(name, forward(&network, values), &found);
    report
}

fn classifier(name: &str, config: NetworkConfig, size: usize) {
    let model = config.init(3, 10, &Device::flex());
    let report = network(name, model, FeatureMap::square(3, size), [3, 3, size, size], |model, x| model.forward(x));
    assert_eq!(report.input, json!(["images", "batch", 3, size, size]));
    assert_eq!(report.output, json!(["logits", "batch", 10]));
}

fn dcgan() {
    for upsampling in [Upsampling::Transposed, Upsampling::Resize] {
        let config = DcganConfig { latent: 20, features: 8, channels: 1, upsampling };
        let device = Device::flex();
        let latent = FeatureMap::vector(20);
        let report =
            network("dcgan generator", config.generator(&device), latent, [3, 20], |model, x| model.forward(x));
        assert_eq!(report.input, json!(["images", "batch", 20]));
        assert_eq!(report.output, json!(["logits", "batch", 1, 64, 64]));
        let (judge, images) = (config.discriminator(&device), FeatureMap::square(1, 64));
        let report = network("dcgan discriminator", judge, images, [3, 1, 64, 64], |model, x| model.forward(x));
        assert_eq!(report.output, json!(["logits", "batch", 1]));
    }
}

fn fastgan() {
    let config = FastGanConfig { latent: 20, features: 4, channels: 1, image_size: 256 };
    let device = Device::flex();
    let latent = FeatureMap::vector(20);
    network("fastgan generator", config.generator(&device), latent, [3, 20], |model, x| model.forward(x));
    let (judge, images) = (config.discriminator(&device), FeatureMap::square(1, 256));
    let report = network("fastgan discriminator", judge, images, [3, 1, 256, 256], |model, x| model.forward(x));
    assert_eq!(report.output, json!(["logits", "batch", 1, 5, 5]));
}

/// A classifier as torchvision has it.
fn of_torchvision(name: &str) -> Encoder {
    let entry = mobilenet_v3::MODELS.iter().chain(resnet::MODELS).find(|entry| entry.name() == name);
    Encoder::of_classifier(entry.expect("a classifier"), Library::Torchvision)
}

/// A network for images of one channel, with three classes.
fn segments(decoder: DecoderKind, encoder: &Encoder, [height, width]: [usize; 2]) {
    let config = SegmentationConfig::new(decoder, encoder, 1, 3);
    let images = FeatureMap { channels: 1, height, width };
    let (model, name) = (config.init(&Device::flex()), format!("{} on {}", decoder.title(), encoder.name));
    let report = network(&name, model, images, [3, 1, height, width], |model, x| model.forward(x));
    assert_eq!(report.output, json!(["logits", "batch", 3, height, width]));
}

/// With a last convolution that is read, and with one that is only kept; every decoder, at a size of which not all maps are whole parts.
fn segmentation() {
    let of_smp = |name| *encoder(name).expect("an encoder");
    for (decoder, encoder, size) in [
        (DecoderKind::Unet, of_smp("mobilenet_v2"), [64, 96]),
        (DecoderKind::Unet, of_smp("efficientnet-b0"), [64, 96]),
        (DecoderKind::DeepLabV3Plus, of_smp("mobilenet_v2"), [64, 96]),
        (DecoderKind::Lraspp, of_torchvision("mobilenet_v3_large"), [75, 50]),
        (DecoderKind::DeepLabV3, of_torchvision("mobilenet_v3_large"), [75, 50]),
        (DecoderKind::Fcn, of_torchvision("resnet18"), [70, 64]),
    ] {
        segments(decoder, &encoder, size);
    }
}

/// Every network that has a reference, at the size of scans and at one that is no square.
fn segmentation_at_512() {
    for decoder in DecoderKind::ALL {
        for name in decoder.reference_encoders() {
            let is_of_smp = matches!(decoder, DecoderKind::Unet | DecoderKind::DeepLabV3Plus);
            let encoder = if is_of_smp { *encoder(name).expect("an encoder") } else { of_torchvision(name) };
            for size in [[512, 512], [320, 256]] {
                segments(decoder, &encoder, size);
            }
        }
    }
}

/// A network that a function describes.
struct Described<F>(RefCell<F>);

impl<F: FnMut(Value, &mut Trace) -> Value> Describe for Described<F> {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        (self.0.borrow_mut())(input, trace)
    }
}

/// A network without a module, against Burn's operations one by one; returns the operations in the file.
fn described(
    name: &str,
    input: FeatureMap,
    tensors: &Tensors,
    describe: impl FnMut(Value, &mut Trace) -> Value,
) -> Vec<String> {
    let trace = Trace::of(&Described(RefCell::new(describe)), input);
    let export = Export { input_name: "input", output_name: "output", ..Export::classifier(name) };
    let file = encode(&trace, tensors, &export).expect("the network can be written");
    let values: Tensor<4> = weights::inputs(3, [3, input.channels, input.height, input.width]);
    let (found, report) = python::run(&file, values.clone());
    python::assert_equal(name, interpreter::run(&trace, tensors, values), &found);
    report.operations
}

fn every_activation() {
    let all = [
        Activation::Identity,
        Activation::Relu,
        Activation::Relu6,
        Activation::HardSwish,
        Activation::HardSigmoid,
        Activation::Sigmoid,
        Activation::Silu,
        Activation::LeakyRelu,
        Activation::Tanh,
    ];
    let map = |channels| FeatureMap { channels, height: 5, width: 4 };
    let operations = described("activations", map(2), &Tensors::new(), |input, trace| {
        // Beyond 6, where the functions bend.
        let x = trace.apply("spread", Op::Scale { factor: 10.0 }, &[input], input.map);
        let parts = all.map(|function| trace.apply("act", Op::Activation(function), &[x], x.map));
        trace.apply("concat", Op::Concat, &parts, map(18))
    });
    for expected in ["Clip", "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Mul", "Relu", "Sigmoid", "Tanh"] {
        assert!(operations.iter().any(|operation| operation == expected), "{expected} is not in {operations:?}");
    }
}

/// Pooling of every kind, enlarging, a dilated convolution with groups and zeros that differ from side to side, channels taken
/// and put together, and a map times a map, on a map that is no square.
fn every_size() {
    let padding = Zeros { before: [1, 2], after: [3, 2] };
    let tensors = weights::drawn_tensors(&[("conv.weight", &[6, 2, 3, 3]), ("conv.bias", &[6])]);
    let input = FeatureMap { channels: 4, height: 12, width: 18 };
    let operations = described("sizes", input, &tensors, |input, trace| {
        let op = Op::Conv { kernel: 3, stride: 1, dilation: 2, groups: 2, padding };
        let x = trace.apply("conv", op, &[input], FeatureMap { channels: 6, ..input.map });
        let third = FeatureMap { channels: 6, height: 4, width: 6 };
        let mean = trace.apply("mean", Op::AveragePool { kernel: 3 }, &[x], third);
        let most = trace.apply("most", Op::MaxPool { kernel: 5, stride: 3, padding: 1 }, &[x], third);
        let product = trace.apply("product", Op::Multiply, &[mean, most], third);
        let product = trace.apply("half", Op::Scale { factor: 0.5 }, &[product], third);
        let cells = trace.apply("cells", Op::AdaptiveAveragePool { output: 2 }, &[product], FeatureMap::square(6, 2));
        let large = trace.apply("large", Op::Upsample { factor: 3 }, &[cells], FeatureMap::square(6, 6));
        let small = FeatureMap { channels: 2, ..large.map };
        let take = |trace: &mut Trace, start, end| trace.apply("take", Op::Slice { start, end }, &[large], small);
        let (first, last) = (take(trace, 0, 2), take(trace, 4, 6));
        let sum = trace.add(last, first);
        trace.apply("concat", Op::Concat, &[last, sum, first], FeatureMap { channels: 6, ..large.map })
    });
    let expected = ["Add", "AveragePool", "Concat", "Conv", "MaxPool", "Mul", "Resize", "Slice"];
    assert_eq!(operations, expected);
}

/// A linear layer on a whole map as a gate of maps, and two at the end.
fn linear_layers() {
    let tensors = weights::drawn_tensors(&[
        ("conv.weight", &[4, 3, 4, 4]),
        ("gate.weight", &[4, 64]),
        ("gate.bias", &[4]),
        ("hidden.weight", &[5, 64]),
        ("score.weight", &[1, 5]),
        ("score.bias", &[1]),
    ]);
    let operations = described("linear layers", FeatureMap::square(3, 8), &tensors, |images, trace| {
        let padding = Zeros { before: [1, 1], after: [1, 1] };
        let conv = Op::Conv { kernel: 4, stride: 2, dilation: 1, groups: 1, padding };
        let x = trace.apply("conv", conv, &[images], FeatureMap::square(4, 4));
        let gate = trace.apply("gate", Op::Linear, &[x], FeatureMap::vector(4));
        let x = trace.apply("scale", Op::Multiply, &[x, gate], x.map);
        let x = trace.apply("hidden", Op::Linear, &[x], FeatureMap::vector(5));
        let x = trace.activation(Activation::Silu, x);
        trace.apply("score", Op::Linear, &[x], FeatureMap::vector(1))
    });
    assert_eq!(operations, ["Conv", "Flatten", "Gemm", "Mul", "Sigmoid"]);
}

/// From vector to vector, where nothing is a map.
fn linear_layers_alone() {
    let tensors = weights::drawn_tensors(&[("a.weight", &[6, 4]), ("a.bias", &[6]), ("b.weight", &[2, 6])]);
    let operations = described("linear layers alone", FeatureMap::vector(4), &tensors, |input, trace| {
        let x = trace.apply("a", Op::Linear, &[input], FeatureMap::vector(6));
        let x = trace.activation(Activation::LeakyRelu, x);
        let x = trace.apply("b", Op::Linear, &[x], FeatureMap::vector(2));
        trace.apply("half", Op::Scale { factor: 0.5 }, &[x], x.map)
    });
    assert_eq!(operations, ["Gemm", "LeakyRelu", "Mul"]);
}
