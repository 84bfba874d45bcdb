//! The trace counts what the reference counts.

use std::collections::BTreeMap;

use burn::tensor::Device;
use kindling_layers::parameters;
use kindling_zoo::{Model, ModelOptions, find, models};
use serde_json::Value;

/// Integers counted independently of any implementation of the zoo, for 3 channels and 1000 classes.
#[test]
fn traces_count_what_the_reference_counts() {
    let exact: Value = serde_json::from_str(include_str!("golden/counts.json")).expect("counts.json is JSON");
    let rows = exact["exact"].as_array().expect("a list");
    assert!(rows.len() > 30);
    for row in rows {
        let name = row["model"].as_str().expect("a name");
        let model = find(name).expect("a zoo model");
        assert_eq!(row["native_size"].as_u64(), Some(model.entry.native_size as u64), "{name}");
        let options = ModelOptions::imagenet();
        let network = model.build(&options, &Device::flex()).expect("buildable");
        assert_eq!(Some(network.trace(3, 224).params()), row["params"].as_u64(), "{name} parameters");
        let small = ModelOptions { in_channels: 1, classes: 2, ..options };
        let small = model.build(&small, &Device::flex()).expect("buildable");
        assert_eq!(Some(parameters::count(&small)), row["params_1_channel_2_classes"].as_u64(), "{name} small");
        let macs: BTreeMap<String, u64> = serde_json::from_value(row["macs"].clone()).expect("counts by size");
        for (size, macs) in macs {
            let trace = network.trace(3, size.parse().expect("a size"));
            assert_eq!(trace.params(), parameters::count(&network), "{name}: the trace counts the module's parameters");
            assert_eq!(trace.macs(), macs, "{name} multiply-adds at {size}");
            assert_eq!(Some(trace.activations()), row["activations"][&size].as_u64(), "{name} activations at {size}");
        }
    }
}

/// Every name of the zoo, including those that the reference counts of this file do not have.
#[test]
fn the_trace_of_every_name_counts_the_parameters_of_its_network() {
    let options = ModelOptions { in_channels: 1, classes: 7, ..ModelOptions::imagenet() };
    let mut names = 0;
    for entry in models() {
        for &name in entry.names {
            let model = Model { entry, name };
            // Weights are not made before they are read, and counting reads none.
            let network = model.build_to_fill(&options, &Device::flex()).expect("buildable");
            let trace = network.trace(1, model.entry.native_size);
            assert_eq!(trace.params(), parameters::count(&network), "{}", model.reference());
            assert_eq!(trace.layers.last().map(|layer| layer.output.channels), Some(7), "{}", model.reference());
            names += 1;
        }
    }
    assert!(names > 60, "{names} names");
}

/// The facts measured in PyTorch: parameters, and billions of multiply-adds to four digits.
#[test]
fn every_name_of_the_fact_sheet_that_the_zoo_covers_counts_alike() {
    let facts: Value = serde_json::from_str(include_str!("golden/counts.json")).expect("counts.json is JSON");
    let rows = facts["reference"].as_array().expect("a list");
    let mut covered = 0;
    for row in rows {
        let Ok(model) = find(row["reference"].as_str().expect("a name")) else { continue };
        covered += 1;
        let reference = model.reference();
        assert_eq!(row["reference"].as_str(), Some(reference.as_str()));
        let network = model.build(&ModelOptions::imagenet(), &Device::flex()).expect("buildable");
        assert_eq!(Some(parameters::count(&network)), row["params"].as_u64(), "{reference}");
        for (size, key) in [(224, "gmac_224"), (512, "gmac_512")] {
            let giga = network.trace(3, size).macs() as f64 / 1e9;
            assert!((giga - row[key].as_f64().expect("a number")).abs() < 0.00006, "{reference} at {size}: {giga}");
        }
        assert_eq!(state_tensors(&model, &network), row["state_tensors"].as_u64(), "{reference}");
    }
    assert_eq!(covered, 29, "names of the fact sheet that are in the zoo");
}

/// Tensors of an export, batch counters included.
fn state_tensors(model: &Model, network: &kindling_zoo::Network) -> Option<u64> {
    let tensors = kindling_zoo::weights::export(network, model, model.name.library.keys()).ok()?;
    Some(tensors.len() as u64)
}
