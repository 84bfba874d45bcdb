//! Counts, names and shapes of every network for segmentation. Outputs and gradients are compared in `models/zoo/tests/equal_in_float64.rs`.

use std::collections::BTreeSet;

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use kindling_classification::{mobilenet_v3, resnet};
use kindling_layers::init::initialise;
use kindling_layers::names::Library;
use kindling_layers::pass::{TrainingPass, training};
use kindling_layers::trace::{FeatureMap, Trace};
use kindling_layers::{Checkpointing, Segmenter, parameters};
use kindling_segmentation::{DecoderKind, Encoder, SegmentationConfig, SegmentationNetwork, encoder};

/// Counts for three channels: of `segmentation_models_pytorch` 0.5.0 with one class, and of torchvision 0.29 with 21, without its
/// auxiliary classifier.
const PARAMETERS: [(DecoderKind, &str, usize, u64); 14] = [
    (DecoderKind::Unet, "mobilenet_v2", 1, 6_628_945),
    (DecoderKind::Unet, "timm-mobilenetv3_small_100", 1, 3_585_649),
    (DecoderKind::Unet, "timm-mobilenetv3_large_100", 1, 6_685_825),
    (DecoderKind::Unet, "timm-tf_efficientnet_lite0", 1, 5_614_929),
    (DecoderKind::Unet, "efficientnet-b0", 1, 6_251_469),
    (DecoderKind::Unet, "resnet18", 1, 14_328_209),
    (DecoderKind::Unet, "resnet34", 1, 24_436_369),
    (DecoderKind::DeepLabV3Plus, "mobilenet_v2", 1, 4_378_513),
    (DecoderKind::DeepLabV3Plus, "resnet18", 1, 12_329_297),
    (DecoderKind::DeepLabV3Plus, "resnet34", 1, 22_437_457),
    (DecoderKind::Lraspp, "mobilenet_v3_large", 21, 3_221_538),
    (DecoderKind::DeepLabV3, "mobilenet_v3_large", 21, 11_025_477),
    (DecoderKind::DeepLabV3, "resnet50", 21, 39_638_869),
    (DecoderKind::Fcn, "resnet50", 21, 32_957_013),
];

/// Of torchvision with 21 classes and `aux_loss=True`.
const WITH_AUXILIARY: [(DecoderKind, &str, u64); 3] = [
    (DecoderKind::DeepLabV3, "mobilenet_v3_large", 11_029_328),
    (DecoderKind::DeepLabV3, "resnet50", 42_004_074),
    (DecoderKind::Fcn, "resnet50", 35_322_218),
];

/// A network under the names of its library.
fn config(decoder: DecoderKind, name: &str, channels: usize, classes: usize) -> SegmentationConfig {
    let entry = || {
        let mut entries = mobilenet_v3::MODELS.iter().chain(resnet::MODELS);
        entries.find(|entry| entry.name() == name).expect("a classifier")
    };
    let encoder = match decoder {
        DecoderKind::Unet | DecoderKind::DeepLabV3Plus => *encoder(name).expect("an encoder"),
        _ => Encoder::of_classifier(entry(), Library::Torchvision),
    };
    SegmentationConfig::new(decoder, &encoder, channels, classes)
}

/// Every network that has a reference, for images of one channel and with two classes.
fn all() -> impl Iterator<Item = (String, SegmentationConfig)> {
    let encoders = |decoder: DecoderKind| decoder.reference_encoders().into_iter().map(move |name| (decoder, name));
    DecoderKind::ALL
        .into_iter()
        .flat_map(encoders)
        .map(|(decoder, name)| (format!("{} on {name}", decoder.title()), config(decoder, name, 1, 2)))
}

#[test]
fn every_network_has_the_parameters_of_the_reference() {
    let names: Vec<_> = PARAMETERS.iter().map(|(decoder, name, ..)| format!("{} on {name}", decoder.title())).collect();
    assert_eq!(all().map(|(name, _)| name).collect::<Vec<_>>(), names);
    for ((decoder, encoder, classes, expected), name) in PARAMETERS.into_iter().zip(names) {
        let network = config(decoder, encoder, 3, classes).init(&Device::flex());
        assert_eq!(parameters::count(&network), expected, "{name}");
    }
}

/// Multiply-adds at 512x512.
#[test]
fn the_trace_counts_the_multiply_adds_of_the_reference() {
    for (decoder, encoder, classes, giga) in [
        (DecoderKind::Unet, "mobilenet_v2", 3, 13.46),
        (DecoderKind::Unet, "timm-tf_efficientnet_lite0", 3, 11.90),
        (DecoderKind::Unet, "resnet18", 3, 21.67),
        (DecoderKind::Lraspp, "mobilenet_v3_large", 3, 1.96),
        (DecoderKind::DeepLabV3, "mobilenet_v3_large", 3, 9.82),
    ] {
        let network = config(decoder, encoder, 3, classes).init(&Device::flex());
        let found = Trace::of(&network, FeatureMap::square(3, 512)).macs() as f64 / 1e9;
        assert!((found - giga).abs() < 0.0051, "{} on {encoder}: {found} for {giga}", decoder.title());
    }
}

fn with_auxiliary(decoder: DecoderKind, name: &str, channels: usize, classes: usize) -> SegmentationConfig {
    let mut config = config(decoder, name, channels, classes);
    config.auxiliary = true;
    config
}

#[test]
fn the_auxiliary_classifier_has_the_parameters_and_names_of_the_reference_and_is_described() {
    for (decoder, encoder, expected) in WITH_AUXILIARY {
        let config = with_auxiliary(decoder, encoder, 3, 21);
        let network = config.init(&Device::flex());
        let what = format!("{} on {encoder}", decoder.title());
        assert_eq!(parameters::count(&network), expected, "{what}");
        let trace = Trace::of(&network, FeatureMap { channels: 3, height: 75, width: 50 });
        assert_eq!(trace.params(), expected, "{what}");
        let last = trace.layers.last().expect("layers").output;
        assert_eq!(last, FeatureMap { channels: 42, height: 75, width: 50 }, "{what}");
        let names = config.names();
        let names = names.iter().filter(|name| name.own.starts_with("auxiliary."));
        let names: Vec<(&str, &str)> = names.map(|name| (name.own.as_str(), name.reference.as_str())).collect();
        let expected = [
            ("auxiliary.conv.conv", "aux_classifier.0"),
            ("auxiliary.conv.norm", "aux_classifier.1"),
            ("auxiliary.head", "aux_classifier.4"),
        ];
        assert_eq!(names, expected, "{what}");
    }
}

/// Its logits are the second half of those of a training pass, and nothing else changes.
#[test]
fn the_auxiliary_classifier_runs_in_training_alone_and_its_gradient_does_not_reach_the_decoder() {
    let device = Device::flex();
    let mut config = with_auxiliary(DecoderKind::DeepLabV3, "mobilenet_v3_large", 1, 2);
    config.drop_rate = Some(0.0);
    let network = initialise(config.init(&device), 7);
    let numbers: Vec<f32> = (0..2 * 64 * 48).map(|index| (index as f32 * 0.37).sin()).collect();
    let images = Tensor::<4>::from_data(TensorData::new(numbers, [2, 1, 64, 48]), &device);
    let alone = network.clone().without_auxiliary();
    assert!(network.has_auxiliary() && !alone.has_auxiliary());
    let values = |x: Tensor<4>| x.into_data().try_to_vec::<f32>().expect("float32");
    let judged = network.forward(images.clone());
    assert_eq!(judged.dims(), [2, 2, 64, 48]);
    assert_eq!(values(judged), values(alone.forward(images.clone())));

    let pass = || TrainingPass::whole_batch(2);
    let (both, _) = training(pass(), || network.forward(images.clone()));
    assert_eq!(both.dims(), [2, 4, 64, 48]);
    let (expected, _) = training(pass(), || alone.forward(images.clone()));
    assert_eq!(values(both.narrow(1, 0, 2)), values(expected));

    let network = network.train();
    let (both, _) = training(pass(), || network.forward(Tensor::from_inner(images)));
    let gradients = both.narrow(1, 2, 2).powi_scalar(2).mean().backward();
    let SegmentationNetwork::DeepLabV3(network) = network else { panic!("it was made as one") };
    let auxiliary = network.auxiliary.as_ref().expect("it has one");
    let size =
        |weight: Tensor<4>| weight.grad(&gradients).map_or(0.0, |it| values(it).iter().map(|it| it.abs()).sum::<f32>());
    assert!(size(auxiliary.head.weight.val()) > 0.0 && size(auxiliary.conv.conv.weight.val()) > 0.0);
    assert!(size(network.encoder.stem.conv.weight.val()) > 0.0);
    assert_eq!(size(network.decoder.head.weight.val()), 0.0);
}

#[test]
fn every_tensor_has_one_name_in_the_reference() {
    for (network, config) in all() {
        let (names, slots) = (config.names(), parameters::slots(&config.init(&Device::flex())));
        let layers: BTreeSet<&str> = names.iter().map(|name| name.own.as_str()).collect();
        let found: BTreeSet<&str> = slots.iter().filter_map(|slot| Some(slot.name.rsplit_once('.')?.0)).collect();
        assert_eq!(layers, found, "{network}");
        let references: BTreeSet<&str> = names.iter().map(|name| name.reference.as_str()).collect();
        assert_eq!(references.len(), layers.len(), "{network}");
    }
}

#[test]
fn the_trace_has_the_shapes_of_the_tensors_at_any_size() {
    for (name, config) in all() {
        let network = config.init(&Device::flex());
        for [height, width] in [[64, 96], [75, 50]] {
            let trace = Trace::of(&network, FeatureMap { channels: 1, height, width });
            let last = trace.layers.last().expect("layers").output;
            let logits = network.forward(Tensor::zeros([1, 1, height, width], &Device::flex()));
            assert_eq!(logits.dims(), [1, 2, height, width], "{name}");
            assert_eq!(last, FeatureMap { channels: 2, height, width }, "{name}");
            // The unused last convolution is no layer of the trace.
            let unused = network.encoder().features.as_ref().filter(|_| name.contains("efficientnet"));
            let unused = unused.map_or(0, parameters::count);
            assert_eq!(trace.params() + unused, parameters::count(&network), "{name}");
        }
    }
}

/// What a decoder does not read is not handed on.
#[test]
fn between_the_segments_there_are_only_maps_that_are_read() {
    for (decoder, encoder, read) in [
        (DecoderKind::Unet, "resnet18", 5),
        (DecoderKind::Lraspp, "mobilenet_v3_large", 2),
        (DecoderKind::DeepLabV3, "resnet50", 1),
    ] {
        let network = config(decoder, encoder, 1, 2).init(&Device::flex());
        let segments = network.encoder().segments(Checkpointing::Stages);
        let images = Tensor::zeros([1, 1, 64, 64], &Device::flex());
        let run = |maps, index| network.run_segment(Checkpointing::Stages, index, maps);
        let maps: Vec<_> = (0..segments).fold(vec![images], run);
        assert_eq!(maps.len(), 1 + read, "{} on {encoder}, beside the images", decoder.title());
    }
}
