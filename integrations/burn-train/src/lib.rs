//! A training strategy for `burn-train` that survives running out of memory.
//!
//! Burn's own strategies compute every batch of the data loader at once, and a batch that does not fit ends the run.
//! [`OomProofStrategy`] takes the place of `ExecutionStrategy::SingleDevice` in an existing `SupervisedTraining`: dashboard,
//! metrics, checkpoints, early stopping and interruption stay Burn's. Each batch is one optimizer step, as before, but it is computed in
//! parts, micro-batches that are as large as memory allows:
//!
//! ```text
//! batch of the loader -> parts, as the plan says
//!   -> each: TrainStep::step -> gradients x (their share of the batch), summed
//!   -> scheduler and optimizer, on a copy of the learner
//!   -> finite check: one read that depends on the outputs, the losses, the gradients and the new weights
//!        good          -> the copy becomes the learner -> one item for metrics and dashboard
//!        out of memory -> make room -> the policy's next plan -> the same batch again
//! ```
//!
//! The user implements how a batch is divided ([`Split`]) and, if the model's output is not one of Burn's, how outputs are joined
//! ([`Join`]).
//!
//! # Promises
//! - Nothing changes before the finite check: weights, optimizer state, learning rate, gradients accumulated so far, and the
//!   running statistics of `burn::nn::BatchNorm`, which Burn shares between all clones of a model. A step that fails in
//!   its forward pass, its backward pass or the optimizer leaves them as they were.
//! - A step that fails, and succeeds when it is repeated with the same micro-batch, gives the same bits as one that did not fail, if the
//!   backend is deterministic.
//! - As long as whole batches fit, the weights are those of Burn's own strategy, to the bit.
//! - Validation batches that do not fit are computed in parts as well.
//! - A batch that does not fit even in the smallest parts ends the run as `LearningResult::error`, with the weights of the last good
//!   step. A panic that is not a lack of memory is passed on.
//!
//! The cost: each step ends with a read from the device, which Burn's own strategy leaves to the metrics, and until then the new weights
//! and optimizer states are in memory together with the old ones.
//!
//! # Limits
//! - **The loss must be a mean over the samples of the batch**, or [`Split::share`] must return the weight of a part's loss. Losses that
//!   mix samples of a batch (contrastive losses, in-batch negatives) depend on the micro-batch.
//! - **`burn::nn::BatchNorm` computes its statistics over the micro-batch.** So its function depends on the micro-batch, and running
//!   statistics are updated once for each micro-batch. `kindling_layers::BatchNorm` computes them over fixed groups of samples
//!   ([`OomProofStrategy::ghost_batch_size`]) and is updated once in a step, so the micro-batch changes only rounding.
//! - **`burn::nn::Dropout` draws from the device's shared generator**, and a step tried again draws on.
//!   [`OomProofStrategy::seed`] seeds that generator before each micro-batch: a retry with the same plan then draws the
//!   same, one with a smaller plan does not. `kindling_layers::Dropout` draws for each sample and does not care, except
//!   that a sample is known here by its place in the epoch.
//! - **There is no activation checkpointing.** A `TrainStep` runs forward and backward in one piece, which cannot be divided. If one group
//!   of samples does not fit, nothing else can be tried. `Device::gradient_checkpointing` is Burn's own.
//! - **Failures outside the step are not caught**: a batcher that puts its batch on the device runs in the data loader. Keep batches in host
//!   memory and create tensors in `TrainStep::step`, so that the upload is part of the step.
//! - **A device that is lost stays lost**, and a checkpoint that cannot be read from the device panics as in Burn.

mod batch;
mod failure;
mod step;
mod strategy;
mod tensors;

pub use batch::{Join, Split};
pub use kindling_trainer::engine::Recovery;
pub use strategy::OomProofStrategy;
