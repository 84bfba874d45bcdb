//! The trainer: how a classifier, a data set and a configuration become a run.
//!
//! ```text
//! HostBatch -> split into micro-batches of whole normalisation groups
//!   -> each: upload -> forward -> loss x (its share of the batch) -> backward -> accumulate
//!   -> gate: one read of the loss and the norm of all gradients
//!        good       -> optimizer -> commit -> events
//!        non-finite -> stop with the reason
//!        failed     -> nothing has changed; report
//! ```
//!
//! State changes only in [`TrainState::commit`]. All device work happens on the thread that calls [`Trainer::fit`].

mod checkpoint;
mod config;
mod error;
mod evaluate;
mod fit;
mod gradients;
mod loss;
mod micro_batch;
mod norm_momentum;
mod optimizer;
mod schedule;
mod state;
mod step;
#[cfg(test)]
mod step_tests;
#[cfg(test)]
mod testing;

pub use checkpoint::Checkpoints;
pub use config::{OptimizerConfig, TrainConfig};
pub use error::TrainError;
pub use evaluate::{Evaluation, Prediction, evaluate, most_probable, predict};
pub use fit::{Ended, Observer, Setup, Trainer};
pub use micro_batch::{MicroBatch, micro_batches};
pub use schedule::Schedule;
pub use state::{Best, Progress, TrainState};
