//! A run as its files tell it: what a model card, and a page about several runs, are made of.

use std::collections::BTreeMap;

use crate::comparing::flat;
use crate::{BadSamples, Environment, Event, EventLog, ListedSamples, Metrics, RunDir, RunError, Sitting, TaskScores};

/// Everything that the files of one network's run say. What the run has not come to, or what was not copied with it, is missing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Record {
    /// The values of `config.toml` by their keys with dots, such as `train.lr`.
    pub settings: BTreeMap<String, String>,
    /// `metrics.json`.
    pub metrics: Option<Metrics>,
    /// `scores.json`; of a run that segments `segmentation.json`, of one that answers with a number `regression.json`.
    pub scores: Option<TaskScores>,
    /// `events.jsonl`, in order.
    pub events: Vec<Event>,
    /// `environment.json`.
    pub environment: Option<Environment>,
    /// `history.jsonl`, in order.
    pub history: Vec<Sitting>,
    /// Samples of each split that stand in `bad-samples.jsonl`, without splits that have none.
    pub bad_samples: Vec<(String, usize)>,
    /// What `data.csv` lists; none in runs of earlier versions.
    pub samples: Option<ListedSamples>,
}

impl Record {
    /// Reads the files of a run.
    ///
    /// # Errors
    /// [`RunError::Malformed`] or [`RunError::Io`], if a file that is there cannot be read.
    pub fn of(run: &RunDir) -> Result<Self, RunError> {
        let bad = BadSamples::unwritten(&run.bad_samples())?;
        let bad_of = |split: &str| (split.to_owned(), bad.samples(split).len());
        Ok(Self {
            settings: flat(&run.read_config()?),
            metrics: run.metrics().exists().then(|| run.read_metrics()).transpose()?,
            scores: TaskScores::of_run(run)?,
            events: if run.events().exists() { EventLog::read(&run.events())? } else { Vec::new() },
            environment: run.environment().exists().then(|| run.read_environment()).transpose()?,
            history: run.read_history()?,
            bad_samples: ["train", "val", "test"].map(bad_of).into_iter().filter(|(_, count)| *count > 0).collect(),
            samples: run.data().exists().then(|| ListedSamples::read(&run.data())).transpose()?,
        })
    }

    /// Whether the run segments, as far as its files tell.
    pub fn segments(&self) -> bool {
        let measured = || self.metrics.as_ref().is_some_and(|metrics| metrics.segmentation.is_some());
        let evaluated = || self.events.iter().any(|event| matches!(event, Event::Evaluated { dice: Some(_), .. }));
        matches!(self.scores, Some(TaskScores::Masks(_))) || measured() || evaluated()
    }

    /// Whether the run answers with a number, as far as its files tell.
    pub fn regresses(&self) -> bool {
        let measured = || self.metrics.as_ref().is_some_and(|metrics| metrics.regression.is_some());
        let evaluated = || self.events.iter().any(|event| matches!(event, Event::Evaluated { mae: Some(_), .. }));
        matches!(self.scores, Some(TaskScores::Values(_))) || measured() || evaluated()
    }

    /// A setting by its key with dots; `None` where the configuration has no such key.
    pub fn setting(&self, key: &str) -> Option<&str> {
        self.settings.get(key).map(String::as_str)
    }

    /// The model's name in the zoo.
    pub fn model(&self) -> &str {
        let measured = || self.metrics.as_ref().map(|metrics| metrics.model.as_str());
        self.setting("model.name").or_else(measured).unwrap_or("unknown")
    }

    /// The data set's name or path, as it was given.
    pub fn data(&self) -> &str {
        let measured = || self.metrics.as_ref().map(|metrics| metrics.data.as_str());
        self.setting("data.source").or_else(measured).unwrap_or("unknown")
    }

    /// The names of the classes, in the order of their indices; empty before they are known.
    pub fn classes(&self) -> &[String] {
        let started = self.events.iter().find_map(|event| match event {
            Event::Started { classes, .. } => Some(classes.as_slice()),
            _ => None,
        });
        let measured = self.metrics.as_ref().map(|metrics| metrics.classes.as_slice());
        measured.filter(|classes| !classes.is_empty()).or(started).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BadSampleLine, SegmentationSummary};

    #[test]
    fn a_record_has_what_the_files_have_and_lacks_what_they_lack() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::create(Some(&folder.path().join("run")), "m", "d").unwrap();
        run.write_config(&"[model]\nname = 'x'\n[data]\nsource = 'scans'\n".parse::<toml::Table>().unwrap()).unwrap();
        let begun = Record::of(&run).unwrap();
        assert_eq!((begun.model(), begun.data(), begun.classes().len()), ("x", "scans", 0));
        assert_eq!((&begun.metrics, &begun.scores, &begun.samples), (&None, &None, &None));

        let mut metrics = Metrics { classes: vec!["a".into(), "b".into()], steps: 12, ..Metrics::default() };
        assert!(!begun.segments());
        metrics.segmentation = Some(SegmentationSummary::default());
        run.write_metrics(&metrics).unwrap();
        run.write_data(b"split,group,label,path,size,crc32_of_ends\ntrain,,a,x.png,1,2\n").unwrap();
        let mut bad = BadSamples::open(&run.bad_samples()).unwrap();
        let line =
            BadSampleLine { split: "train".into(), sample: 0, path: "x.png".into(), reason: "it is empty".into() };
        bad.add(&line).unwrap();
        let ended = Record::of(&run).unwrap();
        assert_eq!(ended.classes(), ["a", "b"]);
        assert!(ended.segments());
        assert_eq!(ended.bad_samples, [("train".to_owned(), 1)]);
        assert_eq!(ended.samples.map(|samples| samples.splits.len()), Some(1));
    }

    #[test]
    fn a_file_that_cannot_be_understood_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::create(Some(&folder.path().join("run")), "m", "d").unwrap();
        run.write_config(&toml::Table::new()).unwrap();
        let scores = [run.scores(), run.segmentation_scores(), run.regression_scores()];
        for path in scores.into_iter().chain([run.metrics(), run.environment(), run.data()]) {
            std::fs::write(&path, "nonsense\n").unwrap();
            let sentence = Record::of(&run).unwrap_err().to_string();
            assert!(sentence.contains(&path.display().to_string()), "{sentence}");
            std::fs::remove_file(&path).unwrap();
        }
    }
}
