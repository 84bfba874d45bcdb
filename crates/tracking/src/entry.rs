//! What trackers are told.

use std::borrow::Cow;
use std::path::PathBuf;

use crate::histogram::Histogram;

/// A name of a value, such as `train/loss`.
pub(crate) type Name = Cow<'static, str>;

/// One thing that a tracker is told.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    /// After which step it was so.
    pub(crate) step: u64,
    /// In which epoch, where the log says so.
    pub(crate) epoch: Option<u64>,
    /// When, in seconds since 1970: the start of the run, and the time that it has been running.
    pub(crate) time: f64,
    /// Seconds of running time.
    pub(crate) seconds: f64,
    /// Which one of its series and step it is, from 1.
    pub(crate) nth: u32,
    /// What.
    pub(crate) what: What,
}

/// The kinds of things.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum What {
    /// Numbers that were measured together; at least one.
    Values(Vec<(Name, f64)>),
    /// The results of the run, by name.
    Results(Vec<(Name, f64)>),
    /// A picture, as the path of a PNG.
    Picture(&'static str, PathBuf),
    /// A distribution.
    Distribution(&'static str, Histogram),
    /// A sentence: which kind, and what it says.
    Note(&'static str, String),
}

/// What stands before the name of a result.
pub(crate) const RESULT: &str = "result/";
/// What stands before the kind of a note.
pub(crate) const NOTE: &str = "log/";

impl What {
    /// What marks count: one name for all that always comes together.
    pub(crate) fn series(&self) -> Cow<'_, str> {
        match self {
            Self::Values(values) => values.first().map_or("", |(name, _)| name).into(),
            Self::Results(_) => RESULT.into(),
            Self::Picture(name, _) | Self::Distribution(name, _) => (*name).into(),
            Self::Note(kind, _) => format!("{NOTE}{kind}").into(),
        }
    }
}
