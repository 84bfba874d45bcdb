//! Masks scored case by case, at the size of the images they are of.

use std::collections::{BTreeMap, HashMap};

use anyhow::Result;
use kindling_data::{Dataset, IGNORED, Loader, Mask, Preprocess, Source, Stack, Stacked, counted};
use kindling_metrics::{
    ClassMaskScores, LabelMap, LengthUnit, NamedClass, Score, SegmentationScorer, SegmentedCase, SegmentedClass,
    SurfaceDice, VoxelCounts,
};
use kindling_trainer::{Inference, PixelEvaluation, Ranks, TrainError, evaluate_in_windows, evaluate_pixels};
use kindling_zoo::SegmentationNetwork;
use serde::{Deserialize, Serialize};

use crate::config::RunConfig;
use crate::output::note;
use crate::volumes::{Volume, Volumes};

/// How far an outline may be off and still count as right in the surface Dice.
pub(crate) const TOLERANCE: f64 = 2.0;
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
    /// Whether slices of volumes are cases of their own.
    by_slice: bool,
}

/// Cases with their scores.
pub(crate) struct ScoredCases {
    /// In the order of the source.
    pub(crate) cases: Vec<SegmentedCase>,
    /// A sample of each case to look at: the image, or of a volume the slice with the most of anything by the truth.
    pub(crate) shown: Vec<usize>,
    /// What distances are in: millimetres of volumes. Files of images say nothing of the size of a pixel.
    pub(crate) unit: LengthUnit,
    /// Which case each sample of the source is of, as [`case_of`] has it.
    of_samples: Vec<usize>,
}

/// The scores of a case as processes tell each other: numbers by their bits.
#[derive(Serialize, Deserialize)]
struct Scored {
    /// The image, or the first slice of a volume in the order of the source.
    sample: u64,
    shown: u64,
    /// Counts, Hausdorff distance and surface Dice of each class.
    classes: Vec<(u32, VoxelCounts, [u64; 2])>,
}

impl<'a> CaseScorer<'a> {
    /// A scorer of all classes but the background, of masks that were found in images prepared like this.
    pub(crate) fn new(classes: &[String], preprocess: &'a Preprocess) -> Result<Self> {
        let scored = foreground(classes).into_iter();
        let scored = scored.map(|class| SegmentedClass { index: class.label, tolerance: TOLERANCE }).collect();
        let scorer = SegmentationScorer::new(scored, Some(u32::from(IGNORED)), SurfaceDice::Voxels)?;
        Ok(Self { scorer, classes: classes.len(), preprocess, overlap: None, by_slice: false })
    }

    /// The same of images at their own size, in windows, if it is said how much of these lies in the next.
    pub(crate) fn in_windows(self, overlap: Option<f64>) -> Self {
        Self { overlap, ..self }
    }

    /// The same, with slices of volumes as cases of their own if it is asked for.
    pub(crate) fn by_slice(self, by_slice: bool) -> Self {
        Self { by_slice, ..self }
    }

    /// Scores a network on the samples of a loader, which are of `split`. Of several processes each scores a part and learns all.
    pub(crate) fn score(
        &self,
        network: &SegmentationNetwork,
        loader: &Loader,
        split: &str,
        inference: &Inference<'_>,
        ranks: &Ranks,
        progress: impl FnMut(usize),
    ) -> Result<(PixelEvaluation, ScoredCases)> {
        let (mut scored, source) = (Vec::new(), loader.source());
        let mut volumes = self.volumes(source, ranks);
        let see = |sample: u64, mask: &Mask| {
            ranks.lives();
            let truth = source.read_mask(sample as usize)?;
            let unfitted = self.overlap.is_none().then(|| self.preprocess.unfit_mask(mask, truth.width, truth.height));
            let mask = unfitted.as_ref().unwrap_or(mask);
            match &mut volumes {
                None => scored.push(self.image(sample, mask, &truth)?),
                Some(volumes) => {
                    if let Some(complete) = volumes.add(sample, mask) {
                        scored.push(self.volume(volumes, complete, source)?);
                    }
                }
            }
            Ok(())
        };
        let evaluation = match self.overlap {
            None => evaluate_pixels(network, loader, self.classes, inference, progress, see)?,
            Some(overlap) => evaluate_in_windows(network, loader, self.classes, overlap, inference, progress, see)?,
        };
        if !ranks.is_alone() {
            if let Some(volumes) = &mut volumes {
                // Of volumes whose slices lie with several ranks each rank scores some.
                let rests = ranks.agree("masks of slices", volumes.rest())?;
                let complete = volumes.complete(rests);
                for number in complete.into_iter().skip(ranks.group().rank()).step_by(ranks.group().size()) {
                    scored.push(self.volume(volumes, number, source)?);
                    ranks.lives();
                }
            }
            scored = ranks.agree("scores of cases", scored)?.into_iter().flatten().collect();
        }
        let missing = volumes.as_ref().map_or(0, |volumes| volumes.count() - scored.len());
        if missing > 0 && ranks.is_first() {
            let volumes = counted(missing, "volume");
            note!("note: {volumes} of {split} cannot be scored, for not all of the slices can be read");
        }
        Ok((evaluation, cases_of(scored, source, split, volumes.as_ref())))
    }

    /// The volumes that the samples are slices of, if all of them are.
    fn volumes(&self, source: &dyn Source, ranks: &Ranks) -> Option<Volumes> {
        if self.by_slice {
            return None;
        }
        match Stacked::of(source) {
            Stacked::No => None,
            Stacked::Volumes(stacks) => Some(Volumes::new(stacks, source.len())),
            Stacked::Not(why) => {
                if ranks.is_first() {
                    note!("note: each slice is scored as a case of its own, with distances in pixels, because {why}");
                }
                None
            }
        }
    }

    /// The scores of an image, with distances in pixels.
    fn image(&self, sample: u64, mask: &Mask, truth: &Mask) -> Result<Scored, TrainError> {
        let classes = self.case([&mask.classes, &truth.classes], &[truth.height, truth.width], &[1.0, 1.0])?;
        Ok(Scored { sample, shown: sample, classes })
    }

    /// The scores of a volume that is complete, with distances in millimetres.
    fn volume(&self, volumes: &mut Volumes, number: usize, source: &dyn Source) -> Result<Scored, TrainError> {
        let Volume { shape, prediction, truth, fullest } = volumes.take(number, source)?;
        let stack = volumes.stack(number);
        let classes = self.case([&prediction, &truth], &shape, &stack.spacing)?;
        Ok(Scored { sample: first_of(stack) as u64, shown: fullest as u64, classes })
    }

    /// The scores of what was said against what is true.
    fn case(
        &self,
        [prediction, truth]: [&[u8]; 2],
        shape: &[usize],
        spacing: &[f64],
    ) -> Result<Vec<(u32, VoxelCounts, [u64; 2])>, TrainError> {
        let scores = LabelMap::new(prediction, shape)
            .and_then(|prediction| self.scorer.case(&prediction, &LabelMap::new(truth, shape)?, spacing));
        let scores = scores.map_err(|error| TrainError::Config(error.to_string()))?;
        Ok(scores.iter().map(bits).collect())
    }
}

/// Cases with the names and groups of the source, in its order: volumes may have been completed in another.
fn cases_of(mut scored: Vec<Scored>, source: &dyn Source, split: &str, volumes: Option<&Volumes>) -> ScoredCases {
    scored.sort_by_key(|case| case.sample);
    let names = if volumes.is_none() { names_of(source) } else { Vec::new() };
    let shown = scored.iter().map(|case| case.shown as usize).collect();
    let case = |Scored { sample, classes, .. }| {
        let sample = sample as usize;
        let name = volumes.and_then(|volumes| volumes.stack_of(sample)).map(|stack| stack.name.clone());
        SegmentedCase {
            sample: name.unwrap_or_else(|| names[sample].clone()),
            group: source.group(sample),
            split: split.to_string(),
            scores: classes.into_iter().map(of_bits).collect(),
        }
    };
    let unit = if volumes.is_some() { LengthUnit::Millimetres } else { LengthUnit::Pixels };
    let of_samples = (0..source.len()).map(|sample| case_of(volumes, sample)).collect();
    ScoredCases { cases: scored.into_iter().map(case).collect(), shown, unit, of_samples }
}

/// The number of the case that a sample is of: that of the case's first sample in the order of the source.
fn case_of(volumes: Option<&Volumes>, sample: usize) -> usize {
    volumes.and_then(|volumes| volumes.stack_of(sample)).map_or(sample, first_of)
}

/// The first slice of a volume in the order of the source.
fn first_of(stack: &Stack) -> usize {
    stack.samples.iter().copied().min().unwrap_or(0)
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

/// The mean foreground Dice on the test masks, whose cases have been `scored`, of the best answer that does not look at the image: the
/// masks that are usual at the places of the samples, where the data set knows them ([`Source::usual_mask`]), and otherwise a guess from
/// the training masks. None where there is nothing to answer.
pub(crate) fn position_dice(dataset: &Dataset, scored: &ScoredCases, config: &RunConfig) -> Result<Option<f64>> {
    let preprocess = &config.data.preprocess;
    let test = dataset.test.as_ref();
    let of_test = |(sample, &case)| Some((sample, (case, preprocess.fit_mask(&test.read_mask(sample).ok()?))));
    let (samples, masks): (Vec<usize>, Vec<(usize, Mask)>) =
        scored.of_samples.iter().enumerate().filter_map(of_test).unzip();
    let usual = |&sample: &usize| Some(preprocess.fit_mask(&test.usual_mask(sample).ok()??));
    let usual: Option<Vec<Mask>> = samples.iter().map(usual).collect();
    let classes = 1..config.data.classes.len() as u8;
    if let Some(usual) = usual {
        let of_classes =
            classes.map(|class| mean_dice(&masks, class, |mask, pixel| usual[mask].classes[pixel] == class));
        return Ok(mean_of_defined(of_classes.flatten()));
    }
    let train = training_masks(dataset.train.as_ref(), preprocess);
    let of_classes = classes.map(|class| {
        let guess = Guess::best(&train, class)?;
        mean_dice(&masks, class, |_, pixel| guess.has(pixel))
    });
    Ok(mean_of_defined(of_classes.flatten()))
}

/// Some training masks, evenly spread, with the numbers of their cases.
fn training_masks(train: &dyn Source, preprocess: &Preprocess) -> Vec<(usize, Mask)> {
    let volumes = match Stacked::of(train) {
        Stacked::Volumes(stacks) => Some(Volumes::new(stacks, train.len())),
        Stacked::No | Stacked::Not(_) => None,
    };
    let mask = |sample| Some((case_of(volumes.as_ref(), sample), preprocess.fit_mask(&train.read_mask(sample).ok()?)));
    let step = train.len().div_ceil(MASKS_FOR_POSITION).max(1);
    (0..train.len()).step_by(step).filter_map(mask).collect()
}

/// Where a class is said to be: wherever it is in more than a share of the training masks, the share with which these are answered best.
struct Guess {
    /// In how many masks each pixel is of the class.
    counts: Vec<u32>,
    /// From so many on the class is said to be there.
    from: u32,
}

impl Guess {
    /// The one that does best on these masks.
    fn best(masks: &[(usize, Mask)], class: u8) -> Option<Self> {
        let mut counts = vec![0; masks.first()?.1.classes.len()];
        for (_, mask) in masks {
            counts.iter_mut().zip(&mask.classes).for_each(|(count, found)| *count += u32::from(*found == class));
        }
        let most = *counts.iter().max().filter(|most| **most > 0)?;
        let tried = (0..THRESHOLDS as u32).map(|part| (most * part / THRESHOLDS as u32).max(1));
        let score = |from: &u32| mean_dice(masks, class, |_, pixel| counts[pixel] >= *from).unwrap_or(0.0);
        let best = tried.map(|from| (score(&from), from)).max_by(|a, b| a.0.total_cmp(&b.0))?;
        Some(Self { counts, from: best.1 })
    }

    fn has(&self, pixel: usize) -> bool {
        self.counts.get(pixel).is_some_and(|count| *count >= self.from)
    }
}

/// The mean over cases of the Dice of a class that is said to be at these places, of a mask by its number and of a pixel of it; none where
/// it is defined in none. Masks come with the number of their case.
fn mean_dice(masks: &[(usize, Mask)], class: u8, has: impl Fn(usize, usize) -> bool) -> Option<f64> {
    let mut cases: BTreeMap<usize, VoxelCounts> = BTreeMap::new();
    for (number, (case, mask)) in masks.iter().enumerate() {
        let counts = cases.entry(*case).or_default();
        for (pixel, &found) in mask.classes.iter().enumerate().filter(|(_, found)| **found != IGNORED) {
            match (has(number, pixel), found == class) {
                (true, true) => counts.true_positives += 1,
                (true, false) => counts.false_positives += 1,
                (false, true) => counts.false_negatives += 1,
                (false, false) => {}
            }
        }
    }
    mean_of_defined(cases.values().map(VoxelCounts::dice))
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
        let mask = |case, classes: [u8; 6]| (case, Mask { width: 3, height: 2, classes: classes.to_vec() });
        let masks = [mask(0, [0, 1, 1, 0, 0, 0]), mask(1, [0, 1, 1, 0, 0, 1]), mask(2, [0, 1, 0, 0, 0, 0])];
        let guess = Guess::best(&masks, 1).unwrap();
        assert_eq!((0..6).map(|pixel| guess.has(pixel)).collect::<Vec<_>>(), [false, true, true, false, false, false]);
        assert!(Guess::best(&masks, 2).is_none(), "nothing can be guessed of a class that is nowhere");
    }

    /// Samples that are called by their numbers.
    struct Numbered;

    impl Source for Numbered {
        fn len(&self) -> usize {
            4
        }
        fn label(&self, _: usize) -> usize {
            0
        }
        fn read(&self, index: usize) -> Result<kindling_data::Image, kindling_data::DataError> {
            Err(kindling_data::DataError::OutOfRange { index, len: 0 })
        }
        fn name_of(&self, index: usize) -> String {
            index.to_string()
        }
    }

    #[test]
    fn cases_are_in_the_order_of_the_source_whenever_they_were_scored() {
        let scored = |sample, shown| Scored { sample, shown, classes: Vec::new() };
        let names = |cases: &ScoredCases| cases.cases.iter().map(|case| case.sample.clone()).collect::<Vec<_>>();
        let images = cases_of(vec![scored(2, 2), scored(0, 0), scored(3, 3)], &Numbered, "test", None);
        assert_eq!(
            (names(&images).concat(), &images.shown[..], images.unit),
            ("023".into(), &[0, 2, 3][..], LengthUnit::Pixels)
        );
        let stack = |name: &str, samples: [usize; 2]| Stack {
            name: name.to_owned(),
            samples: samples.to_vec(),
            planes: vec![0, 1],
            spacing: [1.0; 3],
        };
        let volumes = Volumes::new(vec![stack("a", [3, 0]), stack("b", [1, 2])], 4);
        let found = cases_of(vec![scored(1, 2), scored(0, 3)], &Numbered, "test", Some(&volumes));
        assert_eq!(
            (names(&found).concat(), &found.shown[..], found.unit),
            ("ab".into(), &[3, 2][..], LengthUnit::Millimetres)
        );
    }

    #[test]
    fn the_slices_of_a_volume_are_counted_together() {
        let mask = |case, class| (case, Mask::filled(2, 1, class));
        let (apart, together) = ([mask(0, 1), mask(1, 0)], [mask(0, 1), mask(0, 0)]);
        assert_eq!(mean_dice(&apart, 1, |_, _| true), Some(0.5));
        assert_eq!(mean_dice(&together, 1, |_, _| true), Some(2.0 / 3.0));
        assert_eq!(
            mean_dice(&together, 1, |slice, _| slice == 0),
            Some(1.0),
            "each slice may have an answer of its own"
        );
    }
}
