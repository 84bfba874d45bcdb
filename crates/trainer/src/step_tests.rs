//! What a step promises.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use burn::tensor::{Device, Tensor};
use kindling_data::HostBatch;
use kindling_layers::tensors::Tensors;
use kindling_layers::{Checkpointing, Precision, parameters};
use kindling_memory::Plan;

use crate::attempt::{Attempt, GoodStep};
use crate::checkpointable::Checkpointable;
use crate::config::OptimizerConfig;
use crate::error::TrainError;
use crate::loss::{CrossEntropy, ImageLoss, Loss, OverBatch, Whole};
use crate::micro_batch::MicroBatch;
use crate::model_snapshot::ModelSnapshot;
use crate::model_state::{AVERAGE, ModelState, OPTIMIZER, WEIGHTS};
use crate::norm_momentum::NormMomentum;
use crate::optimizer::Optimizer;
use crate::policy::{Limits, Policy};
use crate::ranks::Ranks;
use crate::step::{Losses, StepEngine};
use crate::testing::{CLASSES, Toy, batch};
use crate::update::Update;
use crate::warm_up::warm_up;

const ADAMW: OptimizerConfig = OptimizerConfig::AdamW { weight_decay: 0.02 };
const SGD: OptimizerConfig = OptimizerConfig::Sgd { momentum: 0.9, weight_decay: 1e-3 };

fn engine(faults: &str) -> StepEngine<ImageLoss> {
    engine_of(ImageLoss::MultiClass(CrossEntropy::new(CLASSES, 0.1, Some(&[1.0, 2.0, 0.5]))), faults)
}

fn engine_of<L>(loss: L, faults: &str) -> StepEngine<L> {
    StepEngine {
        device: Device::flex().autodiff(),
        loss,
        ghost_batch_size: 4,
        seed: 4,
        precision: Precision::F32,
        update: Update {
            clip_norm: Some(0.5),
            norm_momentum: NormMomentum::Fixed(0.1),
            ema: Some(0.9),
            faults: faults.parse().unwrap(),
        },
        ranks: Ranks::alone(),
    }
}

/// Everything that is committed with a step, in host memory.
fn everything(model_state: &ModelState<Toy>) -> ModelSnapshot {
    model_state.snapshot().unwrap()
}

type Good = GoodStep<ModelState<Toy>, Losses>;

fn at(step: u64, micro_batch: usize) -> Attempt {
    Attempt { step, plan: Plan { micro_batch, checkpointing: Checkpointing::None }, loss_scale: 1.0 }
}

fn compute(model_state: &ModelState<Toy>, step: u64, micro: usize, faults: &str) -> Result<Good, TrainError> {
    engine(faults).compute(model_state, &batch(12, step as usize), &at(step, micro), 0.01)
}

fn start(config: OptimizerConfig) -> ModelState<Toy> {
    ModelState::new(Toy::new(&Device::flex()), Optimizer::new(config), true)
}

/// Takes `steps` steps from the start.
fn train(config: OptimizerConfig, steps: u64, micro: usize) -> ModelState<Toy> {
    (1..=steps).fold(start(config), |model_state, step| compute(&model_state, step, micro, "").unwrap().state)
}

#[test]
fn the_micro_batch_changes_no_bit_of_a_step() {
    for config in [ADAMW, SGD] {
        let whole = everything(&train(config, 3, 12));
        for micro in [4, 8] {
            assert_eq!(everything(&train(config, 3, micro)), whole, "micro-batch {micro}");
        }
    }
}

#[test]
fn a_step_repeated_gives_the_same_bits() {
    for config in [ADAMW, SGD] {
        assert_eq!(everything(&train(config, 3, 4)), everything(&train(config, 3, 4)));
    }
}

#[test]
fn recomputing_activations_gives_the_same_bits() {
    for config in [ADAMW, SGD] {
        let plain = train(config, 3, 4);
        for checkpointing in [Checkpointing::Stages, Checkpointing::Blocks] {
            let again = (1..=3).fold(start(config), |model_state, step| {
                let at = Attempt { plan: Plan { micro_batch: 4, checkpointing }, ..at(step, 4) };
                engine("").compute(&model_state, &batch(12, step as usize), &at, 0.01).unwrap().state
            });
            assert_eq!(everything(&plain), everything(&again), "{checkpointing}");
        }
    }
}

#[test]
fn an_oom_at_any_place_changes_nothing_and_is_told_apart() {
    let model_state = train(ADAMW, 2, 4);
    let before = everything(&model_state);
    let places = [
        "upload,micro=1",
        "forward,micro=0",
        "forward,micro=2",
        "backward,micro=1",
        "finite-check",
        "optimizer",
        "commit",
    ];
    for place in places {
        for (kind, is_too_large) in [("oom", false), ("panic", false), ("toolarge", true)] {
            let faults = format!("{kind}@step=3,phase={place}");
            let error = compute(&model_state, 3, 4, &faults).err().expect("the step was made to fail");
            let told = matches!(
                error,
                TrainError::OutOfMemory { step: 3, micro_batch: 4, too_large, .. } if too_large == is_too_large
            );
            assert!(told, "{faults}: {error}");
            assert_eq!(everything(&model_state), before, "{faults}");
        }
    }
    // The same step, tried again after all these failures, is the step of a run that never failed.
    let good = compute(&model_state, 3, 4, "").unwrap();
    assert_eq!(everything(&good.state), everything(&train(ADAMW, 3, 4)));
}

#[test]
fn a_failure_that_is_no_oom_is_a_device_error() {
    let model_state = train(SGD, 1, 12);
    let error = compute(&model_state, 2, 12, "error@step=2,phase=forward").err().expect("the step was made to fail");
    assert!(matches!(error, TrainError::Device { step: Some(2), .. }), "{error}");
}

#[test]
fn a_loss_that_is_not_a_number_stops_before_anything_changes() {
    let model_state = train(SGD, 1, 12);
    let mut poisoned = batch(12, 2);
    poisoned.images[7] = f32::NAN;
    let error = engine("").compute(&model_state, &poisoned, &at(2, 12), 0.01).err().expect("the loss is NaN");
    assert!(matches!(error, TrainError::NotFinite { step: 2, .. }), "{error}");
}

/// Squares of such numbers are infinite, and what is divided by their root is zero: loss and gradients are numbers.
#[test]
fn statistics_that_are_no_numbers_stop_before_anything_changes() {
    let model_state = train(SGD, 1, 12);
    let before = everything(&model_state);
    let mut poisoned = batch(12, 2);
    poisoned.images.iter_mut().for_each(|value| *value *= 1e30);
    let error = engine("").compute(&model_state, &poisoned, &at(2, 12), 0.01).err().expect("the variance is infinite");
    assert!(matches!(error, TrainError::Overflow { step: 2 }), "{error}");
    assert_eq!(everything(&model_state), before);
}

#[test]
fn a_model_state_goes_on_from_its_saved_form() {
    for config in [ADAMW, SGD] {
        let model_state = train(config, 3, 12);
        let saved = everything(&model_state);
        assert!(!saved.files[OPTIMIZER].is_empty());
        let loaded = start(config).restored(saved, &Device::flex()).unwrap();
        let (a, b) = (compute(&model_state, 4, 12, "").unwrap(), compute(&loaded, 4, 12, "").unwrap());
        assert_eq!(everything(&a.state), everything(&b.state));
    }
}

/// By the formula in float64: the average forgets its start in the first steps, `decay = (1 + step) / (10 + step)`.
#[test]
fn the_average_follows_the_weights() {
    let (first, second) = (train(SGD, 1, 12), train(SGD, 2, 12));
    let name = "classifier.weight";
    let values = |tensors: &Tensors| tensors[name].clone().convert::<f64>().try_to_vec::<f64>().unwrap();
    let [initial, one, two] =
        [start(SGD), first, second.clone()].map(|state| values(&everything(&state).files[WEIGHTS]));
    let found = values(&everything(&second).files[AVERAGE]);
    for index in 0..found.len() {
        let after_one = 2.0 / 11.0 * initial[index] + 9.0 / 11.0 * one[index];
        let expected = 0.25 * after_one + 0.75 * two[index];
        assert!((found[index] - expected).abs() < 1e-6, "{} for {expected}", found[index]);
    }
}

/// By the rules' papers, in float64: the first step of AdamW moves a weight by the rate against the sign of its
/// gradient and decays it; SGD's momentum has no dampening, as PyTorch's.
#[test]
fn the_update_rules_are_those_of_pytorch() {
    use burn::module::{Param, ParamId};
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

#[test]
fn warming_up_goes_from_the_smallest_micro_batch_to_the_plans_and_changes_nothing() {
    let model_state = train(ADAMW, 2, 12);
    let before = everything(&model_state);
    let policy = |micro_batch| {
        let limits = Limits::new(4, 16);
        Policy::new(limits, Plan { micro_batch, checkpointing: Checkpointing::None })
    };
    // Failures that a run is to have are not spent on it.
    let engine = engine("oom@step=1,phase=forward");
    for (planned, expected) in [(4, vec![4]), (8, vec![4, 8]), (16, vec![4, 8])] {
        let warmed = warm_up(&engine, &model_state, &batch(12, 3), &policy(planned), &Device::flex()).unwrap();
        assert_eq!((warmed.micro_batches, warmed.too_large), (expected, None), "16 are more than there are");
    }
    assert_eq!(everything(&model_state), before);
}

#[test]
fn the_loss_scale_changes_no_bit_and_one_that_overflows_is_told() {
    let model_state = train(ADAMW, 1, 12);
    let step = |loss_scale| {
        let at = Attempt { loss_scale, ..at(2, 8) };
        engine("").compute(&model_state, &batch(12, 2), &at, 0.01)
    };
    // A power of two moves the exponent alone, as long as nothing leaves float32's range.
    let (plain, scaled) = (step(1.0).unwrap(), step(1024.0).unwrap());
    assert_eq!(everything(&plain.state), everything(&scaled.state));
    assert_eq!(plain.told, scaled.told);
    let before = everything(&model_state);
    let error = step(2f64.powi(126)).err().expect("gradients above float32's range");
    assert!(matches!(error, TrainError::NotFinite { .. }), "{error}");
    assert_eq!(everything(&model_state), before);
}

/// Logits by the first row of a micro-batch.
type Seen = BTreeMap<usize, Vec<f32>>;

/// The square of the mean over a batch of all logits of a sample, which is no sum over samples. It keeps the logits that each pass sees.
#[derive(Clone, Default)]
struct SquareOfMean {
    seen: Arc<Mutex<[Seen; 2]>>,
}

impl SquareOfMean {
    fn see(&self, pass: usize, logits: Tensor<2>, micro: &MicroBatch) {
        let logits = logits.into_data().try_to_vec::<f32>().unwrap();
        self.seen.lock().unwrap()[pass].insert(micro.rows.start, logits);
    }

    /// What both passes have seen, in the order of the batch.
    fn seen(&self) -> [Vec<f32>; 2] {
        self.seen.lock().unwrap().clone().map(|seen| seen.into_values().flatten().collect())
    }
}

impl Loss<2> for SquareOfMean {
    fn total_weight(&self, batch: &HostBatch) -> f64 {
        batch.len() as f64
    }

    fn part(&self, logits: Tensor<2>, _: &HostBatch, micro: &MicroBatch, whole: &Whole) -> Tensor<1> {
        self.see(1, logits.clone().inner(), micro);
        // The tangent at the mean.
        let mean = whole.sums[0] / whole.weight;
        let share = micro.rows.len() as f64 / whole.weight;
        logits.sum() * (2.0 * mean / whole.weight) - mean * mean * share
    }

    fn over_batch(&self) -> Option<&dyn OverBatch<2>> {
        Some(self)
    }
}

impl OverBatch<2> for SquareOfMean {
    fn of_rows(&self, logits: Tensor<2>, _: &HostBatch, micro: &MicroBatch) -> Tensor<2> {
        self.see(0, logits.clone(), micro);
        logits.sum_dim(1)
    }
}

#[test]
fn both_passes_over_a_batch_see_the_same_logits_and_statistics_move_once() {
    let model_state = start(SGD);
    let loss = SquareOfMean::default();
    let good = engine_of(loss.clone(), "").compute(&model_state, &batch(12, 1), &at(1, 4), 0.01).unwrap();
    let [first, second] = loss.seen();
    assert_eq!(first.len(), 12 * CLASSES);
    assert_eq!(first, second, "dropout and normalisation are the same in both");
    let mean = first.iter().map(|logit| f64::from(*logit)).sum::<f64>() / 12.0;
    assert!((good.told.loss - mean * mean).abs() < 1e-5, "{} for {}", good.told.loss, mean * mean);
    // They follow from the forward pass alone, so another loss moves them as far.
    let statistics = |model_state: &ModelState<Toy>| -> Tensors {
        let weights = everything(model_state).files.remove(WEIGHTS).unwrap();
        weights.into_iter().filter(|(name, _)| name.contains("running")).collect()
    };
    let one_pass = compute(&model_state, 1, 4, "").unwrap();
    assert_eq!(statistics(&good.state), statistics(&one_pass.state));
    assert_ne!(statistics(&good.state), statistics(&model_state));
}

#[test]
fn an_oom_in_either_pass_changes_nothing_and_the_step_tried_again_has_the_same_bits() {
    let model_state = start(ADAMW);
    let before = everything(&model_state);
    let step = |engine: &StepEngine<SquareOfMean>, checkpointing| {
        let at = Attempt { plan: Plan { micro_batch: 8, checkpointing }, ..at(1, 8) };
        engine.compute(&model_state, &batch(12, 1), &at, 0.01)
    };
    let straight = step(&engine_of(SquareOfMean::default(), ""), Checkpointing::None).unwrap();
    for place in ["first-pass,micro=0", "first-pass,micro=2", "forward,micro=1", "backward,micro=2", "commit"] {
        let engine = engine_of(SquareOfMean::default(), &format!("oom@step=1,phase={place}"));
        let error = step(&engine, Checkpointing::None).err().expect("the step was made to fail");
        assert!(matches!(error, TrainError::OutOfMemory { step: 1, .. }), "{place}: {error}");
        assert_eq!(everything(&model_state), before, "{place}");
        let again = step(&engine, Checkpointing::Blocks).unwrap();
        assert_eq!(everything(&again.state), everything(&straight.state), "{place}");
        assert_eq!(again.told, straight.told, "{place}");
    }
}
