//! The three parts of a data set, and who gets into which: by seed, stratified by class, and never through a group. Knows
//! labels, groups and names, and nothing of files or images.

mod folds;
mod keyed;
mod mend;
mod shuffled;

use std::fmt;
use std::num::NonZeroUsize;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use kindling_given::{Named, UnknownName, all};

pub(crate) use folds::fold_split;
pub use folds::{FEWEST_FOLDS, Fold, MOST_FOLDS};
pub(crate) use keyed::{group_key, keyed_group_split, keyed_split, sample_key};
pub(crate) use shuffled::{shuffled_group_split, shuffled_split};

/// The share of the samples that goes to each split that is split off.
const HELD_OUT: f64 = 0.15;

/// What a split needs to know of a sample.
pub(crate) struct Member<'a> {
    /// Indices of its classes, sorted; it counts in each.
    pub(crate) labels: &'a [usize],
    /// What it must not be parted from; a sample without is alone.
    pub(crate) group: Option<&'a str>,
    /// Its place in the order of the seed: that of its group, or its own. The shuffled rule has no use for it.
    pub(crate) key: u128,
}

/// How samples that bring no split are given one. Written `keyed` and `shuffled`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SplitRule {
    /// That of earlier versions, and of configurations that say nothing: drawn by seed and number, so that one more sample
    /// draws all anew.
    #[default]
    Shuffled,
    /// By seed and name: one more sample moves hardly any other.
    Keyed,
}

/// A part of a data set. Written `train`, `val` and `test`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[derive(strum::Display, strum::EnumString, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "lowercase", parse_err_ty = UnknownName, parse_err_fn = Self::unknown)]
pub enum Split {
    /// Samples that the model is trained on.
    Train,
    /// Samples that choose the best weights.
    Val,
    /// Samples whose scores are reported.
    Test,
}

impl Split {
    /// All three.
    pub const ALL: [Split; 3] = all();

    /// Its name: also the name of its folder.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl Named for Split {
    const KIND: &str = "split";
}

/// What stays on one side of a split. Written `none`, `group`, `folder` and `folder:N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum SplitBy {
    /// Nothing: every sample is drawn alone.
    None,
    /// All images of a patient: a manifest's column `group`, or DICOM's PatientID.
    Group,
    /// All images under the `N`-th folder below the class (below the manifest).
    Folder(NonZeroUsize),
}

/// A file lies in no folder of the level that its group is read from.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooHighUp;

impl SplitBy {
    /// The group of a file, given its path below the class and what the file says.
    ///
    /// # Errors
    /// If the file lies in no folder of the level that is asked for.
    pub(crate) fn group_of(self, below: &Path, said: Option<&str>) -> Result<Option<String>, TooHighUp> {
        match self {
            Self::None | Self::Group => Ok(said.map(str::to_owned)),
            Self::Folder(level) => {
                let folders: Vec<_> = below.parent().into_iter().flat_map(Path::components).collect();
                match folders.get(..level.get()) {
                    Some(start) => {
                        let names: Vec<_> = start.iter().map(|part| part.as_os_str().to_string_lossy()).collect();
                        Ok(Some(names.join("/")))
                    }
                    None => Err(TooHighUp),
                }
            }
        }
    }
}

impl fmt::Display for SplitBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.pad("none"),
            Self::Group => f.pad("group"),
            Self::Folder(level) if level.get() == 1 => f.pad("folder"),
            Self::Folder(level) => write!(f, "folder:{level}"),
        }
    }
}

impl FromStr for SplitBy {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        match text.split_once(':') {
            None if text == "none" => Some(Self::None),
            None if text == "group" => Some(Self::Group),
            None if text == "folder" => Some(Self::Folder(NonZeroUsize::MIN)),
            Some(("folder", level)) => level.parse().ok().map(Self::Folder),
            _ => None,
        }
        .ok_or_else(|| {
            let known = ["none", "group", "folder", "folder:2 (the second folder below the class)"];
            UnknownName::new("way to split", text, &known)
        })
    }
}

impl TryFrom<String> for SplitBy {
    type Error = UnknownName;

    fn try_from(text: String) -> Result<Self, UnknownName> {
        text.parse()
    }
}

impl From<SplitBy> for String {
    fn from(split_by: SplitBy) -> Self {
        split_by.to_string()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_are_read_and_written_alike() {
        for split in Split::ALL {
            assert_eq!(split.to_string().parse::<Split>().unwrap(), split);
            assert_eq!(serde_json::to_string(&split).unwrap(), format!("\"{split}\""));
        }
        assert!("Train".parse::<Split>().is_err());
    }

    #[test]
    fn ways_to_split_are_read_and_written_alike() {
        for text in ["none", "group", "folder", "folder:3"] {
            let split_by: SplitBy = text.parse().unwrap();
            assert_eq!(split_by.to_string(), text);
            assert_eq!(serde_json::to_string(&split_by).unwrap(), format!("\"{text}\""));
        }
        for text in ["", "patient", "folder:0", "folder:x", "group:1"] {
            assert!(text.parse::<SplitBy>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_folder_level_is_counted_below_the_class() {
        let by = |level: &str, path: &str| level.parse::<SplitBy>().unwrap().group_of(Path::new(path), Some("said"));
        assert_eq!(by("folder", "p1/s1/a.png").unwrap().as_deref(), Some("p1"));
        assert_eq!(by("folder:2", "p1/s1/a.png").unwrap().as_deref(), Some("p1/s1"));
        assert_eq!(by("group", "p1/s1/a.png").unwrap().as_deref(), Some("said"));
        assert_eq!(by("folder:3", "p1/s1/a.png"), Err(TooHighUp));
        assert_eq!(by("folder", "a.png"), Err(TooHighUp));
    }
}
