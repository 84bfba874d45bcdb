//! Scores of classification with one class for each image.

use serde::{Deserialize, Serialize};

use crate::MultiLabel;

/// The score of a model on a split.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// Images evaluated.
    pub samples: usize,
    /// Mean loss.
    #[serde(with = "crate::number")]
    pub loss: f64,
    /// Share of correct predictions, 0 to 1; 0 without samples.
    pub accuracy: f64,
    /// Mean recall of the classes that occur, 0 to 1; 0 without samples.
    pub balanced_accuracy: f64,
    /// Confusion matrix of counts, `[truth][prediction]`; empty if images may have several labels.
    pub confusion: Vec<Vec<u64>>,
    /// The scores of the labels, if images may have several. `accuracy` is then the share of images whose labels are all predicted
    /// correctly, and `balanced_accuracy` the mean area under the ROC curves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multi_label: Option<MultiLabel>,
}

impl Score {
    /// The score that follows from a confusion matrix `[truth][prediction]`.
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

    /// The score of independent labels.
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

    /// The value by which the better of two sets of weights is chosen: the accuracy, or, if images may have several labels, the mean
    /// area under the ROC curves.
    pub fn criterion(&self) -> f64 {
        if self.multi_label.is_some() { self.balanced_accuracy } else { self.accuracy }
    }

    /// The recall of each class: the share of its images that are predicted correctly; `None` for a class without images.
    pub fn per_class_recall(&self) -> Vec<Option<f64>> {
        let classes = 0..self.confusion.len();
        classes.map(|class| share(cell(&self.confusion, class, class), self.truths(class))).collect()
    }

    /// The precision of each class: the share of its predictions that are correct; `None` for a class that was never predicted.
    pub fn per_class_precision(&self) -> Vec<Option<f64>> {
        let classes = 0..self.confusion.len();
        classes.map(|class| share(cell(&self.confusion, class, class), self.predictions(class))).collect()
    }

    /// Number of images of a class.
    pub fn truths(&self, class: usize) -> u64 {
        self.confusion.get(class).map_or(0, |row| row.iter().sum())
    }

    /// Number of predictions of a class.
    pub fn predictions(&self, class: usize) -> u64 {
        (0..self.confusion.len()).map(|truth| cell(&self.confusion, truth, class)).sum()
    }

    /// The majority-class baseline: the accuracy of always predicting the most frequent class, 0 to 1.
    pub fn majority_baseline(&self) -> f64 {
        let largest = (0..self.confusion.len()).map(|class| self.truths(class)).max();
        share(largest.unwrap_or(0), self.samples as u64).unwrap_or(0.0)
    }
}

/// A count of a matrix that came from a file, whose rows may be too short.
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
