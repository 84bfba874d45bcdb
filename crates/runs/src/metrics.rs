//! The results of a run.

use serde::{Deserialize, Serialize};

use crate::MultiLabel;

/// `metrics.json`: what came out. What it was measured on stands in `environment.json` beside it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Metrics {
    /// The run's folder.
    pub run: String,
    /// The model's name in the zoo.
    pub model: String,
    /// The data set's name or path.
    pub data: String,
    /// Names of the classes, in the order of the confusion matrices.
    pub classes: Vec<String>,
    /// Optimizer steps done.
    pub steps: u64,
    /// Epochs begun.
    pub epochs: u64,
    /// Trainable parameters.
    pub parameters: u64,
    /// The epoch, from 1, whose weights are `weights.safetensors`; none without validation.
    pub best_epoch: Option<u64>,
    /// The best weights on the validation split.
    pub validation: Option<Score>,
    /// The best weights on the test split.
    pub test: Option<Score>,
    /// Accuracy of always answering the largest class of the test split, 0 to 1.
    #[serde(with = "crate::number")]
    pub chance: f64,
    /// Training speed over the whole run, evaluation left out.
    #[serde(with = "crate::number")]
    pub images_per_second: f64,
    /// The most device memory used; 0 where it cannot be measured.
    pub peak_memory_bytes: u64,
    /// Seconds of running time, over all sittings.
    #[serde(with = "crate::number")]
    pub seconds: f64,
    /// The format of feature maps: `f32`, `bf16` or `f16`.
    pub precision: String,
    /// Updates that were left out because a gradient of a half format was not finite.
    pub skipped_updates: u64,
    /// Share of the training time spent waiting for data, 0 to 1.
    #[serde(with = "crate::number")]
    pub waiting_share: f64,
    /// Samples that could not be read.
    pub bad_samples: u64,
    /// How often memory ran out and the run went on.
    pub recoveries: u64,
    /// Seconds that cost.
    #[serde(with = "crate::number")]
    pub recovery_seconds: f64,
}

/// `metrics.json` of two networks that were trained against each other.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GanMetrics {
    /// The run's folder.
    pub run: String,
    /// The pair's name in the zoo.
    pub model: String,
    /// The data set's name or path.
    pub data: String,
    /// Iterations done.
    pub iterations: u64,
    /// Passes over the images begun.
    pub epochs: u64,
    /// Trainable parameters of the generator.
    pub generator_parameters: u64,
    /// Trainable parameters of the discriminator.
    pub discriminator_parameters: u64,
    /// Frechet distance before the first iteration, if it was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_frechet: Option<f64>,
    /// Frechet distance after the last iteration, measured the same way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frechet: Option<f64>,
    /// Kernel distance after the last iteration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<f64>,
    /// Images of either kind that were compared.
    pub compared: usize,
    /// The format of feature maps.
    #[serde(default)]
    pub precision: String,
    /// Iterations left out because gradients were not finite in a half format.
    #[serde(default)]
    pub skipped_iterations: u64,
    /// Training speed over the whole run in real images, previews left out.
    #[serde(with = "crate::number")]
    pub images_per_second: f64,
    /// The most device memory used; 0 where it cannot be measured.
    pub peak_memory_bytes: u64,
    /// Seconds in iterations, over all sittings.
    #[serde(with = "crate::number")]
    pub seconds: f64,
    /// How often memory ran out and the run went on.
    pub recoveries: u64,
    /// Seconds that cost.
    #[serde(with = "crate::number")]
    pub recovery_seconds: f64,
}

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
    pub fn chance(&self) -> f64 {
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
        assert_eq!(score.chance(), 0.8);
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
        assert_eq!((score.accuracy, score.balanced_accuracy, score.chance()), (0.0, 0.0, 0.0));
    }

    #[test]
    fn metrics_with_a_loss_that_is_not_finite_survive_the_file() {
        let score = Score::from_confusion(f64::INFINITY, vec![vec![1, 0], vec![0, 1]]);
        let metrics = Metrics { model: "mobilenet_v2".into(), test: Some(score), ..Metrics::default() };
        let text = serde_json::to_string(&metrics).unwrap();
        assert_eq!(serde_json::from_str::<Metrics>(&text).unwrap(), metrics);
    }
}
