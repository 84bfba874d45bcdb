//! What a run keeps: checkpoints, weights, and notes of what went wrong.

use std::path::PathBuf;

use kindling_data::{BadSample, Split};
use kindling_layers::{Classifier, parameters, tensors};
use kindling_runs::{BadSampleLine, Event, RunError, write_atomically};

use super::{Observer, Trainer};
use crate::checkpoint::save_whatever_happens;
use crate::error::TrainError;
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

    pub(super) fn checkpoint(&mut self, observer: &mut dyn Observer) -> Result<(), TrainError> {
        let path = self.save(observer)?;
        self.saved = Some(self.state.progress.step);
        let path = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.emit(Event::Checkpoint { step: self.state.progress.step, path }, observer)
    }

    fn save(&mut self, observer: &mut dyn Observer) -> Result<PathBuf, TrainError> {
        let mut recoveries = Vec::new();
        let saved = save_whatever_happens(
            &self.checkpoints,
            &self.state,
            &self.engine.faults,
            &self.setup.device,
            |recovery| recoveries.push(recovery),
        );
        self.tell("checkpoint", recoveries, observer)?;
        saved
    }

    /// Counts recoveries and writes them down.
    pub(super) fn tell(
        &mut self,
        during: &str,
        recoveries: Vec<Recovery>,
        observer: &mut dyn Observer,
    ) -> Result<(), TrainError> {
        for Recovery { reason, lever, seconds } in recoveries {
            self.state.recovered(seconds);
            let (step, during) = (self.state.progress.step, during.to_string());
            self.emit(Event::Recovered { step, during, reason, lever, seconds }, observer)?;
        }
        Ok(())
    }

    pub(super) fn write_weights(&self, path: &std::path::Path) -> Result<(), TrainError> {
        let step = self.state.progress.step;
        let weights = parameters::read(&self.state.learner.judged())
            .map_err(|text| TrainError::of_device(Some(step), 0, &text))?;
        let bytes = tensors::to_bytes(&weights, Some(&self.setup.note))
            .map_err(|reason| RunError::Inexpressible { path: path.to_path_buf(), reason })?;
        Ok(write_atomically(path, &bytes)?)
    }
}
