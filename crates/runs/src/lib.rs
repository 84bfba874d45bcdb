//! The run directory: what a training run leaves behind, and what is read from it.
//!
//! A run is a folder. Everything needed to continue it, to repeat it or to compare it with another stands there:
//!
//! | file | holds | type |
//! |---|---|---|
//! | `config.toml` | the resolved configuration; its presence makes a folder a run | the command's own |
//! | `events.jsonl` | one line an event, in order | [`Event`], [`EventLog`] |
//! | `metrics.json` | the results | [`Metrics`], [`GanMetrics`] |
//! | `predictions.csv` | what the model said of every evaluated image | [`PredictionTable`], of numbers [`ValueTable`] |
//! | `scores.json` | all scores with their intervals | [`kindling_metrics::Scores`] |
//! | `cases.csv` | of a run that segments, how well each class of each evaluated case was found | [`CaseTable`] |
//! | `segmentation.json` | of such a run, all scores with their intervals | [`kindling_metrics::SegmentationScores`] |
//! | `regression.json` | of a run that answers with a number, all scores with their intervals | [`kindling_metrics::RegressionScores`] |
//! | `environment.json` | what it began on | [`Environment`] |
//! | `history.jsonl` | one line each time it was started or continued | [`Sitting`] |
//! | `report.html` | all of it for a reader | made by `kindling-report` |
//! | `weights.safetensors`, `weights-last.safetensors` | the best and the last weights | written by the trainer |
//! | `bad-samples.jsonl` | what could not be read, if there is any | appended |
//! | `data.csv` | the samples it was trained on | counted by [`ListedSamples`] |
//! | `samples/` | grids of a generator's images over time | written by the command |
//! | `checkpoints/` | states to resume from | written by the trainer |
//! | `tracking/` | what other trackers read | made by `kindling-tracking` |
//!
//! [`Record`] is all of it at once. Benchmarks are files of their own: [`mod@bench`]. What is read from files is shown in a [`Table`].
//!
//! This crate knows neither Burn nor the trainer nor the data: it takes plain values, so that a report can be made
//! from any run's files at any time.

mod answers;
mod atomic;
mod atomic_folder;
mod bad_samples;
pub mod bench;
mod cases;
mod comparing;
mod cross_validation;
mod csv;
mod dir;
mod environment;
mod error;
mod event;
mod folds;
mod history;
mod kill;
mod listed_samples;
mod listing;
mod log;
mod metrics;
mod predictions;
mod record;
mod spread;
mod table;
mod values;

pub use answers::{Answers, TaskScores};
pub use atomic::{stream_atomically, write_atomically};
pub use atomic_folder::{NewFolder, tidy_folders, write_folder_atomically};
pub use bad_samples::{BadSampleLine, BadSamples};
pub use cases::CaseTable;
pub use comparing::{CommonCases, Difference, common, common_cases, differences, settings_that_differ};
pub use cross_validation::{ClassSpread, CrossValidation, FoldClass, FoldScores, NamedSpread};
pub use csv::read_column;
pub use dir::{RunDir, read_toml};
pub use environment::{DeviceFacts, Environment};
pub use error::RunError;
pub use event::{Event, Together};
pub use folds::Folds;
pub use history::{How, Sitting};
pub use kill::check_kill;
pub use listed_samples::{ListedSamples, SplitCounts};
pub use listing::{COLUMNS, Listed, columns_of, runs_in};
pub use log::{BroughtInLine, EventLog, LogMark};
pub use metrics::{GanMetrics, Metrics, RegressionSummary, SegmentationSummary};
pub use predictions::{Predicted, PredictionTable};
pub use record::Record;
pub use spread::Spread;
pub use table::Table;
pub use values::{PredictedValue, ValueTable, common_values};
