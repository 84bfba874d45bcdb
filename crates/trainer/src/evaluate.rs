//! Inference over a split, without gradients.

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::tensor::Device;
use kindling_data::{HostBatch, Loader};
use kindling_layers::Classifier;
use kindling_memory::panic_message;
use kindling_runs::Score;

use crate::error::TrainError;
use crate::step::upload;

/// What a model says about one sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The sample's index in its source.
    pub sample: u64,
    /// Its true class.
    pub truth: usize,
    /// The probability of each class; they add up to 1.
    pub probabilities: Vec<f64>,
}

impl Prediction {
    /// The most probable class; the first of equals.
    pub fn class(&self) -> usize {
        most_probable(&self.probabilities)
    }
}

/// The index of the largest probability; the first of equals.
pub fn most_probable(probabilities: &[f64]) -> usize {
    let mut best = 0;
    for (class, probability) in probabilities.iter().enumerate() {
        if *probability > probabilities[best] {
            best = class;
        }
    }
    best
}

/// A model's answers on a split.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// Loss (plain cross-entropy), accuracy and confusion.
    pub score: Score,
    /// One answer a sample, in the order of the source.
    pub predictions: Vec<Prediction>,
}

/// Class probabilities of some rows of a batch. `model` must be on `device`, without gradients.
///
/// # Errors
/// [`TrainError::InferenceOutOfMemory`] or [`TrainError::Device`].
pub fn predict<M: Classifier>(
    model: &M,
    batch: &HostBatch,
    rows: std::ops::Range<usize>,
    device: &Device,
) -> Result<Vec<Vec<f64>>, TrainError> {
    let count = rows.len();
    let failed = |text: &str| TrainError::of_device(None, count, text);
    let forward = || model.forward(upload(batch, rows, device)).try_into_data();
    let data = catch_unwind(AssertUnwindSafe(forward))
        .map_err(|panic| failed(&panic_message(panic.as_ref())))?
        .map_err(|error| failed(&error.to_string()))?;
    let classes = data.shape().as_slice().last().copied().unwrap_or(1);
    let logits = data.convert::<f64>().try_to_vec::<f64>().map_err(|error| failed(&format!("{error:?}")))?;
    Ok(logits.chunks(classes.max(1)).map(softmax).collect())
}

/// Softmax in float64, stable for large logits.
fn softmax(logits: &[f64]) -> Vec<f64> {
    let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = logits.iter().map(|logit| (logit - largest).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.into_iter().map(|power| power / sum).collect()
}

/// Evaluates a model, on `device` and without gradients, on every sample a loader gives, `micro_batch` at a time.
///
/// `progress` is told how many samples are done.
///
/// # Errors
/// [`TrainError::Data`] if a sample cannot be read, otherwise as [`predict`].
pub fn evaluate<M: Classifier>(
    model: &M,
    loader: &Loader,
    classes: usize,
    micro_batch: usize,
    device: &Device,
    mut progress: impl FnMut(usize),
) -> Result<Evaluation, TrainError> {
    let mut predictions = Vec::with_capacity(loader.samples_per_epoch());
    let mut confusion = vec![vec![0u64; classes]; classes];
    let mut loss = 0.0;
    for batch in loader.epoch(0, 0) {
        let batch = batch?;
        for start in (0..batch.len()).step_by(micro_batch.max(1)) {
            let rows = start..(start + micro_batch.max(1)).min(batch.len());
            for (row, probabilities) in rows.clone().zip(predict(model, &batch, rows, device)?) {
                let truth = batch.labels[row];
                // The smallest positive number keeps the loss of a certain mistake finite.
                loss -= probabilities[truth].max(f64::MIN_POSITIVE).ln();
                let prediction = Prediction { sample: batch.samples[row], truth, probabilities };
                confusion[truth][prediction.class()] += 1;
                predictions.push(prediction);
            }
            progress(predictions.len());
        }
    }
    let mean = loss / predictions.len().max(1) as f64;
    Ok(Evaluation { score: Score::from_confusion(mean, confusion), predictions })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_add_up_to_one_even_for_huge_logits() {
        for logits in [[1000.0, 1001.0, 0.0], [-1e6, -1e6, -1e6], [0.1, 0.2, 0.3]] {
            let probabilities = softmax(&logits);
            assert!((probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{probabilities:?}");
        }
    }

    #[test]
    fn the_first_of_equally_probable_classes_is_predicted() {
        let prediction = Prediction { sample: 0, truth: 0, probabilities: vec![0.2, 0.4, 0.4] };
        assert_eq!(prediction.class(), 1);
    }
}
