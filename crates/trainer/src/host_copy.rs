//! The state of a run in host memory.
//!
//! A device that faults is lost with all it holds: an illegal address, a failed launch, an uncorrectable memory error. So a
//! run on one keeps a copy of its state on the host, read after a step was committed, and what ends the run saves that. Reading it
//! after every step would cost too much, so it may take one part in a hundred of the time; the few steps after it are computed
//! again, with the same result. It takes as much host memory as a checkpoint takes on disk. A run on the CPU needs none.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use burn::tensor::Device;
use kindling_memory::has_pages;
use kindling_runs::{Event, EventLog};

use crate::checkpoint::{Checkpoints, Snapshot};
use crate::checkpointable::Checkpointable;
use crate::error::TrainError;
use crate::model_snapshot::ModelSnapshot;
use crate::state::TrainState;

/// Seconds that must pass for each second that copying takes.
const RARENESS: f64 = 100.0;

/// The newest copy.
#[derive(Debug)]
pub(crate) struct HostCopy {
    /// Whether there is to be one: a device whose memory can be lost.
    wanted: bool,
    newest: Option<Snapshot>,
    taken: Instant,
    seconds: f64,
}

impl HostCopy {
    /// None yet, for a run on `device`.
    pub(crate) fn new(device: &Device) -> Self {
        Self { wanted: has_pages(device), newest: None, taken: Instant::now(), seconds: 0.0 }
    }

    /// Whether the state can still be read where it was computed, after `error`.
    pub(crate) fn is_device_readable(&self, error: &TrainError) -> bool {
        !(self.wanted && error.is_device_lost())
    }

    /// Copies a committed state, if it is time to. A copy that fails leaves the one before it. That of the start is followed by one
    /// of the first step in any case: it has costs that do not come again, and by its time nothing might be copied for long.
    pub(crate) fn refresh<L: Checkpointable>(&mut self, state: &TrainState<L>, log: &EventLog) {
        let since = self.taken.elapsed().as_secs_f64();
        let of_the_start = self.newest.as_ref().is_none_or(|copy| copy.progress.step == 0);
        if !self.wanted || !(of_the_start || is_due(since, self.seconds)) {
            return;
        }
        let began = Instant::now();
        if let Ok(Ok(copy)) = catch_unwind(AssertUnwindSafe(|| Snapshot::of(state, log.mark()))) {
            self.newest = Some(copy);
        }
        (self.taken, self.seconds) = (Instant::now(), began.elapsed().as_secs_f64());
    }

    /// Takes the only copy of a state that there is.
    pub(crate) fn take_over<L>(&mut self, snapshot: ModelSnapshot, state: &TrainState<L>, log: &EventLog) {
        self.newest = Some(Snapshot::with(snapshot, state, log.mark()));
    }

    /// The end of a run whose step `step` was committed: where that step could not be saved, the copy is, and what ended the run
    /// was the loss of the device. Returns the error, which says what is saved, and the event to tell of.
    pub(crate) fn rescue(
        &self,
        error: TrainError,
        step: u64,
        saved: &mut Option<u64>,
        checkpoints: &Checkpoints,
    ) -> (TrainError, Option<Event>) {
        let began = Instant::now();
        let copy = if *saved == Some(step) { None } else { self.save(*saved, checkpoints) };
        let Some((step, path)) = copy else { return (error.with_saved(*saved), None) };
        *saved = Some(step);
        (
            error.of_lost_device().with_saved(*saved),
            Some(Event::Checkpoint { step, path, seconds: began.elapsed().as_secs_f64() }),
        )
    }

    /// Saves the copy as a checkpoint if it is of a later step than the newest one; its step and the name of its folder.
    fn save(&self, saved: Option<u64>, checkpoints: &Checkpoints) -> Option<(u64, String)> {
        let copy = self.newest.as_ref()?;
        let step = copy.progress.step;
        if saved.is_some_and(|saved| saved >= step) {
            return None;
        }
        let path = checkpoints.write(copy).ok()?;
        Some((step, path.file_name().unwrap_or_default().to_string_lossy().into_owned()))
    }
}

/// Whether a copy that takes so many seconds is due so many seconds after the last one.
fn is_due(since: f64, seconds: f64) -> bool {
    since >= RARENESS * seconds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copying_takes_one_part_in_a_hundred_of_the_time() {
        assert!(is_due(1.0, 0.01) && !is_due(0.99, 0.01) && is_due(0.0, 0.0));
        // Steps of 0.3 s with a copy of 0.05 s: the time that copies take of an hour.
        let (mut since, mut copies, mut now) = (0.0, 0.0, 0.0);
        while now < 3600.0 {
            (now, since) = (now + 0.3, since + 0.3);
            if is_due(since, 0.05) {
                (now, since, copies) = (now + 0.05, 0.0, copies + 0.05);
            }
        }
        assert!(copies / now <= 0.01, "{copies} of {now} s");
    }
}
