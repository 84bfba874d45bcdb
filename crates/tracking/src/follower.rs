//! A run and a tracker: what is new in the log of one goes to the other.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kindling_runs::RunDir;

use crate::about::{self, About};
use crate::csv::Csv;
use crate::entry::{Entry, What};
use crate::log_reader::LogReader;
use crate::marks::Marks;
use crate::mlflow::Mlflow;
use crate::tensorboard::TensorBoard;
use crate::tracker::Tracker;
use crate::vocabulary::{Ending, Vocabulary};
use crate::wandb::Wandb;
use crate::{Target, TrackingError};

/// The most entries that are delivered at once.
const AT_ONCE: usize = 1000;
/// As long as so many entries wait, nothing more is read from the log.
const MOST_WAITING: usize = 20_000;

/// Delivers a run to one tracker, while it is in progress or afterwards.
///
/// Every step is delivered once, however often the run or the follower is killed and goes on: what has arrived is read from where it
/// arrived. The follower writes nothing to the run but what the tracker keeps there ([`Target::place`]).
pub struct Follower {
    run: RunDir,
    log: LogReader,
    tracker: Box<dyn Tracker>,
    /// Of the run; none before its first event.
    known: Option<(About, Vocabulary)>,
    /// What has arrived; none before the tracker is opened, and after an error.
    marks: Option<Marks>,
    waiting: Vec<Entry>,
    last_step: u64,
    concluded: bool,
    /// Held for as long as this follower lives.
    _lock: File,
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follower").field("run", &self.run).field("waiting", &self.waiting.len()).finish_non_exhaustive()
    }
}

/// What a follower has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Entries that were delivered now: of a step one, of an evaluation one, and so on.
    pub delivered: usize,
    /// Whether there is more in the log already.
    pub behind: bool,
}

impl Follower {
    /// Follows a run for a tracker, with what the tracker keeps at its usual place. Nothing is delivered or sent yet.
    ///
    /// # Errors
    /// [`TrackingError::Busy`] if another process follows the same run for the same tracker, [`TrackingError::Io`].
    pub fn new(run: &RunDir, target: &Target) -> Result<Self, TrackingError> {
        Self::at(run, target, &target.place(run))
    }

    /// As [`new`](Self::new), with what the tracker keeps at another place: a folder or a file, as [`Target::place`] has it.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn at(run: &RunDir, target: &Target, place: &Path) -> Result<Self, TrackingError> {
        let lock = lock(place)?;
        let place = place.to_owned();
        let tracker: Box<dyn Tracker> = match target {
            Target::TensorBoard => Box::new(TensorBoard::new(place)),
            Target::Csv => Box::new(Csv::new(place)),
            Target::Wandb => Box::new(Wandb::new(place)),
            Target::Mlflow(url) => Box::new(Mlflow::new(url.clone(), place)),
        };
        Ok(Self {
            run: run.clone(),
            log: LogReader::new(&run.events()),
            tracker,
            known: None,
            marks: None,
            waiting: Vec::new(),
            last_step: 0,
            concluded: false,
            _lock: lock,
        })
    }

    /// Reads what is new and delivers a part of it, at most 1000 entries. If more is there, the answer says so. A log that is not
    /// there yet is no error.
    ///
    /// # Errors
    /// Any [`TrackingError`]. Nothing is lost by it: the next call tries again.
    pub fn poll(&mut self) -> Result<Progress, TrackingError> {
        let more = self.waiting.len() < MOST_WAITING && self.read()?;
        let delivered = self.deliver().inspect_err(|_| self.marks = None)?;
        Ok(Progress { delivered, behind: more || !self.waiting.is_empty() })
    }

    /// Delivers all there is, and what is known at the end: the results and how it ended, if it did. `within` is how long that may
    /// take, but for the last call of a server, which has a limit of its own.
    ///
    /// # Errors
    /// As [`poll`](Self::poll), and [`TrackingError::Late`] if the time is over. It may be called again.
    pub fn finish(&mut self, within: Duration) -> Result<Progress, TrackingError> {
        let until = Instant::now() + within;
        let mut delivered = self.catch_up(until, within)?;
        let Some((_, vocabulary)) = &self.known else { return Ok(Progress::default()) };
        let ending = vocabulary.ending();
        let now = vocabulary.entry(self.last_step, None, What::Results(Vec::new()));
        if ending == Ending::Finished && !self.concluded {
            let entry = |what| Entry { what, ..now.clone() };
            for (name, histogram) in about::confidences(&self.run)? {
                self.waiting.push(entry(What::Distribution(name, histogram)));
            }
            let results = about::results(&self.run)?;
            if !results.is_empty() {
                self.waiting.push(entry(What::Results(results)));
            }
            self.concluded = true;
        }
        delivered += self.catch_up(until, within)?;
        self.tracker.end(ending, &now).inspect_err(|_| self.marks = None)?;
        Ok(Progress { delivered, behind: false })
    }

    fn catch_up(&mut self, until: Instant, within: Duration) -> Result<usize, TrackingError> {
        let mut delivered = 0;
        loop {
            let progress = self.poll()?;
            delivered += progress.delivered;
            if !progress.behind {
                return Ok(delivered);
            }
            if Instant::now() > until {
                return Err(TrackingError::Late { seconds: within.as_secs() });
            }
        }
    }

    /// Reads on, and returns whether there may be more.
    fn read(&mut self) -> Result<bool, TrackingError> {
        let news = self.log.read()?;
        if news.anew {
            self.known = None;
            self.waiting.clear();
            self.concluded = false;
        }
        if self.known.is_none()
            && let Some(first) = news.events.first()
        {
            let about = About::of(&self.run, first)?;
            let vocabulary = Vocabulary::new(self.run.path(), about.started);
            self.known = Some((about, vocabulary));
        }
        if let Some((_, vocabulary)) = &mut self.known {
            for event in &news.events {
                vocabulary.tell(event, &mut self.waiting);
                self.last_step = event.step().unwrap_or(self.last_step);
                self.concluded = false;
            }
        }
        Ok(news.more)
    }

    fn deliver(&mut self) -> Result<usize, TrackingError> {
        let Some((about, _)) = &self.known else { return Ok(0) };
        let marks = match &mut self.marks {
            Some(marks) => marks,
            none => none.insert(self.tracker.open(about)?),
        };
        let tracker = &self.tracker;
        let is_new = |entry: &Entry| !marks.has(&entry.what.series(), entry.step, entry.nth);
        self.waiting.retain(|entry| tracker.takes(&entry.what) && is_new(entry));
        let count = self.waiting.len().min(AT_ONCE);
        if count > 0 {
            self.tracker.deliver(&self.waiting[..count])?;
        }
        for entry in self.waiting.drain(..count) {
            marks.count(&entry.what.series(), entry.step);
        }
        Ok(count)
    }
}

/// Two followers would tell everything twice. The lock is a hidden file beside the place, since not every place is one file.
fn lock(place: &Path) -> Result<File, TrackingError> {
    let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(TrackingError::on("create", folder))?;
    let mut name = std::ffi::OsString::from(".");
    name.push(place.file_name().unwrap_or(place.as_os_str()));
    name.push(".lock");
    let path: PathBuf = folder.join(name);
    let file = OpenOptions::new().create(true).append(true).open(&path).map_err(TrackingError::on("open", &path))?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(TrackingError::Busy { path: place.to_owned() }),
        // Some network file systems have no locks.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
    }
}

#[cfg(test)]
mod tests;
