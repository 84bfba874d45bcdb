//! The file of events: appended to line by line, rewound when a run resumes.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};

use kindling_files as files;

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
    /// Absent where another process writes the log.
    file: Option<File>,
    /// Bytes of whole lines; a line that fails half way is cut off again.
    length: u64,
    /// Lines there would be if all of them had been written.
    lines: u64,
    /// The last of them, which are not known to have reached the disk.
    recent: Vec<String>,
    /// Whether one of those could not be written.
    refused: bool,
}

/// Lines that may wait for the disk.
const MOST_RECENT: usize = 4096;

/// Where a log stands, to be stored with a checkpoint: with it the log can be brought in line with that checkpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogMark {
    /// Lines of the whole log, those that could not be written included.
    pub lines: u64,
    /// The last of them, without their ends: all that are not known to have reached the disk.
    pub recent: Vec<String>,
}

/// What was found when a log was brought in line with a checkpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BroughtInLine {
    /// Whether the log tells that the run ended with this checkpoint.
    pub complete: bool,
    /// Lines from before the checkpoint that are lost.
    pub lost: u64,
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
        let mut log = Self { file: Some(file), ..Self::unwritten(path) };
        let bytes = files::read(path, files::MAX_LOG_BYTES).map_err(RunError::on("read", path))?;
        let whole = whole_lines(&bytes);
        log.length = whole.len() as u64;
        log.lines = lines_of(whole).count() as u64;
        if whole.len() < bytes.len() {
            log.cut()?;
        }
        if !whole.is_empty() && !whole.ends_with(b"\n") {
            log.write(b"\n")?;
        }
        Ok(log)
    }

    /// A log that is written by another process of the run: what is appended here goes nowhere.
    pub fn unwritten(path: &Path) -> Self {
        Self { path: path.into(), file: None, length: 0, lines: 0, recent: Vec::new(), refused: false }
    }

    /// Adds one line.
    ///
    /// # Errors
    /// [`RunError::Io`] or [`RunError::DiskFull`]; the lines before stay readable.
    pub fn append(&mut self, event: &Event) -> Result<(), RunError> {
        if self.file.is_none() {
            return Ok(());
        }
        let mut line = serde_json::to_vec(event)
            .map_err(|error| RunError::Inexpressible { path: self.path.clone(), reason: error.to_string() })?;
        // What the disk refuses is still part of the run: the next checkpoint keeps it.
        self.lines += 1;
        self.recent.push(String::from_utf8_lossy(&line).into_owned());
        line.push(b'\n');
        kill::reach("line");
        if kill::asked("line-half") {
            let _ = self.file.as_mut().map(|file| file.write_all(&line[..line.len() / 2]));
            kill::now();
        }
        self.write(&line).inspect_err(|_| self.refused = true)?;
        if matches!(event, Event::Checkpoint { .. }) || self.recent.len() > MOST_RECENT {
            let synced = self.file.as_ref().map_or(Ok(()), File::sync_data);
            synced.map_err(RunError::on("write", &self.path))?;
            if !self.refused {
                self.recent.clear();
            }
        }
        Ok(())
    }

    /// Where the log stands now.
    pub fn mark(&self) -> LogMark {
        LogMark { lines: self.lines, recent: self.recent.clone() }
    }

    /// Makes the log tell what happened up to a checkpoint of step `step`, no more and no less: lines that came after it
    /// are dropped, and lines that could not be written or were lost are put back from what the checkpoint has kept. What
    /// was done with the run (saved, interrupted, resumed) and samples that cannot be read stay, and so does the end of a
    /// run that ended with this checkpoint. The file is replaced atomically.
    ///
    /// # Errors
    /// As [`rewind_to`](Self::rewind_to).
    pub fn bring_in_line(&mut self, step: u64, mark: &LogMark) -> Result<BroughtInLine, RunError> {
        let bytes = files::read(&self.path, files::MAX_LOG_BYTES).map_err(RunError::on("read", &self.path))?;
        let lines = parse(&self.path, &bytes)?;
        let before = mark.lines.saturating_sub(mark.recent.len() as u64);
        let mut known: Vec<&[u8]> = mark.recent.iter().map(String::as_bytes).collect();
        let mut found = lines.len().min(usize::try_from(before).unwrap_or(usize::MAX));
        if lines.get(found).map(|(line, _)| line) != known.first() {
            // Where lines of before are gone, those that the checkpoint knows have moved up.
            let moved = |count: &usize| lines[found - count..found].iter().map(|(line, _)| line).eq(&known[..*count]);
            found -= (1..=found.min(known.len())).rev().find(moved).unwrap_or(0);
        }
        let mut rest: Vec<&(&[u8], Event)> = lines[found..].iter().collect();
        rest.retain(|(line, _)| match known.iter().position(|other| other == line) {
            Some(index) => {
                known.remove(index);
                false
            }
            None => true,
        });
        // What came before the run was extended is told of the shorter run, which had ended.
        let is_extension =
            |(_, event): &&(&[u8], Event)| matches!(event, Event::Extended { step: at, .. } if *at == step);
        let shorter = rest.iter().rposition(is_extension).map_or(0, |index| index + 1);
        let is_end = |(_, event): &&(&[u8], Event)| matches!(event, Event::Finished { step: at, .. } if *at == step);
        let complete = rest[shorter..].iter().any(is_end);
        let stays = |event: &Event| match event {
            Event::BadSample { .. } => true,
            Event::Checkpoint { step: at, .. } | Event::Interrupted { step: at } | Event::Resumed { step: at } => {
                *at <= step
            }
            _ => complete && event.step().is_none_or(|at| at <= step),
        };
        let (told, after) = rest.split_at(shorter);
        let after = told.iter().chain(after.iter().filter(|(_, event)| stays(event))).map(|(line, _)| *line);
        let mut kept = Vec::with_capacity(bytes.len());
        let first = lines[..found].iter().map(|(line, _)| *line);
        for line in first.chain(mark.recent.iter().map(String::as_bytes)).chain(after) {
            kept.extend_from_slice(line);
            kept.push(b'\n');
        }
        self.replace(&bytes, &kept)?;
        Ok(BroughtInLine { complete, lost: before - found as u64 })
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
        self.replace(&bytes, &kept)
    }

    /// The last step that the log says is saved. The newest checkpoint of a run is never removed, so it should be there.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn last_saved(&self) -> Result<Option<u64>, RunError> {
        let mut saved = Self::read(&self.path)?.into_iter().filter_map(|event| match event {
            Event::Checkpoint { step, .. } | Event::Interrupted { step } | Event::Finished { step, .. } => Some(step),
            _ => None,
        });
        Ok(saved.next_back())
    }

    /// Goes back to the moment before the first step, for a run that begins again because nothing of it was saved. That it was
    /// started and continued, warnings about its data and samples that cannot be read stay; all that is computed again is
    /// dropped. The file is replaced atomically. Returns whether the log has the start.
    ///
    /// # Errors
    /// As [`rewind_to`](Self::rewind_to).
    pub fn rewind_to_start(&mut self) -> Result<bool, RunError> {
        let bytes = files::read(&self.path, files::MAX_LOG_BYTES).map_err(RunError::on("read", &self.path))?;
        let mut lines = parse(&self.path, &bytes)?;
        lines.retain(|(_, event)| {
            matches!(
                event,
                Event::Started { .. } | Event::Resumed { .. } | Event::Warned { step: 0, .. } | Event::BadSample { .. }
            )
        });
        let is_started = lines.iter().any(|(_, event)| matches!(event, Event::Started { .. }));
        let kept: Vec<u8> = lines.iter().flat_map(|(line, _)| [line, &b"\n"[..]].concat()).collect();
        self.replace(&bytes, &kept)?;
        Ok(is_started)
    }

    fn replace(&mut self, old: &[u8], new: &[u8]) -> Result<(), RunError> {
        if new != old {
            write_atomically(&self.path, new)?;
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
        if let Err(cause) = self.file.as_mut().map_or(Ok(()), |file| file.write_all(bytes)) {
            // Otherwise the next line would be glued to the half one. A failure here is covered by `open`.
            let _ = self.cut();
            return Err(RunError::io("write", &self.path, cause));
        }
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn cut(&self) -> Result<(), RunError> {
        let cut = self.file.as_ref().map_or(Ok(()), |file| file.set_len(self.length));
        cut.map_err(RunError::on("write", &self.path))
    }
}

/// Without the last line if that is torn: it has no end, and is not an event as it stands.
fn whole_lines(bytes: &[u8]) -> &[u8] {
    let start = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
    let (before, last) = bytes.split_at(start);
    if serde_json::from_slice::<Event>(last).is_ok() { bytes } else { before }
}

/// Lines that say something, each with its number.
fn lines_of(bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let lines = bytes.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii).zip(1..);
    lines.filter(|(line, _)| !line.is_empty()).map(|(line, number)| (number, line))
}

/// Each line with what it says.
fn parse<'a>(path: &Path, bytes: &'a [u8]) -> Result<Vec<(&'a [u8], Event)>, RunError> {
    let mut events = Vec::new();
    for (number, line) in lines_of(whole_lines(bytes)) {
        let event = serde_json::from_slice(line).map_err(|error| RunError::Malformed {
            path: path.into(),
            reason: format!("line {number} is not an event ({error})"),
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
            together: None,
        }
    }

    fn checkpoint(step: u64) -> Event {
        Event::Checkpoint { step, path: format!("checkpoints/{step}"), seconds: 0.5 }
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
    fn a_log_that_another_process_writes_is_left_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let mut written = log_of(&path, &[step(1)]);
        let mut other = EventLog::unwritten(&path);
        other.append(&step(2)).unwrap();
        written.append(&step(3)).unwrap();
        assert_eq!(EventLog::read(&path).unwrap(), [step(1), step(3)]);
        assert_eq!(other.mark(), LogMark::default());
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

    /// What the trainer does: a mark, a checkpoint, its event.
    fn marked(log: &mut EventLog, at: u64) -> LogMark {
        let mark = log.mark();
        log.append(&checkpoint(at)).unwrap();
        mark
    }

    fn recovered(step: u64) -> Event {
        let [during, reason, lever] = ["training", "full", "freed"].map(str::to_string);
        Event::Recovered { step, during, reason, lever, seconds: 0.5 }
    }

    #[test]
    fn a_log_is_brought_in_line_with_a_checkpoint_whatever_it_has_lost_or_gained() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let mut log = log_of(&path, &[step(1)]);
        marked(&mut log, 1);
        log.append(&step(2)).unwrap();
        log.append(&step(3)).unwrap();
        let mark = marked(&mut log, 3);
        assert_eq!((mark.lines, mark.recent.len()), (4, 2));
        log.append(&recovered(3)).unwrap();
        log.append(&Event::Interrupted { step: 3 }).unwrap();
        log.append(&step(4)).unwrap();
        drop(log);
        let whole = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = whole.lines().collect();
        let expected =
            [step(1), checkpoint(1), step(2), step(3), checkpoint(3), Event::Interrupted { step: 3 }].to_vec();
        // Nothing is lost; one line of each kind; all that the disk may not have.
        let without = |gone: &[usize]| -> String {
            let left = lines.iter().enumerate().filter(|(index, _)| !gone.contains(index));
            left.map(|(_, line)| format!("{line}\n")).collect()
        };
        for gone in [&[][..], &[2], &[3], &[2, 3], &[5, 7]] {
            fs::write(&path, without(gone)).unwrap();
            let mut log = EventLog::open(&path).unwrap();
            let found = log.bring_in_line(3, &mark).unwrap();
            assert_eq!(found, BroughtInLine::default(), "{gone:?}");
            assert_eq!(EventLog::read(&path).unwrap(), expected, "{gone:?}");
        }
        // Whoever takes a line out has it taken out once, and nothing is told twice.
        fs::write(&path, without(&[1])).unwrap();
        let mut log = EventLog::open(&path).unwrap();
        assert_eq!(log.bring_in_line(3, &mark).unwrap(), BroughtInLine { complete: false, lost: 1 });
        let left: Vec<Event> = expected.iter().enumerate().filter(|(at, _)| *at != 1).map(|(_, e)| e.clone()).collect();
        assert_eq!(EventLog::read(&path).unwrap(), left);
        drop(log);
        // A file that is not there any more: what is known is back, and the rest is said to be lost.
        fs::remove_file(&path).unwrap();
        let mut log = EventLog::open(&path).unwrap();
        assert_eq!(log.bring_in_line(3, &mark).unwrap(), BroughtInLine { complete: false, lost: 2 });
        assert_eq!(EventLog::read(&path).unwrap(), [step(2), step(3)]);
    }

    #[test]
    fn the_end_of_a_run_stays_and_half_of_an_end_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let mut log = log_of(&path, &[step(1)]);
        let mark = marked(&mut log, 1);
        let scored = Event::Evaluated {
            step: 1,
            epoch: 1,
            split: "test".into(),
            loss: 1.0,
            accuracy: Some(0.5),
            mae: None,
            r2: None,
            samples: 4,
            dice: None,
        };
        log.append(&scored).unwrap();
        let half = fs::read(&path).unwrap();
        log.append(&Event::Finished { step: 1, seconds: 2.0 }).unwrap();
        let whole = fs::read(&path).unwrap();
        assert!(log.bring_in_line(1, &mark).unwrap().complete);
        assert_eq!(fs::read(&path).unwrap(), whole);
        drop(log);
        fs::write(&path, half).unwrap();
        let mut log = EventLog::open(&path).unwrap();
        assert!(!log.bring_in_line(1, &mark).unwrap().complete);
        assert_eq!(EventLog::read(&path).unwrap(), [step(1), checkpoint(1)]);
    }

    #[test]
    fn a_run_that_was_extended_has_not_ended_though_it_had() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let mut log = log_of(&path, &[step(1)]);
        let mark = marked(&mut log, 1);
        let told = [Event::Finished { step: 1, seconds: 2.0 }, Event::Extended { step: 1, steps_total: 3, lr: 0.5 }];
        told.iter().for_each(|event| log.append(event).unwrap());
        log.append(&step(2)).unwrap();
        // Killed before the next checkpoint.
        assert_eq!(log.bring_in_line(1, &mark).unwrap(), BroughtInLine::default());
        let [finished, extended] = told;
        assert_eq!(EventLog::read(&path).unwrap(), [step(1), checkpoint(1), finished, extended]);
        let mark = marked(&mut log, 3);
        log.append(&Event::Finished { step: 3, seconds: 4.0 }).unwrap();
        assert!(log.bring_in_line(3, &mark).unwrap().complete);
    }

    #[test]
    fn a_log_of_which_nothing_was_saved_goes_back_to_its_start() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let bad =
            || Event::BadSample { step: 1, split: "train".into(), path: "a.png".into(), reason: "it ends".into() };
        let mut log = log_of(&path, &[recovered(0), step(1), bad(), step(2)]);
        assert_eq!(log.last_saved().unwrap(), None);
        assert!(!log.rewind_to_start().unwrap(), "nobody has said that it started");
        log.append(&Event::Resumed { step: 0 }).unwrap();
        log.append(&step(1)).unwrap();
        assert_eq!(EventLog::read(&path).unwrap(), [bad(), Event::Resumed { step: 0 }, step(1)]);
        marked(&mut log, 1);
        assert_eq!(log.last_saved().unwrap(), Some(1));
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

    // No other system has such a file; the classification itself is tested in `error`.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_named_when_an_event_cannot_be_written() {
        let full = Path::new("/dev/full");
        let file = OpenOptions::new().append(true).open(full).unwrap();
        let (lines, recent, refused) = (0, Vec::new(), false);
        let mut log = EventLog { path: full.into(), file: Some(file), length: 0, lines, recent, refused };
        assert!(matches!(log.append(&step(1)), Err(RunError::DiskFull { .. })));
        let line = serde_json::to_string(&step(1)).unwrap();
        assert_eq!(log.mark(), LogMark { lines: 1, recent: vec![line] }, "the next checkpoint knows it");
    }
}
