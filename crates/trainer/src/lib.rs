//! The trainer: how a classifier, a data set and a configuration become a run.
//!
//! ```text
//! HostBatch -> split into micro-batches of whole normalisation groups, as the plan says
//!   -> each: upload -> forward -> loss x (its share of the batch) -> backward -> accumulate
//!   -> finite check: one read of the loss and the norm of all gradients
//!        good          -> optimizer -> read of what it made -> commit -> events
//!        non-finite    -> stop with the reason
//!        out of memory -> make room -> the policy's next plan -> the same HostBatch again
//! ```
//!
//! State changes only in `TrainState::commit`. All device work happens on the thread that calls [`Trainer::fit`].
//!
//! | module | holds |
//! |---|---|
//! | `fit`, `records`, `evaluate` | the run: epochs, validation, checkpoints, events |
//! | `step`, `micro_batch`, `loss`, `gradients`, `optimizer`, `schedule` | one step, and what it is made of |
//! | `recovery`, `policy`, `activation_checkpointing` | the loop around an attempt, what it obeys, and gradients with fewer maps kept |
//! | `state`, `model_state`, `norm_momentum`, `loss_scale` | everything that a step may change, with its commit |
//! | `checkpoint`, `checkpointable`, `parts`, `model_snapshot`, `manifest` | how it is saved and read, tensor by tensor, with its sums |
//! | `host_copy` | the copy of the state that outlives a device |
//! | `fault` | failures and wrong results on demand, for tests |
//! | `warm_up`, `steps` | a GPU chooses its kernels while it is empty; steps without a run, for measuring |
//! | [`adversarial`] | what a second network adds, on the same loop, policy, checkpoints and failures |

mod activation_checkpointing;
mod adamw;
pub mod adversarial;
mod checkpoint;
mod checkpointable;
mod config;
mod error;
mod evaluate;
mod fault;
mod fit;
mod gradients;
mod host_copy;
mod loss;
mod loss_scale;
mod manifest;
mod micro_batch;
mod model_snapshot;
mod model_state;
mod norm_momentum;
mod optimizer;
mod parts;
mod policy;
mod records;
mod recovery;
mod schedule;
mod state;
mod step;
#[cfg(test)]
mod step_tests;
mod steps;
#[cfg(test)]
mod testing;
mod warm_up;

/// The parts of the engine for training loops of one's own: the policy, the loop that obeys it, the sum of gradients.
pub mod engine {
    pub use kindling_layers::Checkpointing;
    pub use kindling_memory::Plan;

    pub use crate::gradients::GradientSum;
    pub use crate::policy::{Decision, Happened, Limits, Policy};
    pub use crate::recovery::{Recovery, abandon_graph, carry_out, make_room};
}

pub use checkpoint::Checkpoints;
pub use config::{Extension, MOST_SAMPLES, OptimizerConfig, TrainConfig};
pub use error::TrainError;
pub use evaluate::{Evaluation, Inference, Prediction, evaluate, most_probable, predict, samples_at_once};
pub use fault::Faults;
pub use fit::{Ended, Journal, Observer, Setup, Trained, Trainer};
pub use micro_batch::{MicroBatch, micro_batches};
pub use schedule::{Length, Schedule};
pub use state::{Best, Progress};
pub use steps::{Stepped, Steps};
