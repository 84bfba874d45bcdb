//! What a [`crate::Trainer`] trains, as its loop sees it: what a step is, and what a run does between steps.

use kindling_data::HostBatch;
use kindling_given::Span;
use kindling_runs::{Event, Together};

use crate::attempt::{Attempt, GoodStep};
use crate::checkpointable::Checkpointable;
use crate::error::TrainError;
use crate::journal::Observer;
use crate::run::Run;
use crate::schedule::Length;
use crate::state::Progress;
use crate::warm_up::Warmed;

/// The training of a state `S`: a network with its optimizer, or several of them. The loop of a run is
/// [`crate::Trainer::fit`]; it computes steps until they fit, commits them, saves them and writes them down. What differs
/// from one kind of training to another is here.
pub trait Training<S: Checkpointable + Clone> {
    /// What a good step reports, such as its losses.
    type Told;

    /// Whether an epoch ends with something to do, a look at [`RunPhase::Epoch`] and a checkpoint. Otherwise a run is done
    /// with its last step.
    const BY_EPOCH: bool;

    /// How long the run is.
    fn length(&self) -> &Length;

    /// Whether a run that is there is over.
    fn is_over(&self, progress: &Progress) -> bool {
        progress.step >= self.length().total()
    }

    /// The learning rate of a step, counted from 1.
    fn learning_rate(&self, step: u64) -> f64;

    /// A checkpoint is written after this many steps, and at the end.
    fn checkpoint_steps(&self) -> u64;

    /// And when this much time has passed since the last one.
    fn checkpoint_every(&self) -> Span;

    /// Computes a step from a state, which stays as it is.
    ///
    /// # Errors
    /// [`TrainError::OutOfMemory`], [`TrainError::Device`] or [`TrainError::NotFinite`]. Panics of the device's runtime are
    /// caught ([`TrainError::caught`]) and told apart the same way.
    fn compute(&self, state: &S, batch: &HostBatch, at: &Attempt) -> Result<GoodStep<S, Self::Told>, TrainError>;

    /// The event of a step that was committed, and what is worth a warning.
    fn told(&mut self, told: Self::Told, of: &Committed) -> (Event, Vec<String>);

    /// Has a device that compiles kernels choose them before the first step, while it is empty. `None` if nothing was tried.
    ///
    /// # Errors
    /// What is no lack of memory.
    fn warm_up(&self, _batch: &HostBatch, _run: &Run<'_, S>) -> Result<Option<Warmed>, TrainError> {
        Ok(None)
    }

    /// Looks at what was trained so far, if it is time to.
    ///
    /// # Errors
    /// What ends the run.
    fn look(&mut self, at: RunPhase, run: &mut Run<'_, S>, observer: &mut dyn Observer) -> Result<(), TrainError>;

    /// Writes what belongs to the checkpoint that was just saved.
    ///
    /// # Errors
    /// What ends the run.
    fn saved(&mut self, _run: &Run<'_, S>) -> Result<(), TrainError> {
        Ok(())
    }

    /// Writes what a run has at its end; of a run that had ended before it was resumed, what is missing.
    ///
    /// # Errors
    /// What ends the run.
    fn finish(&mut self, run: &Run<'_, S>) -> Result<(), TrainError>;
}

/// Where a run is when its training looks at the model ([`Training::look`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunPhase {
    /// Before the first step of this process.
    Start,
    /// After a step.
    Step,
    /// After the last step of an epoch or of the run.
    Epoch,
}

/// A step that was just committed.
#[derive(Clone, Debug, PartialEq)]
pub struct Committed {
    /// Its number, from 1.
    pub step: u64,
    /// The number of its epoch, from 1.
    pub epoch: u64,
    /// The largest micro-batch that it was computed in.
    pub micro_batch: usize,
    /// Images of the batch by the seconds that it took, waiting for data included.
    pub images_per_second: f64,
    /// The most memory in use so far, in bytes.
    pub peak_memory_bytes: u64,
    /// Seconds in which it waited for its batch.
    pub waiting_seconds: f64,
    /// Seconds since the run began in this process.
    pub seconds: f64,
    /// What it reports about the processes that computed it, where there are several.
    pub together: Option<Together>,
}
