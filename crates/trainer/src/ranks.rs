//! The processes of a run, as its trainer sees them: its ranks.
//!
//! Nothing inside a forward or a backward pass is collective. So a lack of memory stays where it is: each rank has a plan and a ladder of
//! its own, and the others wait for it. Between them go words. In a step these are
//!
//! 1. of the batch: which samples could not be read, and whether a rank is asked to stop;
//! 2. of a loss over the batch: what the samples of each rank add to it, see [`crate::first_pass`];
//! 3. of the sums: that a rank has computed its normalisation groups, and how long that took;
//! 4. the sums, see [`crate::exchange`]; where NCCL moves them, a word follows that it has.
//!
//! Then every rank moves the same state by the same numbers. A rank that cannot go on says so in place of its next word, wherever the
//! others wait for it, so that all of them end, and each knows why.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use kindling_processes::nccl::Failed;
use kindling_processes::watchdog::Silence;
use kindling_processes::{Group, Nccl, Watchdog};
use kindling_runs::Together;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::TrainError;
use crate::shared::Shared;

/// The ranks of a run, this process being one of them. One that is alone says nothing and waits for nobody.
pub struct Ranks {
    group: Group,
    /// Whether all ranks know that one of them has failed.
    has_failed: Cell<bool>,
    watchdog: RefCell<Option<(Watchdog, PathBuf)>>,
    /// What moves sums from GPU to GPU, and whom to tell when it does not any more.
    nccl: RefCell<Option<(Nccl, Tell)>>,
    /// The sums of the newest step, for a rank that has to compute what follows them once more.
    pub(crate) shared: RefCell<Option<Shared>>,
    /// The sums of the first pass of the newest step that has one, and its number; as above.
    pub(crate) first_pass: RefCell<Option<(u64, Vec<f64>)>>,
    /// Which rank took the longest for its share of the newest step, and how long.
    slowest: Cell<Option<(usize, f64)>>,
    waited: Cell<Duration>,
    sent: Cell<u64>,
}

/// Takes a sentence about what has changed.
type Tell = Box<dyn Fn(&str)>;

/// What a rank says where all say something.
#[derive(Serialize, Deserialize)]
enum Word<T> {
    /// What the others wait for.
    Says(T),
    /// That it cannot go on, and why.
    Failed(String),
}

impl Ranks {
    /// This process, and no other.
    pub fn alone() -> Rc<Self> {
        Self::of(Group::alone())
    }

    /// The processes of a group.
    pub fn of(group: Group) -> Rc<Self> {
        Rc::new(Self {
            group,
            has_failed: Cell::new(false),
            watchdog: RefCell::default(),
            nccl: RefCell::default(),
            shared: RefCell::default(),
            first_pass: RefCell::default(),
            slowest: Cell::default(),
            waited: Cell::default(),
            sent: Cell::default(),
        })
    }

    /// Whether there is no other.
    pub fn is_alone(&self) -> bool {
        self.group.size() == 1
    }

    /// Whether this rank writes the run and talks to people, as the first does.
    pub fn is_first(&self) -> bool {
        self.group.is_first()
    }

    /// The group behind them.
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// The part of so many things that is this rank's.
    pub fn share(&self, of: usize) -> Range<usize> {
        self.group.share(of)
    }

    /// Says something and learns what all say, in the order of ranks. `about` says what, as it reads after "waits for the".
    ///
    /// # Errors
    /// [`TrainError::Elsewhere`] if a rank has failed instead, on all ranks; [`TrainError::Processes`] if they are apart for good.
    pub fn agree<T: Serialize + DeserializeOwned>(&self, about: &'static str, mine: T) -> Result<Vec<T>, TrainError> {
        if self.is_alone() {
            return Ok(vec![mine]);
        }
        self.words(about, Word::Says(mine))
    }

    fn words<T: Serialize + DeserializeOwned>(&self, about: &'static str, mine: Word<T>) -> Result<Vec<T>, TrainError> {
        let words = self.group.agree(about, &mine)?;
        let says = words.into_iter().enumerate().map(|(rank, word)| match word {
            Word::Says(what) => Ok(what),
            Word::Failed(reason) => Err(TrainError::Elsewhere { rank: self.group.name_of(rank), reason }),
        });
        says.collect::<Result<_, _>>().inspect_err(|_| self.has_failed.set(true))
    }

    /// Tells the others that this rank cannot go on, unless they know of a failure already.
    ///
    /// # Errors
    /// If they cannot be told any more.
    pub fn fail(&self, reason: &str) -> Result<(), TrainError> {
        if self.is_alone() || self.has_failed.replace(true) {
            return Ok(());
        }
        // Whatever they say, this one does not go on.
        match self.words::<serde_json::Value>("others", Word::Failed(reason.to_owned())) {
            Ok(_) | Err(TrainError::Elsewhere { .. }) => Ok(()),
            Err(other) => Err(other),
        }
    }

    /// Ends this process if no step ends for `timeout` and it does not wait for a rank that is seen at work, after `tell` was told why;
    /// `folder` is where ranks leave signs of life.
    ///
    /// # Errors
    /// If the system has no thread left.
    pub fn watch(
        &self,
        timeout: Duration,
        folder: &Path,
        tell: impl FnOnce(&Silence) + Send + 'static,
    ) -> std::io::Result<()> {
        if !self.is_alone() {
            let watchdog = Watchdog::start(&self.group, timeout, Some(folder), tell)?;
            *self.watchdog.borrow_mut() = Some((watchdog, folder.to_owned()));
        }
        Ok(())
    }

    /// From now on, NCCL moves sums from GPU to GPU. All ranks call it, or none. Where that fails, `tell` gets a sentence, and MPI moves
    /// them through host memory again.
    pub fn exchange_by(&self, nccl: Nccl, tell: impl Fn(&str) + 'static) {
        *self.nccl.borrow_mut() = Some((nccl, Box::new(tell)));
    }

    /// Whether NCCL moves sums, on this rank as on all.
    pub(crate) fn has_nccl(&self) -> bool {
        self.nccl.borrow().is_some()
    }

    /// Has NCCL move something, and learns whether that has succeeded on all ranks. If not, there is no NCCL any more.
    ///
    /// # Errors
    /// As [`Self::agree`], and those of `exchange`.
    pub(crate) fn over_nccl(
        &self,
        exchange: impl FnOnce(&Nccl) -> Result<Result<(), Failed>, TrainError>,
    ) -> Result<bool, TrainError> {
        let Some((nccl, tell)) = self.nccl.take() else { return Ok(false) };
        let mine = exchange(&nccl)?.err();
        // Where it has failed the connection ends at once, so that the others do not wait for it.
        let nccl = Some(nccl).filter(|_| mine.is_none());
        let all = self.agree("end of the exchange", mine.map(|failed| failed.to_string()))?;
        if let Some((rank, why)) = all.into_iter().enumerate().find_map(|(rank, why)| Some((rank, why?))) {
            tell(&format!(
                "NCCL has failed ({}: {why}); from here on MPI moves gradients through host memory, with the same result",
                self.group.name_of(rank)
            ));
            return Ok(false);
        }
        *self.nccl.borrow_mut() = nccl.map(|nccl| (nccl, tell));
        Ok(true)
    }

    /// Says to the watchdog that something has come to its end after `step`.
    pub(crate) fn beat(&self, step: u64) {
        if let Some((watchdog, _)) = self.watchdog.borrow().as_ref() {
            watchdog.beat(step);
        }
    }

    /// Says to the watchdog, if there is one, that something has ended that is no step, such as a batch of an evaluation.
    pub fn lives(&self) {
        if let Some((watchdog, _)) = self.watchdog.borrow().as_ref() {
            watchdog.lives();
        }
    }

    /// Says to the watchdog, if there is one, that what follows may take as long as it takes: the first writes what all have found, or all
    /// look through files. It counts again when something ends.
    pub fn take_time(&self) {
        if let Some((watchdog, _)) = self.watchdog.borrow().as_ref() {
            watchdog.take_time();
        }
    }

    /// Notes how long each rank took for its share of a step.
    pub(crate) fn took(&self, seconds: &[f64]) {
        let slowest = (0..seconds.len()).fold(0, |most, rank| if seconds[rank] > seconds[most] { rank } else { most });
        self.slowest.set(seconds.get(slowest).map(|seconds| (slowest, *seconds)));
    }

    /// What the newest step reports about the ranks, if there are several; time waited and bytes sent are counted since the last call.
    pub(crate) fn together(&self) -> Option<Together> {
        let (slowest, slowest_seconds) = self.slowest.take()?;
        let waited = self.group.waited();
        let waited_seconds = (waited - self.waited.replace(waited)).as_secs_f64();
        let sent = self.group.bytes_sent();
        let sent_bytes = sent - self.sent.replace(sent);
        Some(Together { slowest: self.group.name_of(slowest), slowest_seconds, waited_seconds, sent_bytes })
    }

    /// Leaves the group in an orderly way, when all ranks have come to the same end.
    ///
    /// # Errors
    /// If the library refuses.
    pub fn finish(&self) -> Result<(), TrainError> {
        drop(self.nccl.take());
        let left = self.group.finish();
        if let Some((watchdog, signs)) = self.watchdog.borrow_mut().take() {
            drop(watchdog);
            let _ = match self.is_first() {
                // Whoever is still there leaves no more signs in a folder that is gone.
                true => std::fs::remove_dir_all(signs),
                // On another machine it may be another folder. One with signs of others stays.
                false => std::fs::remove_dir(signs),
            };
        }
        Ok(left?)
    }
}

impl std::fmt::Debug for Ranks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.group.fmt(f)
    }
}
