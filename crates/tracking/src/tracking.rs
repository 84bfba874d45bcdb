//! Following a run in the background.

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use kindling_runs::RunDir;

use crate::{Follower, Target, TrackingError};

/// How often a log is looked at.
const EVERY: Duration = Duration::from_secs(1);
/// The longest pause after failures, which get longer each time.
const LONGEST_PAUSE: Duration = Duration::from_secs(64);
/// How long the end of a run may wait for a tracker.
const AT_THE_END: Duration = Duration::from_secs(60);

/// Delivers a run to trackers from threads of its own, one each, so that a server that hangs does not hold up the run. What
/// fails is tried again, and kept as a sentence for the caller; it never ends the run.
///
/// Dropping it is the same as [`finish`](Self::finish), without the sentences.
#[derive(Debug)]
pub struct Tracking {
    threads: Vec<JoinHandle<()>>,
    /// Nothing is sent: the threads notice that it is gone.
    stops: Vec<Sender<()>>,
    warnings: Arc<Mutex<Vec<String>>>,
}

impl Tracking {
    /// Begins to deliver. A tracker that cannot be followed is a warning.
    pub fn start(run: &RunDir, targets: &[Target]) -> Self {
        let mut tracking = Self { threads: Vec::new(), stops: Vec::new(), warnings: Arc::default() };
        for target in targets {
            let (sender, stop) = channel();
            let warnings = Said { target: target.clone(), said: BTreeSet::new(), warnings: tracking.warnings.clone() };
            let (run, target) = (run.clone(), target.clone());
            let thread = Builder::new().name("tracking".into()).spawn(move || follow(&run, &target, &stop, warnings));
            match thread {
                Ok(thread) => {
                    tracking.threads.push(thread);
                    tracking.stops.push(sender);
                }
                Err(cause) => push(&tracking.warnings, format!("there is no thread to follow the run ({cause})")),
            }
        }
        tracking
    }

    /// What has gone wrong since this was last asked: sentences, each said once until the tracker works again.
    pub fn warnings(&self) -> Vec<String> {
        std::mem::take(&mut *self.warnings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Delivers the rest, for at most a minute and the last call of a server, and returns what has gone wrong since
    /// [`warnings`](Self::warnings).
    pub fn finish(mut self) -> Vec<String> {
        self.join();
        self.warnings()
    }

    fn join(&mut self) {
        self.stops.clear();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                push(&self.warnings, "a tracker has failed; `kindling runs export` delivers the rest".into());
            }
        }
    }
}

impl Drop for Tracking {
    fn drop(&mut self) {
        self.join();
    }
}

fn push(warnings: &Mutex<Vec<String>>, sentence: String) {
    warnings.lock().unwrap_or_else(PoisonError::into_inner).push(sentence);
}

/// What was said of a tracker since it last worked.
struct Said {
    target: Target,
    said: BTreeSet<String>,
    warnings: Arc<Mutex<Vec<String>>>,
}

impl Said {
    fn add(&mut self, error: &TrackingError) {
        let sentence = format!("{}: {error}", self.target.title());
        if self.said.insert(sentence.clone()) {
            push(&self.warnings, sentence);
        }
    }
}

fn follow(run: &RunDir, target: &Target, stop: &Receiver<()>, mut said: Said) {
    let mut follower = match Follower::new(run, target) {
        Ok(follower) => follower,
        Err(error) => return said.add(&error),
    };
    let mut pause = EVERY;
    loop {
        let wait = match follower.poll() {
            Ok(progress) => {
                pause = EVERY;
                said.said.clear();
                if progress.behind { Duration::ZERO } else { EVERY }
            }
            Err(error) => {
                said.add(&error);
                pause = (pause * 2).min(LONGEST_PAUSE);
                pause
            }
        };
        if stop.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
            break;
        }
    }
    if let Err(error) = follower.finish(AT_THE_END) {
        said.add(&error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{append, run, started, step};
    use std::time::Instant;

    #[test]
    fn a_run_in_progress_is_told_in_the_background_and_its_last_step_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let run = run(folder.path());
        append(&run, &[started(), step(1, 1)]);
        let tracking = Tracking::start(&run, &[Target::Csv, Target::TensorBoard, Target::Wandb]);
        let table = || std::fs::read_to_string(Target::Csv.place(&run)).unwrap_or_default();
        let begin = Instant::now();
        while !table().contains("\n1,1,train,") {
            assert!(begin.elapsed() < Duration::from_secs(60), "the first step has not arrived");
            std::thread::sleep(Duration::from_millis(10));
        }
        append(&run, &[step(2, 1)]);
        assert_eq!(tracking.finish(), Vec::<String>::new());
        assert!(table().contains("\n2,1,train,"));
    }

    #[test]
    fn a_tracker_that_another_process_tells_is_a_warning() {
        let folder = tempfile::tempdir().unwrap();
        let run = run(folder.path());
        append(&run, &[started(), step(1, 1)]);
        let _other = Follower::new(&run, &Target::Csv).unwrap();
        let warnings = Tracking::start(&run, &[Target::Csv, Target::TensorBoard]).finish();
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].starts_with("CSV: another process"), "{warnings:?}");
        assert!(Target::TensorBoard.place(&run).is_dir());
    }
}
