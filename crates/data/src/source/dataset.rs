//! A data set: classes, three sources, and what is known about them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Source;
use super::views::{Joined, Renumbered};
use crate::augment::Augment;
use crate::decode::{Normalisation, Preprocess, bytes_to_read};
use crate::error::DataError;
use crate::split::Split;

/// What is asked about a sample. Written `multi-class`, `multi-label`, `segmentation`, `ordinal` and
/// `regression`; earlier versions wrote `one-of` and `any-of` for the first two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Task {
    /// Which one of the classes it is.
    #[default]
    #[serde(rename = "multi-class", alias = "one-of")]
    MultiClass,
    /// Which of the classes it has: several, one or none.
    #[serde(rename = "multi-label", alias = "any-of")]
    MultiLabel,
    /// Which of the classes each of its pixels is. Class 0 is the background.
    #[serde(rename = "segmentation")]
    Segmentation,
    /// Which one of the classes it is, where classes have an order: grades. The first is the least.
    #[serde(rename = "ordinal")]
    Ordinal,
    /// A number ([`Source::value`]). The one class is what the number is: its column in a manifest.
    #[serde(rename = "regression")]
    Regression,
}

impl Task {
    /// What a sample is given, in words.
    pub(crate) fn gives(self) -> &'static str {
        match self {
            Self::MultiClass => "each image one class",
            Self::MultiLabel => "each image any number of classes",
            Self::Segmentation => "each pixel a class",
            Self::Ordinal => "each image one class, of classes in order",
            Self::Regression => "each image a number",
        }
    }

    /// Whether each image is of exactly one class.
    pub fn is_single_label(self) -> bool {
        matches!(self, Self::MultiClass | Self::Ordinal)
    }

    /// How many numbers a network gives for an image, or for a pixel: one a class, one between each grade and the next, or one.
    pub fn outputs(self, classes: usize) -> usize {
        match self {
            Self::MultiClass | Self::MultiLabel | Self::Segmentation => classes,
            Self::Ordinal => classes.saturating_sub(1).max(1),
            Self::Regression => 1,
        }
    }
}

/// A summary of the numbers that samples have, in the unit of the target.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ValueSummary {
    /// How many samples have a number, at least 1.
    pub samples: usize,
    /// Mean of the numbers.
    pub mean: f64,
    /// Standard deviation of the numbers.
    pub std: f64,
    /// Smallest number.
    pub min: f64,
    /// Largest number.
    pub max: f64,
}

/// A data set, ready to be read.
#[derive(Clone)]
pub struct Dataset {
    /// Name for messages and reports: of the folder or file, or of the built-in set.
    pub name: String,
    /// One paragraph: origin and task.
    pub about: String,
    /// The names of the classes; a label is an index into them.
    pub classes: Vec<String>,
    /// What a model is to answer for a sample.
    pub task: Task,
    /// 1 if every image is grey, otherwise 3.
    pub channels: usize,
    /// Training samples.
    pub train: Arc<dyn Source>,
    /// Validation samples, which choose the best weights.
    pub val: Arc<dyn Source>,
    /// Test samples, whose scores are reported.
    pub test: Arc<dyn Source>,
    /// The known constants of this set; otherwise they are measured on `train`.
    pub normalisation: Option<Normalisation>,
    /// The augmentation that makes sense for this set.
    pub augment: Augment,
}

impl Dataset {
    /// The source of `train`, `val` or `test`.
    pub fn source(&self, split: Split) -> &Arc<dyn Source> {
        match split {
            Split::Train => &self.train,
            Split::Val => &self.val,
            Split::Test => &self.test,
        }
    }

    /// The number of samples of each class in a split; a sample of several classes counts in each. Where pixels have classes
    /// ([`Task::Segmentation`]) it is the number of images that a class occurs in, of those for which that is known without reading their
    /// masks ([`Source::labels`]).
    pub fn class_counts(&self, split: Split) -> Vec<usize> {
        let source = self.source(split);
        let mut counts = vec![0; self.classes.len()];
        for index in 0..source.len() {
            for label in source.labels(index) {
                counts[label] += 1;
            }
        }
        counts
    }

    /// What the numbers of a split are ([`Task::Regression`]); `None` where there are none.
    pub fn value_summary(&self, split: Split) -> Option<ValueSummary> {
        let source = self.source(split);
        let values: Vec<f64> = (0..source.len()).filter_map(|index| source.value(index)).collect();
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        (!values.is_empty()).then(|| ValueSummary {
            samples: values.len(),
            mean,
            std: (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt(),
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        })
    }

    /// The samples of all splits as one source: train's, then val's, then test's.
    pub fn joined(&self) -> Arc<dyn Source> {
        Arc::new(Joined { parts: Split::ALL.map(|split| self.source(split).clone()) })
    }

    /// The same samples under the classes of a model, whatever order the two list them in.
    ///
    /// # Errors
    /// [`DataError::ForeignClasses`] if samples are of classes that the model does not know, [`DataError::SeveralClasses`] if they
    /// may have several and the model gives one, [`DataError::OtherTask`] if only one of the two gives pixels a class, or images a number.
    pub fn under_classes(&self, classes: &[String], task: Task) -> Result<Self, DataError> {
        let differs_in = |only: Task| (self.task == only) != (task == only);
        if differs_in(Task::Segmentation) || differs_in(Task::Regression) {
            return Err(DataError::OtherTask { data: self.name.clone(), has: self.task.gives(), wanted: task.gives() });
        }
        let counts = Split::ALL.map(|split| self.class_counts(split));
        // Where a class occurs in masks may not be known.
        let has_samples = |class: &usize| task == Task::Segmentation || counts.iter().any(|counts| counts[*class] > 0);
        let found: Vec<Option<usize>> =
            self.classes.iter().map(|class| classes.iter().position(|known| known == class)).collect();
        let foreign: Vec<String> = (0..self.classes.len())
            .filter(|class| found[*class].is_none() && has_samples(class))
            .map(|class| self.classes[class].clone())
            .collect();
        if !foreign.is_empty() {
            let (data, known) = (self.name.clone(), classes.to_vec());
            return Err(DataError::ForeignClasses { data, foreign, known });
        }
        if self.task == Task::MultiLabel && task.is_single_label() {
            return Err(DataError::SeveralClasses { data: self.name.clone() });
        }
        let numbers: Vec<usize> = found.into_iter().map(|number| number.unwrap_or(0)).collect();
        let renumbered = |source: &Arc<dyn Source>| -> Arc<dyn Source> {
            Arc::new(Renumbered { inner: source.clone(), numbers: numbers.clone() })
        };
        Ok(Self {
            classes: classes.to_vec(),
            task,
            train: renumbered(&self.train),
            val: renumbered(&self.val),
            test: renumbered(&self.test),
            ..self.clone()
        })
    }

    /// The classes that a split lacks though the data set has samples of them, as one sentence each.
    pub fn lacking(&self) -> Vec<String> {
        let counts = Split::ALL.map(|split| self.class_counts(split));
        let is_lacking = |class: usize| {
            let of_class = counts.each_ref().map(|counts| counts[class]);
            of_class.contains(&0) && of_class.iter().any(|count| *count > 0)
        };
        if !(0..self.classes.len()).any(is_lacking) {
            return Vec::new();
        }
        let mut groups: Vec<BTreeSet<String>> = vec![BTreeSet::new(); self.classes.len()];
        for source in Split::ALL.map(|split| self.source(split)) {
            for index in 0..source.len() {
                let Some(group) = source.group(index) else { continue };
                source.labels(index).into_iter().for_each(|class| groups[class].extend([group.clone()]));
            }
        }
        let mut lacking = Vec::new();
        for (class, name) in self.classes.iter().enumerate() {
            let all: usize = counts.iter().map(|counts| counts[class]).sum();
            let empty: Vec<&str> =
                Split::ALL.into_iter().filter(|split| counts[*split as usize][class] == 0).map(Split::name).collect();
            if is_lacking(class) {
                let of = match groups[class].len() {
                    0 => format!("{all} samples"),
                    count => format!("{all} samples, of {count} groups"),
                };
                lacking.push(format!("the class {name:?} has {of}, but none in {}", empty.join(" and ")));
            }
        }
        lacking
    }

    /// The accuracy of always giving the same answer, the most frequent one of a split, in `[0, 1]`; 0 for an empty split. Of
    /// samples with several labels an answer is the whole set. It says nothing of masks, and is 0 of numbers.
    pub fn majority_baseline(&self, split: Split) -> f64 {
        majority_baseline(self.source(split).as_ref())
    }
}

/// As [`Dataset::majority_baseline`], of any samples.
pub fn majority_baseline(source: &dyn Source) -> f64 {
    if (0..source.len()).any(|index| source.value(index).is_some()) {
        return 0.0;
    }
    let mut counts: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
    for index in 0..source.len() {
        *counts.entry(source.labels(index)).or_default() += 1;
    }
    counts.values().max().map_or(0.0, |largest| *largest as f64 / source.len() as f64)
}

impl fmt::Debug for Dataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes = Split::ALL.map(|split| self.source(split).len());
        f.debug_struct("Dataset").field("name", &self.name).field("sizes", &sizes).finish_non_exhaustive()
    }
}

/// The most that reading a training image and fitting it takes, in bytes, by the headers of up to 64 that are spread over the
/// set. Samples that are no image file of their own do not count.
pub fn largest_decoding_bytes(dataset: &Dataset, preprocess: &Preprocess) -> u64 {
    const LOOKED_AT: usize = 64;
    let source = &dataset.train;
    let step = source.len().div_ceil(LOOKED_AT).max(1);
    let files = (0..source.len()).step_by(step).filter_map(|index| source.file(index));
    files.filter_map(|path| bytes_to_read(path, preprocess)).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Configurations of runs hold these names, and those of earlier versions `one-of` and `any-of`.
    #[test]
    fn tasks_are_written_under_their_names_and_read_under_earlier_ones_too() {
        let tasks = [Task::MultiClass, Task::MultiLabel, Task::Segmentation, Task::Ordinal, Task::Regression];
        let written = r#"["multi-class","multi-label","segmentation","ordinal","regression"]"#;
        assert_eq!(serde_json::to_string(&tasks).unwrap(), written);
        let earlier = written.replace("multi-class", "one-of").replace("multi-label", "any-of");
        for text in [written, earlier.as_str()] {
            assert_eq!(serde_json::from_str::<Vec<Task>>(text).unwrap(), tasks);
        }
    }
}
