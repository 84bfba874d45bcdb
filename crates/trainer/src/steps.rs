//! Steps without a run: no folder, no log, no validation. For measuring what a step costs, and what rate it should have.

use std::sync::Arc;

use burn::tensor::Device;
use kindling_data::{HostBatch, Task};
use kindling_layers::{Classifier, Segmenter};
use kindling_memory::Plan;

use crate::config::TrainConfig;
use crate::error::TrainError;
use crate::fault::Faults;
use crate::loss::Loss;
use crate::model_state::ModelState;
use crate::ranks::Ranks;
use crate::recovery::Recovery;
use crate::state::{Settled, TrainState};
use crate::step::StepEngine;
use crate::supervised::beginning;
use crate::trainable::Trainable;

/// A network in training, one call a step. It is the engine of a run, recovery from a lack of memory included.
pub struct Steps<M: Trainable<D>, const D: usize = 2> {
    engine: StepEngine<Arc<dyn Loss<D>>>,
    device: Device,
    rate: f64,
    state: TrainState<ModelState<M>>,
}

/// What a step did.
#[derive(Clone, Debug, PartialEq)]
pub struct Stepped {
    /// Mean loss of the global batch; none if the update was left out because a gradient of a half format was not finite.
    pub loss: Option<f64>,
    /// Samples computed at once, at most.
    pub micro_batch: usize,
    /// What it took to make it fit.
    pub recoveries: Vec<Recovery>,
}

impl<M: Classifier> Steps<M, 2> {
    /// Steps of a classifier at the peak learning rate of a configuration. `model` is on `device`, without gradients.
    ///
    /// # Errors
    /// [`TrainError::Config`] for values that cannot be.
    pub fn new(
        model: M,
        config: &TrainConfig,
        task: Task,
        classes: usize,
        device: &Device,
        start: Plan,
    ) -> Result<Self, TrainError> {
        config.check(classes)?;
        let loss = config.image_loss(task, classes);
        Ok(Self::of(model, config, Arc::new(loss), device, start))
    }
}

impl<M: Segmenter> Steps<M, 4> {
    /// Steps of a network for segmentation at the peak learning rate of a configuration, on batches with masks. `model` is on `device`,
    /// without gradients.
    ///
    /// # Errors
    /// [`TrainError::Config`] for values that cannot be.
    pub fn segmenting(
        model: M,
        config: &TrainConfig,
        classes: usize,
        device: &Device,
        start: Plan,
    ) -> Result<Self, TrainError> {
        config.check(classes)?;
        Ok(Self::of(model, config, Arc::new(config.pixel_loss(classes)), device, start))
    }
}

impl<M: Trainable<D>, const D: usize> Steps<M, D> {
    fn of(model: M, config: &TrainConfig, loss: Arc<dyn Loss<D>>, device: &Device, start: Plan) -> Self {
        let total_steps = config.max_steps.unwrap_or(u64::MAX);
        Self {
            engine: StepEngine::new(config, loss, device, total_steps, Faults::default(), Ranks::alone()),
            device: device.clone(),
            rate: config.lr,
            state: beginning(model, config, start, device),
        }
    }

    /// From now on steps at this learning rate, 0 or more.
    pub fn set_rate(&mut self, rate: f64) {
        self.rate = rate;
    }

    /// Trains on one global batch.
    ///
    /// # Errors
    /// What ends a run; the network is then that of the last good step.
    pub fn step(&mut self, batch: &HostBatch) -> Result<Stepped, TrainError> {
        let Self { engine, device, rate, state } = self;
        let tried = state.try_step(device, |state, at| engine.compute(state, batch, at, *rate));
        let mut tried = tried.map_err(|stranded| stranded.1)?;
        let recoveries = std::mem::take(&mut tried.recoveries);
        let (loss, micro_batch) = match state.settle(tried, batch.len(), 0.0)? {
            Settled::Good { told, micro_batch } => (Some(told.loss), micro_batch),
            Settled::Skipped { .. } => (None, state.policy().plan().micro_batch),
        };
        Ok(Stepped { loss, micro_batch, recoveries })
    }

    /// How much is computed at once now.
    pub fn plan(&self) -> Plan {
        self.state.policy().plan()
    }

    /// The network, on the device with gradients.
    pub fn model(&self) -> &M {
        self.state.model_state().model()
    }
}
