//! nnU-Net's `splits_final.json`: a list of folds, each with the cases to learn from and those to validate with.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use kindling_files as files;
use serde::Deserialize;

use super::declared::MAX_BYTES;
use super::wrong;
use crate::error::DataError;
use crate::split::{Fold, Split};

const NAME: &str = "splits_final.json";

#[derive(Deserialize)]
struct Listed {
    train: Vec<String>,
    val: Vec<String>,
}

/// The split of every case in one of the folds.
pub(super) struct Splits {
    path: PathBuf,
    fold: usize,
    folds: usize,
    by_case: BTreeMap<String, Split>,
}

impl Splits {
    /// The first fold of the file in a folder, or the one that is asked for; `None` where there is no such file.
    ///
    /// # Errors
    /// [`DataError::Segmentation`] with what is wrong with it.
    pub(super) fn read(dir: &Path, fold: Option<Fold>) -> Result<Option<Self>, DataError> {
        let path = dir.join(NAME);
        if !path.is_file() {
            return Ok(None);
        }
        let text = files::read(&path, MAX_BYTES).map_err(|cause| DataError::Io { path: path.clone(), cause })?;
        let folds: Vec<Listed> = serde_json::from_slice(&text)
            .map_err(|error| wrong(&path, format!("it is not a list of folds with `train` and `val`: {error}")))?;
        let count = folds.len();
        let index = match fold {
            Some(fold) if fold.of() == count => fold.number() - 1,
            Some(fold) => return Err(wrong(&path, format!("it has {count} folds, so there is no fold {fold} of it"))),
            None => 0,
        };
        let Some(listed) = folds.into_iter().nth(index) else {
            return Err(wrong(&path, "it has no folds".to_owned()));
        };
        let mut by_case = BTreeMap::new();
        let sides = [(listed.train, Split::Train), (listed.val, Split::Val)];
        for (case, split) in
            sides.into_iter().flat_map(|(cases, split)| cases.into_iter().map(move |case| (case, split)))
        {
            if by_case.insert(case.clone(), split).is_some_and(|before| before != split) {
                return Err(wrong(&path, format!("the case {case:?} is both in train and in val of fold {index}")));
            }
        }
        Ok(Some(Self { path, fold: index, folds: count, by_case }))
    }

    /// The split that the fold puts a case in.
    ///
    /// # Errors
    /// [`DataError::Segmentation`] for one that the fold does not have.
    pub(super) fn of(&self, case: &str) -> Result<Split, DataError> {
        let unknown = || format!("the case {case:?} is neither in train nor in val of fold {}", self.fold);
        self.by_case.get(case).copied().ok_or_else(|| wrong(&self.path, unknown()))
    }

    /// Fails if a case of the fold is not among those that are there.
    pub(super) fn check<'a>(&self, there: impl Iterator<Item = &'a str>) -> Result<(), DataError> {
        let there: BTreeSet<&str> = there.collect();
        match self.by_case.keys().find(|case| !there.contains(case.as_str())) {
            Some(case) => Err(wrong(&self.path, format!("it names the case {case:?}, which has no image"))),
            None => Ok(()),
        }
    }

    /// Where the split is from, in words.
    pub(super) fn told(&self) -> String {
        format!("fold {} of {} in {NAME}, counted from 0", self.fold, self.folds)
    }
}
