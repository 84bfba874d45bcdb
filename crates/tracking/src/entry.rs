//! What trackers are told.

use std::borrow::Cow;
use std::path::PathBuf;

use crate::histogram::Histogram;

/// Name of a value, such as `train/loss`.
pub(crate) type Name = Cow<'static, str>;

/// One entry for a tracker, of a certain step and time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    /// The step after which it was measured or happened.
    pub(crate) step: u64,
    /// The epoch of that step, where the log says it.
    pub(crate) epoch: Option<u64>,
    /// When, in seconds since 1970: the start of the run, and the time that it has been running.
    pub(crate) time: f64,
    /// Running time of the run up to then, in seconds, over all sittings.
    pub(crate) seconds: f64,
    /// Its number among the entries of the same series and step, from 1.
    pub(crate) nth: u32,
    /// The content.
    pub(crate) what: What,
}

/// The content of an entry.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum What {
    /// Numbers that were measured together; at least one.
    Values(Vec<(Name, f64)>),
    /// The results of the run, by name.
    Results(Vec<(Name, f64)>),
    /// A picture, as the path of a PNG.
    Picture(&'static str, PathBuf),
    /// A histogram of values, by name.
    Distribution(&'static str, Histogram),
    /// A sentence: which kind, and what it says.
    Note(&'static str, String),
}

/// Prefix of the names of results.
pub(crate) const RESULT: &str = "result/";
/// Prefix of the kinds of notes.
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
