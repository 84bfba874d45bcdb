//! A finished cross-validation in its folder, as something to set against another.

use std::path::{Path, PathBuf};

use kindling_files as files;

use crate::{Answers, CrossValidation, Metrics, Record, RegressionSummary, RunDir, RunError};

/// The file of the results, in the folder of the folds.
const RESULTS: &str = "cross-validation.json";
/// The setting in which folds differ from each other.
const OWN: &str = "data.opening.fold";

/// What `kindling train --folds` has left in a folder.
#[derive(Clone, Debug)]
pub struct Folds {
    /// What `cross-validation.json` says.
    pub found: CrossValidation,
    /// What the models of the folds said of the samples that each was tested on, all of the split `test`.
    pub answers: Answers,
    /// The runs of the folds, in order.
    pub runs: Vec<RunDir>,
}

impl Folds {
    /// Whether a folder holds the folds of a cross-validation, finished or not.
    pub fn are_in(folder: &Path) -> bool {
        folder.join(RESULTS).is_file() || RunDir::open(&fold_in(folder, 1)).is_ok()
    }

    /// Reads the results, the answers and the runs of all folds.
    ///
    /// # Errors
    /// [`RunError::Malformed`] if the cross-validation is not finished, or its files cannot be understood, [`RunError::Io`].
    pub fn open(folder: &Path) -> Result<Self, RunError> {
        let path = folder.join(RESULTS);
        let malformed = |reason: String| RunError::Malformed { path: path.clone(), reason };
        if !path.is_file() {
            return Err(malformed("it is not there: the cross-validation has not ended".to_owned()));
        }
        let text = files::read(&path, files::MAX_TEXT_BYTES).map_err(RunError::on("read", &path))?;
        let found: CrossValidation = serde_json::from_slice(&text).map_err(|error| malformed(error.to_string()))?;
        let runs: Vec<RunDir> =
            (1..=found.folds.len()).map(|fold| RunDir::open(&fold_in(folder, fold))).collect::<Result<_, _>>()?;
        let first = runs.first().ok_or_else(|| malformed("it has no folds".to_owned()))?;
        let answers = Answers::of_run(first)?.read_alike(folder)?;
        Ok(Self { found, answers, runs })
    }

    /// All of it as one record: the settings that all folds share, the scores of all test samples together, and what the folds cost
    /// together. It has no events: the curves of several trainings are none of one.
    ///
    /// # Errors
    /// Those of reading.
    pub fn record(&self) -> Result<Record, RunError> {
        let records: Vec<Record> = self.runs.iter().map(Record::of).collect::<Result<_, _>>()?;
        let together = of_all(records.iter().filter_map(|record| record.metrics.as_ref()));
        let first = records.into_iter().next().unwrap_or_default();
        let mut settings = first.settings.clone();
        settings.remove(OWN);
        Ok(Record {
            settings,
            metrics: together,
            scores: Some(self.found.pooled.clone()),
            events: Vec::new(),
            history: Vec::new(),
            bad_samples: Vec::new(),
            samples: None,
            ..first
        })
    }
}

fn fold_in(folder: &Path, fold: usize) -> PathBuf {
    folder.join(format!("fold-{fold}"))
}

/// What several runs cost: steps and time of all, the mean speed, the largest memory.
fn of_all<'a>(all: impl Iterator<Item = &'a Metrics>) -> Option<Metrics> {
    let all: Vec<&Metrics> = all.collect();
    let first = *all.first()?;
    let sum = |of: fn(&Metrics) -> u64| all.iter().map(|metrics| of(metrics)).sum::<u64>();
    Some(Metrics {
        best_epoch: None,
        validation: None,
        test: None,
        segmentation: None,
        regression: first
            .regression
            .as_ref()
            .map(|of| RegressionSummary { target: of.target.clone(), ..Default::default() }),
        steps: sum(|metrics| metrics.steps),
        epochs: sum(|metrics| metrics.epochs),
        recoveries: sum(|metrics| metrics.recoveries),
        seconds: all.iter().map(|metrics| metrics.seconds).sum(),
        images_per_second: all.iter().map(|metrics| metrics.images_per_second).sum::<f64>() / all.len() as f64,
        peak_memory_bytes: all.iter().map(|metrics| metrics.peak_memory_bytes).max().unwrap_or(0),
        ..first.clone()
    })
}

#[cfg(test)]
mod tests {
    use kindling_metrics::{Resampling, Scores};

    use super::*;
    use crate::{Predicted, PredictionTable};

    /// A cross-validation of three folds with four images each, of which the first model has so many right.
    fn folds(folder: &Path, right: usize) {
        let mut runs = Vec::new();
        for fold in 1..=3 {
            let run = RunDir::create(Some(&fold_in(folder, fold)), "m", "d").unwrap();
            let config = format!("[train]\nlr = 0.{right}\n[data.opening]\nfold = '{fold}/3'\n");
            run.write_config(&config.parse::<toml::Table>().unwrap()).unwrap();
            let image = |at: usize| Predicted {
                sample: format!("{fold}-{at}"),
                split: "test".into(),
                truth: vec![at % 2],
                probabilities: if at.is_multiple_of(2) == (at < right) { vec![0.75, 0.25] } else { vec![0.25, 0.75] },
                ..Predicted::default()
            };
            let classes = vec!["a".to_owned(), "b".to_owned()];
            let table = PredictionTable { classes, images: (0..4).map(image).collect(), ..PredictionTable::default() };
            table.write(&run.predictions()).unwrap();
            let predictions = table.predictions("test").unwrap().unwrap();
            run.write_scores(&Scores::of("test", &table.classes, &predictions, None, Resampling::default())).unwrap();
            let metrics = Metrics { steps: 5, seconds: 2.0, peak_memory_bytes: fold as u64, ..Metrics::default() };
            run.write_metrics(&metrics).unwrap();
            runs.push(run);
        }
        let (found, answers) = CrossValidation::of(&runs, Resampling::default()).unwrap();
        answers.write(folder).unwrap();
        std::fs::write(folder.join(RESULTS), serde_json::to_string(&found).unwrap()).unwrap();
    }

    #[test]
    fn the_folds_together_are_one_record_with_what_they_share_and_what_they_cost() {
        let folder = tempfile::tempdir().unwrap();
        folds(folder.path(), 4);
        assert!(Folds::are_in(folder.path()) && !Folds::are_in(&folder.path().join("fold-1")));
        let read = Folds::open(folder.path()).unwrap();
        assert_eq!((read.runs.len(), read.answers.samples().len()), (3, 12));
        let record = read.record().unwrap();
        assert_eq!((record.setting("train.lr"), record.setting(OWN)), (Some("0.4"), None));
        let metrics = record.metrics.unwrap();
        assert_eq!((metrics.steps, metrics.seconds, metrics.peak_memory_bytes), (15, 6.0, 3));
        assert_eq!(record.scores.unwrap().samples(), 12);
    }

    #[test]
    fn what_has_not_ended_is_told_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        folds(folder.path(), 4);
        std::fs::remove_file(folder.path().join(RESULTS)).unwrap();
        assert!(Folds::are_in(folder.path()), "folds lie there");
        let sentence = Folds::open(folder.path()).unwrap_err().to_string();
        assert!(sentence.contains("cross-validation.json") && sentence.contains("has not ended"), "{sentence}");
        assert!(!Folds::are_in(&folder.path().join("nothing")));
    }
}
