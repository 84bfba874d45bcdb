//! Ends a process whose peers are silent.
//!
//! A launcher notices when a process dies. It does not notice one that is stopped, or a network that is cut: then the others wait in a
//! collective call for ever. So each process has a thread that ends it, with one sentence, when no step has ended for too long. The
//! launcher then ends the others. A process that waits while another is seen at work goes on waiting, as where shares are unlike, or
//! where the first writes what all have found: its sign of life says so. It ends where anybody is silent, or nothing is known of somebody.
//!
//! A rank that waits in a collective call cannot learn from MPI who is missing: the thread would have to call MPI while another thread is
//! inside it, through the very network that may be cut. So each rank writes where it is into a small file of a folder that all share, some
//! times within the timeout, and reads those of the others before it ends. That works for every rank whose file it can see: a rank whose
//! file does not change is stopped, dead or cut off; one whose file changes and that has made fewer calls is busy. Where the folder
//! is not shared between machines, the sentence names the ranks of which nothing is known. The folder of the run is the natural choice, since
//! clusters share it.

use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::progress::Progress;
use crate::{Group, leave};

/// What a process returns that its watchdog has ended: `EX_TEMPFAIL` of `sysexits.h`, because the run can go on from its last checkpoint.
pub const EXIT_CODE: i32 = 75;

/// How long the words may take before the process ends without them, as where the terminal is stuck.
const WORDS: Duration = Duration::from_secs(5);
/// Signs of its own that a rank leaves before it takes another without a new one for silent.
const LOOKS: u64 = 3;
/// Signs after which another rank ends that leaves the words to the first one: as many as that one takes to see the same, and two more.
const FIRST: u32 = LOOKS as u32 + 2;

/// A thread that waits for beats, until it is dropped.
#[derive(Debug)]
pub struct Watchdog {
    progress: Arc<Progress>,
    /// Closed to stop the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Watches this process: if no beat comes and no collective call ends for `timeout`, and it does not wait for another that is seen at
    /// work, `tell` gets the reason, and the process ends with [`EXIT_CODE`], at most half the timeout later (and 5 s if nobody takes
    /// the words). `folder` is
    /// where the ranks leave signs of life for each other, the same on all of them; it is made if it is not there, and a rank that cannot
    /// write there goes on without.
    ///
    /// # Errors
    /// If the system has no thread left.
    pub fn start(
        group: &Group,
        timeout: Duration,
        folder: Option<&Path>,
        tell: impl FnOnce(&Silence) + Send + 'static,
    ) -> std::io::Result<Self> {
        let watch = Watch {
            rank: group.rank(),
            hosts: group.hosts().to_vec(),
            nonce: group.nonce(),
            timeout,
            folder: folder.map(Path::to_owned),
            progress: Arc::clone(group.progress()),
        };
        let progress = Arc::clone(group.progress());
        progress.restart();
        let (stop, stopped) = channel();
        let thread =
            std::thread::Builder::new().name("watchdog".to_owned()).spawn(move || watch.run(&stopped, tell))?;
        Ok(Self { progress, stop: Some(stop), thread: Some(thread) })
    }

    /// Says that a step has ended. Long work between steps, such as an evaluation, beats with the last step again.
    pub fn beat(&self, step: u64) {
        self.progress.beat(step);
    }

    /// Says that something has ended that is no step, as a batch of an evaluation. The last step stays what it was.
    pub fn lives(&self) {
        self.progress.restart();
    }

    /// Says that what follows may take as long as it takes, until the next beat or call: writing, or what cannot beat. Those who wait for it go on
    /// waiting while its signs of life come.
    pub fn take_time(&self) {
        self.progress.take_time();
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been told of.
            let _ = thread.join();
        }
    }
}

/// Why a watchdog ends its process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Silence {
    /// The rank that ends.
    pub rank: usize,
    /// Its machine.
    pub host: String,
    /// How long no step ended.
    pub silent_for: Duration,
    /// The last step that ended, if one did.
    pub step: Option<u64>,
    /// What this rank waits for in a collective call; none if it is itself the one that the others wait for, or all are busy.
    pub waits_for: Option<String>,
    /// What is known of the others that are behind.
    pub others: Vec<Other>,
}

/// A rank that is behind, or of which nothing is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Other {
    /// Which.
    pub rank: usize,
    /// Its machine.
    pub host: String,
    /// What is known of it.
    pub state: OtherState,
}

/// What is known of a rank that is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherState {
    /// It gives no sign of life any more: stopped, dead or cut off. With its last step.
    Silent(Option<u64>),
    /// It is alive and has not come to the call that others wait in. With its last step.
    Busy(Option<u64>),
    /// It has left no sign of life that this rank could see.
    Unknown,
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.silent_for.as_secs_f64();
        write!(f, "no step has ended for {seconds:.0} s on rank {} on {}{}", self.rank, self.host, Last(self.step))?;
        match &self.waits_for {
            Some(what) => write!(f, ", which waits for the {what} of the others")?,
            None => f.write_str(", which waits for nobody")?,
        }
        for other in &self.others {
            let Other { rank, host, state } = other;
            match state {
                OtherState::Silent(step) => write!(
                    f,
                    "; rank {rank} on {host} gives no sign of life any more{}: it is stopped, dead or cut off",
                    Last(*step)
                )?,
                OtherState::Busy(step) => {
                    write!(f, "; rank {rank} on {host} is alive and has not come so far{}", Last(*step))?;
                }
                OtherState::Unknown => write!(f, "; of rank {rank} on {host} nothing is known")?,
            }
        }
        Ok(())
    }
}

/// A last step as words behind others; nothing where no step has ended, as in what has no steps.
struct Last(Option<u64>);

impl fmt::Display for Last {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(step) => write!(f, " (last: step {step})"),
            None => Ok(()),
        }
    }
}

/// A sign of life: the content of a rank's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Sign {
    /// Of which start of the run.
    nonce: u64,
    /// How often it was written.
    count: u64,
    step: Option<u64>,
    calls: u64,
    waits: bool,
    /// Whether it is at work: something has ended in it within the timeout, or what it does takes its time.
    works: bool,
    /// Its own watchdog is about to end it, so that it is not the silent one.
    ends: bool,
}

/// What the thread works with.
struct Watch {
    rank: usize,
    hosts: Vec<String>,
    nonce: u64,
    timeout: Duration,
    folder: Option<PathBuf>,
    progress: Arc<Progress>,
}

impl Watch {
    fn run(self, stopped: &Receiver<()>, tell: impl FnOnce(&Silence) + Send + 'static) {
        if let Some(folder) = &self.folder {
            // Who cannot write is one of whom nothing is known.
            let _ = std::fs::create_dir_all(folder);
        }
        // What the others last said when the time was over, and at which sign of this one.
        let mut heard: Option<(u64, Vec<Option<Sign>>)> = None;
        for count in 0.. {
            self.leave_sign(count, false);
            match stopped.recv_timeout(self.between_signs()) {
                Err(RecvTimeoutError::Timeout) => {}
                _ => break,
            }
            if !self.progress.now().is_over(self.timeout) {
                heard = None;
                continue;
            }
            heard = match heard {
                None => Some((count, self.signs())),
                // Whoever lives writes a new sign in this time.
                Some((since, before)) if count >= since + LOOKS => {
                    let after = self.signs();
                    // The call may have come to its end while the signs were read.
                    if !self.may_wait(&before, &after) && self.progress.now().is_over(self.timeout) {
                        self.end(count, &before, &after, tell);
                    }
                    None
                }
                earlier => earlier,
            };
        }
        if let Some(mine) = self.file_of(self.rank) {
            let _ = std::fs::remove_file(mine);
        }
    }

    /// Often enough to tell who is alive when it matters, and seldom enough for a shared file system.
    fn between_signs(&self) -> Duration {
        (self.timeout / 20).clamp(Duration::from_millis(10), Duration::from_secs(10))
    }

    /// Whether this rank waits for one that is at work, and none is silent.
    fn may_wait(&self, before: &[Option<Sign>], after: &[Option<Sign>]) -> bool {
        let state = self.progress.now();
        let judged =
            |(before, after): (&Option<Sign>, &Option<Sign>)| judge(state.calls, before.as_ref(), after.as_ref());
        let states: Vec<Option<OtherState>> = before.iter().zip(after).map(judged).collect();
        let is_lost = |state: &Option<OtherState>| matches!(state, Some(OtherState::Silent(_) | OtherState::Unknown));
        let is_at_work = |(sign, state): (&Option<Sign>, &Option<OtherState>)| {
            matches!(state, Some(OtherState::Busy(_))) && sign.as_ref().is_some_and(|sign| sign.works)
        };
        state.waits_for.is_some() && !states.iter().any(is_lost) && after.iter().zip(&states).any(is_at_work)
    }

    fn end(
        &self,
        count: u64,
        before: &[Option<Sign>],
        after: &[Option<Sign>],
        tell: impl FnOnce(&Silence) + Send + 'static,
    ) -> ! {
        self.leave_sign(count + 1, true);
        let silence = self.silence(before, after);
        if self.rank != 0 {
            // A launcher ends all when one ends, and wakes one that is stopped for it, which then gives a last sign of life. By then the
            // first rank, which speaks for all, should have seen who is silent.
            std::thread::sleep(self.between_signs() * FIRST);
        }
        // The words get a thread of their own, because whoever takes them may be stuck.
        let (told, done) = channel();
        let words = std::thread::Builder::new().spawn(move || {
            tell(&silence);
            let _ = told.send(());
        });
        if words.is_ok() {
            let _ = done.recv_timeout(WORDS);
        }
        leave::at_once(EXIT_CODE)
    }

    fn silence(&self, before: &[Option<Sign>], after: &[Option<Sign>]) -> Silence {
        let state = self.progress.now();
        let of = |(rank, (before, after)): (usize, (&Option<Sign>, &Option<Sign>))| {
            let state = judge(state.calls, before.as_ref(), after.as_ref())?;
            Some(Other { rank, host: self.hosts[rank].clone(), state })
        };
        let mut others: Vec<Other> = self.others().zip(before.iter().zip(after)).filter_map(of).collect();
        // If someone is known to be silent, those of whom nothing is known are no news.
        if others.iter().any(|other| other.state != OtherState::Unknown) {
            others.retain(|other| other.state != OtherState::Unknown);
        }
        Silence {
            rank: self.rank,
            host: self.hosts[self.rank].clone(),
            silent_for: state.since.elapsed(),
            step: state.step,
            waits_for: state.waits_for.map(str::to_owned),
            others,
        }
    }

    fn others(&self) -> impl Iterator<Item = usize> {
        (0..self.hosts.len()).filter(|rank| *rank != self.rank)
    }

    /// The last sign of each other rank.
    fn signs(&self) -> Vec<Option<Sign>> {
        self.others().map(|rank| self.sign_of(rank)).collect()
    }

    fn file_of(&self, rank: usize) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| folder.join(format!("rank-{rank}.json")))
    }

    fn leave_sign(&self, count: u64, ends: bool) {
        let Some(mine) = self.file_of(self.rank) else { return };
        let state = self.progress.now();
        let (waits, works) = (state.waits_for.is_some(), state.works(self.timeout));
        let sign = Sign { nonce: self.nonce, count, step: state.step, calls: state.calls, waits, works, ends };
        // A sign that cannot be written is one that is missing.
        let _ = serde_json::to_string(&sign).map_err(Into::into).and_then(|sign| write_over(&mine, &sign));
    }

    fn sign_of(&self, rank: usize) -> Option<Sign> {
        let bytes = std::fs::read(self.file_of(rank)?).ok()?;
        let sign: Sign = serde_json::from_slice(&bytes).ok()?;
        (sign.nonce == self.nonce).then_some(sign)
    }
}

/// Bytes of a file with a sign, which is filled up with spaces.
const SIGN: usize = 256;

/// Writes a sign over the one before, in one call and without emptying the file: who is stopped in between has left the one before, and a
/// disk that has become full has the room already. The file is closed each time, which is when a shared file system shows it to others.
fn write_over(file: &Path, sign: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(false).open(file)?;
    file.write_all(format!("{sign:SIGN$}").as_bytes())
}

/// What two signs of a rank say, with some time between them, to one that has made `calls`; none if it is where it should be.
fn judge(calls: u64, before: Option<&Sign>, after: Option<&Sign>) -> Option<OtherState> {
    let (Some(before), Some(after)) = (before, after) else { return Some(OtherState::Unknown) };
    if after.ends {
        return None;
    }
    if after.count == before.count {
        return Some(OtherState::Silent(after.step));
    }
    (after.calls < calls || !after.waits).then_some(OtherState::Busy(after.step))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::thread::sleep;

    fn sign(count: u64) -> Sign {
        Sign { nonce: 1, count, step: Some(4), calls: 9, waits: true, works: false, ends: false }
    }

    #[test]
    fn two_signs_tell_who_is_silent_and_who_is_busy() {
        let judged = |before: Sign, after: Sign| judge(9, Some(&before), Some(&after));
        assert_eq!(judged(sign(5), sign(6)), None, "it waits as well");
        assert_eq!(judged(sign(5), sign(5)), Some(OtherState::Silent(Some(4))));
        assert_eq!(judged(sign(5), Sign { calls: 8, ..sign(6) }), Some(OtherState::Busy(Some(4))));
        assert_eq!(judged(sign(5), Sign { waits: false, ..sign(6) }), Some(OtherState::Busy(Some(4))));
        assert_eq!(judged(sign(5), Sign { ends: true, ..sign(5) }), None, "its own watchdog has seen the same");
        assert_eq!(judge(9, None, Some(&sign(1))), Some(OtherState::Unknown));
    }

    #[test]
    fn the_sentence_names_the_step_the_wait_and_the_silent() {
        let other = |rank, state| Other { rank, host: format!("node{rank}"), state };
        let silence = Silence {
            rank: 0,
            host: "node0".to_owned(),
            silent_for: Duration::from_secs(600),
            step: Some(41),
            waits_for: Some("gradients".to_owned()),
            others: vec![other(2, OtherState::Silent(Some(40))), other(3, OtherState::Busy(None))],
        };
        assert_eq!(
            silence.to_string(),
            "no step has ended for 600 s on rank 0 on node0 (last: step 41), which waits for the gradients of the others; rank 2 on node2 \
             gives no sign of life any more (last: step 40): it is stopped, dead or cut off; rank 3 on node3 is alive and has not come so \
             far"
        );
        let alone = Silence { waits_for: None, step: None, others: vec![other(1, OtherState::Unknown)], ..silence };
        assert_eq!(
            alone.to_string(),
            "no step has ended for 600 s on rank 0 on node0, which waits for nobody; of rank 1 on node1 nothing is known"
        );
    }

    #[test]
    fn a_process_with_beats_is_left_alone_and_its_sign_is_removed_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("signs");
        let group = Group::alone();
        let timeout = Duration::from_millis(400);
        let watchdog = Watchdog::start(&group, timeout, Some(&place), |_| ()).unwrap();
        for step in 0..10 {
            sleep(timeout / 5);
            watchdog.beat(step);
        }
        assert!(place.join("rank-0.json").is_file());
        drop(watchdog);
        assert!(!place.join("rank-0.json").exists());
    }

    #[test]
    fn signs_of_an_earlier_start_are_no_signs() {
        let folder = tempfile::tempdir().unwrap();
        let group = Group::alone();
        let watch = |nonce| Watch {
            rank: 0,
            hosts: vec!["here".to_owned()],
            nonce,
            timeout: Duration::from_secs(1),
            folder: Some(folder.path().to_owned()),
            progress: Arc::clone(group.progress()),
        };
        watch(1).leave_sign(3, false);
        assert_eq!(watch(1).sign_of(0).unwrap().count, 3);
        assert_eq!(watch(2).sign_of(0), None);
    }

    #[test]
    fn one_that_waits_goes_on_while_another_is_at_work_and_nobody_is_lost() {
        let group = Group::alone();
        let watch = Watch {
            rank: 0,
            hosts: ["a", "b", "c"].map(str::to_owned).to_vec(),
            nonce: 1,
            timeout: Duration::from_secs(1),
            folder: None,
            progress: Arc::clone(group.progress()),
        };
        let (works, waits) = (|count| Sign { waits: false, works: true, ..sign(count) }, |count| Some(sign(count)));
        let before = [Some(works(5)), waits(5)];
        let may_wait = |after: [Option<Sign>; 2]| watch.progress.waiting_for("end", || watch.may_wait(&before, &after));
        assert!(may_wait([Some(works(6)), waits(6)]));
        assert!(!may_wait([Some(works(6)), waits(5)]), "one is silent");
        assert!(!may_wait([Some(works(6)), None]), "nothing is known of one");
        assert!(!may_wait([Some(Sign { works: false, ..works(6) }), waits(6)]), "nothing ends in it either");
        assert!(!may_wait([waits(6), waits(6)]), "all wait");
        assert!(!watch.may_wait(&before, &[Some(works(6)), waits(6)]), "it is itself the one that is waited for");
    }
}
