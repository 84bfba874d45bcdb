//! The trainer: how networks, a data set and a configuration become a run.
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
//! State changes only in `TrainState::commit`. All work on a GPU happens on the thread that calls [`Trainer::fit`]; on the CPU groups and images
//! may be computed at once, on threads of their own.
//!
//! The loop knows no network. What a step of one or of several is, and what a run does between steps, is a
//! [`engine::Training`]: the classifier's is here, that of two networks against each other in `models/gan-training`.
//!
//! | module | holds |
//! |---|---|
//! | `fit`, `run`, `journal` | the loop of a run, what it writes down, and what it saves |
//! | `training`, `supervised` | what differs between trainings; that of one network whose answers are known |
//! | `classification`, `regression`, `evaluate`, `answers` | classes and numbers of images: training, validation, what logits mean |
//! | `segmentation`, `segmented`, `windowed` | classes of pixels: training and validation, and images at their own size |
//! | `inference`, `logits`, `pieces` | how a split is inferred, by which threads, and in pieces that fit |
//! | `attempt`, `step`, `trainable`, `micro_batch`, `loss`, `schedule` | one step of a network, and what it is made of |
//! | `teams`, `forks` | several groups at once on the CPU: threads of their own, and networks for graphs of their own |
//! | `first_pass` | the sums over a batch that some losses depend on, before its gradients |
//! | `sums`, `gradients` | what micro-batches add up to, in which order |
//! | `ranks`, `exchange`, `nodes`, `on_device`, `shared` | the processes of a run, what they say to each other, and their sums |
//! | `update`, `optimizer`, `update_rule`, `adamw`, `norm_momentum` | what becomes of one network in a step: finite check, update |
//! | `recovery`, `policy`, `activation_checkpointing` | the loop around an attempt, what it obeys, and gradients with fewer maps kept |
//! | `state`, `model_state`, `loss_scale` | everything that a step may change, with its commit |
//! | `checkpoint`, `checkpointable`, `parts`, `model_snapshot`, `manifest` | how it is saved and read, tensor by tensor, with its sums |
//! | `host_copy`, `movable` | the copy of the state that outlives a device, and a state that moves on it |
//! | `fault` | failures and wrong results on demand, for tests |
//! | `range_test` | which learning rate a run should have |
//! | `explain` | which places of an image speak for a class |
//! | `warm_up`, `steps` | a GPU chooses its kernels while it is empty; steps without a run, for measuring |

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod activation_checkpointing;
mod adamw;
mod answers;
mod attempt;
mod checkpoint;
mod checkpointable;
mod classification;
mod config;
mod error;
mod evaluate;
mod exchange;
mod explain;
mod fault;
mod first_pass;
mod fit;
mod forks;
mod gradients;
mod host_copy;
mod inference;
mod journal;
mod logits;
mod loss;
mod loss_scale;
mod manifest;
mod micro_batch;
mod model_snapshot;
mod model_state;
mod movable;
mod nodes;
mod norm_momentum;
mod on_device;
mod optimizer;
mod parts;
mod pieces;
mod policy;
mod range_test;
mod ranks;
mod recovery;
mod regression;
mod run;
mod schedule;
mod segmentation;
mod segmented;
mod shared;
mod state;
mod step;
#[cfg(test)]
mod step_tests;
mod steps;
mod sums;
mod supervised;
mod teams;
#[cfg(test)]
mod testing;
mod trainable;
mod training;
mod update;
mod update_rule;
mod views;
mod warm_up;
mod windowed;

/// The parts of the engine. A training loop of one's own takes the policy, the loop that obeys it and the sum of gradients. A
/// [`engine::Training`] of one's own, on the loop that is here, takes the rest as well.
pub mod engine {
    pub use kindling_layers::Checkpointing;
    pub use kindling_memory::Plan;

    pub use crate::activation_checkpointing::Segments;
    pub use crate::attempt::{Attempt, GoodStep};
    pub use crate::checkpointable::Checkpointable;
    pub use crate::classification::Classification;
    pub use crate::fault::Phase;
    pub use crate::gradients::{GradientSum, backward};
    pub use crate::model_snapshot::ModelSnapshot;
    pub use crate::model_state::ModelState;
    pub use crate::norm_momentum::NormMomentum;
    pub use crate::parts::Parts;
    pub use crate::pieces::{Fit, Pieces};
    pub use crate::policy::{Decision, Happened, Limits, Policy};
    pub use crate::recovery::{Recovery, abandon_graph, carry_out, make_room, once_more};
    pub use crate::regression::Regression;
    pub use crate::run::Run;
    pub use crate::segmentation::Segmentation;
    pub use crate::state::TrainState;
    pub use crate::step::{Losses, upload};
    pub use crate::sums::{InOrder, Summand, Sums};
    pub use crate::trainable::Trainable;
    pub use crate::training::{Committed, RunPhase, Training};
    pub use crate::update::{Checked, Update};
    pub use crate::warm_up::Warmed;
}

/// The ranges of values that configurations are checked against.
pub mod ranges {
    pub use crate::checkpoint::MOST_UPDATES;
    pub use crate::config::{CHECKPOINTS, MOST_SAMPLES, MOST_SEED, MOST_TIMES, NORMS, RATES, holds_a_group};
}

pub use answers::{answer, most_probable};
pub use checkpoint::Checkpoints;
pub use config::{CHECKPOINT_EVERY, Extension, MOST_SAMPLES, OptimizerConfig, TrainConfig};
pub use error::TrainError;
pub use evaluate::{Evaluation, Prediction, ValueEvaluation, ValuePrediction, evaluate, evaluate_values, predict};
pub use explain::{ClassMap, explain};
pub use fault::Faults;
pub use fit::{Ended, Trainer};
pub use inference::{Inference, samples_at_once};
pub use journal::{Journal, Observer, Trained};
pub use loss::{DiceOver, FocalConfig, PixelLoss, PixelTerm, SegmentationConfig, ValueLoss};
pub use micro_batch::{MicroBatch, groups_at_once, micro_batches, micro_batches_on};
pub use range_test::{RangeTest, RangeTested, Tried};
pub use ranks::Ranks;
pub use run::Setup;
pub use schedule::{Length, Schedule};
pub use segmented::{PixelEvaluation, SegmentedImage, evaluate_pixels, segment};
pub use state::{Best, Progress};
pub use steps::{Stepped, Steps};
pub use views::Views;
pub use windowed::{InWindows, evaluate_in_windows};
