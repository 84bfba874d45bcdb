//! TensorBoard: one event file, to which every sitting of a run adds.

mod event;
mod tf_record;

use std::fs;
use std::path::PathBuf;

use crate::TrackingError;
use crate::about::About;
use crate::appended::Appended;
use crate::entry::{Entry, What};
use crate::marks::Marks;
use crate::tracker::Tracker;
use crate::vocabulary::Ending;

/// The end of the file's name, by which it is found again.
const SUFFIX: &str = ".kindling";

/// The event file in a folder.
#[derive(Debug)]
pub(crate) struct TensorBoard {
    folder: PathBuf,
    file: Option<Appended>,
    ended: Option<u64>,
}

impl TensorBoard {
    /// In `folder`, which need not be there.
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder, file: None, ended: None }
    }

    /// The file that is there already, or the name of one. TensorBoard reads every file with `tfevents` in its name.
    fn path(&self, about: &About) -> PathBuf {
        let is_ours = |name: &str| name.contains("tfevents") && name.ends_with(SUFFIX);
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let ours = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_ours)).map(|entry| entry.path());
        let new = || self.folder.join(format!("events.out.tfevents.{:010}{SUFFIX}", about.started as u64));
        ours.min().unwrap_or_else(new)
    }

    fn append(&mut self, messages: impl Iterator<Item = Vec<u8>>) -> Result<(), TrackingError> {
        let mut bytes = Vec::new();
        messages.for_each(|message| tf_record::write(&message, &mut bytes));
        self.file.as_mut().map_or(Ok(()), |file| file.append(&bytes))
    }
}

impl Tracker for TensorBoard {
    fn open(&mut self, about: &About) -> Result<Marks, TrackingError> {
        let (mut file, bytes) = Appended::open(&self.path(about))?;
        let mut marks = Marks::default();
        let mut rest = &bytes[..];
        while let Some((message, after)) = tf_record::read(rest) {
            rest = after;
            if let Some((series, step)) = event::series_of(message) {
                marks.count(series, step);
                if series == event::SESSION_END {
                    self.ended = Some(step);
                }
            }
        }
        // What a kill has torn off is written again; readers that have seen the half wait for the rest.
        file.cut((bytes.len() - rest.len()) as u64)?;
        let is_new = file.length() == 0;
        self.file = Some(file);
        if is_new {
            self.append([event::version(about.started)].into_iter())?;
        }
        if !marks.has(event::CONFIG, 0, 1) {
            self.append([event::configuration(about)].into_iter())?;
        }
        Ok(marks)
    }

    fn takes(&self, _: &What) -> bool {
        true
    }

    fn deliver(&mut self, entries: &[Entry]) -> Result<(), TrackingError> {
        self.append(entries.iter().filter_map(event::of))
    }

    fn end(&mut self, ending: Ending, now: &Entry) -> Result<(), TrackingError> {
        if ending == Ending::Finished && self.ended != Some(now.step) {
            self.append([event::session_end(now.time, now.step)].into_iter())?;
            self.ended = Some(now.step);
        }
        Ok(())
    }
}

/// The series of a file's events, each with its step.
#[cfg(test)]
pub(crate) fn arrived(bytes: &[u8]) -> Vec<(String, u64)> {
    let frames = std::iter::successors(tf_record::read(bytes), |(_, rest)| tf_record::read(rest));
    frames
        .filter_map(|(message, _)| event::series_of(message))
        .map(|(series, step)| (series.to_owned(), step))
        .collect()
}
