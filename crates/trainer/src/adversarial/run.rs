//! The run: iteration after iteration, with previews and checkpoints.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use burn::tensor::Device;
use kindling_data::{HostBatch, Loader};
use kindling_layers::{Checkpointing, Discriminator, Generator};
use kindling_memory::{Meter, Plan, has_pages};
use kindling_runs::{Event, EventLog, RunDir};

use super::calibrate::calibrate;
use super::config::AdversarialConfig;
use super::guards::Guards;
use super::pair::Pair;
use super::step::AdversarialEngine;
use crate::checkpoint::Checkpoints;
use crate::error::TrainError;
use crate::fault::Faults;
use crate::fit::{Ended, Observer};
use crate::host_copy::HostCopy;
use crate::loss_scale::LossScale;
use crate::norm_momentum::NormMomentum;
use crate::policy::{Limits, Policy};
use crate::records;
use crate::recovery::carry_out;
use crate::state::{NextStep, Progress, TrainState};

/// The two networks, on the plain device, with their initial weights.
#[derive(Clone, Debug)]
pub struct Adversaries<G, D> {
    /// Makes images.
    pub generator: G,
    /// Tells them apart.
    pub discriminator: D,
}

/// What a run is made of besides its configuration.
pub struct AdversarialSetup<'a> {
    /// The zoo's name of the pair.
    pub model_name: &'a str,
    /// A note in the weights files: what they belong to.
    pub note: String,
    /// Numbers of a latent vector.
    pub latent: usize,
    /// The device, without gradients.
    pub device: Device,
    /// Real images, [`AdversarialConfig::images_per_iteration`] in a batch, shuffled.
    pub train: Loader,
    /// Where everything is written.
    pub run: &'a RunDir,
    /// Set from outside to end the run after the current iteration.
    pub stop: Arc<AtomicBool>,
    /// How much is computed at once in the first iteration.
    pub start: Plan,
    /// Failures to come, for tests.
    pub faults: Faults,
}

/// Looks at a generator now and then. Nothing it does can change the run's result.
pub trait Preview<G> {
    /// Looks at the averaged generator after iteration `step`, and answers with what is to be told about it.
    ///
    /// # Errors
    /// What ends the run.
    fn look(&mut self, step: u64, generator: &G) -> Result<Vec<Event>, TrainError>;
}

/// A run in progress.
pub struct AdversarialTrainer<'a, G: Generator, D: Discriminator> {
    config: AdversarialConfig,
    setup: AdversarialSetup<'a>,
    engine: AdversarialEngine,
    checkpoints: Checkpoints,
    log: EventLog,
    meter: Meter,
    state: TrainState<Pair<G, D>>,
    guards: Guards,
    /// Whether the run had ended before it was resumed.
    complete: bool,
    /// The iteration of the newest checkpoint that this process wrote or began with.
    saved: Option<u64>,
    host_copy: HostCopy,
    began: Instant,
}

impl<'a, G: Generator, D: Discriminator> AdversarialTrainer<'a, G, D> {
    /// A run at its start.
    ///
    /// # Errors
    /// [`TrainError::Config`] for values that cannot be, [`TrainError::Run`] if the event log cannot be opened.
    pub fn new(
        networks: Adversaries<G, D>,
        config: AdversarialConfig,
        setup: AdversarialSetup<'a>,
    ) -> Result<Self, TrainError> {
        config.check()?;
        if setup.train.samples_per_epoch() < 2 {
            return Err(TrainError::Config(format!(
                "the data set has {} training image; a discriminator needs at least two to tell them from fake ones",
                setup.train.samples_per_epoch()
            )));
        }
        let engine = AdversarialEngine {
            device: setup.device.clone().autodiff(),
            config: config.clone(),
            latent: setup.latent,
            norm_momentum: NormMomentum::new(None, config.iterations),
            faults: setup.faults.clone(),
        };
        let state = TrainState::new(
            Pair::new(networks.generator, networks.discriminator, &config),
            policy(&config, setup.start, &setup.device),
            LossScale::new(config.precision),
        );
        let checkpoints = Checkpoints::new(setup.run.checkpoints(), setup.model_name);
        let log = EventLog::open(&setup.run.events())?;
        let meter = Meter::new(&setup.device);
        let (guards, began) = (Guards::default(), Instant::now());
        let host_copy = HostCopy::new(&setup.device);
        Ok(Self {
            config,
            setup,
            engine,
            checkpoints,
            log,
            meter,
            state,
            guards,
            complete: false,
            saved: None,
            host_copy,
            began,
        })
    }

    /// Continues from the newest checkpoint, with which the log is brought in line. A run that had ended goes on to do
    /// nothing, and writes nothing into its log.
    ///
    /// # Errors
    /// [`TrainError::Checkpoint`] if there is none that can be used.
    pub fn resume(&mut self, observer: &mut dyn Observer) -> Result<(), TrainError> {
        let Self { checkpoints, state, log, engine, .. } = self;
        self.complete = records::resume(checkpoints, state, log, &engine.device, observer)?;
        self.saved = Some(self.state.progress().step);
        Ok(())
    }

    /// Whether the run had ended before it was resumed: there is nothing left to train.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Whether there is a checkpoint to resume from.
    pub fn can_be_resumed(&self) -> bool {
        !self.checkpoints.list().is_empty()
    }

    /// How many iterations were left out because gradients were not finite in a half format.
    pub fn skipped_iterations(&self) -> u64 {
        self.state.loss_scale().skipped()
    }

    /// Where the run is; steps are iterations.
    pub fn progress(&self) -> &Progress {
        self.state.progress()
    }

    /// The most memory in use so far, in bytes.
    pub fn peak_memory(&mut self) -> u64 {
        self.meter.read().peak
    }

    /// The averaged generator, without gradients, and with running statistics of its own: those that were averaged with
    /// its weights are other networks'.
    ///
    /// # Errors
    /// [`TrainError::InferenceOutOfMemory`] or [`TrainError::Device`].
    pub fn generator(&self) -> Result<G, TrainError> {
        let AdversarialConfig { seed, ghost_batch_size, .. } = self.config;
        calibrate(
            self.state.model_state().generator.judged(),
            seed,
            self.setup.latent,
            ghost_batch_size,
            &self.setup.device,
        )
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
        if self.complete {
            observer.event(&event);
            return Ok(());
        }
        records::emit(&mut self.log, event, observer)
    }

    /// Trains to the end, or until asked to stop.
    ///
    /// # Errors
    /// The first thing that went wrong. The state is that of the last good iteration, and the last checkpoint is intact.
    pub fn fit(&mut self, preview: &mut dyn Preview<G>, observer: &mut dyn Observer) -> Result<Ended, TrainError> {
        if self.complete {
            return Ok(Ended::Finished);
        }
        self.host_copy.refresh(&self.state, &self.log);
        self.iterations(preview, observer).map_err(|error| self.ended_by(error, observer))
    }

    /// Saves the iterations before what ended the run, as a run of one network does.
    fn ended_by(&mut self, error: TrainError, observer: &mut dyn Observer) -> TrainError {
        let step = self.state.progress().step;
        if self.saved != Some(step) && step > 0 && self.host_copy.is_device_readable(&error) {
            let _ = self.checkpoint(observer).or_else(|_| self.checkpoint(observer));
        }
        let (error, rescued) = self.host_copy.rescue(error, step, &mut self.saved, &self.checkpoints);
        if let Some(checkpoint) = rescued {
            let _ = self.emit(checkpoint, observer);
        }
        error
    }

    fn iterations(&mut self, preview: &mut dyn Preview<G>, observer: &mut dyn Observer) -> Result<Ended, TrainError> {
        if self.state.progress().step == 0 {
            self.look(preview, observer)?;
        }
        while self.state.progress().step < self.config.iterations {
            let mut started = Instant::now();
            for batch in self.setup.train.epoch(self.state.progress().epoch, self.state.progress().batch) {
                self.iteration(&batch?, started, observer)?;
                let step = self.state.progress().step;
                let last = step >= self.config.iterations;
                if last || step.is_multiple_of(self.config.sample_iterations) {
                    self.look(preview, observer)?;
                }
                if self.setup.stop.load(Ordering::Relaxed) && !last {
                    self.checkpoint(observer)?;
                    self.emit(Event::Interrupted { step }, observer)?;
                    return Ok(Ended::Interrupted);
                }
                if last {
                    break;
                }
                if step.is_multiple_of(self.config.checkpoint_iterations) {
                    self.checkpoint(observer)?;
                }
                started = Instant::now();
            }
            if self.state.progress().batch >= self.setup.train.batches_per_epoch() {
                self.state.end_epoch();
            }
        }
        if self.saved == Some(self.state.progress().step) {
            // Its checkpoint may be all that another process came to write.
            self.write_weights()?;
        } else {
            self.checkpoint(observer)?;
        }
        Ok(Ended::Finished)
    }

    /// One iteration: compute, commit, tell. `started` is when the wait for its batch began.
    fn iteration(
        &mut self,
        batch: &HostBatch,
        started: Instant,
        observer: &mut dyn Observer,
    ) -> Result<(), TrainError> {
        let step = self.state.progress().step + 1;
        let Self { engine, state, setup, .. } = self;
        let device = &setup.device;
        let NextStep { model_state: pair, policy, loss_scale } = state.next_step(device);
        let (mut recoveries, mut used) = (Vec::new(), None);
        let outcome = carry_out(
            policy,
            device,
            || pair.make_room(),
            |recovery| recoveries.push(recovery.clone()),
            |plan| {
                used = Some(*plan);
                pair.attempt(|pair| engine.compute(pair, batch, plan, step, loss_scale.factor()))
            },
        );
        if let Some((snapshot, lost)) = pair.into_stranded() {
            self.host_copy.take_over(snapshot, &self.state, &self.log);
            return Err(lost);
        }
        records::tell(&mut self.state, &mut self.log, "training", recoveries, observer)?;
        let seconds = started.elapsed().as_secs_f64();
        if let (Err(TrainError::NotFinite { .. }), Some(next)) = (&outcome, self.state.loss_scale().after_overflow()) {
            self.state.skip(next, batch.len(), seconds);
            return self.emit(Event::Skipped { step, loss_scale: next.factor() }, observer);
        }
        let (good, policy) = outcome?;
        self.state.commit(good.pair, policy, batch.len(), seconds);
        let event = Event::Iteration {
            step,
            epoch: self.state.progress().epoch + 1,
            discriminator_loss: good.discriminator_loss,
            generator_loss: good.generator_loss,
            discriminator_norm: good.discriminator_norm,
            generator_norm: good.generator_norm,
            real_believed: good.indicators.real_believed,
            made_believed: good.indicators.fake_believed,
            spread: good.indicators.spread,
            images_per_second: batch.len() as f64 / seconds.max(1e-9),
            micro_batch: good.micro_batch,
            peak_memory_bytes: self.meter.read().peak,
            seconds: self.began.elapsed().as_secs_f64(),
        };
        self.emit(event, observer)?;
        records::replanned(&mut self.log, step, (used, self.state.policy().plan()), observer)?;
        for text in self.guards.after(&good.indicators) {
            self.emit(Event::Warned { step, text }, observer)?;
        }
        self.host_copy.refresh(&self.state, &self.log);
        Ok(())
    }

    fn look(&mut self, preview: &mut dyn Preview<G>, observer: &mut dyn Observer) -> Result<(), TrainError> {
        let step = self.state.progress().step;
        for event in preview.look(step, &self.generator()?)? {
            self.emit(event, observer)?;
        }
        self.state.evaluated(None);
        Ok(())
    }

    fn checkpoint(&mut self, observer: &mut dyn Observer) -> Result<(), TrainError> {
        let run = (&self.engine.faults, &self.setup.device);
        let path = records::save(&self.checkpoints, &mut self.state, &mut self.log, run, observer)?;
        let step = self.state.progress().step;
        self.saved = Some(step);
        self.write_weights()?;
        self.emit(Event::Checkpoint { step, path }, observer)
    }

    fn write_weights(&self) -> Result<(), TrainError> {
        let step = self.state.progress().step;
        records::write_weights(&self.generator()?, &self.setup.note, step, &self.setup.run.weights())
    }
}

/// Which plans a run chooses from, and where it starts. A generator has one kind of segments, so that there are two
/// levels of activation checkpointing.
fn policy(config: &AdversarialConfig, start: Plan, device: &Device) -> Policy {
    let level = |checkpointing: Checkpointing| checkpointing.min(Checkpointing::Stages);
    let mut limits = Limits::new(config.largest_group(), config.batch_size).with_pages(has_pages(device));
    if let Some(most) = config.micro_batch {
        limits = limits.with_largest(most);
    }
    limits = match config.activation_checkpointing.map(level) {
        Some(fixed) => limits.with_checkpointing(fixed, fixed),
        None => limits.with_checkpointing(Checkpointing::None, Checkpointing::Stages),
    };
    let micro_batch = config.micro_batch.unwrap_or(start.micro_batch);
    let checkpointing = level(config.activation_checkpointing.unwrap_or(start.checkpointing));
    Policy::new(limits, Plan { micro_batch, checkpointing })
}
