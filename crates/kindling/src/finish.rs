//! The end of a run: the best weights on the test samples, the metrics, the report.

mod regression;
mod segmentation;

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};
use burn::tensor::Device;
use kindling_data::{Dataset, Split, Task, overlay_png, png_of};
use kindling_files as files;
use kindling_layers::parameters;
use kindling_metrics::{Resampling, Score, Scores, Subgroups};
use kindling_report::{Report, SamplePicture, Shown};
use kindling_runs::{BadSamples, Environment, Event, EventLog, Metrics, RunDir};
use kindling_trainer::engine::make_room;
use kindling_trainer::{
    Evaluation, Inference, Observer, Prediction, Ranks, TrainError, Trained, answer, evaluate, explain,
};
use kindling_zoo::Network;

use crate::config::RunConfig;
use crate::loaders;
use crate::output::note;
use crate::scores;

/// Pictures of each group in the report.
const OF_A_GROUP: usize = 8;
/// Longer side of a picture, in pixels.
const PICTURE_SIDE: usize = 192;

/// What a finished run is made of.
pub(crate) struct Finished<'a> {
    pub(crate) config: &'a RunConfig,
    pub(crate) dataset: &'a Dataset,
    /// Where it is: its name, or its path.
    pub(crate) place: &'a str,
    pub(crate) run: &'a RunDir,
    pub(crate) device: &'a Device,
    /// What the run began on.
    pub(crate) environment: &'a Environment,
    /// Who scores it; the first writes.
    pub(crate) ranks: &'a Ranks,
}

/// The event log's evaluation of the test samples.
#[derive(Default)]
struct End {
    loss: f64,
    samples: usize,
    accuracy: Option<f64>,
    dice: Option<f64>,
    mae: Option<f64>,
    r2: Option<f64>,
}

impl Finished<'_> {
    /// Scores the best weights on the test samples, writes `predictions.csv`, `scores.json`, `metrics.json` and `report.html`, and
    /// returns the metrics; of several processes the first does.
    pub(crate) fn conclude(&self, trained: &mut Trained, observer: &mut dyn Observer) -> Result<Option<Metrics>> {
        // Pages that held the state of training are of sizes that nothing new may lie in.
        make_room(self.device);
        let network = self.config.trained(self.run, false, self.device)?;
        let parameters = parameters::count(&network);
        let validation = self.evaluate(&network, Split::Val, observer)?;
        let test = self.evaluate(&network, Split::Test, observer)?;
        if !self.ranks.is_first() {
            return Ok(None);
        }
        self.ranks.take_time();
        trained.journal.note_bad(trained.progress.step, Split::Test, &test.bad, observer)?;
        let &Score { loss, accuracy, samples, .. } = &test.score;
        let accuracy = Some(accuracy);
        self.tell_end(trained, End { loss, samples, accuracy, ..End::default() }, observer)?;
        let measured = Metrics {
            majority_baseline: self.dataset.majority_baseline(Split::Test),
            validation: Some(validation.score.clone()),
            test: Some(test.score.clone()),
            ..self.measured(trained, parameters)
        };
        let scores = self.scores(&validation, &test)?;
        let metrics = self.kept_metrics(trained.progress.step, measured)?;
        let pictures = self.pictures(&network, &test.predictions)?;
        self.report(&metrics, scores.as_ref(), &pictures)?;
        Ok(Some(metrics))
    }

    /// Writes down how the best weights did on the test samples, and that the run has ended.
    fn tell_end(&self, trained: &mut Trained, end: End, observer: &mut dyn Observer) -> Result<()> {
        let Trained { progress, journal, .. } = trained;
        let (step, epoch) = (progress.step, progress.best.map_or(progress.epoch, |best| best.epoch));
        let End { loss, samples, accuracy, dice, mae, r2 } = end;
        let split = Split::Test.to_string();
        journal.emit(Event::Evaluated { step, epoch, split, loss, accuracy, dice, mae, r2, samples }, observer)?;
        journal.emit(Event::Finished { step, seconds: progress.seconds }, observer)?;
        Ok(())
    }

    /// What came out, but for the scores.
    fn measured(&self, trained: &mut Trained, parameters: u64) -> Metrics {
        let Trained { progress, skipped_updates, journal } = trained;
        Metrics {
            run: self.run.path().display().to_string(),
            model: self.config.model.name.clone(),
            data: self.config.data.source.clone(),
            classes: self.config.data.classes.clone(),
            steps: progress.step,
            epochs: progress.epoch,
            parameters,
            best_epoch: progress.best.map(|best| best.epoch),
            images_per_second: progress.images as f64 / progress.seconds.max(1e-9),
            peak_memory_bytes: journal.peak_memory(),
            seconds: progress.seconds,
            precision: self.config.train.precision.to_string(),
            skipped_updates: *skipped_updates,
            waiting_share: progress.waiting_seconds / progress.seconds.max(1e-9),
            bad_samples: journal.bad_samples() as u64,
            recoveries: progress.recoveries,
            recovery_seconds: progress.recovery_seconds,
            ..Metrics::default()
        }
    }

    /// Writes the metrics. What a run that had ended lacks is made anew; what it has measured stays.
    fn kept_metrics(&self, step: u64, measured: Metrics) -> Result<Metrics> {
        if let Some(metrics) = self.metrics_after(step) {
            return Ok(metrics);
        }
        self.run.write_metrics(&measured)?;
        Ok(measured)
    }

    /// The metrics of a run that has ended with a step and has its report: nothing of it is measured again.
    pub(crate) fn concluded(&self, step: u64) -> Option<Metrics> {
        self.metrics_after(step).filter(|_| self.run.report().is_file())
    }

    /// The metrics, if they are there and were written after this step.
    fn metrics_after(&self, step: u64) -> Option<Metrics> {
        self.run.read_metrics().ok().filter(|metrics| metrics.steps == step)
    }

    fn evaluate(&self, network: &Network, split: Split, observer: &mut dyn Observer) -> Result<Evaluation> {
        let loader = loaders::evaluation(self.config, self.dataset, split)?;
        let total = loader.samples_per_epoch();
        let name = split.to_string();
        let classes = self.config.data.classes.len();
        let tell = |done| observer.evaluating(&name, done, total);
        let at_once = self.config.inference_batch(self.device);
        let inference = Inference::new(self.device, at_once, self.config.train.precision).divided(self.ranks);
        Ok(evaluate(network, &loader, classes, &inference, tell)?)
    }

    /// Writes `predictions.csv` and `scores.json`; none where no test image could be scored.
    fn scores(&self, validation: &Evaluation, test: &Evaluation) -> Result<Option<Scores>> {
        let mut table = scores::empty_table(&self.config.data.classes, self.config.data.task);
        for (split, evaluation) in [(Split::Val, validation), (Split::Test, test)] {
            let source = self.dataset.source(split).as_ref();
            scores::add_to(&mut table, split.name(), source, &evaluation.predictions);
        }
        table.write(&self.run.predictions())?;
        if !scores::can_be_scored(&test.predictions) || !scores::are_numbers(&validation.predictions) {
            return Ok(None);
        }
        let resampling = Resampling { seed: self.config.train.seed, ..Resampling::default() };
        let mut found = scores::of_table(&table, Split::Test.name(), Some(Split::Val.name()), resampling)?;
        if let (Some(column), Ok(Some(predictions))) =
            (&self.config.data.subgroups, table.predictions(Split::Test.name()))
        {
            let values = scores::values_in(Path::new(self.place), column, &table, Split::Test.name())?;
            found.subgroups = Some(Subgroups::of(column, &values, &predictions, resampling));
        }
        let trained_without = BadSamples::open(&self.run.bad_samples())?.samples(Split::Train.name()).len();
        found.flow = scores::flow(self.dataset, |split| match split {
            Split::Train => trained_without,
            Split::Val => scores::count(&validation.bad),
            Split::Test => scores::count(&test.bad),
        });
        self.run.write_scores(&found)?;
        Ok(Some(found))
    }

    fn report(&self, metrics: &Metrics, scores: Option<&Scores>, pictures: &[SamplePicture]) -> Result<()> {
        let config_toml = files::read_to_string(&self.run.config(), files::MAX_TEXT_BYTES)
            .context("reading the run's configuration")?;
        let events = EventLog::read(&self.run.events())?;
        let name = self.run.path().file_name().unwrap_or_default().to_string_lossy();
        let report = Report {
            title: &name,
            model: &self.config.model.name,
            data: &self.dataset.name,
            classes: &self.config.data.classes,
            config_toml: &config_toml,
            events: &events,
            metrics,
            scores,
            environment: self.environment,
            history: &self.run.read_history()?,
            pictures,
            majority_baseline: metrics.majority_baseline,
        };
        Ok(self.run.write_report(&report.html())?)
    }

    /// Test images to look at, with where they speak for the answers. Where memory does not suffice for that, whoever watches is told,
    /// and the images are shown without. It is no event: how much memory there is changes nothing that a run writes down.
    fn pictures(&self, network: &Network, predictions: &[Prediction]) -> Result<Vec<SamplePicture>> {
        let (preprocess, test) = (&self.config.data.preprocess, &self.dataset.test);
        let shape = [preprocess.channels, preprocess.size, preprocess.size];
        let answers: Vec<Answer> = predictions.iter().map(|prediction| Answer::of(self.dataset, prediction)).collect();
        let mut pictures = Vec::new();
        let mut maps_fit = true;
        for (shown, answer) in chosen(&answers) {
            let image = test.read_fitted(answer.sample, preprocess)?;
            let mut map = None;
            if maps_fit && let Some(class) = answer.spoken_for() {
                match explain(network, preprocess.to_tensor(&image), shape, class, self.device) {
                    Ok(found) => map = Some(overlay_png(found.width, found.height, &found.values)?),
                    Err(error @ TrainError::InferenceOutOfMemory { .. }) => {
                        maps_fit = false;
                        note!("warning: the report has no maps of what images speak for: {error}");
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            pictures.push(SamplePicture {
                png: png_of(&image, PICTURE_SIDE)?,
                map,
                shown,
                name: test.name_of(answer.sample),
                truth: answer.truth.clone(),
                prediction: answer.classes.clone(),
                probability: answer.probability,
            });
        }
        Ok(pictures)
    }
}

/// Answers to look at: the surest mistakes, the least sure answers, the surest that are right, and others evenly spaced; each once.
fn chosen(answers: &[Answer]) -> Vec<(Shown, &Answer)> {
    let mut surest_first: Vec<&Answer> = answers.iter().collect();
    surest_first.sort_by(|a, b| b.probability.total_cmp(&a.probability));
    let of = |is_right: bool| surest_first.iter().copied().filter(move |answer| answer.is_right() == is_right);
    let spaced = answers.iter().step_by(answers.len().div_ceil(OF_A_GROUP).max(1));
    let groups: [(Shown, Vec<&Answer>); 4] = [
        (Shown::Mistake, of(false).collect()),
        (Shown::Uncertain, surest_first.iter().rev().copied().collect()),
        (Shown::Certain, of(true).collect()),
        (Shown::Spaced, spaced.collect()),
    ];
    let mut taken = BTreeSet::new();
    let mut shown = Vec::new();
    for (why, candidates) in groups {
        let new: Vec<&Answer> =
            candidates.into_iter().filter(|answer| !taken.contains(&answer.sample)).take(OF_A_GROUP).collect();
        taken.extend(new.iter().map(|answer| answer.sample));
        shown.extend(new.into_iter().map(|answer| (why, answer)));
    }
    shown
}

/// A model's answer for a sample.
struct Answer {
    sample: usize,
    truth: Vec<usize>,
    classes: Vec<usize>,
    /// Of several labels that of the one it is least sure of.
    probability: f64,
    /// The logit of the most probable class, or of grades the one above the answer.
    first: usize,
}

impl Answer {
    fn of(dataset: &Dataset, prediction: &Prediction) -> Self {
        let (sample, probabilities) = (prediction.sample as usize, &prediction.probabilities);
        let (classes, probability) = match dataset.task {
            Task::MultiLabel => {
                let there = (0..probabilities.len()).filter(|class| probabilities[*class] >= 0.5).collect();
                (there, probabilities.iter().map(|p| p.max(1.0 - p)).fold(1.0, f64::min))
            }
            one_of => {
                let class = answer(one_of, probabilities);
                (vec![class], probabilities[class])
            }
        };
        let mut truth = dataset.test.labels(sample);
        truth.sort_unstable();
        // Above the last grade there is no logit; what speaks for it is what speaks for passing the one before.
        let first = match dataset.task {
            Task::Ordinal => classes[0].min(probabilities.len().saturating_sub(2)),
            _ => prediction.class(),
        };
        Self { sample, truth, classes, probability, first }
    }

    fn is_right(&self) -> bool {
        self.classes == self.truth
    }

    /// The class whose map is shown: the answer; of several labels the most probable one, if any is said to be there.
    fn spoken_for(&self) -> Option<usize> {
        (!self.classes.is_empty()).then_some(self.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(sample: usize, is_right: bool, probability: f64) -> Answer {
        Answer { sample, truth: vec![0], classes: vec![usize::from(!is_right)], probability, first: 0 }
    }

    #[test]
    fn the_worst_the_least_certain_and_the_most_certain_are_shown_and_none_twice() {
        // Every tenth is wrong; the surer the later.
        let answers: Vec<Answer> = (0..100).map(|at| answer(at, at % 10 != 3, 0.5 + at as f64 / 250.0)).collect();
        let found = chosen(&answers);
        let of = |shown: Shown| -> Vec<usize> {
            found.iter().filter(|(why, _)| *why == shown).map(|(_, answer)| answer.sample).collect()
        };
        assert_eq!(of(Shown::Mistake), [93, 83, 73, 63, 53, 43, 33, 23]);
        assert_eq!(of(Shown::Uncertain), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(of(Shown::Certain), [99, 98, 97, 96, 95, 94, 92, 91]);
        assert_eq!(of(Shown::Spaced), [13, 26, 39, 52, 65, 78], "0 and 91 are shown already");
        let once: BTreeSet<usize> = found.iter().map(|(_, answer)| answer.sample).collect();
        assert_eq!(once.len(), found.len());
        assert_eq!(chosen(&answers[..3]).len(), 3, "of few all are shown");
        assert!(chosen(&[]).is_empty());
    }
}
