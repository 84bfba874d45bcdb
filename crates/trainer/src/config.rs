//! What the trainer is told.

use kindling_layers::Precision;
use kindling_layers::pass::normalisation_groups;
use serde::{Deserialize, Serialize};

use crate::error::TrainError;
use crate::policy::Recompute;

/// How a run trains. Every field is part of the run's resolved configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainConfig {
    /// Samples of an optimizer step: the global batch.
    pub batch_size: usize,
    /// Samples computed at once, at most; found while running if absent. Changes memory and time, never the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub micro_batch: Option<usize>,
    /// Which feature maps are computed again rather than kept; found while running if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recompute: Option<Recompute>,
    /// The format of feature maps; weights, statistics and updates are float32.
    #[serde(default)]
    pub precision: Precision,
    /// Decay of an exponential moving average of the weights, which is then what is judged and kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ema: Option<f64>,
    /// The most samples in a normalisation group.
    pub norm_group: usize,
    /// The least weight of a step's statistics in batch norm's running ones. If absent, the layers' own momentum, but
    /// enough for a short run to forget the statistics it began with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub norm_momentum: Option<f64>,
    /// Passes over the training samples.
    pub epochs: u64,
    /// Stops after this many optimizer steps, if that is sooner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<u64>,
    /// Peak learning rate.
    pub lr: f64,
    /// Share of all steps in which the learning rate rises linearly to its peak, in `[0, 1]`.
    pub warmup: f64,
    /// The rule that turns gradients into updates.
    pub optimizer: OptimizerConfig,
    /// Share of the target spread evenly over all classes, in `[0, 1)`.
    pub label_smoothing: f64,
    /// Weight of each class in the loss; even weights if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class_weights: Option<Vec<f64>>,
    /// Gradients whose global norm is larger are scaled down to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clip_norm: Option<f64>,
    /// Seed of everything drawn: order, augmentation, dropout, initial weights.
    pub seed: u64,
    /// A checkpoint is written after this many steps, besides the one at the end of every epoch.
    pub checkpoint_steps: u64,
}

/// An update rule.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "lowercase", deny_unknown_fields)]
pub enum OptimizerConfig {
    /// Adam with decoupled weight decay (Loshchilov and Hutter 2019); betas 0.9 and 0.999, epsilon 1e-8.
    AdamW {
        /// Decay of convolution and linear weights; norm scales and biases are not decayed.
        weight_decay: f64,
    },
    /// Stochastic gradient descent with momentum, as PyTorch's: no dampening.
    Sgd {
        /// Momentum, in `[0, 1)`.
        momentum: f64,
        /// Decay of convolution and linear weights, added to the gradient.
        weight_decay: f64,
    },
}

impl TrainConfig {
    /// Checks the values against each other and against the data.
    ///
    /// # Errors
    /// [`TrainError::Config`] with a sentence about the first value that cannot be.
    pub fn check(&self, classes: usize) -> Result<(), TrainError> {
        let fail = |sentence: String| Err(TrainError::Config(sentence));
        if self.batch_size == 0 {
            return fail("the batch size is 0; a step needs at least one sample".into());
        }
        if self.micro_batch == Some(0) {
            return fail("the micro-batch is 0; it holds at least one sample".into());
        }
        if self.norm_group == 0 {
            return fail("the normalisation group is 0; it holds at least one sample".into());
        }
        if self.norm_momentum.is_some_and(|momentum| !(0.0..=1.0).contains(&momentum)) {
            return fail("the normalisation momentum must lie between 0 and 1".into());
        }
        if self.epochs == 0 || self.max_steps == Some(0) {
            return fail("there is nothing to train: 0 epochs or 0 steps".into());
        }
        if !(self.lr.is_finite() && self.lr > 0.0) {
            return fail(format!("the learning rate is {}; it must be above 0", self.lr));
        }
        if !(0.0..=1.0).contains(&self.warmup) {
            return fail(format!("the warm-up share is {}; it must lie between 0 and 1", self.warmup));
        }
        if !(0.0..1.0).contains(&self.label_smoothing) {
            return fail(format!("the label smoothing is {}; it must be 0 or more and below 1", self.label_smoothing));
        }
        if self.clip_norm.is_some_and(|norm| !(norm.is_finite() && norm > 0.0)) {
            return fail("the gradient norm to clip at must be above 0".into());
        }
        if self.seed > i64::MAX as u64 || self.checkpoint_steps == 0 {
            return fail("the seed must be below 2^63 and checkpoints at least one step apart".into());
        }
        if self.ema.is_some_and(|decay| !(0.0..1.0).contains(&decay)) {
            return fail("the decay of the average must be 0 or more and below 1".into());
        }
        let largest = self.largest_group();
        if let Some(micro_batch) = self.micro_batch.filter(|micro_batch| largest > *micro_batch) {
            return fail(format!(
                "a micro-batch of {micro_batch} is smaller than the normalisation group of {largest}; give --norm-group \
                 {micro_batch} too (it changes what batch norm computes, so it is never changed silently)"
            ));
        }
        self.optimizer.check()?;
        match &self.class_weights {
            Some(weights) if weights.len() != classes => {
                fail(format!("there are {} class weights for {classes} classes", weights.len()))
            }
            Some(weights) if weights.iter().any(|weight| !(weight.is_finite() && *weight > 0.0)) => {
                fail("every class weight must be above 0".into())
            }
            _ => Ok(()),
        }
    }
}

impl TrainConfig {
    /// Samples of the largest normalisation group of a whole batch: the smallest micro-batch there is.
    pub fn largest_group(&self) -> usize {
        normalisation_groups(self.batch_size, self.norm_group.max(1)).first().copied().unwrap_or(1)
    }
}

impl OptimizerConfig {
    fn check(&self) -> Result<(), TrainError> {
        let (momentum, decay) = match *self {
            Self::AdamW { weight_decay } => (0.0, weight_decay),
            Self::Sgd { momentum, weight_decay } => (momentum, weight_decay),
        };
        if (0.0..1.0).contains(&momentum) && decay.is_finite() && decay >= 0.0 {
            return Ok(());
        }
        Err(TrainError::Config(format!("momentum {momentum} or weight decay {decay} is out of range")))
    }
}
