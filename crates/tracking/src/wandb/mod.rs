//! Weights & Biases: the folder of an offline run, which `wandb sync` takes. Nothing is sent from here.
//!
//! The format is internal to wandb; it is that of version 0.31.0, with which it was tested.
//!
//! A row has all values of a step. It is complete when a later step begins, so the last one waits until then, or until the end. A run that
//! goes on after that may have more to say of its last step (an evaluation, say): whoever opens a file takes its last row off, with what
//! follows, and builds it again from the log.

mod block_log;
mod record;

use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::PathBuf;

use data_encoding::HEXLOWER;
use jiff::Timestamp;
use kindling_files as files;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use self::record::Kind;
use crate::TrackingError;
use crate::about::About;
use crate::appended::Appended;
use crate::entry::{Entry, What};
use crate::marks::Marks;
use crate::picture;
use crate::tracker::Tracker;
use crate::vocabulary::Ending;

/// The project in which runs are shown, unless `wandb sync --project` says another.
const PROJECT: &str = "kindling";
/// The beginning of the folder's name, by which wandb knows what it is.
const PREFIX: &str = "offline-run-";

/// The offline run in a folder.
#[derive(Debug)]
pub(crate) struct Wandb {
    place: PathBuf,
    folder: PathBuf,
    file: Option<Appended>,
    /// The step whose row is not complete.
    row: Option<Row>,
    /// The summary: the newest value of each name, and the results.
    newest: Map<String, Value>,
}

/// What is known of a step.
#[derive(Clone, Debug)]
struct Row {
    step: u64,
    time: f64,
    values: Map<String, Value>,
    lines: Vec<String>,
    media: Vec<String>,
}

impl Row {
    fn new(entry: &Entry) -> Self {
        let values =
            [("_step", json!(entry.step)), ("_timestamp", json!(entry.time)), ("_runtime", json!(entry.seconds))];
        let values = values.map(|(key, value)| (key.to_owned(), value)).into_iter().collect();
        Self { step: entry.step, time: entry.time, values, lines: Vec::new(), media: Vec::new() }
    }

    /// Its records: the row first, so that cutting the file before the row removes them all.
    fn records(&self) -> Vec<Vec<u8>> {
        let mut records = vec![record::history(self.step, &self.values)];
        records.extend(self.media.iter().map(|path| record::media(path)));
        records.extend(self.lines.iter().map(|line| record::line(self.time, line)));
        records
    }
}

impl Wandb {
    /// In the folder `place`, which need not be there.
    pub(crate) fn new(place: PathBuf) -> Self {
        Self { folder: place.clone(), place, file: None, row: None, newest: Map::new() }
    }

    /// The folder of the run and its name: those that are there, or new ones.
    fn find(&self, about: &About) -> (PathBuf, String) {
        let entries = fs::read_dir(&self.place).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.retain(|name| name.starts_with(PREFIX));
        let found = names.into_iter().min();
        let name = found.unwrap_or_else(|| {
            let started = Timestamp::from_second(about.started as i64).unwrap_or_default();
            format!("{PREFIX}{}-{}", started.strftime("%Y%m%d_%H%M%S"), new_id())
        });
        let id = name.rsplit_once('-').map_or("", |(_, id)| id).to_owned();
        (self.place.join(name), id)
    }

    fn append<'a>(&mut self, records: impl IntoIterator<Item = &'a Vec<u8>>) -> Result<(), TrackingError> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let mut bytes = Vec::new();
        records.into_iter().for_each(|record| block_log::write(record, file.length(), &mut bytes));
        file.append(&bytes)
    }

    /// Copies a picture to where `wandb sync` takes it from, and returns its path there and its value. One that is gone, or is none, is
    /// nothing.
    fn picture(&self, name: &str, step: u64, path: &std::path::Path) -> Result<Option<(String, Value)>, TrackingError> {
        let Ok(png) = files::read(path, files::MAX_TEXT_BYTES) else { return Ok(None) };
        let Some((width, height)) = picture::size(&png) else { return Ok(None) };
        let sum = HEXLOWER.encode(&Sha256::digest(&png));
        let inside = format!("media/images/{name}_{step}_{}.png", &sum[..20]);
        let copy = self.folder.join("files").join(&inside);
        let folder = self.folder.join("files/media/images");
        fs::create_dir_all(&folder).map_err(TrackingError::on("create", &folder))?;
        kindling_runs::write_atomically(&copy, &png)?;
        let value = json!({
            "_type": "image-file", "format": "png", "path": inside, "sha256": sum, "size": png.len(),
            "width": width, "height": height,
        });
        Ok(Some((inside, value)))
    }
}

/// Whether a value belongs in the summary, which is a table: no picture, no distribution.
fn is_plain((_, value): &(String, Value)) -> bool {
    !value.is_object()
}

/// Eight letters and digits at random: the standard library gives every hasher of this kind new keys.
fn new_id() -> String {
    let mut number = RandomState::new().build_hasher().finish();
    let digit = |_| {
        let digit = char::from_digit((number % 36) as u32, 36).unwrap_or('0');
        number /= 36;
        digit
    };
    (0..8).map(digit).collect()
}

impl Tracker for Wandb {
    fn open(&mut self, about: &About) -> Result<Marks, TrackingError> {
        let is_first = self.file.is_none();
        let (folder, id) = self.find(about);
        let path = folder.join(format!("run-{id}.wandb"));
        let (mut file, bytes) = Appended::open(&path)?;
        let front = &bytes[..bytes.len().min(block_log::FRONT.len())];
        if !block_log::FRONT.starts_with(front) {
            return Err(TrackingError::Foreign { path, reason: "it is no file of an offline run" });
        }
        // Where the run is named; then rows, each with the step before it and where it begins.
        let mut end = front.len();
        let mut named = None;
        let mut floor = None;
        let mut last = None;
        for (record, after) in block_log::records(&bytes) {
            match Kind::of(&record) {
                Kind::Run => named = Some(after),
                Kind::History(step) => {
                    self.newest.extend(record::values(&record).filter(is_plain));
                    last = Some((floor, end));
                    floor = Some(step);
                }
                Kind::Other => {}
            }
            end = after;
        }
        // Rows that this process has written are complete but for the one that it still has.
        if let (true, Some((before, start))) = (is_first, last) {
            (floor, end) = (before, start);
        }
        if last.is_none() {
            end = named.unwrap_or(0);
        }
        file.cut(end as u64)?;
        if named.is_none() {
            file.append(&block_log::FRONT)?;
        }
        self.file = Some(file);
        self.folder = folder;
        if named.is_none() {
            self.append(&[record::header(), record::run(&id, PROJECT, about)])?;
        }
        self.row.take_if(|row| floor.is_some_and(|floor| row.step <= floor));
        Ok(Marks::up_to(floor))
    }

    fn takes(&self, _: &What) -> bool {
        true
    }

    fn deliver(&mut self, entries: &[Entry]) -> Result<(), TrackingError> {
        let mut row = self.row.clone();
        let mut records = Vec::new();
        for entry in entries {
            if let Some(complete) = row.take_if(|row| row.step < entry.step) {
                records.extend(complete.records());
            }
            let row = row.get_or_insert_with(|| Row::new(entry));
            if let Some(epoch) = entry.epoch {
                row.values.insert("epoch".into(), json!(epoch));
            }
            match &entry.what {
                What::Values(values) => {
                    row.values.extend(values.iter().map(|(name, value)| (name.to_string(), record::number(*value))));
                }
                What::Distribution(name, histogram) => {
                    row.values.insert((*name).into(), record::distribution(histogram));
                }
                What::Picture(name, path) => {
                    if let Some((inside, value)) = self.picture(name, entry.step, path)? {
                        row.values.insert((*name).into(), value);
                        row.media.push(inside);
                    }
                }
                What::Note(kind, text) => row.lines.push(format!("step {}, {kind}: {text}", entry.step)),
                What::Results(values) => {
                    self.newest.extend(values.iter().map(|(name, value)| (name.to_string(), record::number(*value))));
                }
            }
            self.newest.extend(row.values.clone().into_iter().filter(is_plain));
        }
        self.append(&records)?;
        self.row = row;
        Ok(())
    }

    fn end(&mut self, ending: Ending, now: &Entry) -> Result<(), TrackingError> {
        let mut records = self.row.as_ref().map(Row::records).unwrap_or_default();
        records.push(record::summary(&self.newest));
        if ending == Ending::Finished {
            records.push(record::exit(now.seconds));
        }
        self.append(&records)?;
        self.row = None;
        Ok(())
    }
}

/// The series of a file's rows, each with its step.
#[cfg(test)]
pub(crate) fn arrived(bytes: &[u8]) -> Vec<(String, u64)> {
    let rows = block_log::records(bytes).filter_map(|(record, _)| match Kind::of(&record) {
        Kind::History(step) => Some((record, step)),
        _ => None,
    });
    rows.flat_map(|(record, step)| record::values(&record).map(|(key, _)| (key, step)).collect::<Vec<_>>()).collect()
}
