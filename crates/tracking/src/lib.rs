//! What other trackers read, made from the one log of a run.
//!
//! A run writes `events.jsonl` and knows no tracker. A [`Follower`] reads it, while the run is in progress or afterwards, and tells a
//! [`Target`] what is new: TensorBoard, Weights & Biases (offline), MLflow, or a table. [`Tracking`] does so in the background.
//! Nothing is sent anywhere unless a target says so, and only MLflow does.
//!
//! ```no_run
//! use std::time::Duration;
//! use kindling_runs::RunDir;
//! use kindling_tracking::{Follower, Target, Tracking};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let run = RunDir::open("runs/scans".as_ref())?;
//! // While it is in progress: threads of their own, whose failures are sentences and end nothing.
//! let tracking = Tracking::start(&run, &["tensorboard".parse()?, "mlflow=http://localhost:5000".parse()?]);
//! // ... it trains; now and then:
//! let sentences = tracking.warnings();
//! // At the end of the run, however it ended:
//! let last_sentences = tracking.finish();
//! // Afterwards:
//! Follower::new(&run, &Target::Wandb)?.finish(Duration::from_secs(600))?;
//! # Ok(())
//! # }
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `log_reader` | what is new in a log that is still written, and may be cut back |
//! | `vocabulary`, `entry` | what each event is called elsewhere |
//! | `about`, `histogram`, `picture` | configuration, results, distributions |
//! | `tracker`, `marks` | what every tracker does, and up to which step it has heard |
//! | `tensorboard`, `wandb`, `mlflow`, `csv` | each tracker's form |
//! | `follower`, `tracking` | from the one to the other, and in the background |
//!
//! Each step arrives once. There is no list of what was delivered, which a kill could leave behind or ahead: what has arrived is read
//! from where it arrived (`tracker`).

mod about;
mod appended;
mod csv;
mod entry;
mod error;
mod follower;
mod histogram;
mod log_reader;
mod marks;
mod mlflow;
mod picture;
mod target;
mod tensorboard;
#[cfg(test)]
mod testing;
mod tracker;
mod tracking;
mod vocabulary;
mod wandb;

pub use error::TrackingError;
pub use follower::{Follower, Progress};
pub use target::{Target, TargetError};
pub use tracking::Tracking;
