//! The training of one network on samples whose answers are known: its steps, a validation after each epoch, the best weights and the
//! last. What is asked about a sample, and so the loss and the judgement, is an [`Objective`].

use std::ops::Range;

use burn::module::Module;
use burn::tensor::Device;
use kindling_data::{BadSample, HostBatch, Loader, Split};
use kindling_given::Span;
use kindling_layers::pass::normalisation_groups;
use kindling_memory::Plan;
use kindling_metrics::RegressionScore;
use kindling_processes::tree;
use kindling_runs::Event;

use crate::attempt::{Attempt, GoodStep};
use crate::config::TrainConfig;
use crate::error::TrainError;
use crate::fit::Trainer;
use crate::inference::{Inference, samples_at_once};
use crate::journal::Observer;
use crate::loss::Loss;
use crate::micro_batch::groups_at_once;
use crate::model_state::ModelState;
use crate::optimizer::Optimizer;
use crate::policy::{Limits, Policy};
use crate::recovery::Recovery;
use crate::run::{Run, Setup};
use crate::schedule::{Length, Schedule};
use crate::state::{Best, Progress, TrainState};
use crate::step::{Losses, StepEngine};
use crate::trainable::Trainable;
use crate::training::{Committed, RunPhase, Training};
use crate::warm_up::{Warmed, warm_up};

/// What is asked about a sample: a loss of logits with `D` axes, and what a network is judged by.
pub(crate) trait Objective<const D: usize> {
    /// The loss that is minimised.
    type Loss: Loss<D> + Clone;

    /// Judges a network on the samples of a loader. `watch` is told how many are done.
    fn judge<M: Trainable<D>>(
        &self,
        model: &M,
        loader: &Loader,
        inference: &Inference<'_>,
        watch: impl FnMut(usize),
    ) -> Result<Judged, TrainError>;
}

/// How good a network is.
pub(crate) struct Judged {
    /// What is compared first; more is better.
    pub(crate) criterion: f64,
    pub(crate) loss: f64,
    /// Share of right answers, where answers are right or wrong.
    pub(crate) accuracy: Option<f64>,
    /// Mean foreground Dice, of a segmentation.
    pub(crate) dice: Option<f64>,
    /// How far numbers are off, of a regression.
    pub(crate) regression: Option<RegressionScore>,
    pub(crate) samples: usize,
    pub(crate) bad: Vec<BadSample>,
    pub(crate) recoveries: Vec<Recovery>,
}

/// How a network is trained whose logits have `D` axes; see [`Trainer::new`].
#[allow(private_bounds)] // the objectives are those of this crate
pub struct Supervised<O: Objective<D>, const D: usize> {
    config: TrainConfig,
    engine: StepEngine<O::Loss>,
    length: Length,
    objective: O,
    /// Validation samples, in order.
    validation: Loader,
}

#[allow(private_bounds)]
impl<O: Objective<D>, const D: usize> Supervised<O, D> {
    /// A run at its start, of a `model` on the setup's device.
    pub(crate) fn trainer<'a, M: Trainable<D>>(
        model: M,
        config: TrainConfig,
        (loss, objective): (O::Loss, O),
        validation: Loader,
        mut setup: Setup<'a>,
    ) -> Result<Trainer<'a, ModelState<M>, Self>, TrainError> {
        let length = Length::of(&config, setup.train.batches_per_epoch());
        let (faults, ranks) = (setup.faults.clone(), setup.ranks.clone());
        if !ranks.is_alone() {
            let (group, rank, size) = (config.ghost_batch_size, ranks.group().rank(), ranks.group().size());
            setup.train = setup.train.sharing(move |rows| rows_of(rank, size, rows, group));
        }
        let engine = StepEngine::new(&config, loss, &setup.device, length.clone(), faults, ranks);
        let state = beginning(model, &config, setup.start, &setup.device);
        let trainer = Trainer::of(Self { config, engine, length, objective, validation }, state, setup)?;
        let known = trainer.run.journal.bad_samples.samples(Split::Val.name());
        trainer.training.validation.remember_bad(known);
        Ok(trainer)
    }

    /// The learning rate of a step, counted from 1: of the schedule that the run had when it did that step.
    fn rate(&self, step: u64) -> f64 {
        Schedule::of(&self.config, self.length.planned_at(step)).rate(step)
    }
}

#[allow(private_bounds)]
impl<M: Trainable<D>, O: Objective<D>, const D: usize> Trainer<'_, ModelState<M>, Supervised<O, D>> {
    /// The network as it is judged now, without gradients.
    pub fn model(&self) -> M {
        self.run.state().judged()
    }
}

/// The rows of a batch that a rank computes: those of its share of the normalisation groups.
fn rows_of(rank: usize, size: usize, rows: usize, ghost_batch_size: usize) -> Range<usize> {
    let groups = normalisation_groups(rows, ghost_batch_size);
    let share = tree::share(groups.len(), rank, size);
    let start = groups[..share.start].iter().sum();
    start..start + groups[share].iter().sum::<usize>()
}

/// A network before its first step on `device`.
pub(crate) fn beginning<M: Module>(
    model: M,
    config: &TrainConfig,
    start: Plan,
    device: &Device,
) -> TrainState<ModelState<M>> {
    let group = config.largest_group();
    let at_once = groups_at_once(device, group, config.micro_batch.unwrap_or(start.micro_batch));
    let limits = Limits::on(device, group, config.batch_size, at_once);
    let policy = Policy::with_fixed(limits, config.micro_batch, config.activation_checkpointing, start);
    let model_state = ModelState::new(model, Optimizer::new(config.optimizer), config.ema.is_some());
    TrainState::new(model_state, policy, config.precision)
}

/// Whether an epoch has just ended, and none of the last `patience` epochs brought a better score.
fn is_out_of_patience(progress: &Progress, patience: Option<u64>) -> bool {
    let &Progress { step, epoch, batch, evaluated, best, .. } = progress;
    let (Some(patience), Some(best)) = (patience, best) else { return false };
    batch == 0 && evaluated == step && epoch >= best.epoch.saturating_add(patience)
}

impl<M: Trainable<D>, O: Objective<D>, const D: usize> Training<ModelState<M>> for Supervised<O, D> {
    type Told = Losses;
    const BY_EPOCH: bool = true;

    fn length(&self) -> &Length {
        &self.length
    }

    fn is_over(&self, progress: &Progress) -> bool {
        progress.step >= self.length.total() || is_out_of_patience(progress, self.config.patience)
    }

    fn learning_rate(&self, step: u64) -> f64 {
        self.rate(step)
    }

    fn checkpoint_steps(&self) -> u64 {
        self.config.checkpoint_steps
    }

    fn checkpoint_every(&self) -> Span {
        self.config.checkpoint_every
    }

    fn compute(
        &self,
        state: &ModelState<M>,
        batch: &HostBatch,
        at: &Attempt,
    ) -> Result<GoodStep<ModelState<M>, Losses>, TrainError> {
        let computed = self.engine.compute(state, batch, at, self.rate(at.step));
        computed.map_err(|error| error.with_use(|| state.in_use(&self.engine.device)))
    }

    fn told(&mut self, told: Losses, of: &Committed) -> (Event, Vec<String>) {
        let Losses { loss, gradient_norm } = told;
        let lr = self.rate(of.step);
        let &Committed {
            step, epoch, micro_batch, images_per_second, peak_memory_bytes, waiting_seconds, seconds, ..
        } = of;
        let event = Event::Step {
            step,
            epoch,
            loss,
            lr,
            images_per_second,
            micro_batch,
            peak_memory_bytes,
            gradient_norm,
            waiting_seconds,
            seconds,
            together: of.together.clone(),
        };
        (event, Vec::new())
    }

    fn warm_up(&self, batch: &HostBatch, run: &Run<'_, ModelState<M>>) -> Result<Option<Warmed>, TrainError> {
        warm_up(&self.engine, run.state(), batch, run.state.policy(), &run.setup.device).map(Some)
    }

    /// Scores the model on the validation samples and keeps its weights if it is the best so far.
    fn look(
        &mut self,
        at: RunPhase,
        run: &mut Run<'_, ModelState<M>>,
        observer: &mut dyn Observer,
    ) -> Result<(), TrainError> {
        let &Progress { step, epoch, best, evaluated, .. } = run.progress();
        if at != RunPhase::Epoch || evaluated == step {
            return Ok(());
        }
        let epoch = epoch + 1;
        let total = self.validation.samples_per_epoch();
        let Setup { device, faults, ranks, .. } = run.setup();
        let at_once = samples_at_once(device, self.config.largest_group(), run.plan().micro_batch);
        let inference =
            Inference { faults: Some((faults, step)), ..Inference::new(device, at_once, self.engine.precision) };
        let inference = inference.divided(ranks);
        let watch = |done| {
            ranks.beat(step);
            observer.evaluating("validation", done, total);
        };
        let judged = self.objective.judge(&run.state().judged(), &self.validation, &inference, watch)?;
        run.tell("evaluation", judged.recoveries, observer)?;
        run.note_bad(Split::Val, &judged.bad, observer)?;
        let Judged { criterion, loss, accuracy, dice, regression, samples, .. } = judged;
        let is_best = best.is_none_or(|best| best.is_beaten_by(criterion, loss));
        if is_best {
            run.write_weights(&run.state().judged(), &run.setup.run.weights())?;
        }
        run.looked(is_best.then_some(Best { epoch, step, accuracy: criterion, loss }));
        let split = "validation".to_string();
        let (mae, r2) = (regression.map(|score| score.mae), regression.map(|score| score.r2));
        run.emit(Event::Evaluated { step, epoch, split, loss, accuracy, dice, mae, r2, samples }, observer)
    }

    fn finish(&mut self, run: &Run<'_, ModelState<M>>) -> Result<(), TrainError> {
        let path = run.setup.run.last_weights();
        if run.was_complete() && path.exists() { Ok(()) } else { run.write_weights(&run.state().judged(), &path) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_is_counted_in_whole_epochs_since_the_best_one() {
        let best = Some(Best { epoch: 3, step: 30, accuracy: 0.5, loss: 1.0 });
        let after = |epoch| Progress { step: 10 * epoch, epoch, evaluated: 10 * epoch, best, ..Progress::default() };
        let is_out = |progress: &Progress| is_out_of_patience(progress, Some(2));
        assert_eq!([3, 4, 5, 6].map(|epoch| is_out(&after(epoch))), [false, false, true, true]);
        assert!(!is_out_of_patience(&after(5), None));
        assert!(
            !is_out_of_patience(&after(5), Some(u64::MAX)),
            "and a number that is too large for any run is no overflow"
        );
        assert!(!is_out(&Progress { best: None, ..after(5) }), "nothing was scored yet");
        assert!(!is_out(&Progress { batch: 1, ..after(5) }), "the next epoch has begun");
        assert!(!is_out(&Progress { evaluated: 40, ..after(5) }), "this epoch is not scored yet");
    }
}
