//! What is said of a run as a whole: its configuration at the start, its results at the end.

use jiff::Timestamp;
use kindling_runs::{Event, PredictionTable, RunDir, TaskScores};
use serde_json::Value;

use crate::TrackingError;
use crate::entry::{Name, RESULT};
use crate::histogram::Histogram;

/// What is known of a run when it begins.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct About {
    /// The last part of its folder's path.
    pub(crate) name: String,
    /// When it began, in seconds since 1970.
    pub(crate) started: f64,
    /// `config.toml`.
    pub(crate) config: Value,
}

impl About {
    /// Reads a run whose log begins with `first`.
    ///
    /// # Errors
    /// [`TrackingError::Run`] if the configuration cannot be read.
    pub(crate) fn of(run: &RunDir, first: &Event) -> Result<Self, TrackingError> {
        let said = match first {
            Event::Started { time, .. } => Some(time.clone()),
            // A log that has lost its first line.
            _ => run.read_environment().ok().map(|environment| environment.time),
        };
        let started = said.and_then(|time| time.parse::<Timestamp>().ok());
        let path = std::path::absolute(run.path()).unwrap_or_else(|_| run.path().to_owned());
        let name = path.components().next_back().map(|part| part.as_os_str().to_string_lossy().into_owned());
        Ok(Self {
            name: name.unwrap_or_default(),
            started: started.map_or(0.0, |time| time.as_duration().as_secs_f64()),
            config: run.read_config()?,
        })
    }

    /// The settings by their keys with dots, such as `train.lr`. Lists are text.
    pub(crate) fn settings(&self) -> Vec<(String, Value)> {
        let mut settings = Vec::new();
        flatten(&self.config, "", ".", &mut settings);
        settings
    }
}

/// A setting as text.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn flatten(value: &Value, key: &str, separator: &str, into: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(map) => {
            for (inner, value) in map {
                let key = if key.is_empty() { inner.clone() } else { format!("{key}{separator}{inner}") };
                flatten(value, &key, separator, into);
            }
        }
        Value::Array(_) => into.push((key.to_owned(), Value::String(value.to_string()))),
        value => into.push((key.to_owned(), value.clone())),
    }
}

/// The numbers of `metrics.json` and the scores with the ends of their intervals, by name; none of what is not there.
///
/// # Errors
/// [`TrackingError::Run`] if a file that is there cannot be read.
pub(crate) fn results(run: &RunDir) -> Result<Vec<(Name, f64)>, TrackingError> {
    let mut results: Vec<(Name, f64)> = Vec::new();
    if run.metrics().exists() {
        let path = run.metrics();
        let text =
            kindling_files::read(&path, kindling_files::MAX_TEXT_BYTES).map_err(TrackingError::on("read", &path))?;
        let metrics: Value = serde_json::from_slice(&text)
            .map_err(|error| kindling_runs::RunError::Malformed { path, reason: error.to_string() })?;
        let mut flat = Vec::new();
        flatten(&metrics, "", "/", &mut flat);
        let numbers =
            flat.into_iter().filter_map(|(key, value)| Some((format!("{RESULT}{key}").into(), number(&value)?)));
        results.extend(numbers);
    }
    let mut add = |split: &str, name: &str, value: f64, interval: Option<(f64, f64)>| {
        let name = format!("{RESULT}{split}/{name}");
        if let Some((low, high)) = interval {
            results.push((format!("{name}/low").into(), low));
            results.push((format!("{name}/high").into(), high));
        }
        results.push((name.into(), value));
    };
    if let Some(scores) = TaskScores::of_run(run)? {
        let figures = scores.figures().into_iter();
        figures.for_each(|figure| add(scores.split(), &figure.name, figure.value, figure.interval));
    }
    Ok(results)
}

/// A number, with the words that stand for those that JSON does not have.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(word) => match word.as_str() {
            "NaN" => Some(f64::NAN),
            "inf" => Some(f64::INFINITY),
            "-inf" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

/// How sure the model was of its answers, by split: the largest probability of each image of `predictions.csv`.
///
/// # Errors
/// [`TrackingError::Run`] if the table is there and cannot be read.
pub(crate) fn confidences(run: &RunDir) -> Result<Vec<(&'static str, Histogram)>, TrackingError> {
    if !run.predictions().exists() {
        return Ok(Vec::new());
    }
    let table = PredictionTable::read(&run.predictions())?;
    let of = |split: &str| -> Vec<f64> {
        let largest = |probabilities: &[f64]| probabilities.iter().copied().reduce(f64::max);
        table.of_split(split).filter_map(|image| largest(&image.probabilities)).collect()
    };
    let splits = [("val/confidence", of("val")), ("test/confidence", of("test"))];
    Ok(splits.into_iter().filter_map(|(name, values)| Some((name, Histogram::of(&values)?))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_results_of_a_run_that_segments_are_its_means_with_their_intervals() {
        let folder = tempfile::tempdir().unwrap();
        let run = crate::testing::run(folder.path());
        let of = |name: &str, value: f64, interval: &str| {
            format!(r#"{{"name":"{name}","value":{value},"interval":{interval}}}"#)
        };
        let text = format!(
            r#"{{"split":"test","cases":2,"patients":2,"resamples":9,"seed":0,"tolerance":2,"unit":"mm","classes":[],"dice":{},"iou":{},
            "hausdorff_95":{{"quartiles":null,"defined":0,"undefined":2}}}}"#,
            of("mean_dice", 0.75, "[0.5,0.875]"),
            of("mean_iou", 0.625, "null")
        );
        std::fs::write(run.segmentation_scores(), text).unwrap();
        let found: Vec<(String, f64)> =
            results(&run).unwrap().into_iter().map(|(name, value)| (name.into_owned(), value)).collect();
        let named = |name: &str, value: f64| (format!("{RESULT}test/{name}"), value);
        let expected = [("mean_dice/low", 0.5), ("mean_dice/high", 0.875), ("mean_dice", 0.75), ("mean_iou", 0.625)];
        assert_eq!(found, expected.map(|(name, value)| named(name, value)));
    }
}
