//! Segmentation of a split, without gradients.

use std::ops::Range;

use kindling_data::{BadSample, HostBatch, IGNORED, Loader, Mask};
use kindling_metrics::{Score, VoxelCounts};
use kindling_ops::softmax_of_pixels;
use serde::{Deserialize, Serialize};

use crate::error::TrainError;
use crate::inference::Inference;
use crate::logits::{Logits, logits_of};
use crate::pieces::Pieces;
use crate::ranks::Ranks;
use crate::recovery::Recovery;
use crate::trainable::Trainable;
use crate::views::mean;

/// What a model says about the pixels of one image.
#[derive(Clone, Debug, PartialEq)]
pub struct SegmentedImage {
    /// Classes, height and width.
    pub shape: [usize; 3],
    /// `[classes, height, width]`: the probability of each class; those of a pixel add up to 1.
    pub probabilities: Vec<f64>,
}

impl SegmentedImage {
    /// The most probable class of each pixel; the first of equals.
    pub fn mask(&self) -> Mask {
        let [_, height, width] = self.shape;
        let mut mask = Mask::filled(width, height, 0);
        let mut of_classes = self.probabilities.chunks_exact((height * width).max(1));
        let Some(mut best) = of_classes.next().map(<[f64]>::to_vec) else { return mask };
        for (class, plane) in (1..).zip(of_classes) {
            for ((found, best), probability) in mask.classes.iter_mut().zip(&mut best).zip(plane) {
                if *probability > *best {
                    (*found, *best) = (class, *probability);
                }
            }
        }
        mask
    }

    /// The cross-entropies of the pixels whose class is known, added to `sum` one after the other.
    fn cost(&self, truth: &[u8], sum: f64) -> f64 {
        let pixels = truth.len();
        let known = truth.iter().enumerate().filter(|(_, class)| **class != IGNORED);
        // The smallest positive number keeps the loss of a certain mistake finite.
        let costs = known.map(|(pixel, &class)| {
            -self.probabilities[usize::from(class) * pixels + pixel].max(f64::MIN_POSITIVE).ln()
        });
        costs.fold(sum, |sum, cost| sum + cost)
    }
}

/// A model's answers on a split.
#[derive(Clone, Debug, PartialEq)]
pub struct PixelEvaluation {
    /// Cross-entropy, accuracy and confusion over all pixels that count. Samples are images.
    pub score: Score,
    /// The mean over images of each class but the background, then over these classes, as nnU-Net's `foreground_mean`; images that have a
    /// class neither in truth nor in the answer are left out of its mean. A class that is nowhere is left out, too. NaN if nothing is
    /// defined.
    pub dice: f64,
    /// What could not be read and was left out.
    pub bad: Vec<BadSample>,
    /// What it took to make it fit.
    pub(crate) recoveries: Vec<Recovery>,
}

/// The classes of the pixels of some rows of a batch, all of them at once: the mean over the views of each image. `model` must be on the
/// device of `inference`, without gradients.
///
/// # Errors
/// [`TrainError::InferenceOutOfMemory`] or [`TrainError::Device`].
pub fn segment<M: Trainable<4>>(
    model: &M,
    batch: &HostBatch,
    rows: Range<usize>,
    inference: &Inference<'_>,
) -> Result<Vec<SegmentedImage>, TrainError> {
    let of_image = |logits: Logits| {
        let shape = <[usize; 3]>::try_from(logits.shape).unwrap_or_default();
        let of_view = |view: Vec<f32>| softmax_of_pixels(&view, shape[0]);
        SegmentedImage { shape, probabilities: mean(logits.views.into_iter().map(of_view).collect()) }
    };
    Ok(logits_of(model, batch, rows, inference)?.into_iter().map(of_image).collect())
}

/// Evaluates a model on every sample a loader gives, which has their masks, at the size of the model's input.
///
/// `progress` is told how many samples are done, and `see` the mask of each sample that is computed in this process.
///
/// # Errors
/// [`TrainError::Data`] if a sample cannot be read, or as `see` says; [`TrainError::InferenceOutOfMemory`] if a single image does not fit;
/// otherwise as [`segment`].
pub fn evaluate_pixels<M: Trainable<4>>(
    model: &M,
    loader: &Loader,
    classes: usize,
    inference: &Inference<'_>,
    mut progress: impl FnMut(usize),
    mut see: impl FnMut(u64, &Mask) -> Result<(), TrainError>,
) -> Result<PixelEvaluation, TrainError> {
    let mut found = Counted::default();
    let mut pieces = Pieces::of(inference);
    let (batches, size) = (loader.batches_per_epoch(), inference.ranks.map_or(1, |ranks| ranks.group().size()));
    let mine = inference.ranks.map_or(0..batches, |ranks| ranks.share(batches));
    for batch in loader.batches(0, mine) {
        let mut batch = batch?;
        found.bad.append(&mut batch.bad);
        let mut start = 0;
        while start < batch.len() {
            for image in pieces.next(batch.len(), start, |rows| segment(model, &batch, rows, inference))? {
                let mask = image.mask();
                see(batch.samples[start], &mask)?;
                let mut counts = ImageCounts::new(classes);
                counts.add(&image, batch.masks_of(start..start + 1).unwrap_or_default(), &mask.classes);
                found.images.push(counts);
                start += 1;
            }
            inference.lives();
            // The other ranks are about as far.
            progress((found.images.len() * size).min(loader.samples_per_epoch()));
        }
    }
    found.evaluation(inference, loader, classes, pieces.recoveries)
}

/// What was found of some samples, as ranks tell each other.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Counted {
    pub(crate) images: Vec<ImageCounts>,
    pub(crate) bad: Vec<BadSample>,
}

/// Pixels of an image.
#[derive(Serialize, Deserialize)]
pub(crate) struct ImageCounts {
    /// `[truth][answer]`, of pixels that count.
    confusion: Vec<Vec<u64>>,
    /// The bits of the sum of their costs.
    cost: u64,
}

impl ImageCounts {
    /// Of nothing yet.
    pub(crate) fn new(classes: usize) -> Self {
        Self { confusion: vec![vec![0; classes]; classes], cost: 0.0f64.to_bits() }
    }

    /// Adds what a model says of an image, or of some of its rows, whose most probable classes are `answers`.
    pub(crate) fn add(&mut self, image: &SegmentedImage, truth: &[u8], answers: &[u8]) {
        for (&truth, &answer) in truth.iter().zip(answers).filter(|(truth, _)| **truth != IGNORED) {
            self.confusion[usize::from(truth)][usize::from(answer)] += 1;
        }
        self.cost = image.cost(truth, f64::from_bits(self.cost)).to_bits();
    }
}

impl Counted {
    /// The evaluation of what was found, by all ranks, on the samples of a loader.
    pub(crate) fn evaluation(
        mut self,
        inference: &Inference<'_>,
        loader: &Loader,
        classes: usize,
        recoveries: Vec<Recovery>,
    ) -> Result<PixelEvaluation, TrainError> {
        if let Some(ranks) = inference.ranks {
            self = self.of_all(ranks, loader)?;
        }
        let (score, dice) = summary(&self.images, classes);
        Ok(PixelEvaluation { score, dice, bad: self.bad, recoveries })
    }

    /// Those of all ranks, in the order of the source.
    fn of_all(self, ranks: &Ranks, loader: &Loader) -> Result<Self, TrainError> {
        let mut all = Self::default();
        for mut some in ranks.agree("answers to the evaluation", self)? {
            all.images.append(&mut some.images);
            all.bad.append(&mut some.bad);
        }
        loader.count_bad(&all.bad)?;
        Ok(all)
    }
}

/// The score over all pixels, and the mean foreground Dice.
fn summary(images: &[ImageCounts], classes: usize) -> (Score, f64) {
    let mut confusion = vec![vec![0; classes]; classes];
    for (class, row) in images.iter().flat_map(|image| image.confusion.iter().enumerate()) {
        confusion[class].iter_mut().zip(row).for_each(|(sum, count)| *sum += count);
    }
    let pixels: u64 = confusion.iter().flatten().sum();
    let cost: f64 = images.iter().map(|image| f64::from_bits(image.cost)).sum();
    let of_class = |class: usize| mean_of_defined(images.iter().map(|image| counts_of(&image.confusion, class).dice()));
    let dice = mean_of_defined((1..classes).map(of_class));
    let score = Score::from_confusion(cost / pixels.max(1) as f64, confusion);
    (Score { samples: images.len(), ..score }, dice)
}

/// The mean of what is no NaN; NaN of nothing.
fn mean_of_defined(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) =
        values.filter(|value| !value.is_nan()).fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
    sum / f64::from(count)
}

/// Who has a class where, by a confusion matrix.
fn counts_of(confusion: &[Vec<u64>], class: usize) -> VoxelCounts {
    let all: u64 = confusion.iter().flatten().sum();
    let truths: u64 = confusion[class].iter().sum();
    let answers: u64 = confusion.iter().map(|row| row[class]).sum();
    let both = confusion[class][class];
    VoxelCounts {
        true_positives: both,
        false_positives: answers - both,
        false_negatives: truths - both,
        true_negatives: all + both - truths - answers,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dice_of_a_split_is_the_mean_over_images_where_it_is_defined_and_then_over_classes() {
        let image = |confusion: [[u64; 3]; 3]| ImageCounts {
            confusion: confusion.map(|row| row.to_vec()).to_vec(),
            cost: 1.5f64.to_bits(),
        };
        let images = [
            // Class 1: 2 shared, 1 too much, 1 missed; class 2 is nowhere.
            image([[5, 1, 0], [1, 2, 0], [0, 0, 0]]),
            // Class 1 is nowhere; class 2 is missed.
            image([[6, 0, 0], [0, 0, 0], [3, 0, 0]]),
            // Nothing is anywhere.
            image([[9, 0, 0], [0, 0, 0], [0, 0, 0]]),
        ];
        let (score, dice) = summary(&images, 3);
        assert_eq!(dice, (4.0 / 6.0 + 0.0) / 2.0);
        assert_eq!((score.samples, score.loss), (3, 4.5 / 27.0));
        assert_eq!(score.confusion[0], [20, 1, 0]);
        assert!(summary(&images[2..], 3).1.is_nan(), "of nothing there is no Dice");
    }

    #[test]
    fn the_mask_has_the_most_probable_class_and_the_first_of_equals() {
        let image =
            SegmentedImage { shape: [3, 1, 3], probabilities: vec![0.2, 0.4, 0.1, 0.5, 0.4, 0.1, 0.3, 0.2, 0.8] };
        assert_eq!(image.mask(), Mask { width: 3, height: 1, classes: vec![1, 0, 2] });
        assert_eq!(image.cost(&[1, IGNORED, IGNORED], 0.0), -(0.5f64.ln()));
    }
}
