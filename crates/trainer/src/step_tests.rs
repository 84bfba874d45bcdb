//! What a step promises.

use std::collections::BTreeMap;

use burn::module::Module;
use burn::tensor::Device;
use kindling_layers::parameters;
use kindling_layers::tensors::Tensors;

use crate::config::OptimizerConfig;
use crate::error::TrainError;
use crate::loss::CrossEntropy;
use crate::micro_batch::micro_batches;
use crate::norm_momentum::NormMomentum;
use crate::optimizer::{Counters, Optimizer};
use crate::step::{GoodStep, StepEngine};
use crate::testing::{CLASSES, Toy, batch, fail_after};

const ADAMW: OptimizerConfig = OptimizerConfig::AdamW { weight_decay: 0.02 };
const SGD: OptimizerConfig = OptimizerConfig::Sgd { momentum: 0.9, weight_decay: 1e-3 };

fn engine() -> StepEngine {
    StepEngine {
        device: Device::flex().autodiff(),
        loss: CrossEntropy::new(CLASSES, 0.1, Some(&[1.0, 2.0, 0.5])),
        clip_norm: Some(0.5),
        norm_momentum: NormMomentum::Fixed(0.1),
        seed: 4,
    }
}

type Everything = (Tensors, Tensors, Counters);

/// Everything that is committed with a step, in host memory.
fn everything(model: &Toy, optimizer: &Optimizer) -> Everything {
    let (moments, counters) = optimizer.save();
    (parameters::read(model).unwrap(), moments, counters)
}

fn compute(model: &Toy, optimizer: &Optimizer, step: u64, micro: usize) -> Result<GoodStep<Toy>, TrainError> {
    let batch = batch(12, step as usize);
    engine().compute(model, optimizer, &batch, &micro_batches(12, 4, micro), step, 0.01)
}

/// Takes `steps` steps from the start.
fn train(config: OptimizerConfig, steps: u64, micro: usize) -> (Toy, Optimizer) {
    let start = (Toy::new(&Device::flex()).train(), Optimizer::new(config));
    (1..=steps).fold(start, |(model, optimizer), step| {
        let good = compute(&model, &optimizer, step, micro).unwrap();
        (good.model, good.optimizer)
    })
}

/// The largest difference between two sets of tensors, as a share of the largest element.
fn distance(a: &Tensors, b: &Tensors) -> f64 {
    assert_eq!(a.keys().collect::<Vec<_>>(), b.keys().collect::<Vec<_>>());
    let values = |tensors: &Tensors| -> Vec<f64> {
        tensors.values().flat_map(|data| data.clone().convert::<f64>().try_to_vec::<f64>().unwrap()).collect()
    };
    let (a, b) = (values(a), values(b));
    let largest = a.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
    a.iter().zip(&b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max) / largest
}

#[test]
fn the_micro_batch_changes_a_step_by_rounding_only() {
    let whole = train(SGD, 1, 12);
    for micro in [4, 8] {
        let parts = train(SGD, 1, micro);
        let (a, b) = (everything(&whole.0, &whole.1), everything(&parts.0, &parts.1));
        assert!(distance(&a.0, &b.0) < 1e-5, "weights and running statistics, micro-batch {micro}");
        assert!(distance(&a.1, &b.1) < 1e-5, "momentum (the gradients), micro-batch {micro}");
    }
}

#[test]
fn a_step_repeated_gives_the_same_bits() {
    for config in [ADAMW, SGD] {
        let (a, b) = (train(config, 3, 4), train(config, 3, 4));
        assert_eq!(everything(&a.0, &a.1), everything(&b.0, &b.1));
    }
}

#[test]
fn an_oom_in_any_micro_batch_changes_nothing_and_is_told_apart() {
    let (model, optimizer) = train(ADAMW, 2, 4);
    let before = everything(&model, &optimizer);
    for micro in 0..3 {
        fail_after(micro, "out of device memory allocating 1048576 bytes");
        let error = compute(&model, &optimizer, 3, 4).err().expect("the step was made to fail");
        assert!(matches!(error, TrainError::OutOfMemory { step: 3, micro_batch: 4, .. }), "{error}");
        assert_eq!(everything(&model, &optimizer), before);
    }
    // The same step, tried again after three failures, is the step of a run that never failed.
    let good = compute(&model, &optimizer, 3, 4).unwrap();
    let undisturbed = train(ADAMW, 3, 4);
    assert_eq!(everything(&good.model, &good.optimizer), everything(&undisturbed.0, &undisturbed.1));
}

#[test]
fn a_panic_that_is_no_oom_is_a_device_error() {
    let (model, optimizer) = train(SGD, 1, 12);
    fail_after(0, "index out of bounds");
    let error = compute(&model, &optimizer, 2, 12).err().expect("the step was made to fail");
    assert!(matches!(error, TrainError::Device { step: Some(2), .. }), "{error}");
}

#[test]
fn a_loss_that_is_not_a_number_stops_before_anything_changes() {
    let (model, optimizer) = train(SGD, 1, 12);
    let mut poisoned = batch(12, 2);
    poisoned.images[7] = f32::NAN;
    let cuts = micro_batches(12, 4, 12);
    let error = engine().compute(&model, &optimizer, &poisoned, &cuts, 2, 0.01).err().expect("the loss is NaN");
    assert!(matches!(error, TrainError::NotFinite { step: 2, .. }), "{error}");
}

#[test]
fn an_optimizer_goes_on_from_its_saved_state() {
    for config in [ADAMW, SGD] {
        let (model, optimizer) = train(config, 3, 12);
        let (moments, counters) = optimizer.save();
        assert!(!moments.is_empty());
        let names: Vec<String> = parameters::slots(&model).into_iter().map(|slot| slot.name).collect();
        let loaded = Optimizer::new(config).load(&names, moments, &counters, &Device::flex()).unwrap();
        let (a, b) = (compute(&model, &optimizer, 4, 12).unwrap(), compute(&model, &loaded, 4, 12).unwrap());
        assert_eq!(everything(&a.model, &a.optimizer), everything(&b.model, &b.optimizer));
    }
}

/// By the rules' papers, in float64: the first step of AdamW moves a weight by the rate against the sign of its
/// gradient and decays it; SGD's momentum has no dampening, as PyTorch's.
#[test]
fn the_update_rules_are_those_of_pytorch() {
    use burn::module::{Param, ParamId};
    use burn::tensor::Tensor;
    use kindling_layers::Linear;

    let device = Device::flex().autodiff();
    let linear = || {
        let parameter = |value: Tensor<1>| Param::initialized(ParamId::new(), value.require_grad());
        let weight = Tensor::<2>::from_floats([[0.5, -1.0]], &device).require_grad();
        let bias = parameter(Tensor::from_floats([0.25], &device));
        Linear { weight: Param::initialized(ParamId::new(), weight), bias }
    };
    let step = |model: Linear, optimizer: &Optimizer, rate: f64| {
        let x = Tensor::<2>::from_floats([[2.0, -3.0]], &device);
        let mut gradients = crate::gradients::GradientSum::default();
        gradients.add(model.forward(x).sum().backward(), &model);
        optimizer.update(model, gradients, rate, 1.0)
    };
    let values = |model: &Linear| -> BTreeMap<String, Vec<f32>> {
        let tensors = parameters::read(model).unwrap();
        tensors.into_iter().map(|(name, data)| (name, data.try_to_vec::<f32>().unwrap())).collect()
    };
    let close = |found: f32, expected: f64| assert!((f64::from(found) - expected).abs() < 1e-6, "{found} {expected}");

    // Gradients are the inputs: 2 and -3 for the weight, 1 for the bias, which does not decay.
    let (model, _) = step(linear(), &Optimizer::new(OptimizerConfig::AdamW { weight_decay: 0.1 }), 0.01);
    let after = values(&model);
    close(after["weight"][0], 0.5 * (1.0 - 0.01 * 0.1) - 0.01);
    close(after["weight"][1], 0.01 - (1.0 - 0.01 * 0.1));
    close(after["bias"][0], 0.25 - 0.01);

    let sgd = Optimizer::new(OptimizerConfig::Sgd { momentum: 0.9, weight_decay: 0.0 });
    let (model, sgd) = step(linear(), &sgd, 0.01);
    let (model, _) = step(model, &sgd, 0.01);
    let after = values(&model);
    close(after["weight"][0], 0.5 - 0.01 * 2.0 - 0.01 * (0.9 * 2.0 + 2.0));
    close(after["bias"][0], 0.25 - 0.01 - 0.01 * 1.9);
}
