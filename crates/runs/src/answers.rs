//! What a model said of the samples that it was evaluated on, and how good that is, whatever its task.

use std::path::{Path, PathBuf};

use kindling_metrics::{Figure, FlowRow, RegressionScores, Resampling, Scores, SegmentationScores, Subgroups};
use serde::{Deserialize, Serialize};

use crate::dir::{CASES, PREDICTIONS};
use crate::{CaseTable, PredictionTable, RunDir, RunError, ValueTable};

/// The column that names the fold.
const FOLD: &str = "fold";

/// The answers of a model, of whichever task.
#[derive(Clone, Debug, PartialEq)]
pub enum Answers {
    /// Probabilities of classes, in `predictions.csv`.
    Classes(PredictionTable),
    /// Numbers, in `predictions.csv`.
    Values(ValueTable),
    /// How well masks were found, in `cases.csv`.
    Masks(CaseTable),
}

impl Answers {
    /// The answers in the files of a run.
    ///
    /// # Errors
    /// [`RunError::NotEvaluated`] if there are none, and those of reading.
    pub fn of_run(run: &RunDir) -> Result<Self, RunError> {
        let path = run.predictions();
        Ok(match run.read_cases()? {
            Some(cases) => Self::Masks(cases),
            None if !path.is_file() => return Err(RunError::NotEvaluated { path: run.path().to_owned() }),
            None if ValueTable::is_at(&path) => Self::Values(ValueTable::read(&path)?),
            None => Self::Classes(PredictionTable::of_run(run)?),
        })
    }

    /// The answers in a folder, which are of the same task as these.
    pub(crate) fn read_alike(&self, folder: &Path) -> Result<Self, RunError> {
        let path = self.path_in(folder);
        Ok(match self {
            Self::Classes(alike) => {
                Self::Classes(PredictionTable { ordinal: alike.ordinal, ..PredictionTable::read(&path)? })
            }
            Self::Values(_) => Self::Values(ValueTable::read(&path)?),
            Self::Masks(_) => Self::Masks(CaseTable::read(&path)?),
        })
    }

    /// Writes them into a folder, atomically: `predictions.csv`, or of masks `cases.csv`.
    ///
    /// # Errors
    /// [`RunError::Io`], [`RunError::DiskFull`], and those of [`CaseTable::write`].
    pub fn write(&self, folder: &Path) -> Result<(), RunError> {
        let path = self.path_in(folder);
        match self {
            Self::Classes(table) => table.write(&path),
            Self::Values(table) => table.write(&path),
            Self::Masks(table) => table.write(&path),
        }
    }

    fn path_in(&self, folder: &Path) -> PathBuf {
        folder.join(match self {
            Self::Classes(_) | Self::Values(_) => PREDICTIONS,
            Self::Masks(_) => CASES,
        })
    }

    /// Every sample with its patient, in the order of the table.
    pub fn samples(&self) -> Vec<(&str, Option<&str>)> {
        match self {
            Self::Classes(table) => table.images.iter().map(|it| (it.sample.as_str(), it.group.as_deref())).collect(),
            Self::Values(table) => table.images.iter().map(|it| (it.sample.as_str(), it.group.as_deref())).collect(),
            Self::Masks(table) => table.cases.iter().map(|it| (it.sample.as_str(), it.group.as_deref())).collect(),
        }
    }

    /// Those of a split, as the answers of a fold: the column `fold` is the only other one, and tables of cases have none.
    pub(crate) fn of_fold(self, split: &str, fold: usize) -> Self {
        let (names, values) = (vec![FOLD.to_owned()], vec![fold.to_string()]);
        match self {
            Self::Classes(mut table) => {
                table.images.retain(|image| image.split == split);
                table.images.iter_mut().for_each(|image| image.others.clone_from(&values));
                Self::Classes(PredictionTable { others: names, ..table })
            }
            Self::Values(mut table) => {
                table.images.retain(|image| image.split == split);
                table.images.iter_mut().for_each(|image| image.others.clone_from(&values));
                Self::Values(ValueTable { others: names, ..table })
            }
            Self::Masks(mut table) => {
                table.cases.retain(|case| case.split == split);
                Self::Masks(table)
            }
        }
    }

    /// Adds the answers of another fold.
    ///
    /// # Errors
    /// A sentence, if they are of another task or of other classes.
    pub(crate) fn extend(&mut self, others: Self) -> Result<(), String> {
        match (self, others) {
            (Self::Classes(ours), Self::Classes(others))
                if (&ours.classes, ours.several, ours.ordinal) == (&others.classes, others.several, others.ordinal) =>
            {
                ours.images.extend(others.images);
            }
            (Self::Values(ours), Self::Values(others)) => ours.images.extend(others.images),
            (Self::Masks(ours), Self::Masks(others)) if ours.classes == others.classes => {
                ours.cases.extend(others.cases);
            }
            (Self::Classes(_), Self::Classes(_)) | (Self::Masks(_), Self::Masks(_)) => {
                return Err("it has other classes than the first fold".to_owned());
            }
            _ => return Err("it has another task than the first fold".to_owned()),
        }
        Ok(())
    }
}

/// How good the answers are on a split.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)] // each has fields that the others lack, and files are as they were when there were classes alone
#[allow(clippy::large_enum_variant)] // a few a process
pub enum TaskScores {
    /// Of a run that answers with a number.
    Values(RegressionScores),
    /// Of a run that segments.
    Masks(SegmentationScores),
    /// Of a run that answers with probabilities of classes.
    Classes(Scores),
}

impl TaskScores {
    /// The scores in the files of a run; `None` if it was not scored.
    ///
    /// # Errors
    /// The errors of reading these files.
    pub fn of_run(run: &RunDir) -> Result<Option<Self>, RunError> {
        if let Some(scores) = run.read_segmentation_scores()? {
            return Ok(Some(Self::Masks(scores)));
        }
        if let Some(scores) = run.read_regression_scores()? {
            return Ok(Some(Self::Values(scores)));
        }
        Ok(run.read_scores()?.map(Self::Classes))
    }

    /// Scores answers that are all of one split, as these are scored: with their unit and tolerance, or of their number. There are no
    /// cut-offs and there is no temperature.
    ///
    /// # Errors
    /// A sentence, if there is nothing to score, or these are of another task.
    pub(crate) fn alike(&self, answers: &Answers, split: &str, resampling: Resampling) -> Result<Self, String> {
        let none = || "no fold has tested anything".to_owned();
        Ok(match (self, answers) {
            (Self::Classes(_), Answers::Classes(table)) => {
                let predictions = table.predictions(split)?.ok_or_else(none)?;
                Self::Classes(Scores::of(split, &table.classes, &predictions, None, resampling))
            }
            (Self::Values(alike), Answers::Values(table)) => {
                let values = table.values(split)?.ok_or_else(none)?;
                Self::Values(RegressionScores::of(split, &alike.target, &values, resampling))
            }
            (Self::Masks(alike), Answers::Masks(table)) => {
                let within = (alike.tolerance, alike.unit);
                let scores = SegmentationScores::of(split, &table.classes, within, &table.cases, resampling);
                Self::Masks(scores.map_err(|error| error.to_string())?)
            }
            _ => return Err("its scores are of another task than its answers".to_owned()),
        })
    }

    /// Whether numbers of both can stand beside each other: what they are of and what they are counted in.
    pub(crate) fn is_alike(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Classes(_), Self::Classes(_)) => true,
            (Self::Values(ours), Self::Values(others)) => ours.target == others.target,
            (Self::Masks(ours), Self::Masks(others)) => (ours.tolerance, ours.unit) == (others.tolerance, others.unit),
            _ => false,
        }
    }

    /// `val`, `test` or what the caller called it.
    pub fn split(&self) -> &str {
        match self {
            Self::Classes(scores) => &scores.split,
            Self::Values(scores) => &scores.split,
            Self::Masks(scores) => &scores.split,
        }
    }

    /// Number of scored samples: images, or cases where masks are scored.
    pub fn samples(&self) -> usize {
        match self {
            Self::Classes(scores) => scores.images,
            Self::Values(scores) => scores.images,
            Self::Masks(scores) => scores.cases,
        }
    }

    /// Number of patients that the samples are of.
    pub fn patients(&self) -> usize {
        match self {
            Self::Classes(scores) => scores.patients,
            Self::Values(scores) => scores.patients,
            Self::Masks(scores) => scores.patients,
        }
    }

    /// Images and patients of every split that is known.
    pub fn flow(&self) -> &[FlowRow] {
        match self {
            Self::Classes(scores) => &scores.flow,
            Self::Values(scores) => &scores.flow,
            Self::Masks(scores) => &scores.flow,
        }
    }

    /// Scores by a column, where one was asked for. Masks have none.
    pub fn subgroups(&self) -> Option<&Subgroups> {
        match self {
            Self::Classes(scores) => scores.subgroups.as_ref(),
            Self::Values(scores) => scores.subgroups.as_ref(),
            Self::Masks(_) => None,
        }
    }

    /// Scores of the whole split, with intervals.
    pub fn figures(&self) -> Vec<&Figure> {
        match self {
            Self::Classes(scores) => scores.figures.iter().collect(),
            Self::Values(scores) => scores.figures.iter().collect(),
            Self::Masks(scores) => vec![&scores.dice, &scores.iou],
        }
    }

    /// The score of this name; `None` if there is none.
    pub fn figure(&self, name: &str) -> Option<&Figure> {
        self.figures().into_iter().find(|figure| figure.name == name)
    }
}
