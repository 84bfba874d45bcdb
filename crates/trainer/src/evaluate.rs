//! Inference over a split, without gradients.

use std::ops::Range;

use kindling_data::{BadSample, HostBatch, Loader, Task};
use kindling_metrics::{MultiLabel, RegressionScore, Score};
use serde::{Deserialize, Serialize};

use crate::answers::{self, answer, most_probable};
use crate::error::TrainError;
use crate::inference::Inference;
use crate::logits::{Logits, logits_of};
use crate::loss::ValueLoss;
use crate::pieces::Pieces;
use crate::ranks::Ranks;
use crate::recovery::Recovery;
use crate::trainable::Trainable;
use crate::views::mean;

/// What a model says about one sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The sample's index in its source.
    pub sample: u64,
    /// Its true class; of several the first.
    pub truth: usize,
    /// The probability of each class; where a sample is of one class they add up to 1.
    pub probabilities: Vec<f64>,
}

impl Prediction {
    /// The most probable class; the first of equals.
    pub fn class(&self) -> usize {
        most_probable(&self.probabilities)
    }
}

/// A model's answers on a split.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// Loss (plain cross-entropy, binary where samples may be of several classes), accuracy and confusion.
    pub score: Score,
    /// One answer a sample that could be read, in the order of the source.
    pub predictions: Vec<Prediction>,
    /// What could not be read and was left out.
    pub bad: Vec<BadSample>,
    /// What it took to make it fit.
    pub(crate) recoveries: Vec<Recovery>,
}

/// What a model says about one sample in numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ValuePrediction {
    /// The sample's index in its source.
    pub sample: u64,
    /// Its true number.
    pub truth: f64,
    /// What the model says it is.
    pub prediction: f64,
}

/// A model's numbers for a split.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueEvaluation {
    /// Mean loss, in the loader's scale.
    pub loss: f64,
    /// How far the numbers are off, in their unit.
    pub score: RegressionScore,
    /// One number a sample that could be read, in the order of the source.
    pub predictions: Vec<ValuePrediction>,
    /// What could not be read and was left out.
    pub bad: Vec<BadSample>,
    /// What it took to make it fit.
    pub(crate) recoveries: Vec<Recovery>,
}

/// Class probabilities of some rows of a batch, or in a regression its one number in the loader's scale, all of them at once: the mean over
/// the views of each image. `model` must be on the device of `inference`, without gradients.
///
/// # Errors
/// [`TrainError::InferenceOutOfMemory`] or [`TrainError::Device`].
pub fn predict<M: Trainable<2>>(
    model: &M,
    batch: &HostBatch,
    rows: Range<usize>,
    task: Task,
    inference: &Inference<'_>,
) -> Result<Vec<Vec<f64>>, TrainError> {
    let answer = |views: Vec<f32>| answers::of_logits(task, &views.into_iter().map(f64::from).collect::<Vec<_>>());
    let of_image = |logits: Logits| mean(logits.views.into_iter().map(answer).collect());
    Ok(logits_of(model, batch, rows, inference)?.into_iter().map(of_image).collect())
}

/// Evaluates a model on every sample a loader gives, whose task is about classes of images.
///
/// `progress` is told how many samples are done.
///
/// # Errors
/// [`TrainError::Data`] if a sample cannot be read, [`TrainError::InferenceOutOfMemory`] if a single image does not fit,
/// otherwise as [`predict`].
pub fn evaluate<M: Trainable<2>>(
    model: &M,
    loader: &Loader,
    classes: usize,
    inference: &Inference<'_>,
    progress: impl FnMut(usize),
) -> Result<Evaluation, TrainError> {
    let (mut answers, recoveries) = ask(model, loader, inference, progress)?;
    let mut tally = Tally::new(loader.task(), classes);
    let bad = std::mem::take(&mut answers.bad);
    let predictions: Vec<Prediction> = answers.predictions().inspect(|one| tally.add(loader, one)).collect();
    let score = tally.score(&predictions);
    Ok(Evaluation { score, predictions, bad, recoveries })
}

/// As [`evaluate`], where images have numbers; `loss` is what the model was trained with.
///
/// # Errors
/// As [`evaluate`].
pub fn evaluate_values<M: Trainable<2>>(
    model: &M,
    loader: &Loader,
    loss: ValueLoss,
    inference: &Inference<'_>,
    progress: impl FnMut(usize),
) -> Result<ValueEvaluation, TrainError> {
    let (mut answers, recoveries) = ask(model, loader, inference, progress)?;
    let bad = std::mem::take(&mut answers.bad);
    let (scale, mut sum) = (loader.scale(), 0.0);
    let predictions: Vec<ValuePrediction> = answers
        .predictions()
        .map(|Prediction { sample, probabilities: answer, .. }| {
            let (answer, truth) = (answer[0], loader.source().value(sample as usize).unwrap_or(f64::NAN));
            sum += loss.of(answer - f64::from(scale.of(truth)));
            ValuePrediction { sample, truth, prediction: scale.back(answer) }
        })
        .collect();
    let score = RegressionScore::of(predictions.iter().map(|one| (one.truth, one.prediction)));
    Ok(ValueEvaluation { loss: sum / predictions.len().max(1) as f64, score, predictions, bad, recoveries })
}

/// What a model answers for every sample, and what it took to make it fit.
fn ask<M: Trainable<2>>(
    model: &M,
    loader: &Loader,
    inference: &Inference<'_>,
    mut progress: impl FnMut(usize),
) -> Result<(Answers, Vec<Recovery>), TrainError> {
    let mut answers = Answers::default();
    let mut pieces = Pieces::of(inference);
    let (batches, size) = (loader.batches_per_epoch(), inference.ranks.map_or(1, |ranks| ranks.group().size()));
    let mine = inference.ranks.map_or(0..batches, |ranks| ranks.share(batches));
    for batch in loader.batches(0, mine) {
        let mut batch = batch?;
        answers.bad.append(&mut batch.bad);
        let mut start = 0;
        while start < batch.len() {
            let ask = |rows| predict(model, &batch, rows, loader.task(), inference);
            let probabilities = pieces.next(batch.len(), start, ask)?;
            for (row, probabilities) in (start..).zip(probabilities) {
                answers.add(&batch, row, probabilities);
                start = row + 1;
            }
            inference.lives();
            // The other ranks are about as far.
            progress((answers.samples.len() * size).min(loader.samples_per_epoch()));
        }
    }
    if let Some(ranks) = inference.ranks {
        answers = answers.of_all(ranks, loader)?;
    }
    Ok((answers, pieces.recoveries))
}

/// What was found of some samples, as ranks tell each other. Probabilities, or the numbers of a regression, are the bits of float64
/// numbers, one after the other.
#[derive(Default, Serialize, Deserialize)]
struct Answers {
    samples: Vec<u64>,
    truths: Vec<usize>,
    probabilities: Vec<u64>,
    bad: Vec<BadSample>,
}

impl Answers {
    fn add(&mut self, batch: &HostBatch, row: usize, probabilities: Vec<f64>) {
        self.samples.push(batch.samples[row]);
        self.truths.push(batch.labels[row]);
        self.probabilities.extend(probabilities.into_iter().map(f64::to_bits));
    }

    /// Those of all ranks, in the order of the source.
    fn of_all(self, ranks: &Ranks, loader: &Loader) -> Result<Self, TrainError> {
        let mut all = Self::default();
        for mut some in ranks.agree("answers to the evaluation", self)? {
            all.samples.append(&mut some.samples);
            all.truths.append(&mut some.truths);
            all.probabilities.append(&mut some.probabilities);
            all.bad.append(&mut some.bad);
        }
        loader.count_bad(&all.bad)?;
        Ok(all)
    }

    fn predictions(&self) -> impl Iterator<Item = Prediction> {
        let classes = self.probabilities.len() / self.samples.len().max(1);
        let probabilities = self.probabilities.chunks(classes.max(1));
        self.samples.iter().zip(&self.truths).zip(probabilities).map(|((&sample, &truth), bits)| {
            let probabilities = bits.iter().map(|bits| f64::from_bits(*bits)).collect();
            Prediction { sample, truth, probabilities }
        })
    }
}

/// What is added up over a split.
enum Tally {
    /// The task, the sum of the losses, and counts as `[truth][prediction]`.
    MultiClass(Task, f64, Vec<Vec<u64>>),
    /// The sum of the losses, and which classes each sample has.
    MultiLabel(f64, Vec<Vec<bool>>, usize),
}

impl Tally {
    fn new(task: Task, classes: usize) -> Self {
        match task {
            Task::MultiLabel => Self::MultiLabel(0.0, Vec::new(), classes),
            task => Self::MultiClass(task, 0.0, vec![vec![0; classes]; classes]),
        }
    }

    fn add(&mut self, loader: &Loader, of: &Prediction) {
        let Prediction { sample, truth, probabilities } = of;
        // The smallest positive number keeps the loss of a certain mistake finite.
        let cost = |probability: f64| -probability.max(f64::MIN_POSITIVE).ln();
        match self {
            Self::MultiClass(task, loss, confusion) => {
                *loss += cost(probabilities[*truth]);
                confusion[*truth][answer(*task, probabilities)] += 1;
            }
            Self::MultiLabel(loss, truths, classes) => {
                let labels = loader.source().labels(*sample as usize);
                let has: Vec<bool> = (0..*classes).map(|class| labels.contains(&class)).collect();
                let costs = has.iter().zip(probabilities).map(|(has, p)| cost(if *has { *p } else { 1.0 - p }));
                *loss += costs.sum::<f64>() / *classes as f64;
                truths.push(has);
            }
        }
    }

    fn score(self, predictions: &[Prediction]) -> Score {
        let mean = |loss: f64| loss / predictions.len().max(1) as f64;
        match self {
            Self::MultiClass(_, loss, confusion) => Score::from_confusion(mean(loss), confusion),
            Self::MultiLabel(loss, truths, classes) => {
                let sure: Vec<Vec<f64>> = predictions.iter().map(|one| one.probabilities.clone()).collect();
                Score::from_labels(mean(loss), truths.len(), MultiLabel::of(classes, &truths, &sure))
            }
        }
    }
}
