//! The state of a model: a network with everything that training changes about it, a named part of a run's state.
//!
//! A classifier's run has one; a run of two networks against each other has two, and commits both together.

use std::collections::BTreeMap;

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kindling_layers::parameters;
use kindling_layers::pass::BatchStatistics;
use kindling_memory::MemorySize;
use kindling_ops::{self as ops, reserve};

use crate::gradients::GradientSum;
use crate::model_snapshot::ModelSnapshot;
use crate::optimizer::Optimizer;
use crate::parts::Counters;
use crate::parts::{OfModule, Parts};

/// A network, its optimizer, and the running mean of its weights.
#[derive(Clone)]
pub struct ModelState<M> {
    /// On the training device, running statistics included.
    pub(crate) model: M,
    pub(crate) optimizer: Optimizer,
    /// The exponential moving average of the network's tensors, on the plain device.
    pub(crate) average: Option<M>,
}

/// How a model state moves in one step.
pub(crate) struct Move {
    /// Learning rate.
    pub(crate) rate: f64,
    /// Every gradient is multiplied by this first.
    pub(crate) scale: f64,
    /// The least weight of the step's batch statistics in the running ones.
    pub(crate) momentum: f64,
    /// What the average keeps of itself.
    pub(crate) decay: f64,
}

pub(crate) const WEIGHTS: &str = "weights.safetensors";
pub(crate) const OPTIMIZER: &str = "optimizer.safetensors";
pub(crate) const AVERAGE: &str = "average.safetensors";

impl<M: Module> ModelState<M> {
    /// A model state at its start. `model` is on the plain device.
    pub(crate) fn new(model: M, optimizer: Optimizer, with_average: bool) -> Self {
        let average = with_average.then(|| model.valid());
        Self { model: model.train(), optimizer, average }
    }

    /// A model state at its start, trained by Adam (Kingma and Ba 2015) without decay and with betas of one's own. `model` is on
    /// the plain device; a moving average of its weights is kept if that is asked for.
    pub fn with_adam(model: M, betas: [f64; 2], with_average: bool) -> Self {
        Self::new(model, Optimizer::adam(betas), with_average)
    }

    /// The network, on the training device with gradients, running statistics included.
    pub fn model(&self) -> &M {
        &self.model
    }

    /// The model state after a step; this one stays as it is.
    pub(crate) fn moved(&self, gradients: GradientSum, statistics: BatchStatistics, by: &Move) -> Self {
        let (model, optimizer) = self.optimizer.update(self.model.clone(), gradients, by.rate, by.scale);
        let model = statistics.commit(model, by.momentum);
        let average = self.average.clone().map(|average| follow(average, &model.valid(), by.decay));
        Self { model, optimizer, average }
    }

    /// The sum of one element of each tensor of the network and its average, `[1]`: a number that cannot be read unless all
    /// of them are there, and the optimizer's moments that they were computed from.
    pub fn witness(&self) -> Option<Tensor<1>> {
        let all = std::iter::once(&self.model).chain(&self.average).flat_map(|model| parameters::flat(model, |_| true));
        ops::first_numbers(all.map(|flat| flat.values).collect()).map(ops::sum)
    }

    /// The network to judge and to keep: the average if there is one.
    pub fn judged(&self) -> M {
        self.average.clone().unwrap_or_else(|| self.model.valid())
    }

    /// What a device holds, and how much of it is this model state's.
    pub(crate) fn in_use(&self, device: &Device) -> String {
        const BYTES: u64 = size_of::<f32>() as u64;
        let slots = parameters::slots(&self.model);
        let bytes = |slot: &parameters::Slot| BYTES * slot.shape.iter().product::<usize>() as u64;
        let weights: u64 = slots.iter().map(bytes).sum();
        let moments = self.optimizer.numbers_kept();
        let moments: u64 = slots.iter().map(|slot| moments(&slot.name) * bytes(slot)).sum();
        let average = if self.average.is_some() { weights } else { 0 };
        let own = [("weights", weights), ("the optimizer's state", moments), ("the average of the weights", average)];
        let told = |name: &str, bytes: u64| format!("{name} {}", MemorySize(bytes));
        let mut told: Vec<String> =
            own.iter().filter(|(_, bytes)| *bytes > 0).map(|(name, b)| told(name, *b)).collect();
        let Some(pools) = device.clone().without_autodiff().memory_pool_usage() else {
            return format!("{} of it", told.join(", "));
        };
        let rest = pools.bytes_reserved.saturating_sub(weights + moments + average);
        told.push(format!("feature maps, gradients and workspace {}", MemorySize(rest)));
        format!("{} were taken: {}", MemorySize(pools.bytes_reserved), told.join(", "))
    }

    /// What is to be saved, by the names of files and counters behind `prefix`.
    pub fn parts<'a>(&'a self, prefix: &'a str) -> Parts<'a> {
        let mut parts = Parts::default();
        parts.0.insert(format!("{prefix}{WEIGHTS}"), Box::new(OfModule::of(&self.model)));
        parts.0.insert(format!("{prefix}{OPTIMIZER}"), self.optimizer.part(prefix));
        if let Some(average) = &self.average {
            parts.0.insert(format!("{prefix}{AVERAGE}"), Box::new(OfModule::of(average)));
        }
        parts
    }

    /// This model state without its numbers, to be restored.
    pub fn emptied(&self) -> Self {
        Self {
            model: parameters::emptied(self.model.clone()),
            optimizer: self.optimizer.emptied(),
            average: self.average.clone().map(parameters::emptied),
        }
    }

    /// This model state with what [`ModelState::parts`] saved behind `prefix`, which is taken out of the snapshot.
    ///
    /// # Errors
    /// A sentence about what is missing or does not fit.
    pub fn restore(self, snapshot: &mut ModelSnapshot, prefix: &str, device: &Device) -> Result<Self, String> {
        let mut file = |name: &str| snapshot.files.remove(&format!("{prefix}{name}"));
        let missing = |name: &str| format!("it has no {prefix}{name}");
        let weights = file(WEIGHTS).ok_or_else(|| missing(WEIGHTS))?;
        let moments = file(OPTIMIZER).ok_or_else(|| missing(OPTIMIZER))?;
        let average = file(AVERAGE);
        let counters = snapshot.counters.iter();
        let counters = counters.filter_map(|(name, value)| Some((name.strip_prefix(prefix)?.to_string(), *value)));
        let counters: Counters = counters.collect();
        let model = parameters::write(self.model, weights).map_err(|mismatch| mismatch.to_string())?;
        let names: Vec<String> = parameters::slots(&model).into_iter().map(|slot| slot.name).collect();
        let plain = device.clone().without_autodiff();
        let optimizer = self.optimizer.load(&names, moments, &counters, &plain);
        let optimizer = optimizer.ok_or("its optimizer state is another optimizer's")?;
        let average = match (self.average, average) {
            (None, None) => None,
            (Some(known), Some(saved)) => {
                Some(parameters::write(known, saved).map_err(|mismatch| mismatch.to_string())?)
            }
            _ => return Err("it was saved with another --ema".to_string()),
        };
        Ok(Self { model, optimizer, average })
    }
}

/// Numbers made for each one of an average: itself, and two on the way to it.
const NEW_NUMBERS: usize = 3;

/// `average + (1 - decay) * (model - average)`, tensor by tensor; both on the plain device. Written so, what does not
/// change in the model (a frozen backbone) keeps its bits in the average.
fn follow<M: Module>(average: M, model: &M, decay: f64) -> M {
    let of = |model: &M| parameters::flat(model, |_| true).into_iter().map(|flat| (flat.id, flat.values));
    let (from, mut to): (BTreeMap<_, _>, BTreeMap<_, _>) = (of(&average).collect(), of(model).collect());
    let (ids, pairs): (Vec<_>, Vec<_>) =
        from.into_iter().filter_map(|(id, from)| Some((id, [from, to.remove(&id)?]))).unzip();
    let one = |[from, to]: &[Tensor<1>; 2]| {
        reserve::like(from, NEW_NUMBERS * from.shape().num_elements());
        from.clone() + (to.clone() - from.clone()).mul_scalar(1.0 - decay)
    };
    let moved = ops::lerp(&pairs, 1.0, 1.0 - decay).unwrap_or_else(|| pairs.iter().map(one).collect());
    parameters::replace(average, ids.into_iter().zip(moved).collect())
}

/// What the average keeps of itself at `step`: `decay`, but little in the first steps, so that the initial weights are
/// forgotten: `(1 + step) / (10 + step)`, as TensorFlow's `ExponentialMovingAverage` has it.
pub(crate) fn decay_at(decay: f64, step: u64) -> f64 {
    let step = step as f64;
    decay.min((1.0 + step) / (10.0 + step))
}
