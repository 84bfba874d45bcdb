//! A training strategy for `burn-train` that running out of memory cannot hurt.
//!
//! Burn's own strategies compute every batch of the data loader at once, and a batch that does not fit ends the run.
//! [`OomProofStrategy`] takes the place of `ExecutionStrategy::SingleDevice` in an existing `SupervisedTraining`: dashboard,
//! metrics, checkpoints, early stopping and interruption stay Burn's. Each batch is one optimizer step, as before; what
//! is computed at once is a part of it, a micro-batch, as large as memory allows:
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
//! A user says how a batch is cut ([`Split`]) and, where the model's output is not one of Burn's, how outputs are put
//! together again ([`Join`]).
//!
//! # What is promised
//! - Nothing changes before the finite check: weights, optimizer state, learning rate, gradients accumulated so far, and the
//!   running statistics of `burn::nn::BatchNorm`, which Burn shares between all clones of a model. A step that fails in
//!   its forward pass, its backward pass or the optimizer leaves them as they were.
//! - A step that fails and fits when tried again, with the same micro-batch, gives the same bits as one that did not
//!   fail, on a backend that is deterministic.
//! - As long as whole batches fit, the weights are those of Burn's own strategy, to the bit.
//! - Validation batches that do not fit are computed in parts as well.
//! - What does not fit even in the smallest parts ends the run as `LearningResult::error`, with the weights of the last
//!   good step. A panic that is no lack of memory goes on as the panic it was.
//!
//! What it costs: each step ends with a read from the device, which Burn's own strategy leaves to the metrics, and until
//! then the new weights and optimizer states lie beside the old ones.
//!
//! # What cannot be promised here
//! - **The loss must be a mean over the batch's samples**, or [`Split::share`] must say what a part's loss counts. What
//!   mixes samples of a batch (contrastive losses, in-batch negatives) is another function in another micro-batch.
//! - **`burn::nn::BatchNorm` takes its statistics over the micro-batch.** A smaller one is another function, and running
//!   statistics move once for each. `kindling_layers::BatchNorm` takes them over fixed groups of samples
//!   ([`OomProofStrategy::ghost_batch_size`]) and moves once a step, so that the micro-batch changes rounding only.
//! - **`burn::nn::Dropout` draws from the device's shared generator**, and a step tried again draws on.
//!   [`OomProofStrategy::seed`] seeds that generator before each micro-batch: a retry with the same plan then draws the
//!   same, one with a smaller plan does not. `kindling_layers::Dropout` draws for each sample and does not care, except
//!   that a sample is known here by its place in the epoch.
//! - **Nothing is recomputed.** A `TrainStep` runs forward and backward in one piece, which leaves nothing to cut; when
//!   one group of samples does not fit, no lever is left. `Device::gradient_checkpointing` is Burn's own.
//! - **What fails outside the step is not caught**: a batcher that puts its batch on the device runs in the data loader.
//!   Keep batches in host memory and make tensors in `TrainStep::step`, and the upload is part of the step.
//! - **A device that is lost stays lost**, and a checkpoint that cannot be read from the device panics as in Burn.

mod batch;
mod failure;
mod step;
mod strategy;
mod tensors;

pub use batch::{Join, Split};
pub use kindling_trainer::engine::Recovery;
pub use strategy::OomProofStrategy;
