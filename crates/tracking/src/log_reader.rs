//! What is new in a log that is still written, and may be cut back.

use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use kindling_files as files;
use kindling_runs::{Event, RunError};

use crate::TrackingError;

/// The most bytes that are read at once, unless a line is longer.
const AT_ONCE: u64 = 4 << 20;
/// How many of the bytes before the present place are remembered.
const REMEMBERED: usize = 1024;

/// A place in `events.jsonl`.
///
/// A run that resumes replaces its log with one that ends at a checkpoint. So the last bytes before the place are remembered: if they
/// do not stand there any more, the log is read again from its start. A line without its end is still being written, and waits.
#[derive(Debug)]
pub(crate) struct LogReader {
    path: PathBuf,
    offset: u64,
    lines: u64,
    before: Vec<u8>,
}

/// The events since the place before.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct News {
    /// The next events, in order.
    pub(crate) events: Vec<Event>,
    /// Whether they are the first ones of a log that is another than before.
    pub(crate) anew: bool,
    /// Whether more whole lines may be there already.
    pub(crate) more: bool,
}

impl LogReader {
    /// The start of a log, which need not be there yet.
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.into(), offset: 0, lines: 0, before: Vec::new() }
    }

    /// Reads on. After an error the place is the same.
    ///
    /// # Errors
    /// [`TrackingError::Run`] if a line is no event, or the file cannot be read.
    pub(crate) fn read(&mut self) -> Result<News, TrackingError> {
        let on = TrackingError::on("read", &self.path);
        let mut file = match files::open(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(News::default()),
            opened => opened.map_err(&on)?,
        };
        let mut found = Vec::with_capacity(self.before.len());
        file.seek(SeekFrom::Start(self.offset - self.before.len() as u64)).map_err(&on)?;
        (&mut file).take(self.before.len() as u64).read_to_end(&mut found).map_err(&on)?;
        let anew = found != self.before;
        let (offset, lines) = if anew { (0, 0) } else { (self.offset, self.lines) };
        file.seek(SeekFrom::Start(offset)).map_err(&on)?;
        let mut bytes = Vec::new();
        let mut end = None;
        // A line is read to its end, however long.
        while end.is_none() {
            let count = (&mut file).take(AT_ONCE).read_to_end(&mut bytes).map_err(&on)?;
            end = bytes.iter().rposition(|byte| *byte == b'\n').map(|newline| newline + 1);
            if count == 0 {
                break;
            }
        }
        let whole = &bytes[..end.unwrap_or(0)];
        let mut events = Vec::new();
        let mut number = lines;
        for line in whole.split_inclusive(|byte| *byte == b'\n') {
            number += 1;
            let line = line.trim_ascii();
            if !line.is_empty() {
                events.push(serde_json::from_slice(line).map_err(|error| RunError::Malformed {
                    path: self.path.clone(),
                    reason: format!("line {number} is not an event ({error})"),
                })?);
            }
        }
        let kept: &[u8] = if anew { &[] } else { &self.before };
        let before = [kept, whole].concat();
        self.before = before[before.len().saturating_sub(REMEMBERED)..].to_vec();
        self.offset = offset + whole.len() as u64;
        self.lines = number;
        Ok(News { events, anew, more: bytes.len() as u64 >= AT_ONCE })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{append, checkpoint, run, started, step};
    use kindling_runs::EventLog;
    use std::fs;

    #[test]
    fn only_what_is_new_is_read_and_only_whole_lines() {
        let folder = tempfile::tempdir().unwrap();
        let run = run(folder.path());
        let mut reader = LogReader::new(&run.events());
        assert_eq!(reader.read().unwrap(), News::default(), "there is no log yet");
        append(&run, &[started(), step(1, 1)]);
        assert_eq!(reader.read().unwrap().events, [started(), step(1, 1)]);
        assert_eq!(reader.read().unwrap(), News::default());
        append(&run, &[step(2, 1)]);
        let bytes = fs::read(run.events()).unwrap();
        fs::write(run.events(), &bytes[..bytes.len() - 1]).unwrap();
        assert_eq!(reader.read().unwrap(), News::default(), "the line has no end yet");
        fs::write(run.events(), bytes).unwrap();
        assert_eq!(reader.read().unwrap(), News { events: vec![step(2, 1)], anew: false, more: false });
    }

    #[test]
    fn a_log_that_was_cut_back_is_read_from_its_start_though_it_has_grown_since() {
        let folder = tempfile::tempdir().unwrap();
        let run = run(folder.path());
        append(&run, &[started(), step(1, 1), checkpoint(1), step(2, 1), step(3, 1)]);
        let mut reader = LogReader::new(&run.events());
        reader.read().unwrap();
        EventLog::open(&run.events()).unwrap().rewind_to(1).unwrap();
        let again = [Event::Resumed { step: 1 }, step(2, 1), step(3, 1), step(4, 1), step(5, 1)];
        append(&run, &again);
        let news = reader.read().unwrap();
        assert!(news.anew);
        assert_eq!(news.events, [&[started(), step(1, 1), checkpoint(1)][..], &again].concat());
        assert_eq!(reader.read().unwrap(), News::default());
    }

    #[test]
    fn a_line_that_is_no_event_is_named_by_its_number() {
        let folder = tempfile::tempdir().unwrap();
        let run = run(folder.path());
        append(&run, &[started()]);
        let mut reader = LogReader::new(&run.events());
        reader.read().unwrap();
        let text = fs::read_to_string(run.events()).unwrap();
        fs::write(run.events(), text + "nonsense\n").unwrap();
        let sentence = reader.read().unwrap_err().to_string();
        assert!(sentence.contains("events.jsonl") && sentence.contains("line 2"), "{sentence}");
    }

    #[test]
    fn a_line_longer_than_what_is_read_at_once_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let run = run(folder.path());
        let long = crate::testing::warned(1, &"x".repeat(AT_ONCE as usize * 2));
        append(&run, &[started(), long.clone()]);
        let mut reader = LogReader::new(&run.events());
        let mut events = Vec::new();
        loop {
            let news = reader.read().unwrap();
            events.extend(news.events);
            if !news.more {
                break;
            }
        }
        assert_eq!(events, [started(), long]);
    }
}
