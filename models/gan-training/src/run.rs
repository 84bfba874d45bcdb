//! What a run of two networks does: iterations, previews of the averaged generator, and its weights.

use burn::tensor::Device;
use kindling_data::HostBatch;
use kindling_given::Span;
use kindling_layers::{Checkpointing, Discriminator, Generator};
use kindling_runs::Event;
use kindling_trainer::engine::{
    Attempt, Committed, GoodStep, Limits, NormMomentum, Policy, Run, RunPhase, TrainState, Training, Update,
};
use kindling_trainer::{Length, Observer, Setup, TrainError, Trainer};

use crate::calibrate::calibrate;
use crate::config::AdversarialConfig;
use crate::guards::Guards;
use crate::pair::Pair;
use crate::step::{AdversarialEngine, Iteration};

/// The two networks, on the plain device, with their initial weights.
#[derive(Clone, Debug)]
pub struct Adversaries<G, D> {
    /// Makes images.
    pub generator: G,
    /// Tells them apart.
    pub discriminator: D,
}

/// Looks at a generator now and then. Nothing it does can change the run's result.
pub trait Preview<G> {
    /// Looks at the averaged generator after iteration `step`, and answers with what is to be told about it.
    ///
    /// # Errors
    /// What ends the run.
    fn look(&mut self, step: u64, generator: &G) -> Result<Vec<Event>, TrainError>;
}

/// How two networks are trained against each other; see [`trainer`].
pub struct Adversarial<'a, G> {
    engine: AdversarialEngine,
    length: Length,
    guards: Guards,
    preview: &'a mut dyn Preview<G>,
    /// The iteration whose weights this process has written last.
    written: Option<u64>,
}

/// A run of two networks in progress; its steps are iterations.
pub type AdversarialTrainer<'a, G, D> = Trainer<'a, Pair<G, D>, Adversarial<'a, G>>;

/// A run of two networks at its start. Latent vectors have `latent` numbers; batches of the setup's loader have
/// [`AdversarialConfig::images_per_iteration`] real images.
///
/// # Errors
/// [`TrainError::Config`] for values that cannot be, [`TrainError::Run`] if the event log cannot be opened.
pub fn trainer<'a, G: Generator, D: Discriminator>(
    networks: Adversaries<G, D>,
    config: AdversarialConfig,
    latent: usize,
    preview: &'a mut dyn Preview<G>,
    setup: Setup<'a>,
) -> Result<AdversarialTrainer<'a, G, D>, TrainError> {
    config.check()?;
    if setup.train.samples_per_epoch() < 2 {
        return Err(TrainError::Config(format!(
            "the data set has {} training image; a discriminator needs at least two to tell them from fake ones",
            setup.train.samples_per_epoch()
        )));
    }
    let pair = Pair::new(networks.generator, networks.discriminator, &config);
    // A generator has one kind of segments, so that there are two levels of activation checkpointing.
    let limits = Limits::on(&setup.device, config.largest_group(), config.batch_size, 1)
        .with_checkpointing(Checkpointing::None, Checkpointing::Stages);
    let policy = Policy::with_fixed(limits, config.micro_batch, config.activation_checkpointing, setup.start);
    let state = TrainState::new(pair, policy, config.precision);
    let update = Update {
        clip_norm: config.clip_norm,
        norm_momentum: NormMomentum::new(None, config.length()),
        ema: Some(config.ema),
        faults: setup.faults.clone(),
    };
    let engine = AdversarialEngine { device: setup.device.clone().autodiff(), config, latent, update };
    let length = engine.config.length();
    Trainer::of(Adversarial { engine, length, guards: Guards::default(), preview, written: None }, state, setup)
}

impl<G: Generator> Adversarial<'_, G> {
    /// The averaged generator, without gradients, and with running statistics of its own: those that were averaged with
    /// its weights are other networks'.
    fn generator<D: Discriminator>(&self, pair: &Pair<G, D>, device: &Device) -> Result<G, TrainError> {
        let AdversarialConfig { seed, ghost_batch_size, .. } = self.engine.config;
        calibrate(pair.generator.judged(), seed, self.engine.latent, ghost_batch_size, device)
    }
}

impl<G: Generator, D: Discriminator> Training<Pair<G, D>> for Adversarial<'_, G> {
    type Told = Iteration;
    const BY_EPOCH: bool = false;

    fn length(&self) -> &Length {
        &self.length
    }

    fn learning_rate(&self, step: u64) -> f64 {
        self.engine.config.lr * self.engine.config.rate_at(step)
    }

    fn checkpoint_steps(&self) -> u64 {
        self.engine.config.checkpoint_iterations
    }

    fn checkpoint_every(&self) -> Span {
        self.engine.config.checkpoint_every
    }

    fn compute(
        &self,
        pair: &Pair<G, D>,
        batch: &HostBatch,
        at: &Attempt,
    ) -> Result<GoodStep<Pair<G, D>, Iteration>, TrainError> {
        self.engine.compute(pair, batch, at)
    }

    fn told(&mut self, told: Iteration, of: &Committed) -> (Event, Vec<String>) {
        let event = Event::Iteration {
            step: of.step,
            epoch: of.epoch,
            discriminator_loss: told.discriminator_loss,
            generator_loss: told.generator_loss,
            discriminator_norm: told.discriminator_norm,
            generator_norm: told.generator_norm,
            real_believed: told.indicators.real_believed,
            made_believed: told.indicators.fake_believed,
            spread: told.indicators.spread,
            images_per_second: of.images_per_second,
            micro_batch: of.micro_batch,
            peak_memory_bytes: of.peak_memory_bytes,
            seconds: of.seconds,
        };
        (event, self.guards.after(&told.indicators))
    }

    /// Shows the averaged generator: at the beginning, every so many iterations, and at the end.
    fn look(
        &mut self,
        at: RunPhase,
        run: &mut Run<'_, Pair<G, D>>,
        observer: &mut dyn Observer,
    ) -> Result<(), TrainError> {
        let step = run.progress().step;
        let sample_iterations = self.engine.config.sample_iterations;
        let is_due = match at {
            RunPhase::Start => step == 0,
            RunPhase::Step => {
                step >= self.length.total() || self.length.ended_at(step) || step.is_multiple_of(sample_iterations)
            }
            RunPhase::Epoch => false,
        };
        if !is_due {
            return Ok(());
        }
        let generator = self.generator(run.state(), &run.setup().device)?;
        for event in self.preview.look(step, &generator)? {
            run.emit(event, observer)?;
        }
        run.looked(None);
        Ok(())
    }

    fn saved(&mut self, run: &Run<'_, Pair<G, D>>) -> Result<(), TrainError> {
        let generator = self.generator(run.state(), &run.setup().device)?;
        run.write_weights(&generator, &run.setup().run.weights())?;
        self.written = Some(run.progress().step);
        Ok(())
    }

    fn finish(&mut self, run: &Run<'_, Pair<G, D>>) -> Result<(), TrainError> {
        // The last checkpoint may be all that another process came to write.
        let is_there = run.was_complete() || self.written == Some(run.progress().step);
        if is_there { Ok(()) } else { self.saved(run) }
    }
}
