//! What a run of two networks is told.

use std::ops::RangeInclusive;

use kindling_data::{below, within};
use kindling_given::Span;
use kindling_layers::pass::largest_group;
use kindling_layers::{Checkpointing, Precision};
use kindling_trainer::ranges::{
    CHECKPOINTS, MOST_SAMPLES, MOST_SEED, MOST_TIMES, MOST_UPDATES, NORMS, RATES, holds_a_group,
};
use kindling_trainer::{CHECKPOINT_EVERY, Length, TrainError};
use serde::{Deserialize, Serialize};

use crate::augment::DiffAugment;
use crate::losses::AdversarialLoss;

/// How two networks train against each other. Every field is part of the run's resolved configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdversarialConfig {
    /// Iterations, 1 to 10^9: the discriminator's rounds and one step of the generator each.
    pub iterations: u64,
    /// Images of a step of either network, 2 to 1,048,576.
    pub batch_size: usize,
    /// Steps of the discriminator in an iteration, 1 to 1000.
    pub rounds: usize,
    /// Samples computed at once, at most; found while running if absent. Changes memory and time, never the result.
    #[serde(default, with = "kindling_given::auto")]
    pub micro_batch: Option<usize>,
    /// Whether the generator's maps are computed again rather than kept; found while running if absent. Earlier versions called
    /// it `recompute`.
    #[serde(default, alias = "recompute", with = "kindling_given::auto")]
    pub activation_checkpointing: Option<Checkpointing>,
    /// The most samples in a normalisation group, a ghost batch: 1 to 1,048,576. Earlier versions called it `norm_group`.
    #[serde(alias = "norm_group")]
    pub ghost_batch_size: usize,
    /// What each side wants of the scores.
    pub loss: AdversarialLoss,
    /// Learning rate of the generator, 1e-37 to 1000.
    pub lr: f64,
    /// Learning rate of the discriminator, 1e-37 to 1000.
    pub lr_discriminator: f64,
    /// Share of the run, at its end, in which both learning rates fall linearly to nothing, in `[0, 1]`.
    pub cooldown: f64,
    /// Adam's betas, for both, in `[0, 1)`.
    pub betas: [f64; 2],
    /// Decay of the moving average of the generator's weights, which is what is sampled and kept.
    pub ema: f64,
    /// Whether the discriminator's filters are divided by their largest singular values.
    pub spectral_norm: bool,
    /// Strength of the LeCam regulariser, 0 to 1e6; 0 is none.
    pub lecam: f64,
    /// Strength of the discriminator's self-supervision where it has one, 0 to 1e6.
    pub reconstruction: f64,
    /// The format of feature maps; weights, statistics, scores and updates are float32.
    #[serde(default)]
    pub precision: Precision,
    /// Changes of images that gradients pass through.
    pub diff_augment: DiffAugment,
    /// Gradients of either network whose global norm is larger are scaled down to it; 1e-12 to 1e12.
    #[serde(default, with = "kindling_given::none")]
    pub clip_norm: Option<f64>,
    /// Seed of everything drawn, below 2^63.
    pub seed: u64,
    /// A checkpoint is written after this many iterations, and at the end.
    pub checkpoint_iterations: u64,
    /// And when this much time has passed since the last one, at least a second.
    #[serde(default = "checkpoint_every")]
    pub checkpoint_every: Span,
    /// A grid of samples is made after this many iterations, at the beginning and at the end.
    pub sample_iterations: u64,
    /// How many iterations the run was to have before it was extended, in order; see [`AdversarialConfig::extend`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extended: Vec<Extension>,
}

/// How long a run was to be, up to the iteration after which it was extended.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Extension {
    /// Iterations that were done when the run was extended.
    pub after_iteration: u64,
    /// Iterations that it was to have, 1 to 10^9.
    pub iterations: u64,
}

const STRENGTHS: RangeInclusive<f64> = 0.0..=1e6;

fn checkpoint_every() -> Span {
    CHECKPOINT_EVERY
}

impl AdversarialConfig {
    /// Checks the values against their ranges and each other.
    ///
    /// # Errors
    /// [`TrainError::Config`] with a sentence about the first value that cannot be.
    pub fn check(&self) -> Result<(), TrainError> {
        self.in_range().map_err(TrainError::Config)
    }

    fn in_range(&self) -> Result<(), String> {
        // One image leaves batch normalisation nothing to compare.
        within("batch size", self.batch_size, 2..=MOST_SAMPLES)?;
        within("number of steps of the discriminator", self.rounds, 1..=MOST_UPDATES)?;
        within("number of iterations", self.iterations, 1..=MOST_TIMES)?;
        for Extension { iterations, .. } in &self.extended {
            within("number of iterations before the extension", *iterations, 1..=MOST_TIMES)?;
        }
        within("ghost batch size", self.ghost_batch_size, 1..=MOST_SAMPLES)?;
        within("micro-batch", self.micro_batch.unwrap_or(1), 1..=MOST_SAMPLES)?;
        within("learning rate of the generator", self.lr, RATES)?;
        within("learning rate of the discriminator", self.lr_discriminator, RATES)?;
        for beta in self.betas {
            below("beta of Adam", beta, 0.0, 1.0)?;
        }
        below("decay of the average", self.ema, 0.0, 1.0)?;
        within("strength of LeCam", self.lecam, STRENGTHS)?;
        within("strength of the reconstruction", self.reconstruction, STRENGTHS)?;
        within("cool-down", self.cooldown, 0.0..=1.0)?;
        within("gradient norm to clip at", self.clip_norm.unwrap_or(1.0), NORMS)?;
        within("seed", self.seed, 0..=MOST_SEED)?;
        within("number of iterations between checkpoints", self.checkpoint_iterations, 1..=MOST_TIMES)?;
        within("time between checkpoints", self.checkpoint_every, CHECKPOINTS)?;
        within("number of iterations between grids", self.sample_iterations, 1..=MOST_TIMES)?;
        holds_a_group(self.micro_batch, self.largest_group())
    }

    /// Samples of the largest normalisation group of a whole batch: the smallest micro-batch there is.
    pub fn largest_group(&self) -> usize {
        largest_group(self.batch_size, self.ghost_batch_size)
    }

    /// Makes the run longer from the iteration after `after_iteration` on: the learning rates are then those of a run that has
    /// `iterations` from its start. Iterations up to there stay what they were.
    pub fn extend(&mut self, after_iteration: u64, iterations: u64) {
        self.extended.push(Extension { after_iteration, iterations: self.iterations });
        self.iterations = iterations;
    }

    /// How many iterations the run has, and was to have before.
    pub fn length(&self) -> Length {
        let earlier = self.extended.iter().map(|it| (it.after_iteration, it.iterations));
        Length::extended(self.iterations, earlier.collect())
    }

    /// What both learning rates are multiplied by in an iteration, counted from 1.
    pub fn rate_at(&self, step: u64) -> f64 {
        let iterations = self.length().planned_at(step);
        let left = (iterations + 1).saturating_sub(step) as f64 / iterations as f64;
        if left < self.cooldown { left / self.cooldown } else { 1.0 }
    }

    /// Real images of an iteration.
    pub fn images_per_iteration(&self) -> usize {
        self.batch_size.saturating_mul(self.rounds)
    }
}
