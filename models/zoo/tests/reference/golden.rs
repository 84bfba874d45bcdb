//! Comparison with a case of `golden.json`: logits in both modes, loss, the gradient norm of every parameter.

use burn::tensor::{Device, Tensor};
use kindling_layers::Classifier;
use kindling_layers::parameters;
use serde_json::Value;

use super::{
    Tolerance, cases, close, count, cross_entropy, filled, gradient_norms, images, keys, model, network, own_names,
    train_mode, values,
};

const GOLDEN: &str = include_str!("../golden/golden.json");

/// Every case by the name of its model.
pub(crate) fn all() -> Vec<(String, Value)> {
    let name = |case: &Value| case["model"].as_str().expect("a name").to_string();
    cases(GOLDEN).into_iter().map(|case| (name(&case), case)).collect()
}

/// Compares logits with the summaries of both precisions; small logits are held to the scale of the largest.
fn close_logits(what: &str, logits: Tensor<2>, case: &Value, tag: &str, tolerance: Tolerance) {
    let [batch, classes] = logits.dims();
    let logits = values(logits);
    let (single, double) = (&case[format!("{tag}_f32")], &case[format!("{tag}_f64")]);
    for row in 0..batch {
        let values = &logits[row * classes..(row + 1) * classes];
        let norm = values.iter().map(|v| v * v).sum::<f64>().sqrt();
        let number = |of: &Value, key: &str| of[key][row].as_f64().expect("a number");
        let expected = number(double, "l2");
        close(&format!("{what} norm {row}"), norm, number(single, "l2"), expected, expected, tolerance);
        let largest = values.iter().map(|v| v.abs()).fold(0.0, f64::max);
        // The reference's rounding is that of a row: a single logit may happen to be exact.
        let number = |of: &Value, column: usize| of["first8"][row][column].as_f64().expect("a number");
        let own = (0..8).map(|column| (number(single, column) - number(double, column)).abs()).fold(0.0, f64::max);
        for (column, value) in values.iter().take(8).enumerate() {
            let double = number(double, column);
            close(&format!("{what} {row},{column}"), *value, double + own, double, largest, tolerance);
        }
        let argmax = values.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map(|(index, _)| index as u64);
        assert_eq!(argmax, double["argmax"][row].as_u64(), "{what} argmax {row}");
    }
}

/// Compares a network in eval and train mode, its loss and its gradients, on a device with gradients.
pub(crate) fn equals_the_reference(case: &Value, device: &Device, tolerance: Tolerance) {
    let model = model(case);
    let network = network(&model, device);
    let keys = keys(case, &model, &network);
    let network = filled(&model, network, &keys);
    assert_eq!(parameters::count(&network), count(case, "params") as u64);
    let (batch, size) = (count(case, "batch"), count(case, "size"));
    let x = Tensor::<4>::from_data(images(batch, size), device);

    close_logits("eval", network.forward(x.clone()), case, "eval", tolerance);
    let (logits, statistics) = train_mode(&network, x);
    close_logits("train", logits.clone(), case, "train", tolerance);

    let loss = cross_entropy(logits);
    let value = loss.clone().into_scalar::<f64>();
    let number = |key: &str| case[key][0].as_f64().expect("a loss");
    let expected = number("sgd_losses_f64");
    close("loss", value, number("sgd_losses_f32"), expected, expected, tolerance);

    let norms = gradient_norms(&network, loss);
    let expected = case["grad_l2_f64"].as_object().expect("gradient norms");
    let names = own_names(&model, &network);
    assert_eq!(norms.len(), expected.len(), "every parameter has a gradient");
    let largest = expected.values().filter_map(Value::as_f64).fold(0.0, f64::max);
    let tolerance = Tolerance { relative: tolerance.gradients, ..tolerance };
    for (name, double) in expected {
        let single = case["grad_l2_f32"][name].as_f64().expect("a norm");
        let double = double.as_f64().expect("a norm");
        // A shift right before a normalisation has no effect: its gradient is zero but for rounding.
        let scale = double.max(1e-5 * largest);
        close(&format!("gradient of {name}"), norms[&names[name]], single, double, scale, tolerance);
    }

    // Running statistics change when they are committed and not before.
    let before = parameters::read(&network).expect("readable");
    let after = parameters::read(&statistics.commit(network, 0.0)).expect("readable");
    for (name, value) in &before {
        assert_eq!(parameters::is_state(name), *value != after[name], "{name}");
    }
}
