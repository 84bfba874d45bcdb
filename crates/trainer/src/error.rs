//! What can end a run early.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use kindling_data::DataError;
use kindling_memory::{Failure, classify, panic_message};
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
         continue it with --resume and a smaller --micro-batch or, where one ghost batch does not fit, start a \
         new one with a smaller --batch-size or --image-size ({reason})"
    )]
    OutOfMemory {
        /// The step that did not fit, from 1.
        step: u64,
        /// Samples that it computed at once in the last attempt.
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
    /// The device is lost to this process, with all that lay in its memory.
    #[error(
        "the device was lost {}: {reason}{}",
        step.map_or("inferring".to_string(), |step| format!("at step {step}")),
        what_remains(*step, *saved)
    )]
    DeviceLost {
        /// The step that failed; `None` outside training.
        step: Option<u64>,
        /// What it said, in short.
        reason: String,
        /// The step of the newest checkpoint, if there is one.
        saved: Option<u64>,
    },
    /// The loss or the gradients are not numbers any more.
    #[error(
        "step {step} gave a loss of {loss} and a gradient norm of {norm}; the weights are those of step {} \
         (a new run with a lower --lr or with --clip-norm usually helps)", step - 1
    )]
    NotFinite {
        /// The step that was not committed, from 1.
        step: u64,
        /// The mean loss of its global batch.
        loss: f64,
        /// The L2 norm of all gradients of a network together, before they are clipped and without the loss scale.
        norm: f64,
    },
    /// The statistics of a feature map are not numbers any more, while the loss and the gradients are.
    #[error(
        "step {step} gave feature maps with a mean or a variance above 1e19; the weights are those of step {} \
         (a new run with a lower --lr or with --clip-norm usually helps)", step - 1
    )]
    Overflow {
        /// The step that was not committed, from 1.
        step: u64,
    },
    /// What a run was to be looked at with failed.
    #[error("looking at the samples after step {step} failed: {reason}")]
    Preview {
        /// The last committed step, from 1; 0 is the start.
        step: u64,
        /// What could not be computed or written.
        reason: String,
    },
    /// Another process of the run cannot go on.
    #[error("{rank}: {reason}")]
    Elsewhere {
        /// Which, with its machine.
        rank: String,
        /// Why, in its own words.
        reason: String,
    },
    /// The processes of the run cannot work together.
    #[error(transparent)]
    Processes(#[from] kindling_processes::Error),
    /// Processes of the run hold other weights than the first one, which must not be.
    #[error(
        "after step {step} {rank} has other weights than the first process: its machine computes something else; steps after {since} may \
         hold its gradients and are not saved now: remove checkpoints of such steps, and go on with other machines or another --device"
    )]
    Apart {
        /// After which step.
        step: u64,
        /// The last step after which they were found to be the same.
        since: u64,
        /// Which, with its machine.
        rank: String,
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
        /// The step that it was to hold, from 1; 0 is the start.
        step: u64,
        /// Which checkpoint remains, as a part of the sentence.
        remains: String,
        /// What the file system said.
        cause: RunError,
    },
}

/// What of a run is left when its device is lost.
fn what_remains(step: Option<u64>, saved: Option<u64>) -> String {
    match (step, saved) {
        (_, Some(saved)) => format!(
            "; the run is saved as it was after step {saved}: continue it with --resume, or have that done by \
             --restart-on-device-loss"
        ),
        (Some(_), None) => "; nothing of the run was saved yet: begin it again with --resume, or have that done by \
                            --restart-on-device-loss"
            .to_string(),
        (None, None) => String::new(),
    }
}

impl TrainError {
    /// The error a device's text stands for, in a training step or, without one, in inference.
    pub fn of_device(step: Option<u64>, micro_batch: usize, text: &str) -> Self {
        let reason = kindling_memory::reason(text);
        let too_large = match classify(text) {
            Failure::OutOfMemory => false,
            Failure::TensorTooLarge => true,
            Failure::DeviceLost => return Self::DeviceLost { step, reason, saved: None },
            Failure::Other => return Self::Device { step, reason },
        };
        match step {
            Some(step) => Self::OutOfMemory { step, micro_batch, too_large, reason },
            None => Self::InferenceOutOfMemory { images: micro_batch, too_large, reason },
        }
    }

    /// The result of work on a device, on at most `micro_batch` images at once. Where a runtime panics, the error is the one
    /// that its text stands for.
    ///
    /// # Errors
    /// The work's own, and as [`TrainError::of_device`].
    pub fn caught<T>(step: Option<u64>, micro_batch: usize, work: impl FnOnce() -> Result<T, Self>) -> Result<T, Self> {
        catch_unwind(AssertUnwindSafe(work))
            .unwrap_or_else(|panic| Err(Self::of_device(step, micro_batch, &panic_message(panic.as_ref()))))
    }

    /// Whether the device's memory is lost with it.
    pub fn is_device_lost(&self) -> bool {
        matches!(self, Self::DeviceLost { .. })
    }

    /// A failure of a device that could not even be read afterwards.
    pub(crate) fn of_lost_device(self) -> Self {
        match self {
            Self::Device { step, reason } => Self::DeviceLost { step, reason, saved: None },
            other => other,
        }
    }

    /// The loss of a device with the step of the newest checkpoint; any other error as it is.
    pub(crate) fn with_saved(mut self, newest: Option<u64>) -> Self {
        if let Self::DeviceLost { saved, .. } = &mut self {
            *saved = newest;
        }
        self
    }

    /// A lack of memory with what was in use and by whom; any other error as it is.
    pub(crate) fn with_use(mut self, told: impl FnOnce() -> String) -> Self {
        if let Self::OutOfMemory { reason, .. } | Self::InferenceOutOfMemory { reason, .. } = &mut self {
            reason.push_str("; ");
            reason.push_str(&told());
        }
        self
    }
}
