//! Every zoo model reproduces its reference's outputs and gradients for the same weights.
//!
//! `golden/golden.json` was made with torchvision by `golden/golden.py`, which explains how weights and inputs are filled
//! from names by a formula, so that no weights need to be stored.

use std::collections::BTreeMap;

use burn::tensor::{Device, Tensor, TensorData, activation};
use kindling_layers::Classifier;
use kindling_layers::parameters::{self, ModulePath};
use kindling_layers::pass::{TrainingPass, training};
use kindling_layers::tensors::Tensors;
use kindling_zoo::{ModelOptions, Network, find, reference};
use serde_json::Value;

const GOLDEN: &str = include_str!("../golden/golden.json");
const GAIN: f64 = 4.5;

/// How close is close: a share of the expected figure, or a multiple of the reference's own difference between float32
/// and float64, whichever is larger.
#[derive(Clone, Copy)]
pub(crate) struct Tolerance {
    /// Share of the expected logits and loss.
    pub(crate) relative: f64,
    /// Share of the expected gradient norms.
    pub(crate) gradients: f64,
    /// Multiple of the reference's own rounding.
    pub(crate) of_reference: f64,
}

/// The generator of `golden.py`: splitmix64 seeded by the FNV-1a hash of a name, in `[0, 1)`.
fn fill01(name: &str, count: usize) -> impl Iterator<Item = f64> {
    let seed = name
        .bytes()
        .fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3));
    (1..=count as u64).map(move |index| {
        let mut z = seed.wrapping_add(index.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        (z >> 40) as f64 / f64::from(1 << 24)
    })
}

fn fill(name: &str, shape: &[usize]) -> TensorData {
    let scale = (GAIN / shape.iter().skip(1).product::<usize>() as f64).sqrt();
    let value = |u: f64| match shape.len() {
        _ if name.ends_with("running_var") => 0.5 + u,
        _ if name.ends_with("running_mean") => 0.2 * (2.0 * u - 1.0),
        1 if name.ends_with("weight") => 0.75 + 0.5 * u,
        1 if name.ends_with("bias") => 0.1 * (2.0 * u - 1.0),
        _ => (2.0 * u - 1.0) * scale,
    };
    let values: Vec<f64> = fill01(name, shape.iter().product()).map(value).collect();
    TensorData::new(values, shape.to_vec())
}

fn images(batch: usize, size: usize) -> TensorData {
    let count = batch * 3 * size * size;
    let values: Vec<f64> = fill01("input", count).map(|u| 1.7 * (2.0 * u - 1.0)).collect();
    TensorData::new(values, [batch, 3, size, size])
}

fn case(model: &str) -> Value {
    let golden: Value = serde_json::from_str(GOLDEN).expect("golden.json is JSON");
    let cases = golden["cases"].as_array().expect("a list of cases");
    cases.iter().find(|case| case["model"] == model).expect("the case is there").clone()
}

/// The network of a case on the training device, without dropout, filled under the reference's names.
fn network(case: &Value, device: &Device) -> Network {
    let name = case["model"].as_str().expect("a name").trim_start_matches("torchvision.");
    let options = ModelOptions { in_channels: 3, classes: 1000, drop_rate: Some(0.0), seed: 0 };
    let network = find(name).expect("a zoo model").build(&options, device).expect("buildable");
    let mut tensors = Tensors::new();
    for key in case["keys"].as_array().expect("keys") {
        let name = key[0].as_str().expect("a key's name");
        let shape: Vec<usize> =
            key[1].as_array().expect("a shape").iter().map(|n| n.as_u64().expect("a length") as usize).collect();
        tensors.insert(name.to_string(), fill(name, &shape));
    }
    assert_eq!(parameters::count(&network), case["params"].as_u64().expect("a count"));
    reference::load(network, tensors).expect("the reference's tensors fit")
}

fn close(what: &str, found: f64, f32_reference: f64, f64_reference: f64, scale: f64, tolerance: Tolerance) {
    let own = (f32_reference - f64_reference).abs();
    let tolerance = (tolerance.relative * scale.abs()).max(tolerance.of_reference * own);
    assert!((found - f64_reference).abs() <= tolerance, "{what}: {found} for {f64_reference} +- {tolerance}");
}

/// Compares logits with the summaries of both precisions; small logits are held to the scale of the largest.
fn close_logits(what: &str, logits: Tensor<2>, case: &Value, tag: &str, tolerance: Tolerance) {
    let [batch, classes] = logits.dims();
    let logits: Vec<f64> = logits.into_data().convert::<f64>().try_to_vec().expect("float logits");
    let (single, double) = (&case[format!("{tag}_f32")], &case[format!("{tag}_f64")]);
    for row in 0..batch {
        let values = &logits[row * classes..(row + 1) * classes];
        let norm = values.iter().map(|v| v * v).sum::<f64>().sqrt();
        let number = |of: &Value, key: &str| of[key][row].as_f64().expect("a number");
        let expected = number(double, "l2");
        close(&format!("{what} norm {row}"), norm, number(single, "l2"), expected, expected, tolerance);
        let largest = values.iter().map(|v| v.abs()).fold(0.0, f64::max);
        for (column, value) in values.iter().take(8).enumerate() {
            let number = |of: &Value| of["first8"][row][column].as_f64().expect("a number");
            let what = format!("{what} {row},{column}");
            close(&what, *value, number(single), number(double), largest, tolerance);
        }
        let argmax = values.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map(|(index, _)| index as u64);
        assert_eq!(argmax, double["argmax"][row].as_u64(), "{what} argmax {row}");
    }
}

/// Compares a network in eval and train mode, its loss and its gradients, on a device with gradients.
pub(crate) fn equals_the_reference(model: &str, device: &Device, tolerance: Tolerance) {
    let case = case(model);
    let network = network(&case, device);
    let batch = case["batch"].as_u64().expect("a batch") as usize;
    let size = case["size"].as_u64().expect("a size") as usize;
    let x = Tensor::<4>::from_data(images(batch, size), device);

    close_logits("eval", network.forward(x.clone()), &case, "eval", tolerance);

    let (logits, statistics) = training(TrainingPass::whole_batch(batch), || network.forward(x));
    close_logits("train", logits.clone(), &case, "train", tolerance);

    let mut target = vec![0.0f64; batch * 1000];
    for row in 0..batch {
        target[row * 1000 + (7 * row + 3) % 1000] = -1.0 / batch as f64;
    }
    let target = Tensor::<2>::from_data(TensorData::new(target, [batch, 1000]), device);
    let loss = (activation::log_softmax(logits, 1) * target).sum();
    let value = loss.clone().into_scalar::<f64>();
    let number = |key: &str| case[key][0].as_f64().expect("a loss");
    let expected = number("sgd_losses_f64");
    close("loss", value, number("sgd_losses_f32"), expected, expected, tolerance);

    let norms = gradient_norms(&network, loss);
    let expected = case["grad_l2_f64"].as_object().expect("gradient norms");
    let names = own_names(&network, expected.keys().map(String::as_str));
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

fn own_names<'a>(network: &Network, references: impl Iterator<Item = &'a str>) -> BTreeMap<String, String> {
    let prefixes = network.reference_prefixes();
    references
        .map(|name| {
            let (prefix, leaf) = name.rsplit_once('.').expect("a dotted name");
            let (own, _) = prefixes.iter().find(|(_, reference)| reference == prefix).expect("a known prefix");
            (name.to_string(), format!("{own}.{leaf}"))
        })
        .collect()
}

fn gradient_norms(network: &Network, loss: Tensor<1>) -> BTreeMap<String, f64> {
    use burn::module::{Module, ModuleVisitor, Param};
    use burn::tensor::Gradients;

    struct Norms {
        gradients: Gradients,
        path: ModulePath,
        found: BTreeMap<String, f64>,
    }
    impl ModuleVisitor for Norms {
        fn enter_module(&mut self, name: &str, container: &str) {
            self.path.enter(name, container);
        }
        fn exit_module(&mut self, _name: &str, container: &str) {
            self.path.exit(container);
        }
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if let Some(gradient) = param.val().grad(&self.gradients) {
                let values: Vec<f64> = gradient.into_data().convert::<f64>().try_to_vec().expect("a float gradient");
                let norm = values.iter().map(|v| v * v).sum::<f64>().sqrt();
                self.found.insert(self.path.to_string(), norm);
            }
        }
    }
    let mut visitor = Norms { gradients: loss.backward(), path: ModulePath::default(), found: BTreeMap::new() };
    network.visit(&mut visitor);
    visitor.found
}
