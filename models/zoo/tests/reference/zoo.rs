//! Comparison with a case of `zoo.json`: norms of the logits in both modes, loss, the norm of all gradients together.

use burn::tensor::{Device, Tensor};
use kindling_layers::Classifier;
use kindling_layers::parameters;
use serde_json::Value;

use super::{
    GAIN, Tolerance, cases, close, count, cross_entropy, filled_with, gradient_norms, images, keys, model, network,
    train_mode, values,
};

const ZOO: &str = include_str!("../golden/zoo.json");

/// Every case by its model and size.
pub(crate) fn all() -> Vec<(String, Value)> {
    let name = |case: &Value| {
        let model = case["model"].as_str().expect("a name");
        format!("{model} at {} x {}", count(case, "batch"), count(case, "size"))
    };
    cases(ZOO).into_iter().map(|case| (name(&case), case)).collect()
}

fn close_logits(what: &str, logits: Tensor<2>, case: &Value, tag: &str, tolerance: Tolerance) {
    let [batch, classes] = logits.dims();
    let logits = values(logits);
    let (single, double) = (&case[format!("{tag}_f32")], &case[format!("{tag}_f64")]);
    for row in 0..batch {
        let values = &logits[row * classes..(row + 1) * classes];
        let norm = values.iter().map(|v| v * v).sum::<f64>().sqrt();
        let expected = double["l2"][row].as_f64().expect("a norm");
        let single = single[row].as_f64().expect("a norm");
        close(&format!("{what} norm {row}"), norm, single, expected, expected, tolerance);
    }
    let largest = logits[..classes].iter().map(|v| v.abs()).fold(0.0, f64::max);
    for (column, value) in logits.iter().take(8).enumerate() {
        let expected = double["first8"][column].as_f64().expect("a logit");
        close(&format!("{what} logit {column}"), *value, expected, expected, largest, tolerance);
    }
}

/// Compares a network in both modes, its loss and its gradients where the case has them, and its feature maps' sizes.
pub(crate) fn equals_the_reference(case: &Value, device: &Device, tolerance: Tolerance) {
    let model = model(case);
    let network = network(&model, device);
    let keys = keys(case, &model, &network);
    assert_eq!(keys.len(), count(case, "state"));
    let network = filled_with(&model, network, &keys, case["gain"].as_f64().unwrap_or(GAIN));
    assert_eq!(parameters::count(&network), count(case, "params") as u64);
    let (batch, size) = (count(case, "batch"), count(case, "size"));
    let x = Tensor::<4>::from_data(images(batch, size), device);

    close_logits("eval", network.forward(x.clone()), case, "eval", tolerance);
    feature_maps_are_the_references(&network, case, size);
    let Some(expected) = case["loss_f64"].as_f64() else { return };
    let (logits, _) = train_mode(&network, x);
    close_logits("train", logits.clone(), case, "train", tolerance);
    let loss = cross_entropy(logits);
    close("loss", loss.clone().into_scalar::<f64>(), expected, expected, expected, tolerance);
    let norm = gradient_norms(&network, loss).values().map(|norm| norm * norm).sum::<f64>().sqrt();
    let expected = case["grad_l2_f64"].as_f64().expect("a norm");
    let tolerance = Tolerance { relative: tolerance.gradients, ..tolerance };
    close("norm of all gradients", norm, expected, expected, expected, tolerance);
}

/// Channels and reductions are timm's; the maps of the trace are those of the forward pass.
fn feature_maps_are_the_references(network: &kindling_zoo::Network, case: &Value, size: usize) {
    let Some(stages) = case["stages"].as_array() else { return };
    // timm's GhostNet names the first stage of each resolution; here it is the last one, as everywhere.
    if case["model"] == "timm.ghostnet_100" {
        return;
    }
    let trace = network.trace(3, size);
    let found: Vec<(usize, usize)> =
        trace.stages.iter().map(|stage| (stage.value.map.height, stage.value.map.channels)).collect();
    let expected: Vec<(usize, usize)> = stages
        .iter()
        .map(|stage| {
            let number = |index: usize| stage[index].as_u64().expect("a number") as usize;
            (size.div_ceil(number(0)), number(1))
        })
        .collect();
    assert_eq!(found, expected, "height and channels of the feature maps");
}
