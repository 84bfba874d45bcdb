//! A run's log, its list of bad samples, and the memory it took: what it goes on writing when training is over.

use kindling_data::{BadSample, Split};
use kindling_memory::Meter;
use kindling_runs::{BadSampleLine, BadSamples, Event, EventLog};

use crate::error::TrainError;
use crate::state::Progress;

/// Watches a run. Nothing an observer does can change its result. A closure that takes events is one.
pub trait Observer {
    /// An event that was just written to the run's log.
    fn event(&mut self, event: &Event);
    /// So many samples of a split are evaluated, of so many in all. Does nothing where it is not implemented.
    fn evaluating(&mut self, _split: &str, _done: usize, _total: usize) {}
}

impl<F: FnMut(&Event)> Observer for F {
    fn event(&mut self, event: &Event) {
        self(event);
    }
}

/// What a run writes down.
pub struct Journal {
    pub(crate) log: EventLog,
    pub(crate) bad_samples: BadSamples,
    pub(crate) meter: Meter,
    /// Whether the run had ended before it was resumed.
    pub(crate) complete: bool,
    /// The step of the newest checkpoint that this process wrote or began with.
    pub(crate) saved: Option<u64>,
}

impl Journal {
    /// Writes an event to the run's log and shows it to the observer; of a run that had ended before, only the latter.
    ///
    /// # Errors
    /// [`TrainError::Run`] if the log cannot be written.
    pub fn emit(&mut self, event: Event, observer: &mut dyn Observer) -> Result<(), TrainError> {
        if !self.complete {
            self.log.append(&event)?;
        }
        observer.event(&event);
        Ok(())
    }

    /// Lists samples that could not be read after `step`, and reports those that were not listed yet.
    ///
    /// # Errors
    /// [`TrainError::Run`] if the list or the log cannot be written.
    pub fn note_bad(
        &mut self,
        step: u64,
        split: Split,
        bad: &[BadSample],
        observer: &mut dyn Observer,
    ) -> Result<(), TrainError> {
        for BadSample { sample, name, reason, .. } in bad {
            let (split, path, reason) = (split.to_string(), name.clone(), reason.clone());
            let line = BadSampleLine { split, sample: *sample, path, reason };
            if self.bad_samples.add(&line)? {
                let BadSampleLine { split, path, reason, .. } = line;
                self.emit(Event::BadSample { step, split, path, reason }, observer)?;
            }
        }
        Ok(())
    }

    /// Samples that could not be read, over all splits and sittings.
    pub fn bad_samples(&self) -> usize {
        self.bad_samples.len()
    }

    /// The most memory in use so far, in bytes.
    pub fn peak_memory(&mut self) -> u64 {
        self.meter.read().peak
    }

    /// An error of a lost device, with what is saved of the run.
    pub fn with_checkpoint(&self, error: TrainError) -> TrainError {
        error.with_saved(self.saved)
    }
}

/// A run whose training is over. The network it trained and its optimizer are gone from memory: what is judged now is read from
/// the run's weights.
pub struct Trained {
    /// Where it got to.
    pub progress: Progress,
    /// Updates that were left out because a gradient of a half format was not finite.
    pub skipped_updates: u64,
    /// Where the rest is written down.
    pub journal: Journal,
}
