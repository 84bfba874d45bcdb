//! Counts, names and shapes of U-Net. Outputs and gradients are compared in `models/zoo/tests/equal_in_float64.rs`.

use std::collections::BTreeSet;

use burn::tensor::{Device, Tensor};
use kindling_layers::trace::{FeatureMap, Trace};
use kindling_layers::{Segmenter, parameters};
use kindling_segmentation::{ENCODERS, UnetConfig, encoder};

/// Counts of `segmentation_models_pytorch` 0.5.0 for three channels and one class.
const PARAMETERS: [(&str, u64); 7] = [
    ("mobilenet_v2", 6_628_945),
    ("timm-mobilenetv3_small_100", 3_585_649),
    ("timm-mobilenetv3_large_100", 6_685_825),
    ("timm-tf_efficientnet_lite0", 5_614_929),
    ("efficientnet-b0", 6_251_469),
    ("resnet18", 14_328_209),
    ("resnet34", 24_436_369),
];

#[test]
fn every_encoder_has_the_parameters_of_the_reference() {
    assert_eq!(ENCODERS.iter().map(|encoder| encoder.name).collect::<Vec<_>>(), PARAMETERS.map(|(name, _)| name));
    for (encoder, (name, expected)) in ENCODERS.iter().zip(PARAMETERS) {
        let network = UnetConfig::new(encoder, 3, 1).init(&Device::flex());
        assert_eq!(parameters::count(&network), expected, "{name}");
    }
}

/// Multiply-adds at 512x512 with three classes.
#[test]
fn the_trace_counts_the_multiply_adds_of_the_reference() {
    for (of_encoder, giga) in [("mobilenet_v2", 13.46), ("timm-tf_efficientnet_lite0", 11.90), ("resnet18", 21.67)] {
        let encoder = encoder(of_encoder).expect("an encoder");
        let network = UnetConfig::new(encoder, 3, 3).init(&Device::flex());
        let found = Trace::of(&network, FeatureMap::square(3, 512)).macs() as f64 / 1e9;
        assert!((found - giga).abs() < 0.0051, "{of_encoder}: {found} for {giga}");
    }
}

#[test]
fn every_tensor_has_one_name_in_the_reference() {
    for encoder in ENCODERS {
        let config = UnetConfig::new(encoder, 3, 2);
        let (names, slots) = (config.names(), parameters::slots(&config.init(&Device::flex())));
        let layers: BTreeSet<&str> = names.iter().map(|name| name.own.as_str()).collect();
        let found: BTreeSet<&str> = slots.iter().filter_map(|slot| Some(slot.name.rsplit_once('.')?.0)).collect();
        assert_eq!(layers, found, "{}", encoder.name);
        let references: BTreeSet<&str> = names.iter().map(|name| name.reference.as_str()).collect();
        assert_eq!(references.len(), layers.len());
    }
}

#[test]
fn the_trace_has_the_shapes_of_the_tensors_at_any_size() {
    for encoder in ENCODERS {
        let network = UnetConfig::new(encoder, 1, 2).init(&Device::flex());
        for [height, width] in [[64, 96], [75, 50]] {
            let trace = Trace::of(&network, FeatureMap { channels: 1, height, width });
            let last = trace.layers.last().expect("layers").output;
            let logits = network.forward(Tensor::zeros([1, 1, height, width], &Device::flex()));
            assert_eq!(logits.dims(), [1, 2, height, width]);
            assert_eq!(last, FeatureMap { channels: 2, height, width });
            // The unused last convolution is no layer of the trace.
            let unused = network.encoder.features.as_ref().filter(|_| encoder.name.contains("efficientnet"));
            assert_eq!(trace.params() + unused.map_or(0, parameters::count), parameters::count(&network));
        }
    }
}
