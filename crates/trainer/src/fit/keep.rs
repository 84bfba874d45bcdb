//! What a run keeps: checkpoints, weights, and notes of what went wrong.

use std::path::Path;

use kindling_data::{BadSample, Split};
use kindling_layers::Classifier;
use kindling_runs::{BadSampleLine, Event};

use super::{Observer, Trainer};
use crate::error::TrainError;
use crate::records;
use crate::recovery::Recovery;

impl<M: Classifier> Trainer<'_, M> {
    /// Lists samples that could not be read, and tells of those that were not listed yet.
    ///
    /// # Errors
    /// [`TrainError::Run`] if the list or the log cannot be written.
    pub fn note_bad(&mut self, split: Split, bad: &[BadSample], observer: &mut dyn Observer) -> Result<(), TrainError> {
        for BadSample { sample, name, reason, .. } in bad {
            let (split, path, reason) = (split.to_string(), name.clone(), reason.clone());
            let line = BadSampleLine { split, sample: *sample, path, reason };
            if self.bad_samples.add(&line)? {
                let BadSampleLine { split, path, reason, .. } = line;
                self.emit(Event::BadSample { step: self.state.progress.step, split, path, reason }, observer)?;
            }
        }
        Ok(())
    }

    /// Samples that could not be read, over all splits and sittings.
    pub fn bad_samples(&self) -> usize {
        self.bad_samples.len()
    }

    /// Whether there is a checkpoint to resume from.
    pub fn can_be_resumed(&self) -> bool {
        !self.checkpoints.list().is_empty()
    }

    pub(super) fn checkpoint(&mut self, observer: &mut dyn Observer) -> Result<(), TrainError> {
        let run = (&self.engine.faults, &self.setup.device);
        let path = records::save(&self.checkpoints, &mut self.state, &mut self.log, run, observer)?;
        let step = self.state.progress.step;
        self.saved = Some(step);
        self.emit(Event::Checkpoint { step, path }, observer)
    }

    /// Counts recoveries and writes them down.
    pub(super) fn tell(
        &mut self,
        during: &str,
        recoveries: Vec<Recovery>,
        observer: &mut dyn Observer,
    ) -> Result<(), TrainError> {
        records::tell(&mut self.state, &mut self.log, during, recoveries, observer)
    }

    pub(super) fn write_weights(&self, path: &Path) -> Result<(), TrainError> {
        records::write_weights(&self.state.learner.judged(), &self.setup.note, self.state.progress.step, path)
    }
}
