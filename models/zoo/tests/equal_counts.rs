//! The trace counts what the reference counts.

use burn::tensor::Device;
use kindling_layers::parameters;
use kindling_zoo::{ModelOptions, find};
use serde_json::Value;

/// Integers counted independently of any implementation of the zoo, for 3 channels and 1000 classes.
#[test]
fn traces_count_what_the_reference_counts() {
    let exact: Value = serde_json::from_str(include_str!("golden/counts.json")).expect("counts.json is JSON");
    let rows = exact["exact"].as_array().expect("a list");
    assert!(!rows.is_empty());
    for row in rows {
        let name = row["model"].as_str().expect("a name");
        let options = ModelOptions { in_channels: 3, classes: 1000, drop_rate: None, seed: 0 };
        let network = find(name).expect("a zoo model").build(&options, &Device::flex()).expect("buildable");
        assert_eq!(Some(network.trace(3, 224).params()), row["params"].as_u64(), "{name} parameters");
        let small = ModelOptions { in_channels: 1, classes: 2, ..options };
        let small = find(name).expect("a zoo model").build(&small, &Device::flex()).expect("buildable");
        assert_eq!(Some(parameters::count(&small)), row["params_1_channel_2_classes"].as_u64(), "{name} small");
        for size in [224, 512] {
            let trace = network.trace(3, size);
            assert_eq!(trace.params(), parameters::count(&network), "{name}: the trace counts the module's parameters");
            assert_eq!(Some(trace.macs()), row["macs"][size.to_string()].as_u64(), "{name} multiply-adds at {size}");
            let activations = row["activations"][size.to_string()].as_u64();
            assert_eq!(Some(trace.activations()), activations, "{name} activations at {size}");
        }
    }
}
