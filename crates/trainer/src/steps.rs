//! Steps without a run: no folder, no log, no validation. For measuring what a step costs.

use burn::tensor::Device;
use kindling_data::{HostBatch, Task};
use kindling_layers::Classifier;
use kindling_memory::Plan;

use crate::config::TrainConfig;
use crate::error::TrainError;
use crate::fault::Faults;
use crate::fit::policy;
use crate::loss_scale::LossScale;
use crate::model_state::ModelState;
use crate::optimizer::Optimizer;
use crate::policy::Policy;
use crate::recovery::{Recovery, abandon_graph, carry_out};
use crate::step::StepEngine;

/// A network in training, one call a step. It is the engine of a run, recovery from a lack of memory included.
pub struct Steps<M: Classifier> {
    engine: StepEngine,
    device: Device,
    rate: f64,
    step: u64,
    model_state: ModelState<M>,
    policy: Policy,
    loss_scale: LossScale,
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

impl<M: Classifier> Steps<M> {
    /// Steps at the peak learning rate of a configuration. `model` is on `device`, without gradients.
    ///
    /// # Errors
    /// [`TrainError::Config`] for values that cannot be.
    pub fn new(
        model: M,
        config: &TrainConfig,
        classes: usize,
        device: &Device,
        start: Plan,
    ) -> Result<Self, TrainError> {
        config.check(classes)?;
        Ok(Self {
            engine: StepEngine::new(
                config,
                Task::MultiClass,
                classes,
                device,
                config.max_steps.unwrap_or(u64::MAX),
                Faults::default(),
            ),
            device: device.clone(),
            rate: config.lr,
            step: 0,
            model_state: ModelState::new("model", model, Optimizer::new(config.optimizer), config.ema.is_some()),
            policy: policy(config, start, device),
            loss_scale: LossScale::new(config.precision),
        })
    }

    /// Trains on one global batch.
    ///
    /// # Errors
    /// What ends a run; the network is then that of the last good step.
    pub fn step(&mut self, batch: &HostBatch) -> Result<Stepped, TrainError> {
        let step = self.step + 1;
        let Self { engine, model_state, device, .. } = &*self;
        let mut recoveries = Vec::new();
        let outcome = carry_out(
            &self.policy,
            device,
            || abandon_graph(&model_state.model, device),
            |recovery| recoveries.push(recovery.clone()),
            |plan| engine.compute(model_state, batch, plan, step, self.rate, self.loss_scale.factor()),
        );
        if let (Err(TrainError::NotFinite { .. }), Some(next)) = (&outcome, self.loss_scale.after_overflow()) {
            (self.step, self.loss_scale) = (step, next);
            return Ok(Stepped { loss: None, micro_batch: self.policy.plan().micro_batch, recoveries });
        }
        let (good, policy) = outcome?;
        (self.step, self.policy, self.loss_scale) = (step, policy, self.loss_scale.after_good());
        self.model_state = good.model_state;
        Ok(Stepped { loss: Some(good.loss), micro_batch: good.micro_batch, recoveries })
    }

    /// How much is computed at once now.
    pub fn plan(&self) -> Plan {
        self.policy.plan()
    }

    /// The network, on the device with gradients.
    pub fn model(&self) -> &M {
        &self.model_state.model
    }
}
