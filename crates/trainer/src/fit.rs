//! The run: epochs of steps, each followed by validation and a checkpoint.

mod journal;
mod keep;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use burn::tensor::Device;
use kindling_data::{HostBatch, Loader, Split};
use kindling_layers::Classifier;
use kindling_memory::{Meter, Plan, has_pages};
use kindling_runs::{BadSamples, Event, EventLog, RunDir};

use crate::checkpoint::Checkpoints;
use crate::config::TrainConfig;
use crate::error::TrainError;
use crate::evaluate::{Inference, evaluate, samples_at_once};
use crate::fault::Faults;
use crate::host_copy::HostCopy;
use crate::loss_scale::LossScale;
use crate::model_state::ModelState;
use crate::optimizer::Optimizer;
use crate::policy::{Limits, Policy};
use crate::records;
use crate::recovery::carry_out;
use crate::schedule::Schedule;
use crate::state::{Best, NextStep, Progress, TrainState};
use crate::step::StepEngine;
use crate::warm_up::{Warmed, warm_up};

pub use journal::{Journal, Trained};

/// Watches a run. Nothing an observer does can change its result.
pub trait Observer {
    /// An event that was just written to the run's log.
    fn event(&mut self, event: &Event);
    /// `done` of `total` samples of a split are evaluated.
    fn evaluating(&mut self, split: &str, done: usize, total: usize);
}

/// How [`Trainer::fit`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All steps are done.
    Finished,
    /// It was asked to stop; a checkpoint of the last finished step is saved.
    Interrupted,
}

/// What a run is made of besides its configuration.
pub struct Setup<'a> {
    /// The zoo's name of the model.
    pub model_name: &'a str,
    /// A note in the weights files: what they belong to.
    pub note: String,
    /// Number of classes.
    pub classes: usize,
    /// The device, without gradients.
    pub device: Device,
    /// Training samples, shuffled and augmented.
    pub train: Loader,
    /// Validation samples, in order.
    pub validation: Loader,
    /// Where everything is written.
    pub run: &'a RunDir,
    /// Set from outside to end the run after the current step.
    pub stop: Arc<AtomicBool>,
    /// How much is computed at once in the first step.
    pub start: Plan,
    /// Failures to come, for tests.
    pub faults: Faults,
}

/// A run in progress.
pub struct Trainer<'a, M: Classifier> {
    config: TrainConfig,
    setup: Setup<'a>,
    engine: StepEngine,
    schedule: Schedule,
    checkpoints: Checkpoints,
    journal: Journal,
    state: TrainState<ModelState<M>>,
    host_copy: HostCopy,
    /// Whether the device's kernels are chosen: at once where there is nothing to choose.
    warm: bool,
    began: Instant,
}

impl<'a, M: Classifier> Trainer<'a, M> {
    /// A run at its start. `model` is on the setup's device.
    ///
    /// # Errors
    /// [`TrainError::Config`] for values that cannot be, [`TrainError::Run`] if the event log cannot be opened.
    pub fn new(model: M, config: TrainConfig, setup: Setup<'a>) -> Result<Self, TrainError> {
        config.check(setup.classes)?;
        let all = config.epochs.saturating_mul(setup.train.batches_per_epoch() as u64);
        let total_steps = config.max_steps.map_or(all, |most| most.min(all));
        let warmup_steps = (config.warmup * total_steps as f64).round() as u64;
        let schedule = Schedule { peak: config.lr, warmup_steps, total_steps };
        let engine = StepEngine::new(
            &config,
            setup.train.task(),
            setup.classes,
            &setup.device,
            total_steps,
            setup.faults.clone(),
        );
        let optimizer = Optimizer::new(config.optimizer);
        let state = TrainState::new(
            ModelState::new("model", model, optimizer, config.ema.is_some()),
            policy(&config, setup.start, &setup.device),
            LossScale::new(config.precision),
        );
        let checkpoints = Checkpoints::new(setup.run.checkpoints(), setup.model_name);
        let log = EventLog::open(&setup.run.events())?;
        let bad_samples = BadSamples::open(&setup.run.bad_samples())?;
        setup.train.remember_bad(bad_samples.samples(Split::Train.name()));
        setup.validation.remember_bad(bad_samples.samples(Split::Val.name()));
        let meter = Meter::new(&setup.device);
        let began = Instant::now();
        // Only devices that compile kernels have pools.
        let warm = !has_pages(&setup.device);
        let host_copy = HostCopy::new(&setup.device);
        Ok(Self {
            config,
            setup,
            engine,
            schedule,
            checkpoints,
            journal: Journal { log, bad_samples, meter, complete: false, saved: None },
            state,
            host_copy,
            warm,
            began,
        })
    }

    /// Continues from the newest checkpoint, with which the log is brought in line. A run that had ended goes on to do
    /// nothing, and writes nothing into its log.
    ///
    /// # Errors
    /// [`TrainError::Checkpoint`] if there is none that can be used.
    pub fn resume(&mut self, observer: &mut dyn Observer) -> Result<(), TrainError> {
        let Self { checkpoints, state, journal, engine, .. } = self;
        journal.complete = records::resume(checkpoints, state, &mut journal.log, &engine.device, observer)?;
        journal.saved = Some(state.progress().step);
        Ok(())
    }

    /// Lets go of the network, its optimizer and the loaders.
    pub fn close(self) -> Trained {
        let skipped_updates = self.state.loss_scale().skipped();
        Trained { progress: self.state.into_progress(), skipped_updates, journal: self.journal }
    }

    /// Whether the run had reached its end when it was resumed: nothing is left to train.
    pub fn is_complete(&self) -> bool {
        self.journal.complete
    }

    /// Where the run is.
    pub fn progress(&self) -> &Progress {
        self.state.progress()
    }

    /// Optimizer steps of the whole run.
    pub fn total_steps(&self) -> u64 {
        self.schedule.total_steps
    }

    /// The most memory in use so far, in bytes.
    pub fn peak_memory(&mut self) -> u64 {
        self.journal.peak_memory()
    }

    /// The network as it is judged now, without gradients.
    pub fn model(&self) -> M {
        self.state.model_state().judged()
    }

    /// How much is computed at once now.
    pub fn plan(&self) -> Plan {
        self.state.policy().plan()
    }

    /// Writes an event to the run's log and shows it to the observer.
    ///
    /// # Errors
    /// [`TrainError::Run`] if the log cannot be written.
    pub fn emit(&mut self, event: Event, observer: &mut dyn Observer) -> Result<(), TrainError> {
        self.journal.emit(event, observer)
    }

    /// Trains to the end, or until asked to stop.
    ///
    /// # Errors
    /// The first thing that went wrong. The state is that of the last good step, and the last checkpoint is intact.
    pub fn fit(&mut self, observer: &mut dyn Observer) -> Result<Ended, TrainError> {
        if self.journal.complete {
            if !self.setup.run.last_weights().exists() {
                self.write_weights(&self.setup.run.last_weights())?;
            }
            return Ok(Ended::Finished);
        }
        self.host_copy.refresh(&self.state, &self.journal.log);
        self.epochs(observer).map_err(|error| self.ended_by(error, observer))
    }

    /// Saves the steps before what ended the run: a step that failed changed nothing.
    fn ended_by(&mut self, error: TrainError, observer: &mut dyn Observer) -> TrainError {
        let step = self.state.progress().step;
        if self.journal.saved != Some(step) && step > 0 && self.host_copy.is_device_readable(&error) {
            // It is worth a second try. If this fails too, the first error is the one to report.
            let _ = self.checkpoint(observer).or_else(|_| self.checkpoint(observer));
        }
        let (error, rescued) = self.host_copy.rescue(error, step, &mut self.journal.saved, &self.checkpoints);
        if let Some(checkpoint) = rescued {
            let _ = self.emit(checkpoint, observer);
        }
        error
    }

    fn epochs(&mut self, observer: &mut dyn Observer) -> Result<Ended, TrainError> {
        loop {
            if self.train_epoch(observer)? == Ended::Interrupted {
                return Ok(Ended::Interrupted);
            }
            if self.state.progress().evaluated != self.state.progress().step {
                self.validate(observer)?;
            }
            if self.state.progress().batch >= self.setup.train.batches_per_epoch() {
                self.state.end_epoch();
            }
            self.checkpoint(observer)?;
            if self.state.progress().step >= self.schedule.total_steps {
                self.write_weights(&self.setup.run.last_weights())?;
                return Ok(Ended::Finished);
            }
        }
    }

    /// The rest of the current epoch, as far as the run's steps go.
    fn train_epoch(&mut self, observer: &mut dyn Observer) -> Result<Ended, TrainError> {
        if self.state.progress().step >= self.schedule.total_steps {
            return Ok(Ended::Finished);
        }
        let mut started = Instant::now();
        for batch in self.setup.train.epoch(self.state.progress().epoch, self.state.progress().batch) {
            let mut waiting = started.elapsed().as_secs_f64();
            let batch = batch?;
            self.journal.note_bad(self.state.progress().step, Split::Train, &batch.bad, observer)?;
            if !self.warm {
                self.warm_up(&batch, observer)?;
                started = Instant::now();
                waiting = 0.0;
            }
            self.step(&batch, started, waiting, observer)?;
            let step = self.state.progress().step;
            if self.setup.stop.load(Ordering::Relaxed) {
                self.checkpoint(observer)?;
                self.emit(Event::Interrupted { step }, observer)?;
                return Ok(Ended::Interrupted);
            }
            if step >= self.schedule.total_steps {
                break;
            }
            if step.is_multiple_of(self.config.checkpoint_steps) {
                self.checkpoint(observer)?;
            }
            started = Instant::now();
        }
        Ok(Ended::Finished)
    }

    /// Has the device choose its kernels while it is empty.
    fn warm_up(&mut self, batch: &HostBatch, observer: &mut dyn Observer) -> Result<(), TrainError> {
        let Self { engine, state, setup, .. } = &*self;
        let Warmed { micro_batches, too_large, seconds } =
            warm_up(engine, state.model_state(), batch, state.policy(), &setup.device)?;
        self.warm = true;
        let step = self.state.progress().step;
        self.emit(Event::WarmedUp { step, micro_batches, too_large, seconds }, observer)
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
        let step = self.state.progress().step + 1;
        let lr = self.schedule.rate(step);
        let Self { engine, state, setup, .. } = self;
        let device = &setup.device;
        let NextStep { model_state, policy, loss_scale } = state.next_step(device);
        let (mut recoveries, mut used) = (Vec::new(), None);
        let outcome = carry_out(
            policy,
            device,
            || model_state.make_room(),
            |recovery| recoveries.push(recovery.clone()),
            |plan| {
                used = Some(*plan);
                model_state.attempt(|model_state| {
                    let computed = engine.compute(model_state, batch, plan, step, lr, loss_scale.factor());
                    computed.map_err(|error| error.with_use(|| model_state.in_use(device)))
                })
            },
        );
        if let Some((snapshot, lost)) = model_state.into_stranded() {
            self.host_copy.take_over(snapshot, &self.state, &self.journal.log);
            return Err(lost);
        }
        self.tell("training", recoveries, observer)?;
        let seconds = started.elapsed().as_secs_f64();
        self.state.waited(waiting_seconds);
        if let (Err(TrainError::NotFinite { .. }), Some(next)) = (&outcome, self.state.loss_scale().after_overflow()) {
            self.state.skip(next, batch.len(), seconds);
            return self.emit(Event::Skipped { step, loss_scale: next.factor() }, observer);
        }
        let (good, policy) = outcome?;
        self.state.commit(good.model_state, policy, batch.len(), seconds);
        let event = Event::Step {
            step,
            epoch: self.state.progress().epoch + 1,
            loss: good.loss,
            lr,
            images_per_second: batch.len() as f64 / seconds.max(1e-9),
            micro_batch: good.micro_batch,
            peak_memory_bytes: self.journal.peak_memory(),
            gradient_norm: good.gradient_norm,
            waiting_seconds,
            seconds: self.began.elapsed().as_secs_f64(),
        };
        self.emit(event, observer)?;
        records::replanned(&mut self.journal.log, step, (used, self.state.policy().plan()), observer)?;
        self.host_copy.refresh(&self.state, &self.journal.log);
        Ok(())
    }

    /// Scores the model on the validation samples and keeps its weights if it is the best so far.
    fn validate(&mut self, observer: &mut dyn Observer) -> Result<(), TrainError> {
        let &Progress { step, epoch, best, .. } = self.state.progress();
        let epoch = epoch + 1;
        let loader = &self.setup.validation;
        let total = loader.samples_per_epoch();
        let device = &self.setup.device;
        let at_once = samples_at_once(device, self.config.largest_group(), self.state.policy().plan().micro_batch);
        let inference = Inference {
            faults: Some((&self.engine.faults, step)),
            ..Inference::new(device, at_once, self.config.precision)
        };
        let watch = |done| observer.evaluating("validation", done, total);
        let evaluation = evaluate(&self.state.model_state().judged(), loader, self.setup.classes, &inference, watch)?;
        let score = evaluation.score;
        self.tell("evaluation", evaluation.recoveries, observer)?;
        self.journal.note_bad(step, Split::Val, &evaluation.bad, observer)?;
        let (accuracy, loss) = (score.criterion(), score.loss);
        let is_best = best.is_none_or(|best| best.is_beaten_by(accuracy, loss));
        if is_best {
            self.write_weights(&self.setup.run.weights())?;
        }
        self.state.evaluated(is_best.then_some(Best { epoch, step, accuracy, loss }));
        let split = "validation".to_string();
        let (loss, accuracy, samples) = (score.loss, score.accuracy, score.samples);
        self.emit(Event::Evaluated { step, epoch, split, loss, accuracy, samples }, observer)
    }
}

/// Which plans a run chooses from, and where it starts.
pub(crate) fn policy(config: &TrainConfig, start: Plan, device: &Device) -> Policy {
    let mut limits = Limits::new(config.largest_group(), config.batch_size).with_pages(has_pages(device));
    if let Some(most) = config.micro_batch {
        limits = limits.with_largest(most);
    }
    if let Some(checkpointing) = config.activation_checkpointing {
        limits = limits.with_checkpointing(checkpointing, checkpointing);
    }
    let micro_batch = config.micro_batch.unwrap_or(start.micro_batch);
    Policy::new(
        limits,
        Plan { micro_batch, checkpointing: config.activation_checkpointing.unwrap_or(start.checkpointing) },
    )
}
