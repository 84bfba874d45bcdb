//! The results of a run.

use kindling_metrics::{RegressionScore, Score};
use serde::{Deserialize, Serialize};

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
    /// What a model that segments reached; none of other models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segmentation: Option<SegmentationSummary>,
    /// How far the numbers of a model that answers with one are off; none of other models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regression: Option<RegressionSummary>,
    /// Accuracy of always answering the largest class of the test split, 0 to 1.
    #[serde(rename = "chance", with = "kindling_metrics::number")]
    pub majority_baseline: f64,
    /// Training speed over the whole run, evaluation left out.
    #[serde(with = "kindling_metrics::number")]
    pub images_per_second: f64,
    /// The most device memory used; 0 where it cannot be measured.
    pub peak_memory_bytes: u64,
    /// Seconds of running time, over all sittings.
    #[serde(with = "kindling_metrics::number")]
    pub seconds: f64,
    /// The format of feature maps: `f32`, `bf16` or `f16`.
    pub precision: String,
    /// Updates that were left out because a gradient of a half format was not finite.
    pub skipped_updates: u64,
    /// Share of the training time spent waiting for data, 0 to 1.
    #[serde(with = "kindling_metrics::number")]
    pub waiting_share: f64,
    /// Samples that could not be read.
    pub bad_samples: u64,
    /// How often memory ran out and the run went on.
    pub recoveries: u64,
    /// Seconds that cost.
    #[serde(with = "kindling_metrics::number")]
    pub recovery_seconds: f64,
}

/// The mean foreground Dice of the best weights, 0 to 1, as [`kindling_metrics::SegmentationScores::dice`] has it. `segmentation.json` has all scores of the test split.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SegmentationSummary {
    /// On the test split; none as long as it was not evaluated.
    #[serde(with = "kindling_metrics::number::option")]
    pub test_dice: Option<f64>,
    /// On the validation split; none without one.
    #[serde(with = "kindling_metrics::number::option")]
    pub validation_dice: Option<f64>,
    /// On the test split, of the best answer that does not look at the image; none where there is nothing to answer, and of runs of earlier
    /// versions.
    #[serde(with = "kindling_metrics::number::option", skip_serializing_if = "Option::is_none")]
    pub position_dice: Option<f64>,
}

/// How far the numbers of the best weights are off. `regression.json` has all scores of the test split.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RegressionSummary {
    /// What the number is: the name of its column.
    pub target: String,
    /// On the validation split.
    pub validation: Option<RegressionScore>,
    /// On the test split.
    pub test: Option<RegressionScore>,
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
    #[serde(with = "kindling_metrics::number")]
    pub images_per_second: f64,
    /// The most device memory used; 0 where it cannot be measured.
    pub peak_memory_bytes: u64,
    /// Seconds in iterations, over all sittings.
    #[serde(with = "kindling_metrics::number")]
    pub seconds: f64,
    /// How often memory ran out and the run went on.
    pub recoveries: u64,
    /// Seconds that cost.
    #[serde(with = "kindling_metrics::number")]
    pub recovery_seconds: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_with_a_loss_that_is_not_finite_survive_the_file() {
        let score = Score::from_confusion(f64::INFINITY, vec![vec![1, 0], vec![0, 1]]);
        let metrics = Metrics { model: "mobilenet_v2".into(), test: Some(score), ..Metrics::default() };
        let text = serde_json::to_string(&metrics).unwrap();
        assert_eq!(serde_json::from_str::<Metrics>(&text).unwrap(), metrics);
        assert!(text.contains("\"chance\":"), "the majority-class baseline has the name it always had: {text}");
    }

    #[test]
    fn only_runs_that_segment_say_dice_and_one_that_is_not_defined_survives_the_file() {
        assert!(!serde_json::to_string(&Metrics::default()).unwrap().contains("segmentation"));
        let summary =
            SegmentationSummary { test_dice: Some(f64::NAN), validation_dice: Some(0.75), position_dice: None };
        let text = serde_json::to_string(&Metrics { segmentation: Some(summary), ..Metrics::default() }).unwrap();
        assert!(text.contains(r#""segmentation":{"test_dice":"NaN","validation_dice":0.75}"#), "{text}");
        let read = serde_json::from_str::<Metrics>(&text).unwrap().segmentation.unwrap();
        assert!(read.test_dice.unwrap().is_nan() && read.validation_dice == Some(0.75));
    }
}
