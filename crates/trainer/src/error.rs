//! What can end a run early.

use std::path::PathBuf;

use kindling_data::DataError;
use kindling_memory::{Failure, classify};
use kindling_runs::RunError;

/// An error of the trainer: one sentence each.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// A value of the configuration cannot be.
    #[error("{0}")]
    Config(String),
    /// A sample could not be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The run directory could not be written or read.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The device ran out of memory.
    #[error(
        "out of memory at step {step} with {micro_batch} images at once; the run is as it was before that step: \
         continue it with --resume and a smaller --micro-batch or, where one normalisation group does not fit, start a \
         new one with a smaller --batch-size or --image-size ({reason})"
    )]
    OutOfMemory {
        /// The step that did not fit.
        step: u64,
        /// Its micro-batch.
        micro_batch: usize,
        /// Whether one tensor is larger than the device can ever hold.
        too_large: bool,
        /// What the device said, in short.
        reason: String,
    },
    /// Memory ran out, and nothing is left to try.
    #[error(
        "even {micro_batch} images at once do not fit ({reason}); tried: {}",
        if tried.is_empty() { "nothing, there is no smaller step".to_string() } else { tried.join("; ") }
    )]
    DoesNotFit {
        /// The smallest micro-batch, which failed.
        micro_batch: usize,
        /// What the device said last, in short.
        reason: String,
        /// What was tried, in order.
        tried: Vec<String>,
    },
    /// The device ran out of memory without training.
    #[error("out of memory inferring on {images} images at once; a smaller --micro-batch needs less ({reason})")]
    InferenceOutOfMemory {
        /// Images computed at once.
        images: usize,
        /// Whether one tensor is larger than the device can ever hold.
        too_large: bool,
        /// What the device said, in short.
        reason: String,
    },
    /// The device or a computation on it failed.
    #[error("the device failed {}: {reason}", step.map_or("inferring".to_string(), |step| format!("at step {step}")))]
    Device {
        /// The step that failed; `None` outside training.
        step: Option<u64>,
        /// What it said, in short.
        reason: String,
    },
    /// The loss or the gradients are not numbers any more.
    #[error(
        "step {step} gave a loss of {loss} and a gradient norm of {norm}; the weights are those of step {} \
         (a new run with a lower --lr or with --clip-norm usually helps)", step - 1
    )]
    NotFinite {
        /// The step.
        step: u64,
        /// Its loss.
        loss: f64,
        /// The norm of its gradients.
        norm: f64,
    },
    /// What a run was to be looked at with failed.
    #[error("looking at the samples after step {step} failed: {reason}")]
    Preview {
        /// The step.
        step: u64,
        /// Why.
        reason: String,
    },
    /// A checkpoint cannot be used.
    #[error("the checkpoint {} cannot be used: {reason}", path.display())]
    Checkpoint {
        /// The checkpoint's folder.
        path: PathBuf,
        /// Why, and what to do.
        reason: String,
    },
    /// A checkpoint could not be written; the one before it is intact.
    #[error("the checkpoint of step {step} could not be saved; {remains}: {cause}")]
    Save {
        /// The step.
        step: u64,
        /// Which checkpoint remains.
        remains: String,
        /// Why.
        cause: RunError,
    },
}

impl TrainError {
    /// The error a device's text stands for, in a training step or, without one, in inference.
    pub fn of_device(step: Option<u64>, micro_batch: usize, text: &str) -> Self {
        let reason = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or(text);
        let reason: String = reason.chars().take(200).collect();
        let too_large = match classify(text) {
            Failure::OutOfMemory => false,
            Failure::TensorTooLarge => true,
            Failure::DeviceLost | Failure::Other => return Self::Device { step, reason },
        };
        match step {
            Some(step) => Self::OutOfMemory { step, micro_batch, too_large, reason },
            None => Self::InferenceOutOfMemory { images: micro_batch, too_large, reason },
        }
    }
}
