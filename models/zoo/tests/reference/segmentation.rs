//! Comparison with a case of `segmentation.json`: logits in both modes, the loss, and the gradient of every parameter.

use std::collections::BTreeMap;

use burn::tensor::{Device, Tensor};
use kindling_layers::pass::{TrainingPass, training};
use kindling_layers::tensors::Tensors;
use kindling_layers::{Segmenter, parameters};
use kindling_zoo::{ModelOptions, find_segmentation, weights};
use serde_json::Value;

use super::{GAIN, Tolerance, cases, close, count, fill, gradient_norms, numbers, own_names_of, values};

const SEGMENTATION: &str = include_str!("../golden/segmentation.json");
/// As in `segmentation.py`.
const CLASSES: usize = 3;

/// Every case by its encoder and size.
pub(crate) fn all() -> Vec<(String, Value)> {
    let name = |case: &Value| {
        let [height, width] = size(case);
        let auxiliary = if auxiliary(case) { " with its auxiliary classifier" } else { "" };
        format!("{}{auxiliary} at {height} x {width}", key(case))
    };
    cases(SEGMENTATION).into_iter().map(|case| (name(&case), case)).collect()
}

/// The network of a case, by its name in the zoo.
fn key(case: &Value) -> String {
    let [network, encoder] = ["network", "encoder"].map(|part| case[part].as_str().expect("a name"));
    format!("{network}-{encoder}")
}

/// Whether the network of a case has torchvision's auxiliary classifier, whose logits lie behind the others' in a training pass.
fn auxiliary(case: &Value) -> bool {
    case["auxiliary"].as_bool().unwrap_or(false)
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

fn size(case: &Value) -> [usize; 2] {
    [0, 1].map(|axis| case["size"][axis].as_u64().expect("a side") as usize)
}

/// Compares the norm of each image's logits, and eight logits of the last row.
fn close_logits(what: &str, logits: Tensor<4>, expected: &Value, tolerance: Tolerance) {
    let [batch, _, _, width] = logits.dims();
    let logits = values(logits);
    let each = logits.len() / batch;
    for (index, image) in logits.chunks(each).enumerate() {
        let norm = image.iter().map(|v| v * v).sum::<f64>().sqrt();
        let expected = number(&expected["l2"][index]);
        close(&format!("{what} norm {index}"), norm, expected, expected, expected, tolerance);
    }
    let largest = logits.iter().map(|v| v.abs()).fold(0.0, f64::max);
    for (column, value) in logits[logits.len() - width..].iter().take(8).enumerate() {
        let expected = number(&expected["first8"][column]);
        close(&format!("{what} logit {column}"), *value, expected, expected, largest, tolerance);
    }
}

/// Fills a network under the reference's keys, and compares it.
pub(crate) fn equals_the_reference(case: &Value, device: &Device, tolerance: Tolerance) {
    let model = find_segmentation(&key(case)).expect("a network of the zoo");
    let rate = Some(0.0);
    let auxiliary = auxiliary(case);
    let options = ModelOptions { classes: CLASSES, auxiliary, ..ModelOptions::imagenet() };
    let options = ModelOptions { drop_rate: rate, drop_path_rate: rate, ..options };
    let network = model.build(&options, device).expect("buildable");
    let (_, names) = model.layer_names(auxiliary).expect("a network with a reference");
    assert_eq!(parameters::count(&network), count(case, "params") as u64);

    let keys = case["keys"].as_array().expect("keys").iter().map(|key| {
        let shape: Vec<usize> = key[1].as_array().expect("a shape").iter().map(|side| number(side) as usize).collect();
        (key[0].as_str().expect("a name").to_string(), shape)
    });
    let keys: BTreeMap<String, Vec<usize>> = keys.collect();
    let tensors: Tensors = keys.iter().map(|(name, shape)| (name.clone(), fill(name, shape, GAIN))).collect();
    let (network, import) = weights::import_named(network, &names, tensors).expect("the reference's tensors fit");
    assert_eq!((import.filled, import.left_out.len()), (keys.len(), 0));
    let exported = weights::export_named(&network, &names).expect("tensors can be read");
    let exported = exported.iter().filter(|(name, _)| !name.ends_with("num_batches_tracked"));
    let exported: BTreeMap<String, Vec<usize>> =
        exported.map(|(name, data)| (name.clone(), data.shape().as_slice().to_vec())).collect();
    assert_eq!(exported, keys);

    let ([height, width], batch) = (size(case), count(case, "batch"));
    let x = Tensor::<4>::from_data(numbers("input", 1.7, [batch, 3, height, width]), device);
    close_logits("eval", network.forward(x.clone()), &case["eval"], tolerance);
    let (logits, _) = training(TrainingPass::whole_batch(batch), || network.forward(x));
    assert_eq!(logits.dims()[1], if auxiliary { 2 * CLASSES } else { CLASSES });
    close_logits("train", logits.clone(), &case["train"], tolerance);
    let target = Tensor::<4>::from_data(numbers("target", 1.0, logits.dims()), device);
    let loss = (logits - target).powi_scalar(2).mean() * 0.5;
    let expected = number(&case["loss"]);
    close("loss", loss.clone().into_scalar::<f64>(), expected, expected, expected, tolerance);

    let (found, own) = (gradient_norms(&network, loss), own_names_of(&network, &names));
    let grads = case["grads"].as_object().expect("gradients");
    assert_eq!(found.len(), grads.len());
    let tolerance = Tolerance { relative: tolerance.gradients, ..tolerance };
    // A gradient that is zero but for rounding is compared with the largest.
    let largest = grads.values().map(number).fold(0.0, f64::max);
    for (name, expected) in grads {
        let expected = number(expected);
        let found = found[&own[name]];
        close(&format!("gradient of {name}"), found, expected, expected, expected.max(1e-6 * largest), tolerance);
    }
}
