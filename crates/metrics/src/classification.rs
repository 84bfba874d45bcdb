//! Scores where an image is of one class.

use serde::{Deserialize, Serialize};

use crate::MultiLabel;

/// How a model did on one split.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// Images evaluated.
    pub samples: usize,
    /// Mean loss.
    #[serde(with = "crate::number")]
    pub loss: f64,
    /// Share of right answers, 0 to 1; 0 without samples.
    pub accuracy: f64,
    /// Mean recall of the classes that occur, 0 to 1; 0 without samples.
    pub balanced_accuracy: f64,
    /// Counts as `[truth][prediction]`; empty where images may have several labels.
    pub confusion: Vec<Vec<u64>>,
    /// Where images may have several labels: the scores of the labels. `accuracy` is then the share of images whose labels
    /// are all right, and `balanced_accuracy` the mean area under the ROC curves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multi_label: Option<MultiLabel>,
}

impl Score {
    /// Everything that follows from a confusion matrix of `[truth][prediction]`.
    pub fn from_confusion(loss: f64, confusion: Vec<Vec<u64>>) -> Self {
        let samples: u64 = confusion.iter().flatten().sum();
        let right: u64 = (0..confusion.len()).map(|class| cell(&confusion, class, class)).sum();
        let mut score = Self {
            samples: samples as usize,
            loss,
            accuracy: share(right, samples).unwrap_or(0.0),
            balanced_accuracy: 0.0,
            confusion,
            multi_label: None,
        };
        let recalls: Vec<f64> = score.per_class_recall().into_iter().flatten().collect();
        if !recalls.is_empty() {
            score.balanced_accuracy = recalls.iter().sum::<f64>() / recalls.len() as f64;
        }
        score
    }

    /// The score of labels that are answered one by one.
    pub fn from_labels(loss: f64, samples: usize, labels: MultiLabel) -> Self {
        Self {
            samples,
            loss,
            accuracy: labels.subset_accuracy,
            balanced_accuracy: labels.mean_auroc.unwrap_or(0.0),
            confusion: Vec::new(),
            multi_label: Some(labels),
        }
    }

    /// What decides which of two sets of weights is the better: the accuracy, or the mean area under the ROC curves where
    /// images may have several labels.
    pub fn criterion(&self) -> f64 {
        if self.multi_label.is_some() { self.balanced_accuracy } else { self.accuracy }
    }

    /// Of the images of each class, the share that was recognised; `None` for a class without images.
    pub fn per_class_recall(&self) -> Vec<Option<f64>> {
        let classes = 0..self.confusion.len();
        classes.map(|class| share(cell(&self.confusion, class, class), self.truths(class))).collect()
    }

    /// Of the answers for each class, the share that was right; `None` for a class that was never answered.
    pub fn per_class_precision(&self) -> Vec<Option<f64>> {
        let classes = 0..self.confusion.len();
        classes.map(|class| share(cell(&self.confusion, class, class), self.predictions(class))).collect()
    }

    /// Images of a class.
    pub fn truths(&self, class: usize) -> u64 {
        self.confusion.get(class).map_or(0, |row| row.iter().sum())
    }

    /// Answers for a class.
    pub fn predictions(&self, class: usize) -> u64 {
        (0..self.confusion.len()).map(|truth| cell(&self.confusion, truth, class)).sum()
    }

    /// Accuracy of always answering the largest class, 0 to 1: what a model must beat.
    pub fn majority_baseline(&self) -> f64 {
        let largest = (0..self.confusion.len()).map(|class| self.truths(class)).max();
        share(largest.unwrap_or(0), self.samples as u64).unwrap_or(0.0)
    }
}

/// Rows that came from a file may be shorter than they should.
fn cell(confusion: &[Vec<u64>], truth: usize, prediction: usize) -> u64 {
    confusion.get(truth).and_then(|row| row.get(prediction)).copied().unwrap_or(0)
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_follows_from_its_confusion_matrix() {
        let score = Score::from_confusion(0.5, vec![vec![6, 2], vec![1, 1]]);
        assert_eq!(score.samples, 10);
        assert_eq!(score.accuracy, 0.7);
        assert_eq!(score.balanced_accuracy, (0.75 + 0.5) / 2.0);
        assert_eq!(score.per_class_recall(), [Some(0.75), Some(0.5)]);
        assert_eq!(score.per_class_precision(), [Some(6.0 / 7.0), Some(1.0 / 3.0)]);
        assert_eq!(score.majority_baseline(), 0.8);
    }

    #[test]
    fn a_class_that_never_occurs_has_no_recall_and_does_not_count() {
        let score = Score::from_confusion(0.5, vec![vec![3, 0, 1], vec![0, 0, 0], vec![0, 0, 4]]);
        assert_eq!(score.per_class_recall(), [Some(0.75), None, Some(1.0)]);
        assert_eq!(score.per_class_precision(), [Some(1.0), None, Some(0.8)]);
        assert_eq!(score.balanced_accuracy, 0.875);
    }

    #[test]
    fn no_samples_make_a_score_of_zero_and_not_of_nan() {
        let score = Score::from_confusion(f64::NAN, vec![vec![0, 0], vec![0, 0]]);
        assert_eq!((score.accuracy, score.balanced_accuracy, score.majority_baseline()), (0.0, 0.0, 0.0));
    }
}
