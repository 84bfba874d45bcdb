//! How folders, manifests and shards are opened, and what opening them gives.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Dataset, Format, OnBadSample, PassedOver, Pictures, Recorded};
use crate::error::DataError;
use crate::split::{Fold, SplitBy, SplitRule};

/// What a data set is opened for, which decides what it must have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// To learn from it: every class can be learnt and no group is on two sides.
    #[default]
    Learn,
    /// To score a model that has learnt from it. It is split as it was to learn from it; but one class is enough, none needs a
    /// training sample, and a group on two sides does no harm.
    ScoreAgain,
    /// To score a model on a split of other data: what brings no splits is split, and what brings some is not split further.
    ScoreSplit,
    /// To score a model on all samples: nothing is split, and what brings no splits is all in `test`.
    ScoreAll,
}

/// What is asked about the images.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Asked {
    /// What the data says: one class each, or any number of them.
    #[default]
    Unsaid,
    /// Any number of classes each ([`Task::MultiLabel`](super::Task::MultiLabel)).
    MultiLabel,
    /// One of classes in order ([`Task::Ordinal`](super::Task::Ordinal)).
    Ordinal {
        /// All classes, the least first; if absent their names are whole numbers, and in the order of these.
        order: Option<Vec<String>>,
    },
    /// The number in a manifest's column ([`Task::Regression`](super::Task::Regression)).
    Regression {
        /// The column's name.
        column: String,
    },
}

/// How a folder, a manifest or shards are opened.
#[derive(Clone)]
pub struct Opening {
    /// Splits what is not split yet.
    pub seed: u64,
    /// What stays together; if absent, what the data says ([`SplitBy::Group`]) or else nothing.
    pub split_by: Option<SplitBy>,
    /// How what is not split yet is split.
    pub rule: SplitRule,
    /// The fold of a cross-validation, whatever the rule; data that brings splits has no folds.
    pub fold: Option<Fold>,
    /// The sides that samples were given before, which they keep.
    pub recorded: Option<Arc<Recorded>>,
    /// Training or scoring, which decides what the data must have.
    pub purpose: Purpose,
    /// What is asked about the images.
    pub asked: Asked,
    /// Formats besides [`Pictures`]; the first that claims a file reads it.
    pub formats: Vec<Arc<dyn Format>>,
    /// Go on after a file that cannot be read or a group on two sides, and list it in [`Opened::problems`].
    pub keep_going: bool,
    /// What becomes of a file that cannot even be listed. To be skipped it counts as one image, whose reading fails when its
    /// turn comes.
    pub on_bad: OnBadSample,
    /// Where indexes of shards may be kept if their own folder cannot be written to.
    pub cache: Option<PathBuf>,
}

impl Opening {
    /// Pictures, split by name and by what the data says; the first problem is an error.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            split_by: None,
            rule: SplitRule::Keyed,
            fold: None,
            recorded: None,
            purpose: Purpose::Learn,
            asked: Asked::Unsaid,
            formats: Vec::new(),
            keep_going: false,
            on_bad: OnBadSample::Fail,
            cache: None,
        }
    }

    /// The format of a file: the first that claims it. `None` if none does.
    pub fn format_of(&self, path: &Path) -> Option<Arc<dyn Format>> {
        let own = || Arc::new(Pictures) as Arc<dyn Format>;
        self.formats.iter().find(|format| format.claims(path)).cloned().or_else(|| Pictures.claims(path).then(own))
    }
}

/// A data set, and what was found out while opening it.
pub struct Opened {
    /// The data set with its three splits.
    pub dataset: Dataset,
    /// What stayed together; `None` where the data set brings its splits.
    pub split_by: Option<SplitBy>,
    /// Whether there were splits that had to be made here, so that [`Opening::rule`] mattered.
    pub split_here: bool,
    /// What is wrong with the data; empty unless [`Opening::keep_going`].
    pub problems: Vec<DataError>,
    /// Files and images in the folder that are no samples.
    pub passed_over: PassedOver,
}
