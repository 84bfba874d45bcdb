//! What a run keeps: checkpoints and weights.

use std::path::Path;

use kindling_layers::Classifier;
use kindling_runs::Event;

use super::{Observer, Trainer};
use crate::error::TrainError;
use crate::records;
use crate::recovery::Recovery;

impl<M: Classifier> Trainer<'_, M> {
    /// Whether there is a checkpoint to resume from.
    pub fn can_be_resumed(&self) -> bool {
        !self.checkpoints.list().is_empty()
    }

    pub(super) fn checkpoint(&mut self, observer: &mut dyn Observer) -> Result<(), TrainError> {
        let run = (&self.engine.faults, &self.setup.device);
        let path = records::save(&self.checkpoints, &mut self.state, &mut self.journal.log, run, observer)?;
        let step = self.state.progress().step;
        self.journal.saved = Some(step);
        self.emit(Event::Checkpoint { step, path }, observer)
    }

    /// Counts recoveries and writes them down.
    pub(super) fn tell(
        &mut self,
        during: &str,
        recoveries: Vec<Recovery>,
        observer: &mut dyn Observer,
    ) -> Result<(), TrainError> {
        records::tell(&mut self.state, &mut self.journal.log, during, recoveries, observer)
    }

    pub(super) fn write_weights(&self, path: &Path) -> Result<(), TrainError> {
        records::write_weights(&self.state.model_state().judged(), &self.setup.note, self.state.progress().step, path)
    }
}
