//! Pages: what a run, a benchmark or a profile looks like to a reader.
//!
//! Every HTML page is one file that loads nothing, so that it can be sent to a colleague and opened in ten years; a content
//! security policy has the browser hold it to that.
//!
//! | page | made by |
//! |---|---|
//! | a classifier's run, `report.html` | [`Report`] |
//! | a segmentation's run, `report.html` | [`SegmentationReport`] |
//! | a regression's run, `report.html` | [`RegressionReport`] |
//! | a generative pair's run, `report.html` | [`GanReport`] |
//! | several runs beside each other | [`Comparison`] |
//! | a cross-validation | [`CrossValidationReport`] |
//! | a run's model card, in Markdown | [`Card`] |
//! | the runs of a sweep | [`SweepPage`] |
//! | a learning-rate range test | [`RatePage`] |
//! | rows of `kindling bench`, and two files of them compared | [`bench_page`] |
//! | what takes time and memory in a step | [`flame::page`] |
//!
//! Pages are made from plain values of `runs` and `metrics`: this crate knows neither Burn nor the trainer nor the data.

mod bench;
mod card;
mod chart;
mod colours;
mod compare;
pub mod flame;
mod folds;
mod frame;
mod rates;
mod run;
mod scored;
mod sweep;
mod words;

pub use bench::bench_page;
pub use card::{Architecture, Card};
pub use colours::{CLASS_COLOURS, FALSELY_FOUND, MISSED, WRONG_CLASS, class_colour};
pub use compare::{ComparedRun, Comparison};
pub use folds::CrossValidationReport;
pub use rates::{RatePage, RateStep};
pub use run::{
    GanReport, Grid, MaskPicture, RegressionReport, Report, SamplePicture, SegmentationReport, Shown, ShownCase,
    ValuePicture,
};
pub use sweep::{SweepPage, SweptRun, SweptSettings};
