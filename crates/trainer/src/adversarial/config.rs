//! What a run of two networks is told.

use kindling_layers::Precision;
use kindling_layers::pass::normalisation_groups;
use serde::{Deserialize, Serialize};

use super::augment::DiffAugment;
use super::losses::AdversarialLoss;
use crate::error::TrainError;
use crate::policy::Recompute;

/// How two networks train against each other. Every field is part of the run's resolved configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdversarialConfig {
    /// Iterations: the discriminator's rounds and one step of the generator each.
    pub iterations: u64,
    /// Images of a step of either network.
    pub batch_size: usize,
    /// Steps of the discriminator in an iteration.
    pub rounds: usize,
    /// Samples computed at once, at most; found while running if absent. Changes memory and time, never the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub micro_batch: Option<usize>,
    /// Whether the generator's maps are computed again rather than kept; found while running if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recompute: Option<Recompute>,
    /// The most samples in a normalisation group.
    pub norm_group: usize,
    /// What each side wants of the scores.
    pub loss: AdversarialLoss,
    /// Learning rate of the generator.
    pub lr: f64,
    /// Learning rate of the discriminator.
    pub lr_discriminator: f64,
    /// Share of the run, at its end, in which both learning rates fall linearly to nothing, in `[0, 1]`.
    pub cooldown: f64,
    /// Adam's betas, for both.
    pub betas: [f64; 2],
    /// Decay of the moving average of the generator's weights, which is what is sampled and kept.
    pub ema: f64,
    /// Whether the discriminator's filters are divided by their largest singular values.
    pub spectral_norm: bool,
    /// Strength of the LeCam regulariser; 0 is none.
    pub lecam: f64,
    /// Strength of the discriminator's self-supervision where it has one.
    pub reconstruction: f64,
    /// The format of feature maps; weights, statistics, scores and updates are float32.
    #[serde(default)]
    pub precision: Precision,
    /// Changes of images that gradients pass through.
    pub diff_augment: DiffAugment,
    /// Gradients of either network whose global norm is larger are scaled down to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clip_norm: Option<f64>,
    /// Seed of everything drawn.
    pub seed: u64,
    /// A checkpoint is written after this many iterations, and at the end.
    pub checkpoint_iterations: u64,
    /// A grid of samples is made after this many iterations, at the beginning and at the end.
    pub sample_iterations: u64,
}

impl AdversarialConfig {
    /// Checks the values against each other.
    ///
    /// # Errors
    /// [`TrainError::Config`] with a sentence about the first value that cannot be.
    pub fn check(&self) -> Result<(), TrainError> {
        let fail = |sentence: String| Err(TrainError::Config(sentence));
        if self.batch_size < 2 {
            return fail(format!(
                "a batch of {} leaves batch normalisation nothing to compare; take 2 or more",
                self.batch_size
            ));
        }
        if self.rounds == 0 || self.iterations == 0 {
            return fail("there is nothing to train: 0 iterations or 0 steps of the discriminator".into());
        }
        if self.norm_group == 0 || self.micro_batch == Some(0) {
            return fail("the normalisation group and the micro-batch hold at least one sample".into());
        }
        for (whose, rate) in [("generator", self.lr), ("discriminator", self.lr_discriminator)] {
            if !(rate.is_finite() && rate > 0.0) {
                return fail(format!("the learning rate of the {whose} is {rate}; it must be above 0"));
            }
        }
        if self.betas.iter().any(|beta| !(0.0..1.0).contains(beta)) || !(0.0..1.0).contains(&self.ema) {
            return fail("Adam's betas and the decay of the average must be 0 or more and below 1".into());
        }
        if [self.lecam, self.reconstruction].iter().any(|strength| !(strength.is_finite() && *strength >= 0.0)) {
            return fail("the strength of a regulariser must be 0 or more".into());
        }
        if !(0.0..=1.0).contains(&self.cooldown) {
            return fail(format!("the cool-down is {} of the run; it must lie between 0 and 1", self.cooldown));
        }
        if self.clip_norm.is_some_and(|norm| !(norm.is_finite() && norm > 0.0)) {
            return fail("the gradient norm to clip at must be above 0".into());
        }
        if self.seed > i64::MAX as u64 || self.checkpoint_iterations == 0 || self.sample_iterations == 0 {
            return fail("the seed must be below 2^63, checkpoints and grids at least one iteration apart".into());
        }
        let largest = self.largest_group();
        if let Some(micro_batch) = self.micro_batch.filter(|micro_batch| largest > *micro_batch) {
            return fail(format!(
                "a micro-batch of {micro_batch} is smaller than the normalisation group of {largest}; give --norm-group \
                 {micro_batch} too (it changes what batch norm computes, so it is never changed silently)"
            ));
        }
        Ok(())
    }

    /// Samples of the largest normalisation group of a whole batch: the smallest micro-batch there is.
    pub fn largest_group(&self) -> usize {
        normalisation_groups(self.batch_size, self.norm_group.max(1)).first().copied().unwrap_or(1)
    }

    /// What both learning rates are multiplied by in an iteration, counted from 1.
    pub fn rate_at(&self, step: u64) -> f64 {
        let left = (self.iterations + 1).saturating_sub(step) as f64 / self.iterations as f64;
        if left < self.cooldown { left / self.cooldown } else { 1.0 }
    }

    /// Real images of an iteration.
    pub fn images_per_iteration(&self) -> usize {
        self.batch_size.saturating_mul(self.rounds)
    }
}
