//! Every zoo model reproduces its reference's outputs and gradients for the same weights.
//!
//! `golden/golden.json` and `golden/zoo.json` were made with torchvision and timm by the scripts beside them; `golden.py`
//! explains how weights and inputs are filled from names by a formula, so that no weights need to be stored.

pub(crate) mod golden;
pub(crate) mod grad_cam;
pub(crate) mod segmentation;
pub(crate) mod zoo;

use std::collections::BTreeMap;

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData, activation};
use kindling_layers::Classifier;
use kindling_layers::names::Names;
use kindling_layers::parameters::{self, ModulePath};
use kindling_layers::pass::{TrainingPass, training};
use kindling_layers::tensors::Tensors;
use kindling_tests::numbers_of;
use kindling_zoo::weights::{self, Adapt};
use kindling_zoo::{Model, ModelOptions, Network, find};
use serde_json::Value;

/// The gain of `golden.py`, and of `zoo.py` where a case has none of its own.
pub(crate) const GAIN: f64 = 4.5;

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

/// A tensor of a network under its reference's name, by the formula of `golden.py`.
pub(crate) fn fill(name: &str, shape: &[usize], gain: f64) -> TensorData {
    let scale = (gain / shape.iter().skip(1).product::<usize>() as f64).sqrt();
    let value = |u: f64| match shape.len() {
        _ if name.ends_with("running_var") => 0.5 + u,
        _ if name.ends_with("running_mean") => 0.2 * (2.0 * u - 1.0),
        1 if name.ends_with("weight") => 0.75 + 0.5 * u,
        1 if name.ends_with("bias") => 0.1 * (2.0 * u - 1.0),
        _ => (2.0 * u - 1.0) * scale,
    };
    let values: Vec<f64> = numbers_of(name).take(shape.iter().product()).map(value).collect();
    TensorData::new(values, shape.to_vec())
}

pub(crate) fn images(batch: usize, size: usize) -> TensorData {
    numbers("input", 1.7, [batch, 3, size, size])
}

/// Numbers between minus and plus `largest`.
fn numbers(name: &str, largest: f64, shape: [usize; 4]) -> TensorData {
    let values = numbers_of(name).take(shape.iter().product()).map(|u| largest * (2.0 * u - 1.0));
    TensorData::new(values.collect::<Vec<f64>>(), shape)
}

/// The cases of a file of reference figures.
pub(crate) fn cases(json: &str) -> Vec<Value> {
    let document: Value = serde_json::from_str(json).expect("the file is JSON");
    document["cases"].as_array().expect("a list of cases").clone()
}

/// A whole number of a case.
pub(crate) fn count(case: &Value, key: &str) -> usize {
    case[key].as_u64().unwrap_or_else(|| panic!("{key} is a number")) as usize
}

/// The model of a case.
pub(crate) fn model(case: &Value) -> Model {
    find(case["model"].as_str().expect("a name")).expect("a zoo model")
}

/// A network for colour images and 1000 classes, without dropout and drop-path.
pub(crate) fn network(model: &Model, device: &Device) -> Network {
    let rate = Some(0.0);
    let options = ModelOptions { drop_rate: rate, drop_path_rate: rate, ..ModelOptions::imagenet() };
    model.build(&options, device).expect("buildable")
}

/// The network filled by the formula, through the ordinary importer, under the reference's keys of these shapes.
pub(crate) fn filled(model: &Model, network: Network, keys: &BTreeMap<String, Vec<usize>>) -> Network {
    filled_with(model, network, keys, GAIN)
}

/// As [`filled`], with a gain of its own.
pub(crate) fn filled_with(model: &Model, network: Network, keys: &BTreeMap<String, Vec<usize>>, gain: f64) -> Network {
    let tensors: Tensors = keys.iter().map(|(name, shape)| (name.clone(), fill(name, shape, gain))).collect();
    let (network, import) =
        weights::import(network, model, tensors, Adapt::Strict).expect("the reference's tensors fit");
    assert_eq!((import.filled, import.counters, import.left_out.len()), (keys.len(), 0, 0));
    network
}

/// The keys that a case lists, or those that an export of the network has.
pub(crate) fn keys(case: &Value, model: &Model, network: &Network) -> BTreeMap<String, Vec<usize>> {
    let shape = |list: &Value| -> Vec<usize> {
        list.as_array().expect("a shape").iter().map(|n| n.as_u64().expect("a length") as usize).collect()
    };
    if let Some(keys) = case["keys"].as_array() {
        return keys.iter().map(|key| (key[0].as_str().expect("a name").to_string(), shape(&key[1]))).collect();
    }
    let exported = weights::export(network, model, model.name.library.keys()).expect("the library has it");
    let tensors = exported.into_iter().filter(|(name, _)| !name.ends_with("num_batches_tracked"));
    tensors.map(|(name, data)| (name, data.shape().as_slice().to_vec())).collect()
}

/// Fails unless `found` is close to the float64 figure of the reference.
pub(crate) fn close(what: &str, found: f64, single: f64, double: f64, scale: f64, tolerance: Tolerance) {
    let own = (single - double).abs();
    let room = (tolerance.relative * scale.abs()).max(tolerance.of_reference * own);
    assert!((found - double).abs() <= room, "{what}: {found} for {double} +- {room}");
}

/// Float64 values of a tensor.
pub(crate) fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    tensor.into_data().convert::<f64>().try_to_vec().expect("float data")
}

/// The mean cross entropy of the labels `golden.py` gives.
pub(crate) fn cross_entropy(logits: Tensor<2>) -> Tensor<1> {
    let [batch, classes] = logits.dims();
    let mut target = vec![0.0f64; batch * classes];
    for row in 0..batch {
        target[row * classes + (7 * row + 3) % classes] = -1.0 / batch as f64;
    }
    let target = Tensor::<2>::from_data(TensorData::new(target, [batch, classes]), &logits.device());
    (activation::log_softmax(logits, 1) * target).sum()
}

/// The norm of the gradient of each parameter, by our own name.
pub(crate) fn gradient_norms<M: Module>(network: &M, loss: Tensor<1>) -> BTreeMap<String, f64> {
    use burn::module::{ModuleVisitor, Param};
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
                let norm = values(gradient).iter().map(|v| v * v).sum::<f64>().sqrt();
                self.found.insert(self.path.to_string(), norm);
            }
        }
    }
    let mut visitor = Norms { gradients: loss.backward(), path: ModulePath::default(), found: BTreeMap::new() };
    network.visit(&mut visitor);
    visitor.found
}

/// Logits in training mode, with batch norm over the whole batch, and the statistics they left.
pub(crate) fn train_mode(network: &Network, x: Tensor<4>) -> (Tensor<2>, kindling_layers::pass::BatchStatistics) {
    let batch = x.dims()[0];
    training(TrainingPass::whole_batch(batch), || network.forward(x))
}

/// Our own name of each of the reference's parameters.
pub(crate) fn own_names(model: &Model, network: &Network) -> BTreeMap<String, String> {
    let names = model.layer_names(network, model.name.library.keys()).expect("the library has it");
    own_names_of(network, &names)
}

/// As [`own_names`], for any network whose layers have these names.
pub(crate) fn own_names_of<M: Module>(network: &M, names: &Names) -> BTreeMap<String, String> {
    let slots = parameters::slots(network);
    let of_layer = |own: &str, reference: &str| -> Vec<(String, String)> {
        let tensors = slots.iter().filter_map(|slot| slot.name.strip_prefix(own)?.strip_prefix('.'));
        tensors.map(|leaf| (format!("{reference}.{leaf}"), format!("{own}.{leaf}"))).collect()
    };
    names.iter().flat_map(|name| of_layer(&name.own, &name.reference)).collect()
}
