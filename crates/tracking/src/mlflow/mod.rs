//! MLflow: a run on a tracking server, over its REST interface (<https://mlflow.org/docs/latest/api_reference/rest-api.html>).
//!
//! The server has what has arrived: each metric with its last step. It takes the same number of the same step and time once, so that
//! a call whose answer was lost can be made again. Which run is ours is noted in a small file, before the run is made: it is made with
//! a tag of our own, by which it is found if the answer is lost. Distributions and sentences have no place there.

mod client;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::PathBuf;

use kindling_files as files;
use kindling_runs::RunError;
use serde_json::{Map, Value, json};

use self::client::Client;
use crate::TrackingError;
use crate::about::{About, text};
use crate::entry::{Entry, Name, RESULT, What};
use crate::marks::Marks;
use crate::tracker::Tracker;
use crate::vocabulary::Ending;

/// The most metrics, and the most parameters, of one call.
const MOST_METRICS: usize = 1000;
const MOST_PARAMETERS: usize = 100;
/// The most characters of a parameter.
const MOST_CHARACTERS: usize = 6000;
/// The experiment of runs, unless the environment has another.
const EXPERIMENT: &str = "kindling";
/// The tag that says which run is ours.
const KEY: &str = "kindling.key";
/// The status of a run that goes on.
const RUNNING: &str = "RUNNING";

/// A run on a server.
#[derive(Debug)]
pub(crate) struct Mlflow {
    url: String,
    /// The file with the keys of this run, by the server's address.
    note: PathBuf,
    /// Open while a server answers.
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    client: Client,
    run_id: String,
    status: String,
    /// Where files of the run go, behind the root of the server's store; none if the server does not take them.
    store: Option<String>,
}

impl Mlflow {
    /// On the server at a checked address, with a note in the file `note`.
    pub(crate) fn new(url: String, note: PathBuf) -> Self {
        Self { url, note, open: None }
    }

    /// The key of this run on this server, noted before it is used.
    fn key(&self) -> Result<String, TrackingError> {
        let mut notes = match self.note.exists() {
            false => Map::new(),
            true => {
                let text =
                    files::read(&self.note, files::MAX_TEXT_BYTES).map_err(TrackingError::on("read", &self.note))?;
                serde_json::from_slice(&text)
                    .map_err(|error| RunError::Malformed { path: self.note.clone(), reason: error.to_string() })?
            }
        };
        if let Some(key) = notes.get(&self.url).and_then(Value::as_str) {
            return Ok(key.to_owned());
        }
        // Hashes of the standard library have keys of their own, so nobody else has this number.
        let half = || RandomState::new().build_hasher().finish();
        let key = format!("{:016x}{:016x}", half(), half());
        notes.insert(self.url.clone(), json!(key));
        let text = format!("{:#}\n", Value::Object(notes));
        kindling_runs::write_atomically(&self.note, text.as_bytes())?;
        Ok(key)
    }
}

/// The experiment's number; it is made if it is not there.
fn experiment(client: &Client) -> Result<String, TrackingError> {
    let given = std::env::var("MLFLOW_EXPERIMENT_NAME").ok().filter(|name| !name.is_empty());
    let name = given.as_deref().unwrap_or(EXPERIMENT);
    let find = || {
        let found = client.get("experiments/get-by-name", &[("experiment_name", name)])?;
        Ok(found["experiment"]["experiment_id"].as_str().unwrap_or_default().to_owned())
    };
    match find() {
        Err(TrackingError::Refused { status: 404, .. }) => {}
        found => return found,
    }
    match client.post("experiments/create", &json!({ "name": name })) {
        Ok(made) => Ok(made["experiment_id"].as_str().unwrap_or_default().to_owned()),
        // Somebody else has just made it.
        Err(TrackingError::Refused { status: 400 | 409, .. }) => find(),
        Err(error) => Err(error),
    }
}

/// The run with this key; it is made if it is not there.
fn run(client: &Client, key: &str, about: &About) -> Result<Value, TrackingError> {
    let experiment = experiment(client)?;
    let wanted = json!({
        "experiment_ids": [experiment], "filter": format!("tags.`{KEY}` = '{key}'"), "run_view_type": "ALL", "max_results": 1,
    });
    let mut found = client.post("runs/search", &wanted)?;
    if let Some(run) = found["runs"].get_mut(0) {
        return Ok(run.take());
    }
    let tags = [(KEY, key), ("mlflow.source.name", "kindling"), ("mlflow.source.type", "LOCAL")];
    let tags = tags.map(|(key, value)| json!({ "key": key, "value": value }));
    let new = json!({
        "experiment_id": experiment, "run_name": about.name, "start_time": milliseconds(about.started), "tags": tags,
    });
    Ok(client.post("runs/create", &new)?["run"].take())
}

fn milliseconds(seconds: f64) -> i64 {
    (seconds * 1000.0).round() as i64
}

/// A number as the interface takes it. The database keeps the largest number for an infinite one.
fn number(value: f64) -> Value {
    match value {
        value if value.is_finite() => json!(value),
        value if value.is_nan() => json!("NaN"),
        value if value > 0.0 => json!("Infinity"),
        _ => json!("-Infinity"),
    }
}

/// The metrics of entries, in calls of at most 1000; those of one entry go in one call.
fn batches(entries: &[Entry]) -> Vec<Vec<Value>> {
    let mut batches: Vec<Vec<Value>> = Vec::new();
    for entry in entries {
        let (What::Values(values) | What::Results(values)) = &entry.what else { continue };
        let metric = |(name, value): &(Name, f64)| {
            let time = milliseconds(entry.time);
            json!({ "key": name, "value": number(*value), "timestamp": time, "step": entry.step })
        };
        for values in values.chunks(MOST_METRICS) {
            let metrics = values.iter().map(metric);
            match batches.last_mut() {
                Some(batch) if batch.len() + values.len() <= MOST_METRICS => batch.extend(metrics),
                _ => batches.push(metrics.collect()),
            }
        }
    }
    batches
}

impl Open {
    fn log(&self, what: &str, items: &[Value]) -> Result<(), TrackingError> {
        self.client.post("runs/log-batch", &json!({ "run_id": self.run_id, what: items })).map(drop)
    }

    fn set_status(&mut self, status: &str, end: Option<f64>) -> Result<(), TrackingError> {
        if self.status != status {
            let mut update = json!({ "run_id": self.run_id, "status": status });
            if let Some(end) = end {
                update["end_time"] = json!(milliseconds(end));
            }
            self.client.post("runs/update", &update)?;
            self.status = status.to_owned();
        }
        Ok(())
    }

    /// The settings that the server does not have yet. They cannot be changed there.
    fn log_settings(&self, about: &About, run: &Value) -> Result<(), TrackingError> {
        let there = run["data"]["params"].as_array().into_iter().flatten();
        let there: Vec<&str> = there.filter_map(|parameter| parameter["key"].as_str()).collect();
        let settings = about.settings().into_iter().filter(|(key, _)| !there.contains(&key.as_str()));
        let parameters: Vec<Value> = settings
            .map(|(key, value)| {
                let value: String = text(&value).chars().take(MOST_CHARACTERS).collect();
                json!({ "key": key, "value": value })
            })
            .collect();
        parameters.chunks(MOST_PARAMETERS).try_for_each(|parameters| self.log("params", parameters))
    }

    /// The steps whose pictures are there.
    fn pictures(&self, name: &str) -> Result<Vec<u64>, TrackingError> {
        if self.store.is_none() {
            return Ok(Vec::new());
        }
        let listed = self.client.get("artifacts/list", &[("run_id", &self.run_id), ("path", name)])?;
        let paths = listed["files"].as_array().into_iter().flatten().filter_map(|file| file["path"].as_str());
        let step = |path: &str| path.rsplit('/').next()?.strip_suffix(".png")?.parse().ok();
        let mut steps: Vec<u64> = paths.filter_map(step).collect();
        steps.sort_unstable();
        Ok(steps)
    }
}

impl Tracker for Mlflow {
    fn open(&mut self, about: &About) -> Result<Marks, TrackingError> {
        self.open = None;
        let client = Client::new(&self.url)?;
        let run = run(&client, &self.key()?, about)?;
        let word = |name: &str| run["info"][name].as_str().unwrap_or_default().to_owned();
        // Elsewhere files go to a store that only its own clients reach.
        let store = word("artifact_uri").strip_prefix("mlflow-artifacts:/").map(str::to_owned);
        let store = store.filter(|store| !store.starts_with('/'));
        let open = Open { client, run_id: word("run_id"), status: word("status"), store };
        open.log_settings(about, &run)?;
        let mut marks = Marks::default();
        for metric in run["data"]["metrics"].as_array().into_iter().flatten() {
            let number = &metric["step"];
            let step = number.as_u64().or_else(|| number.as_str()?.parse().ok());
            if let (Some(key), Some(step)) = (metric["key"].as_str(), step) {
                marks.count(if key.starts_with(RESULT) { RESULT } else { key }, step);
            }
        }
        for step in open.pictures(crate::vocabulary::SAMPLES)? {
            marks.count(crate::vocabulary::SAMPLES, step);
        }
        self.open = Some(open);
        Ok(marks)
    }

    fn takes(&self, what: &What) -> bool {
        match what {
            What::Values(_) | What::Results(_) => true,
            What::Picture(..) => self.open.as_ref().is_some_and(|open| open.store.is_some()),
            What::Distribution(..) | What::Note(..) => false,
        }
    }

    fn deliver(&mut self, entries: &[Entry]) -> Result<(), TrackingError> {
        let Some(open) = &mut self.open else { return Ok(()) };
        open.set_status(RUNNING, None)?;
        for batch in batches(entries) {
            open.log("metrics", &batch)?;
        }
        for entry in entries {
            if let (What::Picture(name, path), Some(store)) = (&entry.what, &open.store)
                && let Ok(png) = files::read(path, files::MAX_TEXT_BYTES)
            {
                open.client.put_artifact(&format!("{store}/{name}/{:08}.png", entry.step), &png)?;
            }
        }
        Ok(())
    }

    fn end(&mut self, ending: Ending, now: &Entry) -> Result<(), TrackingError> {
        let Some(open) = &mut self.open else { return Ok(()) };
        match ending {
            // Whoever is killed has no word for it, and may go on.
            Ending::Open => Ok(()),
            Ending::Interrupted => open.set_status("KILLED", Some(now.time)),
            Ending::Finished => open.set_status("FINISHED", Some(now.time)),
        }
    }
}

#[cfg(test)]
mod tests;
