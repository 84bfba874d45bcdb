//! The history of a run: who worked on it, when, with what and from which step.

use serde::{Deserialize, Serialize};

use crate::{Environment, RunDir, RunError, write_atomically};
use kindling_files as files;

/// One line of `history.jsonl`: the run was started, or continued.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sitting {
    /// Whether the run was started, resumed or extended.
    pub how: How,
    /// Optimizer steps that were done before.
    pub from_step: u64,
    /// What was said that has no influence on the result, or that says where the data is now: settings by their keys, with
    /// values as they are written. Of a start, nothing: its settings are the configuration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<(String, String)>,
    /// When, with which version and command line, and on what.
    #[serde(flatten)]
    pub environment: Environment,
}

/// What was done with a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum How {
    /// It began.
    Started,
    /// It went on from a checkpoint.
    Resumed,
    /// It was made longer, and went on.
    Extended,
}

impl RunDir {
    /// Adds a sitting to the history, atomically. The start of a run of an earlier version, which has no history, is taken from
    /// its environment, unless that was replaced.
    ///
    /// # Errors
    /// [`RunError::Malformed`] if the history cannot be read, [`RunError::Io`], [`RunError::DiskFull`].
    pub fn add_to_history(&self, sitting: Sitting) -> Result<(), RunError> {
        let mut history = self.read_history()?;
        if history.is_empty()
            && sitting.how != How::Started
            && let Ok(environment) = self.read_environment()
        {
            history.push(Sitting { how: How::Started, from_step: 0, changed: Vec::new(), environment });
        }
        history.push(sitting);
        let mut text = String::new();
        for sitting in &history {
            let line = serde_json::to_string(sitting)
                .map_err(|error| RunError::Inexpressible { path: self.history(), reason: error.to_string() })?;
            text.push_str(&line);
            text.push('\n');
        }
        write_atomically(&self.history(), text.as_bytes())
    }

    /// Every sitting, in order; none of a run of an earlier version that was not continued since.
    ///
    /// # Errors
    /// [`RunError::Malformed`] with the line's number, [`RunError::Io`].
    pub fn read_history(&self) -> Result<Vec<Sitting>, RunError> {
        let path = self.history();
        if !path.exists() {
            return Ok(Vec::new());
        }
        let text = files::read_to_string(&path, files::MAX_LOG_BYTES).map_err(RunError::on("read", &path))?;
        let lines = text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty());
        let parse = |(line, number): (&str, usize)| {
            serde_json::from_str(line).map_err(|error| RunError::Malformed {
                path: path.clone(),
                reason: format!("line {number} is no entry of a history ({error})"),
            })
        };
        lines.map(parse).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DeviceFacts;

    fn sitting(how: How, from_step: u64) -> Sitting {
        let facts = DeviceFacts { device: "cpu".into(), ..DeviceFacts::default() };
        let changed = vec![("workers".to_string(), "2".to_string())];
        Sitting { how, from_step, changed, environment: Environment::collect("0.22.1", facts) }
    }

    #[test]
    fn a_history_keeps_every_sitting_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::create(Some(folder.path()), "m", "d").unwrap();
        assert_eq!(run.read_history().unwrap(), []);
        let sittings = [sitting(How::Started, 0), sitting(How::Resumed, 7), sitting(How::Extended, 24)];
        sittings.iter().for_each(|sitting| run.add_to_history(sitting.clone()).unwrap());
        assert_eq!(run.read_history().unwrap(), sittings);
    }

    #[test]
    fn the_start_of_a_run_of_an_earlier_version_is_what_its_environment_says() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::create(Some(folder.path()), "m", "d").unwrap();
        let environment = Environment { time: "2025-01-01T00:00:00+00:00".into(), ..Environment::default() };
        run.write_environment(&environment).unwrap();
        run.add_to_history(sitting(How::Resumed, 7)).unwrap();
        let history = run.read_history().unwrap();
        assert_eq!((history[0].how, history[0].from_step, &history[0].environment), (How::Started, 0, &environment));
        assert_eq!(history.len(), 2);
    }

    #[test]
    fn a_history_that_cannot_be_read_names_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::create(Some(folder.path()), "m", "d").unwrap();
        run.add_to_history(sitting(How::Started, 0)).unwrap();
        let text = std::fs::read_to_string(run.history()).unwrap();
        std::fs::write(run.history(), text + "{}\n").unwrap();
        let sentence = run.read_history().unwrap_err().to_string();
        assert!(sentence.contains("history.jsonl") && sentence.contains("line 2"), "{sentence}");
    }
}
