//! Comparison with a case of `grad_cam.json`: every place of the map.

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor, TensorData};
use kindling_layers::grad_cam;
use serde_json::Value;

use super::{cases, count, filled, images, keys, model, network, values};

const GRAD_CAM: &str = include_str!("../golden/grad_cam.json");
/// Of the largest number of a map.
const TOLERANCE: f64 = 1e-5;

/// Every case by its model and size.
pub(crate) fn all() -> Vec<(String, Value)> {
    let name = |case: &Value| format!("{} at {}", case["model"].as_str().expect("a name"), count(case, "size"));
    cases(GRAD_CAM).into_iter().map(|case| (name(&case), case)).collect()
}

/// Fills a network under the reference's keys, and compares its map.
pub(crate) fn equals_the_reference(case: &Value, device: &Device) {
    let model = model(case);
    let network = network(&model, device);
    let keys = keys(case, &model, &network);
    let network = filled(&model, network, &keys).valid();
    let plain = device.clone().without_autodiff();
    let numbers = |list: &Value| -> Vec<f64> {
        list.as_array().expect("a list").iter().map(|value| value.as_f64().expect("a number")).collect()
    };
    let classes: Vec<i64> = numbers(&case["classes"]).into_iter().map(|class| class as i64).collect();
    let images = Tensor::<4>::from_data(images(classes.len(), count(case, "size")), &plain);
    let classes = Tensor::<1, Int>::from_data(TensorData::from(classes.as_slice()), &plain);

    let map = grad_cam(&network, images, classes);
    let shape: Vec<f64> = map.dims().iter().map(|side| *side as f64).collect();
    assert_eq!(shape, numbers(&case["shape"]));
    let (found, expected) = (values(map), numbers(&case["map"]));
    let largest = expected.iter().copied().fold(0.0, f64::max);
    assert!(largest > 0.0, "a map of nothing but zeros shows nothing");
    for (place, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert!((found - expected).abs() <= TOLERANCE * largest, "{place}: {found} for {expected}, of {largest}");
    }
}
