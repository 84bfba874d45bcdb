//! What the trainer is told.

use std::ops::RangeInclusive;

use kindling_data::{below, within};
use kindling_given::Span;
use kindling_layers::pass::{GHOST_BATCH_SIZE, largest_group};
use kindling_layers::{Checkpointing, Precision};
use serde::{Deserialize, Serialize};

use crate::error::TrainError;
use crate::loss::{SegmentationConfig, ValueLoss};

/// How a run trains. Every field is part of the run's resolved configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainConfig {
    /// Samples of an optimizer step: the global batch, 1 to 1,048,576.
    pub batch_size: usize,
    /// Samples computed at once, at most, 1 to 1,048,576; found while running if absent. Changes memory and time, never the
    /// result.
    #[serde(default, with = "kindling_given::auto")]
    pub micro_batch: Option<usize>,
    /// Which feature maps are computed again rather than kept; found while running if absent. Earlier versions called it
    /// `recompute`.
    #[serde(default, alias = "recompute", with = "kindling_given::auto")]
    pub activation_checkpointing: Option<Checkpointing>,
    /// The format of feature maps; weights, statistics and updates are float32.
    #[serde(default)]
    pub precision: Precision,
    /// Decay of an exponential moving average of the weights, which is then what is judged and kept; in
    /// `[0, 1)`.
    #[serde(default, with = "kindling_given::none")]
    pub ema: Option<f64>,
    /// The most samples in a normalisation group, a ghost batch: 1 to 1,048,576. Earlier versions called it `norm_group`.
    #[serde(alias = "norm_group")]
    pub ghost_batch_size: usize,
    /// The least weight of a step's statistics in batch norm's running ones. If absent, the layers' own momentum, but
    /// enough for a short run to forget the statistics it began with. In `[0, 1]`.
    #[serde(default, with = "kindling_given::auto")]
    pub norm_momentum: Option<f64>,
    /// Passes over the training samples, 1 to 10^9.
    pub epochs: u64,
    /// Stops after this many optimizer steps, 1 to 10^9, if that is sooner.
    #[serde(default, with = "kindling_given::none")]
    pub max_steps: Option<u64>,
    /// Ends after this many epochs in a row without a better validation score, 1 to 10^9.
    #[serde(default, with = "kindling_given::none")]
    pub patience: Option<u64>,
    /// Peak learning rate, 1e-37 to 1000.
    pub lr: f64,
    /// Share of all steps in which the learning rate rises linearly to its peak, in `[0, 1]`.
    pub warmup: f64,
    /// The rule that turns gradients into updates.
    pub optimizer: OptimizerConfig,
    /// Share of the target spread evenly over all classes, in `[0, 1)`.
    pub label_smoothing: f64,
    /// Weight of each class in the loss, 1e-6 to 1e6; even weights if absent.
    #[serde(default, with = "kindling_given::even")]
    pub class_weights: Option<Vec<f64>>,
    /// The loss that a network for segmentation minimises; only runs of such networks have it. Classifiers minimise cross-entropy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segmentation: Option<SegmentationConfig>,
    /// The loss that a network that answers with a number minimises; only runs of such networks have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regression: Option<ValueLoss>,
    /// Gradients whose global norm is larger are scaled down to it; 1e-12 to 1e12.
    #[serde(default, with = "kindling_given::none")]
    pub clip_norm: Option<f64>,
    /// Seed of everything drawn: order, augmentation, dropout, initial weights. Below 2^63.
    pub seed: u64,
    /// A checkpoint is written after this many steps, 1 to 10^9, besides the one at the end of every epoch.
    pub checkpoint_steps: u64,
    /// And when this much time has passed since the last one, at least a second.
    #[serde(default = "checkpoint_every")]
    pub checkpoint_every: Span,
    /// What the length of the run was before it was extended, in the order of the steps; see [`TrainConfig::extend`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extended: Vec<Extension>,
}

/// How long a run was to be, up to the step after which it was extended.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Extension {
    /// Steps that were done when the run was extended.
    pub after_step: u64,
    /// Passes over the training samples that it was to have, 1 to 10^9.
    pub epochs: u64,
    /// The limit of steps that it had, 1 to 10^9.
    #[serde(default, with = "kindling_given::none")]
    pub max_steps: Option<u64>,
}

/// An update rule.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "lowercase", deny_unknown_fields)]
pub enum OptimizerConfig {
    /// Adam with decoupled weight decay (Loshchilov and Hutter 2019); betas 0.9 and 0.999, epsilon 1e-8.
    AdamW {
        /// Decay of convolution and linear weights, 0 to 1000; norm scales and biases are not decayed.
        weight_decay: f64,
    },
    /// Stochastic gradient descent with momentum, as PyTorch's: no dampening.
    Sgd {
        /// Share of the last update that is added to the next, in `[0, 1)`.
        momentum: f64,
        /// Decay of convolution and linear weights, 0 to 1000, added to the gradient.
        weight_decay: f64,
    },
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self::new(8, 10)
    }
}

impl Default for OptimizerConfig {
    fn default() -> Self {
        Self::AdamW { weight_decay: 0.02 }
    }
}

impl OptimizerConfig {
    /// Decay of convolution and linear weights.
    pub fn weight_decay(&self) -> f64 {
        match self {
            Self::AdamW { weight_decay } | Self::Sgd { weight_decay, .. } => *weight_decay,
        }
    }
}

/// How much time may pass between checkpoints where nothing else is said.
pub const CHECKPOINT_EVERY: Span = Span::minutes(10);

fn checkpoint_every() -> Span {
    CHECKPOINT_EVERY
}

/// The most samples of a batch.
pub const MOST_SAMPLES: usize = 1 << 20;
/// The most passes over a data set, and the most steps that anything is apart.
pub const MOST_TIMES: u64 = 1_000_000_000;
/// Learning rates; less than the least is no normal float32.
pub const RATES: RangeInclusive<f64> = 1e-37..=1e3;
/// Norms that gradients are scaled down to.
pub const NORMS: RangeInclusive<f64> = 1e-12..=1e12;
/// TOML has no larger whole numbers.
pub const MOST_SEED: u64 = i64::MAX as u64;
/// Weights of classes: sums of their products with losses stay far from the ends of float32.
const CLASS_WEIGHTS: RangeInclusive<f64> = 1e-6..=1e6;
/// Weights of the auxiliary classifier's loss.
const AUXILIARY_LOSSES: RangeInclusive<f64> = 1e-6..=1e3;
/// Times between checkpoints.
pub const CHECKPOINTS: RangeInclusive<Span> = Span::seconds(1)..=Span::hours(24 * 365);
const DECAYS: RangeInclusive<f64> = 0.0..=1e3;

impl TrainConfig {
    /// What a run takes where nothing else is said: `epochs` passes in batches of `batch_size`, in float32, with AdamW, a short
    /// warm-up and normalisation groups of at most [`GHOST_BATCH_SIZE`].
    pub fn new(batch_size: usize, epochs: u64) -> Self {
        Self {
            batch_size,
            micro_batch: None,
            activation_checkpointing: None,
            precision: Precision::default(),
            ema: None,
            ghost_batch_size: GHOST_BATCH_SIZE,
            norm_momentum: None,
            epochs,
            max_steps: None,
            patience: None,
            lr: 0.003,
            warmup: 0.1,
            optimizer: OptimizerConfig::default(),
            label_smoothing: 0.0,
            class_weights: None,
            segmentation: None,
            regression: None,
            clip_norm: None,
            seed: 0,
            checkpoint_steps: 100,
            checkpoint_every: CHECKPOINT_EVERY,
            extended: Vec::new(),
        }
    }

    /// Makes the run longer from the step after `after_step` on: the learning rate is then that of a run that has `epochs`
    /// passes, and at most `max_steps` steps, from its start. Steps up to `after_step` stay what they were, so that the whole
    /// configuration still says what every step computes.
    pub fn extend(&mut self, after_step: u64, epochs: u64, max_steps: Option<u64>) {
        self.extended.push(Extension { after_step, epochs: self.epochs, max_steps: self.max_steps });
        (self.epochs, self.max_steps) = (epochs, max_steps);
    }

    /// How long the run is: passes, and the limit of steps.
    pub fn planned(&self) -> (u64, Option<u64>) {
        (self.epochs, self.max_steps)
    }

    /// Checks the values against their ranges, each other and the data.
    ///
    /// # Errors
    /// [`TrainError::Config`] with a sentence about the first value that cannot be.
    pub fn check(&self, classes: usize) -> Result<(), TrainError> {
        self.in_range(classes).map_err(TrainError::Config)
    }

    fn in_range(&self, classes: usize) -> Result<(), String> {
        within("batch size", self.batch_size, 1..=MOST_SAMPLES)?;
        within("micro-batch", self.micro_batch.unwrap_or(1), 1..=MOST_SAMPLES)?;
        within("ghost batch size", self.ghost_batch_size, 1..=MOST_SAMPLES)?;
        within("normalisation momentum", self.norm_momentum.unwrap_or(0.0), 0.0..=1.0)?;
        within("number of epochs", self.epochs, 1..=MOST_TIMES)?;
        within("number of steps", self.max_steps.unwrap_or(1), 1..=MOST_TIMES)?;
        within("number of epochs without a better score", self.patience.unwrap_or(1), 1..=MOST_TIMES)?;
        for Extension { epochs, max_steps, .. } in &self.extended {
            within("number of epochs before the extension", *epochs, 1..=MOST_TIMES)?;
            within("number of steps before the extension", max_steps.unwrap_or(1), 1..=MOST_TIMES)?;
        }
        within("learning rate", self.lr, RATES)?;
        within("warm-up share", self.warmup, 0.0..=1.0)?;
        below("label smoothing", self.label_smoothing, 0.0, 1.0)?;
        within("gradient norm to clip at", self.clip_norm.unwrap_or(1.0), NORMS)?;
        within("seed", self.seed, 0..=MOST_SEED)?;
        within("number of steps between checkpoints", self.checkpoint_steps, 1..=MOST_TIMES)?;
        within("time between checkpoints", self.checkpoint_every, CHECKPOINTS)?;
        below("decay of the average", self.ema.unwrap_or(0.0), 0.0, 1.0)?;
        let (momentum, decay) = match self.optimizer {
            OptimizerConfig::AdamW { weight_decay } => (0.0, weight_decay),
            OptimizerConfig::Sgd { momentum, weight_decay } => (momentum, weight_decay),
        };
        below("momentum", momentum, 0.0, 1.0)?;
        within("weight decay", decay, DECAYS)?;
        self.segmentation.as_ref().map_or(Ok(()), |asked| asked.focal.check())?;
        let auxiliary = self.segmentation.as_ref().and_then(|asked| asked.auxiliary_loss);
        within("weight of the auxiliary loss", auxiliary.unwrap_or(1.0), AUXILIARY_LOSSES)?;
        holds_a_group(self.micro_batch, self.largest_group())?;
        let Some(weights) = &self.class_weights else { return Ok(()) };
        if weights.len() != classes {
            return Err(format!("there are {} class weights for {classes} classes", weights.len()));
        }
        weights
            .iter()
            .zip(1..)
            .try_for_each(|(weight, class)| within(&format!("weight of class {class}"), *weight, CLASS_WEIGHTS))
    }
}

/// Checks that a micro-batch that is fixed holds the largest normalisation group.
///
/// # Errors
/// A sentence if it does not.
pub fn holds_a_group(micro_batch: Option<usize>, largest: usize) -> Result<(), String> {
    match micro_batch.filter(|micro_batch| largest > *micro_batch) {
        Some(micro_batch) => Err(format!(
            "a micro-batch of {micro_batch} is smaller than the ghost batch of {largest}; give --ghost-batch-size \
             {micro_batch} too (it changes what batch norm computes, so it is never changed silently)"
        )),
        None => Ok(()),
    }
}

impl TrainConfig {
    /// Samples of the largest normalisation group of a whole batch: the smallest micro-batch there is.
    pub fn largest_group(&self) -> usize {
        largest_group(self.batch_size, self.ghost_batch_size)
    }
}
