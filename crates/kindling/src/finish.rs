//! The end of a run: the best weights on the test samples, the metrics, the report.

use anyhow::{Context, Result};
use burn::tensor::Device;
use kindling_data::{Dataset, Preprocess, Split, Task, png_of};
use kindling_files as files;
use kindling_layers::parameters;
use kindling_metrics::{Resampling, Score, Scores};
use kindling_report::{Report, SamplePicture};
use kindling_runs::{BadSamples, Environment, Event, EventLog, Metrics, RunDir};
use kindling_trainer::engine::make_room;
use kindling_trainer::{Evaluation, Inference, Observer, Prediction, Ranks, Trained, evaluate};
use kindling_zoo::Network;

use crate::config::RunConfig;
use crate::loaders;
use crate::scores;

/// Pictures in the report, and how many of them are mistakes where there are mistakes.
const PICTURES: usize = 24;
const MISTAKES: usize = 8;
/// Longer side of a picture, in pixels.
const PICTURE_SIDE: usize = 192;

/// What a finished run is made of.
pub(crate) struct Finished<'a> {
    pub(crate) config: &'a RunConfig,
    pub(crate) dataset: &'a Dataset,
    pub(crate) run: &'a RunDir,
    pub(crate) device: &'a Device,
    /// What the run began on.
    pub(crate) environment: &'a Environment,
    /// Who scores it; the first writes.
    pub(crate) ranks: &'a Ranks,
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
        let Trained { progress, skipped_updates, journal } = trained;
        journal.note_bad(progress.step, Split::Test, &test.bad, observer)?;

        let best_epoch = progress.best.map(|best| best.epoch);
        let (step, epoch) = (progress.step, best_epoch.unwrap_or(progress.epoch));
        let Score { loss, accuracy, samples, .. } = test.score;
        journal.emit(Event::Evaluated { step, epoch, split: "test".into(), loss, accuracy, samples }, observer)?;
        journal.emit(Event::Finished { step, seconds: progress.seconds }, observer)?;

        let measured = Metrics {
            run: self.run.path().display().to_string(),
            model: self.config.model.name.clone(),
            data: self.config.data.source.clone(),
            classes: self.config.data.classes.clone(),
            steps: progress.step,
            epochs: progress.epoch,
            parameters,
            best_epoch,
            validation: Some(validation.score.clone()),
            majority_baseline: self.dataset.majority_baseline(Split::Test),
            images_per_second: progress.images as f64 / progress.seconds.max(1e-9),
            peak_memory_bytes: journal.peak_memory(),
            seconds: progress.seconds,
            precision: self.config.train.precision.to_string(),
            skipped_updates: *skipped_updates,
            waiting_share: progress.waiting_seconds / progress.seconds.max(1e-9),
            bad_samples: journal.bad_samples() as u64,
            recoveries: progress.recoveries,
            recovery_seconds: progress.recovery_seconds,
            test: Some(test.score.clone()),
        };
        let scores = self.scores(&validation, &test)?;
        // What a run that had ended lacks is made anew; what it has measured stays.
        let metrics = match self.metrics_after(progress.step) {
            Some(metrics) => metrics,
            None => {
                self.run.write_metrics(&measured)?;
                measured
            }
        };
        self.report(&metrics, scores.as_ref(), &test)?;
        Ok(Some(metrics))
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
        let trained_without = BadSamples::open(&self.run.bad_samples())?.samples(Split::Train.name()).len();
        found.flow = scores::flow(self.dataset, |split| match split {
            Split::Train => trained_without,
            Split::Val => scores::count(&validation.bad),
            Split::Test => scores::count(&test.bad),
        });
        self.run.write_scores(&found)?;
        Ok(Some(found))
    }

    fn report(&self, metrics: &Metrics, scores: Option<&Scores>, test: &Evaluation) -> Result<()> {
        let config_toml = files::read_to_string(&self.run.config(), files::MAX_TEXT_BYTES)
            .context("reading the run's configuration")?;
        let events = EventLog::read(&self.run.events())?;
        let pictures = pictures(self.dataset, &self.config.data.preprocess, &test.predictions)?;
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
            pictures: &pictures,
            majority_baseline: metrics.majority_baseline,
        };
        Ok(self.run.write_report(&report.html())?)
    }
}

/// Test samples to look at: evenly spaced ones, and the surest of the mistakes.
fn pictures(dataset: &Dataset, preprocess: &Preprocess, predictions: &[Prediction]) -> Result<Vec<SamplePicture>> {
    let answers: Vec<Answer> = predictions.iter().map(|prediction| Answer::of(dataset, prediction)).collect();
    let mut mistakes: Vec<&Answer> = answers.iter().filter(|answer| answer.classes != answer.truth).collect();
    mistakes.sort_by(|a, b| b.probability.total_cmp(&a.probability));
    mistakes.truncate(MISTAKES);
    let spaced = PICTURES - mistakes.len();
    let step = answers.len().div_ceil(spaced).max(1);
    let mut shown: Vec<&Answer> = answers.iter().step_by(step).collect();
    shown.extend(mistakes.into_iter().filter(|mistake| mistake.sample % step != 0));
    shown
        .into_iter()
        .map(|answer| {
            let image = dataset.test.read_fitted(answer.sample, preprocess)?;
            Ok(SamplePicture {
                png: png_of(&image, PICTURE_SIDE)?,
                name: dataset.test.name_of(answer.sample),
                truth: answer.truth.clone(),
                prediction: answer.classes.clone(),
                probability: answer.probability,
            })
        })
        .collect()
}

/// What a model says of a sample.
struct Answer {
    sample: usize,
    truth: Vec<usize>,
    classes: Vec<usize>,
    /// Of several labels that of the one it is least sure of.
    probability: f64,
}

impl Answer {
    fn of(dataset: &Dataset, prediction: &Prediction) -> Self {
        let (sample, probabilities) = (prediction.sample as usize, &prediction.probabilities);
        let (classes, probability) = match dataset.task {
            Task::MultiClass => (vec![prediction.class()], probabilities[prediction.class()]),
            Task::MultiLabel => {
                let there = (0..probabilities.len()).filter(|class| probabilities[*class] >= 0.5).collect();
                (there, probabilities.iter().map(|p| p.max(1.0 - p)).fold(1.0, f64::min))
            }
        };
        let mut truth = dataset.test.labels(sample);
        truth.sort_unstable();
        Self { sample, truth, classes, probability }
    }
}
