//! What a run keeps: checkpoints, weights, and notes of what went wrong.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::Instant;

use kindling_data::{BadSample, Split};
use kindling_layers::{Classifier, parameters, tensors};
use kindling_memory::panic_message;
use kindling_runs::{BadSampleLine, Event, RunError, write_atomically};

use super::{Observer, Trainer};
use crate::error::TrainError;
use crate::fault::Phase;
use crate::recovery::{Recovery, make_room};

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

    /// Saves a checkpoint. Reading tensors from a device may need memory too; what is read stays as it is.
    pub(super) fn save(&mut self, observer: &mut dyn Observer) -> Result<PathBuf, TrainError> {
        const TRIES: usize = 3;
        let step = self.state.progress.step;
        for _ in 1..TRIES {
            let began = Instant::now();
            let attempt = || {
                self.engine.faults.at(step, Phase::Checkpoint, 0);
                self.checkpoints.save(&self.state)
            };
            let outcome = catch_unwind(AssertUnwindSafe(attempt))
                .unwrap_or_else(|panic| Err(TrainError::of_device(Some(step), 0, &panic_message(panic.as_ref()))));
            let reason = match outcome {
                Err(TrainError::OutOfMemory { reason, .. }) => reason,
                done => return done,
            };
            make_room(&self.setup.device);
            let (lever, seconds) = ("freed what was cached".to_string(), began.elapsed().as_secs_f64());
            self.tell("checkpoint", vec![Recovery { reason, lever, seconds }], observer)?;
        }
        self.checkpoints.save(&self.state)
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
