//! The loop of a run, whatever it trains: batch after batch, step after step, with checkpoints.

use std::time::Instant;

use kindling_data::{HostBatch, Split};
use kindling_memory::{Plan, has_pages};
use kindling_runs::Event;

use crate::checkpointable::Checkpointable;
use crate::error::TrainError;
use crate::journal::{Observer, Trained};
use crate::run::{Run, Setup};
use crate::schedule::Length;
use crate::state::{Progress, STEPS_BETWEEN_COMPARISONS, Settled, TrainState};
use crate::training::{Committed, RunPhase, Training};
use crate::warm_up::Warmed;

/// How [`Trainer::fit`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All steps are done.
    Finished,
    /// It was asked to stop; a checkpoint of the last finished step is saved.
    Interrupted,
}

/// A run in progress: the training `T` of a state `S`.
pub struct Trainer<'a, S, T> {
    pub(crate) training: T,
    pub(crate) run: Run<'a, S>,
    /// Whether the device's kernels are still to be chosen.
    cold: bool,
    began: Instant,
    /// When the last checkpoint was saved, or else the run began.
    saved: Instant,
}

impl<'a, S: Checkpointable + Clone, T: Training<S>> Trainer<'a, S, T> {
    /// A run at its start. `state` is on the setup's device.
    ///
    /// # Errors
    /// [`TrainError::Run`] if the event log cannot be opened.
    pub fn of(training: T, state: TrainState<S>, setup: Setup<'a>) -> Result<Self, TrainError> {
        // Only devices that compile kernels have pools.
        let cold = has_pages(&setup.device);
        let now = Instant::now();
        Ok(Self { training, run: Run::new(state, setup)?, cold, began: now, saved: now })
    }

    /// Continues from the newest checkpoint, with which the log is brought in line. A run that had ended, and that the
    /// configuration has not made longer since, goes on to do nothing, and writes nothing into its log. A run that was stopped
    /// before its first checkpoint begins again: its state must be the one it began with, and `started` records its start if
    /// the log does not.
    ///
    /// # Errors
    /// [`TrainError::Checkpoint`] if there is none that can be used, though there was one.
    pub fn resume(&mut self, started: Event, observer: &mut dyn Observer) -> Result<(), TrainError> {
        let training = &self.training;
        if self.run.resume(&|progress| training.is_over(progress), started, observer)? {
            let (step, steps_total) = (self.progress().step, self.total_steps());
            let lr = self.training.learning_rate(step + 1);
            self.emit(Event::Extended { step, steps_total, lr }, observer)?;
        }
        Ok(())
    }

    /// Whether the run had ended before it was resumed: there is nothing left to train.
    pub fn is_complete(&self) -> bool {
        self.run.was_complete()
    }

    /// Lets go of what it trains, its optimizers and the loaders.
    pub fn close(self) -> Trained {
        let Run { state, journal, .. } = self.run;
        let skipped_updates = state.loss_scale().skipped();
        Trained { progress: state.into_progress(), skipped_updates, journal }
    }

    /// Where the run is.
    pub fn progress(&self) -> &Progress {
        self.run.progress()
    }

    /// Optimizer steps of the whole run.
    pub fn total_steps(&self) -> u64 {
        self.length().total()
    }

    /// How long the run is, and was to be before it was extended.
    pub fn length(&self) -> &Length {
        self.training.length()
    }

    /// The most memory in use so far, in bytes.
    pub fn peak_memory(&mut self) -> u64 {
        self.run.journal.peak_memory()
    }

    /// How much is computed at once now.
    pub fn plan(&self) -> Plan {
        self.run.plan()
    }

    /// Writes an event to the run's log and shows it to the observer.
    ///
    /// # Errors
    /// [`TrainError::Run`] if the log cannot be written.
    pub fn emit(&mut self, event: Event, observer: &mut dyn Observer) -> Result<(), TrainError> {
        self.run.emit(event, observer)
    }

    /// Trains to the end, or until asked to stop.
    ///
    /// # Errors
    /// The first thing that went wrong. The state is that of the last good step, and the last checkpoint is intact.
    pub fn fit(&mut self, observer: &mut dyn Observer) -> Result<Ended, TrainError> {
        if self.run.was_complete() {
            self.training.finish(&self.run)?;
            return Ok(Ended::Finished);
        }
        self.run.copy_to_host();
        self.epochs(observer).map_err(|error| self.ended_by(error, observer))
    }

    /// Saves the steps before what ended the run: a step that failed changed nothing. Where ranks hold other weights, steps before it are
    /// wrong as well.
    fn ended_by(&mut self, error: TrainError, observer: &mut dyn Observer) -> TrainError {
        if matches!(error, TrainError::Apart { .. }) {
            return error;
        }
        if self.run.can_be_saved_after(&error) {
            // It is worth a second try. If this fails too, the first error is the one to report.
            let _ = self.checkpoint(observer).or_else(|_| self.checkpoint(observer));
        }
        self.run.rescued(error, observer)
    }

    fn epochs(&mut self, observer: &mut dyn Observer) -> Result<Ended, TrainError> {
        self.training.look(RunPhase::Start, &mut self.run, observer)?;
        loop {
            if self.epoch(observer)? == Ended::Interrupted {
                return Ok(Ended::Interrupted);
            }
            // Before they are scored, and the best weights and a checkpoint are written.
            self.run.compare_ranks()?;
            self.training.look(RunPhase::Epoch, &mut self.run, observer)?;
            if self.run.progress().batch >= self.run.setup.train.batches_per_epoch() {
                self.run.state.end_epoch();
            }
            let last = self.is_over();
            if T::BY_EPOCH || (last && !self.run.is_saved()) {
                self.checkpoint(observer)?;
            }
            if last {
                // After the checkpoint, so that a run that goes on from it reports it once.
                let &Progress { step, epoch, best, .. } = self.run.progress();
                if step < self.total_steps() {
                    self.emit(Event::EndedEarly { step, epoch, best_epoch: best.map(|best| best.epoch) }, observer)?;
                }
                self.training.finish(&self.run)?;
                return Ok(Ended::Finished);
            }
        }
    }

    /// The rest of the current epoch, as far as the run's steps go.
    fn epoch(&mut self, observer: &mut dyn Observer) -> Result<Ended, TrainError> {
        if self.is_over() {
            return Ok(Ended::Finished);
        }
        let mut started = Instant::now();
        let &Progress { epoch, batch, .. } = self.run.progress();
        for batch in self.run.setup.train.epoch(epoch, batch) {
            let mut waiting = started.elapsed().as_secs_f64();
            let batch = self.run.agree_on(batch?)?;
            self.run.note_bad(Split::Train, &batch.bad, observer)?;
            if std::mem::take(&mut self.cold) && self.warm_up(&batch, observer)? {
                started = Instant::now();
                waiting = 0.0;
            }
            self.step(&batch, started, waiting, observer)?;
            if self.run.progress().step.is_multiple_of(STEPS_BETWEEN_COMPARISONS) {
                self.run.compare_ranks()?;
            }
            self.training.look(RunPhase::Step, &mut self.run, observer)?;
            let (step, last) = (self.run.progress().step, self.is_over());
            if self.run.is_to_stop() && (T::BY_EPOCH || !last) {
                self.checkpoint(observer)?;
                self.emit(Event::Interrupted { step }, observer)?;
                return Ok(Ended::Interrupted);
            }
            // An extended run is scored where it had ended, too.
            if last || self.length().ended_at(step) {
                break;
            }
            let is_time = self.saved.elapsed() >= self.training.checkpoint_every().duration();
            if is_time || step.is_multiple_of(self.training.checkpoint_steps()) {
                self.checkpoint(observer)?;
            }
            started = Instant::now();
        }
        Ok(Ended::Finished)
    }

    fn checkpoint(&mut self, observer: &mut dyn Observer) -> Result<(), TrainError> {
        let began = Instant::now();
        let path = self.run.save(observer)?;
        self.training.saved(&self.run)?;
        let step = self.run.progress().step;
        self.saved = Instant::now();
        self.emit(Event::Checkpoint { step, path, seconds: began.elapsed().as_secs_f64() }, observer)
    }

    fn is_over(&self) -> bool {
        self.training.is_over(self.run.progress())
    }

    /// Has the device choose its kernels while it is empty; whether that took steps.
    fn warm_up(&mut self, batch: &HostBatch, observer: &mut dyn Observer) -> Result<bool, TrainError> {
        let Some(warmed) = self.training.warm_up(batch, &self.run)? else { return Ok(false) };
        let Warmed { micro_batches, too_large, seconds } = warmed;
        let step = self.run.progress().step;
        self.emit(Event::WarmedUp { step, micro_batches, too_large, seconds }, observer)?;
        Ok(true)
    }

    /// One step: compute, commit, tell. `started` is when the wait for its batch began,
    /// `waiting_seconds` how long it took.
    fn step(
        &mut self,
        batch: &HostBatch,
        started: Instant,
        waiting_seconds: f64,
        observer: &mut dyn Observer,
    ) -> Result<(), TrainError> {
        let Self { training, run, .. } = self;
        let Run { setup, state, .. } = run;
        let mut tried = match state.try_step(&setup.device, |state, at| training.compute(state, batch, at)) {
            Ok(tried) => tried,
            Err(stranded) => {
                run.take_over(stranded.0);
                return Err(stranded.1);
            }
        };
        run.tell("training", std::mem::take(&mut tried.recoveries), observer)?;
        let seconds = started.elapsed().as_secs_f64();
        run.state.waited(waiting_seconds);
        let used = tried.used;
        let settled = run.state.settle(tried, batch.len(), seconds)?;
        let &Progress { step, epoch, .. } = run.progress();
        let (told, micro_batch) = match settled {
            Settled::Good { told, micro_batch } => (told, micro_batch),
            Settled::Skipped { loss_scale } => return run.emit(Event::Skipped { step, loss_scale }, observer),
        };
        let committed = Committed {
            step,
            epoch: epoch + 1,
            micro_batch,
            images_per_second: batch.len() as f64 / seconds.max(1e-9),
            peak_memory_bytes: run.journal.peak_memory(),
            waiting_seconds,
            seconds: self.began.elapsed().as_secs_f64(),
            together: run.setup.ranks.together(),
        };
        let (event, warnings) = training.told(told, &committed);
        run.emit(event, observer)?;
        run.replanned(used, observer)?;
        for text in warnings {
            run.emit(Event::Warned { step, text }, observer)?;
        }
        run.copy_to_host();
        run.setup.ranks.beat(step);
        Ok(())
    }
}
