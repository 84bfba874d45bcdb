//! HTML pages: what a run, a benchmark or a profile looks like to a reader.
//!
//! Every page is one file that loads nothing, so that it can be sent to a colleague and opened in ten years; a content
//! security policy has the browser hold it to that.
//!
//! | page | made by |
//! |---|---|
//! | a classifier's run, `report.html` | [`Report`] |
//! | a generative pair's run, `report.html` | [`GanReport`] |
//! | rows of `kindling bench`, and two files of them compared | [`bench_page`] |
//! | what takes time and memory in a step | [`flame::page`] |
//!
//! Pages are made from plain values of `runs` and `metrics`: this crate knows neither Burn nor the trainer nor the data.

mod bench;
mod chart;
pub mod flame;
mod frame;
mod run;
mod words;

pub use bench::bench_page;
pub use run::{GanReport, Grid, Report, SamplePicture};
