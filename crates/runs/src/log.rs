//! The file of events: appended to line by line, rewound when a run resumes.

use kindling_files as files;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::{Event, RunError, kill, write_atomically};

/// `events.jsonl`, open for writing. While it is open no other process can open it for writing; when its process
/// dies, however it dies, the next one can.
///
/// A line is handed to the operating system whole, before [`append`](Self::append) returns, so a killed process loses
/// none. Checkpoints force the file to the disk, so after a power cut the log reaches at least as far as the newest
/// checkpoint that it names.
#[derive(Debug)]
pub struct EventLog {
    path: PathBuf,
    file: File,
    /// Bytes of whole lines; a line that fails half way is cut off again.
    length: u64,
}

impl EventLog {
    /// Opens the log for appending, and makes it if it is not there. A torn last line, left by a process that was
    /// killed while writing, is cut off.
    ///
    /// # Errors
    /// [`RunError::Busy`] if another log on the same file is open, [`RunError::Io`], [`RunError::DiskFull`].
    pub fn open(path: &Path) -> Result<Self, RunError> {
        let file = OpenOptions::new().create(true).append(true).open(path).map_err(RunError::on("open", path))?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(RunError::Busy { path: path.into() }),
            // Some network file systems have no locks. That is no reason not to train there.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        let mut log = Self { path: path.into(), file, length: 0 };
        let bytes = files::read(path, files::MAX_LOG_BYTES).map_err(RunError::on("read", path))?;
        let whole = whole_lines(&bytes);
        log.length = whole.len() as u64;
        if whole.len() < bytes.len() {
            log.cut()?;
        }
        if !whole.is_empty() && !whole.ends_with(b"\n") {
            log.write(b"\n")?;
        }
        Ok(log)
    }

    /// Adds one line.
    ///
    /// # Errors
    /// [`RunError::Io`] or [`RunError::DiskFull`]; the lines before stay readable.
    pub fn append(&mut self, event: &Event) -> Result<(), RunError> {
        let mut line = serde_json::to_vec(event)
            .map_err(|error| RunError::Inexpressible { path: self.path.clone(), reason: error.to_string() })?;
        line.push(b'\n');
        kill::reach("line");
        if kill::asked("line-half") {
            let _ = self.file.write_all(&line[..line.len() / 2]);
            kill::now();
        }
        self.write(&line)?;
        if let Event::Checkpoint { .. } = event {
            self.file.sync_data().map_err(RunError::on("write", &self.path))?;
        }
        Ok(())
    }

    /// Goes back to the moment after step `step`: events of later steps are dropped, all others stay as they are
    /// written. The file is replaced atomically. For a run that resumes from a checkpoint of that step; an
    /// evaluation of the very step stays, so a trainer that evaluates it again adds a second line, and readers take
    /// the later one.
    ///
    /// # Errors
    /// [`RunError::Malformed`] if a line cannot be read, [`RunError::Io`], [`RunError::DiskFull`]; the log is then
    /// as it was.
    pub fn rewind_to(&mut self, step: u64) -> Result<(), RunError> {
        let bytes = files::read(&self.path, files::MAX_LOG_BYTES).map_err(RunError::on("read", &self.path))?;
        let mut kept = Vec::with_capacity(bytes.len());
        for (line, event) in parse(&self.path, &bytes)? {
            if event.step().is_none_or(|at| at <= step) {
                kept.extend_from_slice(line);
                kept.push(b'\n');
            }
        }
        if kept != bytes {
            write_atomically(&self.path, &kept)?;
            // The name now belongs to a new file, and the lock to the old one.
            *self = Self::open(&self.path)?;
        }
        Ok(())
    }

    /// All events of a log, in order. A torn last line is dropped. Reading needs no lock: a run can be watched.
    ///
    /// # Errors
    /// [`RunError::Malformed`] with the line's number, or [`RunError::Io`].
    pub fn read(path: &Path) -> Result<Vec<Event>, RunError> {
        let bytes = files::read(path, files::MAX_LOG_BYTES).map_err(RunError::on("read", path))?;
        Ok(parse(path, &bytes)?.into_iter().map(|(_, event)| event).collect())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), RunError> {
        if let Err(cause) = self.file.write_all(bytes) {
            // Otherwise the next line would be glued to the half one. A failure here is covered by `open`.
            let _ = self.cut();
            return Err(RunError::io("write", &self.path, cause));
        }
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn cut(&self) -> Result<(), RunError> {
        self.file.set_len(self.length).map_err(RunError::on("write", &self.path))
    }
}

/// Without the last line if that is torn: it has no end, and is not an event as it stands.
fn whole_lines(bytes: &[u8]) -> &[u8] {
    let start = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
    let (before, last) = bytes.split_at(start);
    if serde_json::from_slice::<Event>(last).is_ok() { bytes } else { before }
}

/// Each line with what it says.
fn parse<'a>(path: &Path, bytes: &'a [u8]) -> Result<Vec<(&'a [u8], Event)>, RunError> {
    let mut events = Vec::new();
    for (index, line) in whole_lines(bytes).split(|&byte| byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        let event = serde_json::from_slice(line).map_err(|error| RunError::Malformed {
            path: path.into(),
            reason: format!("line {} is not an event ({error})", index + 1),
        })?;
        events.push((line, event));
    }
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn step(step: u64) -> Event {
        Event::Step {
            step,
            epoch: 1,
            loss: 1.0 / step as f64,
            lr: 0.1,
            images_per_second: 10.0,
            micro_batch: 4,
            peak_memory_bytes: 1 << 20,
            gradient_norm: 1.5,
            waiting_seconds: 0.0,
            seconds: step as f64,
        }
    }

    fn checkpoint(step: u64) -> Event {
        Event::Checkpoint { step, path: format!("checkpoints/{step}") }
    }

    fn log_of(path: &Path, events: &[Event]) -> EventLog {
        let mut log = EventLog::open(path).unwrap();
        for event in events {
            log.append(event).unwrap();
        }
        log
    }

    #[test]
    fn events_come_back_as_they_were_appended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        drop(log_of(&path, &[step(1), checkpoint(1)]));
        drop(log_of(&path, &[Event::Resumed { step: 1 }]));
        assert_eq!(EventLog::read(&path).unwrap(), [step(1), checkpoint(1), Event::Resumed { step: 1 }]);
    }

    #[test]
    fn a_torn_last_line_is_dropped_when_events_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        drop(log_of(&path, &[step(1), step(2)]));
        let bytes = fs::read(&path).unwrap();
        let first = bytes.iter().position(|&byte| byte == b'\n').unwrap() + 1;
        for end in first..bytes.len() - 1 {
            fs::write(&path, &bytes[..end]).unwrap();
            assert_eq!(EventLog::read(&path).unwrap(), [step(1)], "cut at byte {end}");
        }
        // Without its newline alone, the line is still whole.
        fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        assert_eq!(EventLog::read(&path).unwrap(), [step(1), step(2)]);
    }

    #[test]
    fn appending_after_a_torn_line_starts_a_new_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        drop(log_of(&path, &[step(1), step(2)]));
        let bytes = fs::read(&path).unwrap();
        for cut in [1, 2, 40] {
            fs::write(&path, &bytes[..bytes.len() - cut]).unwrap();
            drop(log_of(&path, &[step(3)]));
            let read = EventLog::read(&path).unwrap();
            let expected = if cut == 1 { vec![step(1), step(2), step(3)] } else { vec![step(1), step(3)] };
            assert_eq!(read, expected, "{cut} bytes cut");
        }
    }

    #[test]
    fn a_broken_line_in_the_middle_is_an_error_with_its_number() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        fs::write(&path, "{\"event\":\"resumed\",\"step\":1}\nnonsense\n").unwrap();
        let error = EventLog::read(&path).unwrap_err().to_string();
        assert!(error.contains("events.jsonl") && error.contains("line 2"), "{error}");
    }

    #[test]
    fn rewinding_drops_the_events_of_later_steps_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let mut log = log_of(&path, &[step(1), step(2), checkpoint(2), step(3), checkpoint(3), step(4)]);
        log.rewind_to(2).unwrap();
        log.append(&Event::Resumed { step: 2 }).unwrap();
        log.append(&step(3)).unwrap();
        let expected = [step(1), step(2), checkpoint(2), Event::Resumed { step: 2 }, step(3)];
        assert_eq!(EventLog::read(&path).unwrap(), expected);
    }

    #[test]
    fn two_writers_never_share_a_log() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let mut log = log_of(&path, &[step(1), step(2)]);
        assert!(matches!(EventLog::open(&path), Err(RunError::Busy { .. })));
        log.rewind_to(1).unwrap();
        assert!(matches!(EventLog::open(&path), Err(RunError::Busy { .. })), "the lock moves with the file");
        drop(log);
        EventLog::open(&path).unwrap();
    }

    #[test]
    fn a_full_disk_is_named_when_an_event_cannot_be_written() {
        let full = Path::new("/dev/full");
        if !full.exists() {
            return; // Only Linux has one; the classification itself is tested in `error`.
        }
        let file = OpenOptions::new().append(true).open(full).unwrap();
        let mut log = EventLog { path: full.into(), file, length: 0 };
        assert!(matches!(log.append(&step(1)), Err(RunError::DiskFull { .. })));
    }
}
