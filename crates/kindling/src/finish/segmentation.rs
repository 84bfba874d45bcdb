//! The end of a run of a network for segmentation.

use anyhow::{Context, Result};
use kindling_data::{Split, difference_overlay_png, mask_overlay_png, png_of};
use kindling_files as files;
use kindling_layers::parameters;
use kindling_metrics::{Resampling, Score, SegmentationScores, SegmentedCase};
use kindling_report::{MaskPicture, SegmentationReport, ShownCase};
use kindling_runs::{BadSamples, CaseTable, EventLog, Metrics, SegmentationSummary};
use kindling_trainer::engine::make_room;
use kindling_trainer::{Inference, Observer, PixelEvaluation, Trained};
use kindling_zoo::SegmentationNetwork;

use super::{End, Finished, PICTURE_SIDE};
use crate::cases::{self, CaseScorer, ScoredCases};
use crate::loaders;
use crate::scores;
use crate::segmenter::Segmenter;

/// Cases of each group in the report.
const OF_A_GROUP: usize = 6;

/// What is found of a split.
struct Found {
    evaluation: PixelEvaluation,
    scored: ScoredCases,
}

impl Finished<'_> {
    /// Scores the best weights on the validation and test images at their own size, writes `cases.csv`, `segmentation.json`,
    /// `metrics.json` and `report.html`, and returns the metrics; of several processes the first does.
    pub(crate) fn conclude_segmentation(
        &self,
        trained: &mut Trained,
        observer: &mut dyn Observer,
    ) -> Result<Option<Metrics>> {
        // Pages that held the state of training are of sizes that nothing new may lie in.
        make_room(self.device);
        let network = self.config.trained_segmenter(self.run, false, self.device)?;
        let validation = self.segment(&network, Split::Val, observer)?;
        let test = self.segment(&network, Split::Test, observer)?;
        if !self.ranks.is_first() {
            return Ok(None);
        }
        self.ranks.take_time();
        trained.journal.note_bad(trained.progress.step, Split::Test, &test.evaluation.bad, observer)?;
        let classes = cases::foreground(&self.config.data.classes);
        let all = validation.scored.cases.iter().chain(&test.scored.cases).cloned().collect();
        self.run.write_cases(&CaseTable { classes: classes.clone(), cases: all })?;
        let resampling = Resampling { seed: self.config.train.seed, ..Resampling::default() };
        let score = |found: &Found, split: Split| {
            let ScoredCases { cases, unit, .. } = &found.scored;
            SegmentationScores::of(split.name(), &classes, (cases::TOLERANCE, *unit), cases, resampling).ok()
        };
        let mut found = score(&test, Split::Test);
        if let Some(scores) = &mut found {
            let trained_without = BadSamples::open(&self.run.bad_samples())?.samples(Split::Train.name()).len();
            scores.flow = scores::flow(self.dataset, |split| match split {
                Split::Train => trained_without,
                Split::Val => scores::count(&validation.evaluation.bad),
                Split::Test => scores::count(&test.evaluation.bad),
            });
        }
        if let Some(scores) = &found {
            self.run.write_segmentation_scores(scores)?;
        }
        let mean = |scores: &Option<SegmentationScores>| scores.as_ref().map(|scores| scores.dice.value);
        let &Score { loss, accuracy, samples, .. } = &test.evaluation.score;
        let (accuracy, dice) = (Some(accuracy), mean(&found).or(Some(f64::NAN)));
        self.tell_end(trained, End { loss, samples, accuracy, dice, ..End::default() }, observer)?;
        let position_dice = cases::position_dice(self.dataset, &test.scored, self.config)?;
        let validation_dice = mean(&score(&validation, Split::Val));
        let summary = SegmentationSummary { test_dice: mean(&found), validation_dice, position_dice };
        let measured = Metrics {
            majority_baseline: cases::share_of_largest(&test.evaluation.score),
            segmentation: Some(summary),
            validation: Some(validation.evaluation.score.clone()),
            test: Some(test.evaluation.score.clone()),
            ..self.measured(trained, parameters::count(&network))
        };
        let metrics = self.kept_metrics(trained.progress.step, measured)?;
        let pictures = self.mask_pictures(&network, &test.scored)?;
        self.report_segmentation(&metrics, found.as_ref(), &test.scored, &pictures, position_dice)?;
        Ok(Some(metrics))
    }

    fn segment(&self, network: &SegmentationNetwork, split: Split, observer: &mut dyn Observer) -> Result<Found> {
        let loader = loaders::evaluation(self.config, self.dataset, split)?;
        let total = loader.samples_per_epoch();
        let name = split.to_string();
        let at_once = self.config.inference_batch(self.device);
        let inference = Inference::new(self.device, at_once, self.config.train.precision).divided(self.ranks);
        let scorer = CaseScorer::new(&self.config.data.classes, &self.config.data.preprocess)?;
        let tell = |done| observer.evaluating(&name, done, total);
        let (evaluation, scored) = scorer.score(network, &loader, split.name(), &inference, self.ranks, tell)?;
        Ok(Found { evaluation, scored })
    }

    fn report_segmentation(
        &self,
        metrics: &Metrics,
        scores: Option<&SegmentationScores>,
        scored: &ScoredCases,
        pictures: &[MaskPicture],
        position_dice: Option<f64>,
    ) -> Result<()> {
        let config_toml = files::read_to_string(&self.run.config(), files::MAX_TEXT_BYTES)
            .context("reading the run's configuration")?;
        let name = self.run.path().file_name().unwrap_or_default().to_string_lossy();
        let report = SegmentationReport {
            title: &name,
            model: &self.config.model.name,
            data: &self.dataset.name,
            classes: &cases::foreground(&self.config.data.classes),
            config_toml: &config_toml,
            events: &EventLog::read(&self.run.events())?,
            metrics,
            scores,
            cases: &scored.cases,
            environment: self.environment,
            history: &self.run.read_history()?,
            pictures,
            position_dice,
        };
        Ok(self.run.write_report(&report.html())?)
    }

    /// The worst, typical and best cases to look at.
    fn mask_pictures(&self, network: &SegmentationNetwork, scored: &ScoredCases) -> Result<Vec<MaskPicture>> {
        let names = cases::names_of(self.dataset.test.as_ref());
        let picture = |(why, place): (ShownCase, usize)| -> Result<MaskPicture> {
            let sample = scored.shown[place];
            let picture = self.mask_picture(network, &scored.cases[place], sample, why)?;
            Ok(MaskPicture { name: names[sample].clone(), ..picture })
        };
        chosen(&scored.cases).into_iter().map(picture).collect()
    }

    fn mask_picture(
        &self,
        network: &SegmentationNetwork,
        case: &SegmentedCase,
        sample: usize,
        shown: ShownCase,
    ) -> Result<MaskPicture> {
        let (preprocess, test) = (&self.config.data.preprocess, &self.dataset.test);
        let image = test.read_fitted(sample, preprocess)?;
        let truth = preprocess.fit_mask(&test.read_mask(sample)?);
        let inference = Inference::new(self.device, 1, self.config.train.precision);
        let segmenter = Segmenter { network, config: self.config, inference, windows: None };
        let prediction = segmenter.of_fitted(&image)?;
        let names = self.config.data.classes.iter().skip(1);
        Ok(MaskPicture {
            png: png_of(&image, PICTURE_SIDE)?,
            truth: mask_overlay_png(&truth, PICTURE_SIDE)?,
            prediction: mask_overlay_png(&prediction, PICTURE_SIDE)?,
            difference: difference_overlay_png(&truth, &prediction, PICTURE_SIDE)?,
            shown,
            name: case.sample.clone(),
            dice: names.cloned().zip(case.scores.iter().map(|scores| scores.dice)).collect(),
        })
    }
}

/// Cases to look at: those with the lowest mean Dice, those around the median, and those with the highest; each once.
fn chosen(cases: &[SegmentedCase]) -> Vec<(ShownCase, usize)> {
    let dice = |case: &SegmentedCase| cases::mean_of_defined(case.scores.iter().map(|it| it.dice));
    let mut ranked: Vec<(f64, usize)> =
        cases.iter().enumerate().filter_map(|(place, case)| Some((dice(case)?, place))).collect();
    ranked.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let count = ranked.len();
    let group = OF_A_GROUP.min(count.div_ceil(3));
    let middle = (count / 2).saturating_sub(group / 2).max(group.min(count));
    let places = |range: std::ops::Range<usize>| {
        ranked.get(range.start.min(count)..range.end.min(count)).unwrap_or_default().iter().map(|(_, place)| *place)
    };
    let best = count.saturating_sub(group).max(middle + group);
    let groups = [
        (ShownCase::Worst, places(0..group).collect::<Vec<_>>()),
        (ShownCase::Typical, places(middle..middle + group).collect()),
        (ShownCase::Best, places(best..count).rev().collect()),
    ];
    groups.into_iter().flat_map(|(shown, places)| places.into_iter().map(move |place| (shown, place))).collect()
}

#[cfg(test)]
mod tests {
    use kindling_metrics::{ClassMaskScores, VoxelCounts};

    use super::*;

    /// Pictures are drawn by one crate and explained by another, and neither knows the other.
    #[test]
    fn the_legend_has_the_colours_of_the_pictures() {
        let drawn = kindling_data::DIFFERENCE_COLOURS.map(|(_, colour)| colour);
        assert_eq!(drawn, [kindling_report::MISSED, kindling_report::FALSELY_FOUND, kindling_report::WRONG_CLASS]);
        for class in 1..=7 {
            assert_eq!(kindling_data::class_colour(class), kindling_report::class_colour(u32::from(class)), "{class}");
        }
    }

    fn case(dice: f64) -> SegmentedCase {
        let voxels = VoxelCounts::default();
        let scores = ClassMaskScores { class: 1, voxels, dice, iou: dice, hausdorff_95: 0.0, surface_dice: dice };
        SegmentedCase { scores: vec![scores], ..SegmentedCase::default() }
    }

    #[test]
    fn the_worst_the_typical_and_the_best_cases_are_shown_and_none_twice() {
        let mut cases: Vec<SegmentedCase> = (0..99).map(|at| case(f64::from(at) / 99.0)).collect();
        cases.push(case(f64::NAN));
        let found = chosen(&cases);
        let of = |shown: ShownCase| -> Vec<usize> {
            found.iter().filter(|(why, _)| *why == shown).map(|(_, place)| *place).collect()
        };
        assert_eq!(of(ShownCase::Worst), [0, 1, 2, 3, 4, 5]);
        assert_eq!(of(ShownCase::Typical), [46, 47, 48, 49, 50, 51]);
        assert_eq!(of(ShownCase::Best), [98, 97, 96, 95, 94, 93]);
        for few in 0..7 {
            let mut places: Vec<usize> = chosen(&cases[..few]).into_iter().map(|(_, place)| place).collect();
            places.sort_unstable();
            assert_eq!(places, (0..few).collect::<Vec<_>>(), "of few all are shown, once");
        }
    }
}
