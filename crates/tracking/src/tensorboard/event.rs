//! The messages of event files. Names and numbers of fields are those of `event.proto`, `summary.proto`, `tensor.proto`,
//! `tensor_shape.proto` and the hyperparameter plugin's `plugin_data.proto` and `api.proto`
//! (<https://github.com/tensorflow/tensorboard>, 2.21).

use kindling_files as files;
use kindling_protobuf::{Output, encode, fields};
use serde_json::Value as Setting;

use crate::about::{About, text};
use crate::entry::{Entry, NOTE, RESULT, What};
use crate::histogram::Histogram;
use crate::picture;

/// The tag of the configuration.
pub(super) const CONFIG: &str = "config";
/// The tag of the hyperparameter plugin's end of a run.
pub(super) const SESSION_END: &str = "_hparams_/session_end_info";
const SESSION_START: &str = "_hparams_/session_start_info";

/// The types of tensors that are written here.
const FLOAT: i64 = 1;
const STRING: i64 = 7;

/// The first message of every file.
pub(super) fn version(time: f64) -> Vec<u8> {
    encode(&|out: &mut Output| {
        out.double(1, time);
        out.bytes(3, "brain.Event:2");
    })
}

/// A message of values of a step.
fn event(time: f64, step: u64, values: &[&dyn Fn(&mut Output)]) -> Vec<u8> {
    encode(&|out: &mut Output| {
        out.double(1, time);
        out.int(2, step.cast_signed());
        out.message(5, &|summary: &mut Output| values.iter().for_each(|value| summary.message(1, value)));
    })
}

/// What an event is counted as, and its step; none of a message without values.
pub(super) fn series_of(event: &[u8]) -> Option<(&str, u64)> {
    let (mut step, mut tag) = (0, None);
    for (number, value) in fields(event) {
        match number {
            2 => step = value.int().unwrap_or_default().cast_unsigned(),
            5 => {
                let value = fields(value.bytes()?).find(|(number, _)| *number == 1)?.1.bytes()?;
                tag = fields(value).find(|(number, _)| *number == 1)?.1.text();
            }
            _ => {}
        }
    }
    let tag = tag?;
    Some((if tag.starts_with(RESULT) { RESULT } else { tag }, step))
}

/// What an entry is in an event file. A picture that is gone, or is none, is nothing.
pub(super) fn of(entry: &Entry) -> Option<Vec<u8>> {
    let message = |values: &[&dyn Fn(&mut Output)]| event(entry.time, entry.step, values);
    Some(match &entry.what {
        What::Values(values) | What::Results(values) => {
            let scalars: Vec<_> = values.iter().map(|(name, value)| scalar(name, *value)).collect();
            let scalars: Vec<&dyn Fn(&mut Output)> = scalars.iter().map(|scalar| scalar as _).collect();
            message(&scalars)
        }
        What::Distribution(name, histogram) => message(&[&distribution(name, histogram)]),
        What::Note(kind, sentence) => message(&[&words(format!("{NOTE}{kind}"), sentence.clone())]),
        What::Picture(name, path) => {
            let png = files::read(path, files::MAX_TEXT_BYTES).ok()?;
            let (width, height) = picture::size(&png)?;
            message(&[&|value: &mut Output| {
                value.bytes(1, name);
                value.message(4, &|image: &mut Output| {
                    image.int(1, height.into());
                    image.int(2, width.into());
                    image.int(3, 3);
                    image.bytes(4, &png);
                });
            }])
        }
    })
}

/// A number, in the form that every version reads. TensorBoard keeps float32.
fn scalar(name: &str, value: f64) -> impl Fn(&mut Output) {
    move |out| {
        out.bytes(1, name);
        out.float(2, value as f32);
    }
}

fn distribution(name: &str, histogram: &Histogram) -> impl Fn(&mut Output) {
    move |out| {
        out.bytes(1, name);
        out.message(5, &|inside: &mut Output| {
            let (least, most) = histogram.ends();
            inside.double(1, least);
            inside.double(2, most);
            inside.double(3, histogram.total() as f64);
            inside.double(4, histogram.sum);
            inside.double(5, histogram.sum_of_squares);
            // The upper ends of bins: a bin begins where the one before ends, and the first at the minimum.
            inside.doubles(6, histogram.edges.get(1..).unwrap_or_default());
            inside.doubles(7, &histogram.counts.iter().map(|count| *count as f64).collect::<Vec<_>>());
        });
    }
}

/// Text, which is shown as Markdown.
fn words(tag: String, text: String) -> impl Fn(&mut Output) {
    move |out| {
        out.bytes(1, &tag);
        out.message(8, &|tensor: &mut Output| {
            tensor.int(1, STRING);
            tensor.message(2, &|shape: &mut Output| shape.message(2, &|dimension: &mut Output| dimension.int(1, 1)));
            tensor.bytes(8, &text);
        });
        plugin(out, "text", &|_: &mut Output| {});
    }
}

fn plugin(out: &mut Output, name: &str, content: &dyn Fn(&mut Output)) {
    out.message(9, &|metadata: &mut Output| {
        metadata.message(1, &|data: &mut Output| {
            data.bytes(1, name);
            data.bytes(2, encode(&content));
        });
    });
}

/// A message of the hyperparameter plugin, beside a tensor without numbers, as the plugin's own writer has it.
fn hyperparameters(tag: &'static str, content: impl Fn(&mut Output)) -> impl Fn(&mut Output) {
    move |out| {
        out.bytes(1, tag);
        out.message(8, &|tensor: &mut Output| {
            tensor.int(1, FLOAT);
            tensor.message(2, &|shape: &mut Output| shape.message(2, &|dimension: &mut Output| dimension.int(1, 0)));
        });
        plugin(out, "hparams", &content);
    }
}

/// The configuration: a table to read, and values by which runs are compared.
pub(super) fn configuration(about: &About) -> Vec<u8> {
    let settings = about.settings();
    let mut table = "| setting | value |\n|---|---|\n".to_owned();
    for (key, value) in &settings {
        let value = text(value).replace('|', "\\|").replace(['\n', '\r'], " ");
        table.push_str(&format!("| {key} | {value} |\n"));
    }
    let start = |out: &mut Output| {
        out.int(1, 0);
        out.message(3, &|session: &mut Output| {
            for (key, value) in &settings {
                session.message(1, &|entry: &mut Output| {
                    entry.bytes(1, key);
                    entry.message(2, &|out: &mut Output| match value {
                        Setting::Number(number) => out.double(2, number.as_f64().unwrap_or(f64::NAN)),
                        Setting::Bool(yes) => out.int(4, (*yes).into()),
                        other => out.bytes(3, text(other)),
                    });
                });
            }
            session.bytes(4, &about.name);
            session.double(5, about.started);
        });
    };
    event(about.started, 0, &[&words(CONFIG.to_owned(), table), &hyperparameters(SESSION_START, start)])
}

/// The end of a complete run, for the table of hyperparameters.
pub(super) fn session_end(time: f64, step: u64) -> Vec<u8> {
    let end = |out: &mut Output| {
        out.int(1, 0);
        out.message(4, &|session: &mut Output| {
            session.int(1, 1); // STATUS_SUCCESS
            session.double(2, time);
        });
    };
    event(time, step, &[&hyperparameters(SESSION_END, end)])
}
