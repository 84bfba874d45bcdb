//! The end of a run of a network that answers with a number.

use std::path::Path;

use anyhow::{Context, Result};
use kindling_data::{Split, png_of};
use kindling_files as files;
use kindling_layers::parameters;
use kindling_metrics::{RegressionScores, Resampling, value_subgroups};
use kindling_report::{RegressionReport, ValuePicture};
use kindling_runs::{BadSamples, EventLog, Metrics, RegressionSummary, ValueTable};
use kindling_trainer::engine::make_room;
use kindling_trainer::{Inference, Observer, Trained, ValueEvaluation, ValuePrediction, evaluate_values};
use kindling_zoo::Network;

use super::{End, Finished, OF_A_GROUP, PICTURE_SIDE};
use crate::{loaders, scores};

impl Finished<'_> {
    /// Scores the numbers that the best weights say of the validation and test samples, writes `predictions.csv`, `regression.json`,
    /// `metrics.json` and `report.html`, and returns the metrics; of several processes the first does.
    pub(crate) fn conclude_regression(
        &self,
        trained: &mut Trained,
        observer: &mut dyn Observer,
    ) -> Result<Option<Metrics>> {
        // Pages that held the state of training are of sizes that nothing new may lie in.
        make_room(self.device);
        let network = self.config.trained(self.run, false, self.device)?;
        let validation = self.numbers(&network, Split::Val, observer)?;
        let test = self.numbers(&network, Split::Test, observer)?;
        if !self.ranks.is_first() {
            return Ok(None);
        }
        self.ranks.take_time();
        trained.journal.note_bad(trained.progress.step, Split::Test, &test.bad, observer)?;
        let (loss, samples) = (test.loss, test.score.samples);
        let (mae, r2) = (Some(test.score.mae), Some(test.score.r2));
        self.tell_end(trained, End { loss, samples, mae, r2, ..End::default() }, observer)?;
        let regression = RegressionSummary {
            target: self.target().to_owned(),
            validation: Some(validation.score),
            test: Some(test.score),
        };
        let measured = Metrics { regression: Some(regression), ..self.measured(trained, parameters::count(&network)) };
        let found = self.value_scores(&validation, &test)?;
        let metrics = self.kept_metrics(trained.progress.step, measured)?;
        self.report_regression(&metrics, found.as_ref(), &self.value_pictures(&test.predictions)?)?;
        Ok(Some(metrics))
    }

    /// What the number is.
    fn target(&self) -> &str {
        self.config.data.classes.first().map_or("", String::as_str)
    }

    fn numbers(&self, network: &Network, split: Split, observer: &mut dyn Observer) -> Result<ValueEvaluation> {
        let loader = loaders::evaluation(self.config, self.dataset, split)?;
        let total = loader.samples_per_epoch();
        let name = split.to_string();
        let tell = |done| observer.evaluating(&name, done, total);
        let at_once = self.config.inference_batch(self.device);
        let inference = Inference::new(self.device, at_once, self.config.train.precision).divided(self.ranks);
        let loss = self.config.train.regression.unwrap_or_default();
        Ok(evaluate_values(network, &loader, loss, &inference, tell)?)
    }

    /// Writes `predictions.csv` and `regression.json`; none where no test image could be scored.
    fn value_scores(&self, validation: &ValueEvaluation, test: &ValueEvaluation) -> Result<Option<RegressionScores>> {
        let mut table = ValueTable::default();
        for (split, evaluation) in [(Split::Val, validation), (Split::Test, test)] {
            let source = self.dataset.source(split).as_ref();
            table.images.extend(scores::predicted_values(split.name(), source, &evaluation.predictions));
        }
        table.write(&self.run.predictions())?;
        let resampling = Resampling { seed: self.config.train.seed, ..Resampling::default() };
        let split = Split::Test.name();
        let Some(mut found) = scores::of_values(&table, split, self.target(), resampling)? else { return Ok(None) };
        if let (Some(column), Ok(Some(values))) = (&self.config.data.subgroups, table.values(split)) {
            let samples = table.of_split(split).map(|image| image.sample.as_str());
            let of = scores::column_of(Path::new(self.place), column, samples, split)?;
            found.subgroups = Some(value_subgroups(column, &of, &values, resampling));
        }
        let trained_without = BadSamples::open(&self.run.bad_samples())?.samples(Split::Train.name()).len();
        found.flow = scores::flow(self.dataset, |split| match split {
            Split::Train => trained_without,
            Split::Val => scores::count(&validation.bad),
            Split::Test => scores::count(&test.bad),
        });
        self.run.write_regression_scores(&found)?;
        Ok(Some(found))
    }

    fn report_regression(
        &self,
        metrics: &Metrics,
        scores: Option<&RegressionScores>,
        pictures: &[ValuePicture],
    ) -> Result<()> {
        let config_toml = files::read_to_string(&self.run.config(), files::MAX_TEXT_BYTES)
            .context("reading the run's configuration")?;
        let name = self.run.path().file_name().unwrap_or_default().to_string_lossy();
        let report = RegressionReport {
            title: &name,
            model: &self.config.model.name,
            data: &self.dataset.name,
            target: self.target(),
            config_toml: &config_toml,
            events: &EventLog::read(&self.run.events())?,
            metrics,
            scores,
            environment: self.environment,
            history: &self.run.read_history()?,
            pictures,
        };
        Ok(self.run.write_report(&report.html())?)
    }

    /// The test images whose numbers are furthest off, and others evenly spaced.
    fn value_pictures(&self, predictions: &[ValuePrediction]) -> Result<Vec<ValuePicture>> {
        let off = |one: &ValuePrediction| (one.prediction - one.truth).abs();
        let mut by_error: Vec<&ValuePrediction> = predictions.iter().collect();
        by_error.sort_by(|a, b| off(b).total_cmp(&off(a)));
        let (worst, rest) = by_error.split_at(by_error.len().min(OF_A_GROUP));
        let spaced = rest.iter().step_by(rest.len().div_ceil(OF_A_GROUP).max(1));
        let shown = worst.iter().map(|one| (*one, true)).chain(spaced.map(|one| (*one, false)));
        let test = &self.dataset.test;
        let picture = |(one, worst): (&ValuePrediction, bool)| {
            let sample = one.sample as usize;
            let image = test.read_fitted(sample, &self.config.data.preprocess)?;
            Ok(ValuePicture {
                png: png_of(&image, PICTURE_SIDE)?,
                name: test.name_of(sample),
                truth: one.truth,
                prediction: one.prediction,
                worst,
            })
        };
        shown.map(picture).collect()
    }
}
