//! Masks scored case by case, at the size of the images they are of.

use std::collections::HashMap;

use anyhow::Result;
use kindling_data::{Dataset, IGNORED, Loader, Mask, Preprocess, Source};
use kindling_metrics::{
    ClassMaskScores, LabelMap, LengthUnit, NamedClass, Score, SegmentationScorer, SegmentedCase, SegmentedClass,
    SurfaceDice, VoxelCounts,
};
use kindling_trainer::{Inference, PixelEvaluation, Ranks, TrainError, evaluate_in_windows, evaluate_pixels};
use kindling_zoo::Unet;
use serde::{Deserialize, Serialize};

use crate::config::RunConfig;

/// How far an outline may be off and still count as right in the surface Dice.
pub(crate) const TOLERANCE: f64 = 2.0;
/// What distances are counted in: the files say nothing of the size of a pixel.
pub(crate) const UNIT: LengthUnit = LengthUnit::Pixels;
/// Training masks that a guess by position is made from, at most.
const MASKS_FOR_POSITION: usize = 256;
/// Thresholds that are tried for it.
const THRESHOLDS: usize = 24;

/// All classes but the background.
pub(crate) fn foreground(classes: &[String]) -> Vec<NamedClass> {
    (0..).zip(classes).skip(1).map(|(label, name)| NamedClass { name: name.clone(), label }).collect()
}

/// The share of the pixels that the most frequent class has.
pub(crate) fn share_of_largest(score: &Score) -> f64 {
    let truths = |class: usize| score.truths(class);
    let all: u64 = (0..score.confusion.len()).map(truths).sum();
    (0..score.confusion.len()).map(truths).max().unwrap_or(0) as f64 / all.max(1) as f64
}

/// Scores masks of a model.
pub(crate) struct CaseScorer<'a> {
    scorer: SegmentationScorer,
    classes: usize,
    preprocess: &'a Preprocess,
    /// How much windows share, where images are seen in windows.
    overlap: Option<f64>,
}

/// The scores of a sample as processes tell each other: numbers by their bits.
#[derive(Serialize, Deserialize)]
struct Scored {
    sample: u64,
    /// Counts, Hausdorff distance and surface Dice of each class.
    classes: Vec<(u32, VoxelCounts, [u64; 2])>,
}

impl<'a> CaseScorer<'a> {
    /// A scorer of all classes but the background, of masks that were found in images prepared like this.
    pub(crate) fn new(classes: &[String], preprocess: &'a Preprocess) -> Result<Self> {
        let scored = foreground(classes).into_iter();
        let scored = scored.map(|class| SegmentedClass { index: class.label, tolerance: TOLERANCE }).collect();
        let scorer = SegmentationScorer::new(scored, Some(u32::from(IGNORED)), SurfaceDice::Voxels)?;
        Ok(Self { scorer, classes: classes.len(), preprocess, overlap: None })
    }

    /// The same of images at their own size, in windows, if it is said how much of these lies in the next.
    pub(crate) fn in_windows(self, overlap: Option<f64>) -> Self {
        Self { overlap, ..self }
    }

    /// Scores a network on the samples of a loader, which are of `split`. Of several processes each scores a part and learns all.
    pub(crate) fn score(
        &self,
        network: &Unet,
        loader: &Loader,
        split: &str,
        inference: &Inference<'_>,
        ranks: &Ranks,
        progress: impl FnMut(usize),
    ) -> Result<(PixelEvaluation, Vec<SegmentedCase>)> {
        let (mut scored, source) = (Vec::new(), loader.source());
        let see = |sample: u64, mask: &Mask| {
            let truth = source.read_mask(sample as usize)?;
            let unfitted = self.overlap.is_none().then(|| self.preprocess.unfit_mask(mask, truth.width, truth.height));
            let scores = self.case(unfitted.as_ref().unwrap_or(mask), &truth).map_err(TrainError::Config)?;
            scored.push(Scored { sample, classes: scores.iter().map(bits).collect() });
            Ok(())
        };
        let evaluation = match self.overlap {
            None => evaluate_pixels(network, loader, self.classes, inference, progress, see)?,
            Some(overlap) => evaluate_in_windows(network, loader, self.classes, overlap, inference, progress, see)?,
        };
        if !ranks.is_alone() {
            scored = ranks.agree("scores of cases", scored)?.into_iter().flatten().collect();
        }
        let names = names_of(source);
        let cases = scored.into_iter().map(|Scored { sample, classes }| {
            let sample = sample as usize;
            SegmentedCase {
                sample: names[sample].clone(),
                group: source.group(sample),
                split: split.to_string(),
                scores: classes.into_iter().map(of_bits).collect(),
            }
        });
        Ok((evaluation, cases.collect()))
    }

    /// The scores of a mask, with distances in pixels.
    fn case(&self, mask: &Mask, truth: &Mask) -> Result<Vec<ClassMaskScores>, String> {
        let shape = [truth.height, truth.width];
        let scores = LabelMap::new(&mask.classes, &shape)
            .and_then(|mask| self.scorer.case(&mask, &LabelMap::new(&truth.classes, &shape)?, &[1.0, 1.0]));
        scores.map_err(|error| error.to_string())
    }
}

fn bits(scores: &ClassMaskScores) -> (u32, VoxelCounts, [u64; 2]) {
    (scores.class, scores.voxels, [scores.hausdorff_95.to_bits(), scores.surface_dice.to_bits()])
}

fn of_bits((class, voxels, [hausdorff_95, surface_dice]): (u32, VoxelCounts, [u64; 2])) -> ClassMaskScores {
    let [hausdorff_95, surface_dice] = [hausdorff_95, surface_dice].map(f64::from_bits);
    ClassMaskScores { class, voxels, dice: voxels.dice(), iou: voxels.iou(), hausdorff_95, surface_dice }
}

/// What the cases of a source are called: the slices of a volume, whose name they share, have their number behind it.
pub(crate) fn names_of(source: &dyn Source) -> Vec<String> {
    let name = |sample| source.name_within(sample).unwrap_or_else(|| source.name_of(sample));
    let names: Vec<String> = (0..source.len()).map(name).collect();
    let mut times: HashMap<&str, usize> = HashMap::new();
    names.iter().for_each(|name| *times.entry(name).or_default() += 1);
    let mut seen: HashMap<&str, usize> = HashMap::new();
    let mut numbered = Vec::with_capacity(names.len());
    for name in &names {
        if times.get(name.as_str()) == Some(&1) {
            numbered.push(name.clone());
            continue;
        }
        let number = seen.entry(name).or_default();
        *number += 1;
        numbered.push(format!("{name}#{number}"));
    }
    numbered
}

/// The mean foreground Dice on the test masks of the best answer that does not look at the image: a class is wherever it is in more than
/// a share of the training masks, the share with which these are answered best. None where there is nothing to answer.
pub(crate) fn position_dice(dataset: &Dataset, config: &RunConfig) -> Result<Option<f64>> {
    let preprocess = &config.data.preprocess;
    let masks = |source: &dyn Source, most: usize| -> Vec<Mask> {
        let step = source.len().div_ceil(most).max(1);
        let read = |sample| source.read_mask(sample).ok();
        (0..source.len()).step_by(step).filter_map(read).map(|mask| preprocess.fit_mask(&mask)).collect()
    };
    let (train, test) = (masks(dataset.train.as_ref(), MASKS_FOR_POSITION), masks(dataset.test.as_ref(), usize::MAX));
    let of_classes = (1..config.data.classes.len()).map(|class| {
        let guess = Guess::best(&train, class as u8)?;
        mean_dice(&test, class as u8, |pixel| guess.has(pixel))
    });
    Ok(mean_of_defined(of_classes.flatten()))
}

/// Where a class is said to be.
struct Guess {
    /// In how many masks each pixel is of the class.
    counts: Vec<u32>,
    /// From so many on the class is said to be there.
    from: u32,
}

impl Guess {
    /// The one that does best on these masks.
    fn best(masks: &[Mask], class: u8) -> Option<Self> {
        let mut counts = vec![0; masks.first()?.classes.len()];
        for mask in masks {
            counts.iter_mut().zip(&mask.classes).for_each(|(count, found)| *count += u32::from(*found == class));
        }
        let most = *counts.iter().max().filter(|most| **most > 0)?;
        let tried = (0..THRESHOLDS as u32).map(|part| (most * part / THRESHOLDS as u32).max(1));
        let score = |from: &u32| mean_dice(masks, class, |pixel| counts[pixel] >= *from).unwrap_or(0.0);
        let best = tried.map(|from| (score(&from), from)).max_by(|a, b| a.0.total_cmp(&b.0))?;
        Some(Self { counts, from: best.1 })
    }

    fn has(&self, pixel: usize) -> bool {
        self.counts.get(pixel).is_some_and(|count| *count >= self.from)
    }
}

/// The mean over masks of the Dice of a class that is said to be at these pixels; none where it is defined in none.
fn mean_dice(masks: &[Mask], class: u8, has: impl Fn(usize) -> bool) -> Option<f64> {
    let dice = |mask: &Mask| {
        let mut counts = VoxelCounts::default();
        for (pixel, &found) in mask.classes.iter().enumerate().filter(|(_, found)| **found != IGNORED) {
            match (has(pixel), found == class) {
                (true, true) => counts.true_positives += 1,
                (true, false) => counts.false_positives += 1,
                (false, true) => counts.false_negatives += 1,
                (false, false) => {}
            }
        }
        counts.dice()
    };
    mean_of_defined(masks.iter().map(dice))
}

/// The mean of what is no NaN; none of nothing.
pub(crate) fn mean_of_defined(values: impl Iterator<Item = f64>) -> Option<f64> {
    let defined: Vec<f64> = values.filter(|value| !value.is_nan()).collect();
    (!defined.is_empty()).then(|| defined.iter().sum::<f64>() / defined.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guess_by_position_is_where_the_class_usually_is() {
        let mask = |classes: [u8; 6]| Mask { width: 3, height: 2, classes: classes.to_vec() };
        let masks = [mask([0, 1, 1, 0, 0, 0]), mask([0, 1, 1, 0, 0, 1]), mask([0, 1, 0, 0, 0, 0])];
        let guess = Guess::best(&masks, 1).unwrap();
        assert_eq!((0..6).map(|pixel| guess.has(pixel)).collect::<Vec<_>>(), [false, true, true, false, false, false]);
        assert!(Guess::best(&masks, 2).is_none(), "nothing can be guessed of a class that is nowhere");
    }
}
