//! The messages of W&B's files. Names and numbers of fields are those of `wandb_internal.proto` of wandb 0.31.0.

use kindling_protobuf::{Output, encode, fields};
use serde_json::{Map, Value, json};

use crate::about::About;
use crate::histogram::Histogram;

/// The version of wandb whose files these are.
pub(super) const TESTED: &str = "0.31.0";
/// The oldest version that reads them, by what wandb itself writes.
const OLDEST: &str = "0.13.0";

/// The fields of a record that say what it is.
const HISTORY: u64 = 2;
const RUN: u64 = 17;

/// What a record of a file is, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The values of a step.
    History(u64),
    /// The name and the configuration of the run.
    Run,
    /// Anything else.
    Other,
}

impl Kind {
    /// Of a record's bytes.
    pub(super) fn of(record: &[u8]) -> Self {
        for (number, value) in fields(record) {
            match (number, value.bytes()) {
                (RUN, Some(_)) => return Self::Run,
                (HISTORY, Some(history)) => {
                    let step = fields(history).find(|(number, _)| *number == 2).and_then(|(_, step)| step.bytes());
                    let number = step.and_then(|step| fields(step).find(|(number, _)| *number == 1));
                    return Self::History(number.and_then(|(_, value)| value.int()).unwrap_or(0).cast_unsigned());
                }
                _ => {}
            }
        }
        Self::Other
    }
}

fn record(field: u64, content: &dyn Fn(&mut Output)) -> Vec<u8> {
    encode(&|out: &mut Output| out.message(field, &content))
}

/// Names with values in JSON, as the configuration, a row and the summary have them.
fn items(out: &mut Output, items: &Map<String, Value>) {
    for (key, value) in items {
        out.message(1, &|item: &mut Output| {
            item.bytes(1, key);
            item.bytes(16, value.to_string());
        });
    }
}

/// A number in JSON. W&B writes words for those that JSON does not have.
pub(super) fn number(value: f64) -> Value {
    match value {
        value if value.is_finite() => json!(value),
        value if value.is_nan() => json!("NaN"),
        value if value > 0.0 => json!("Infinity"),
        _ => json!("-Infinity"),
    }
}

/// A distribution as the value of a row.
pub(super) fn distribution(histogram: &Histogram) -> Value {
    json!({ "_type": "histogram", "values": histogram.counts, "bins": histogram.edges })
}

/// The first record: who writes.
pub(super) fn header() -> Vec<u8> {
    record(21, &|header| {
        header.message(1, &|version: &mut Output| {
            version.bytes(1, TESTED);
            version.bytes(2, OLDEST);
        });
    })
}

/// The run with its configuration.
pub(super) fn run(id: &str, project: &str, about: &About) -> Vec<u8> {
    let config = about.config.as_object();
    record(RUN, &|run| {
        run.bytes(1, id);
        run.bytes(3, project);
        if let Some(config) = config {
            run.message(4, &|out: &mut Output| items(out, config));
        }
        run.bytes(8, &about.name);
        run.message(17, &|out: &mut Output| timestamp(out, about.started));
    })
}

fn timestamp(out: &mut Output, seconds: f64) {
    out.int(1, seconds.floor() as i64);
    out.int(2, (seconds.rem_euclid(1.0) * 1e9) as i64);
}

/// The values of a step.
pub(super) fn history(step: u64, values: &Map<String, Value>) -> Vec<u8> {
    record(HISTORY, &|history| {
        items(history, values);
        history.message(2, &|out: &mut Output| out.int(1, step.cast_signed()));
    })
}

/// The names and values of a step's record.
pub(super) fn values(record: &[u8]) -> impl Iterator<Item = (String, Value)> {
    let history = fields(record).find(|(number, _)| *number == HISTORY).and_then(|(_, history)| history.bytes());
    fields(history.unwrap_or_default()).filter(|(number, _)| *number == 1).filter_map(|(_, item)| {
        let (mut key, mut value) = (None, None);
        for (number, field) in fields(item.bytes()?) {
            match number {
                1 => key = field.text().map(str::to_owned),
                16 => value = field.bytes().and_then(|json| serde_json::from_slice(json).ok()),
                _ => {}
            }
        }
        Some((key?, value?))
    })
}

/// The summary of the run: what tables of runs show.
pub(super) fn summary(values: &Map<String, Value>) -> Vec<u8> {
    record(3, &|summary| items(summary, values))
}

/// A line for the page with the run's output.
pub(super) fn line(time: f64, text: &str) -> Vec<u8> {
    record(13, &|output| {
        output.int(1, 1); // STDOUT
        output.message(2, &|out: &mut Output| timestamp(out, time));
        output.bytes(3, format!("{text}\n"));
    })
}

/// A file beside, which is sent at once.
pub(super) fn media(path: &str) -> Vec<u8> {
    record(6, &|files| {
        files.message(1, &|file: &mut Output| {
            file.bytes(1, path);
            file.int(3, 2); // MEDIA
        });
    })
}

/// The end of a complete run. A file without it is that of a run that failed.
pub(super) fn exit(seconds: f64) -> Vec<u8> {
    record(18, &|exit| {
        exit.int(1, 0);
        exit.int(2, seconds as i64);
    })
}
