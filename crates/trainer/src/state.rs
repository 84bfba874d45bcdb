//! What a run is at one moment: everything a step may change.

use burn::tensor::Device;
use kindling_layers::Precision;
use kindling_memory::Plan;
use serde::{Deserialize, Serialize};

use crate::attempt::{Attempt, GoodStep};
use crate::checkpointable::Checkpointable;
use crate::error::TrainError;
use crate::loss_scale::LossScale;
use crate::model_snapshot::ModelSnapshot;
use crate::movable::Movable;
use crate::policy::Policy;
use crate::recovery::{Recovery, carry_out};

/// The state of a run between two steps. Nobody outside of this file can change it but by the functions below.
#[derive(Clone)]
pub struct TrainState<L> {
    /// What learns: a network with its optimizer, or two of them.
    model_state: L,
    /// How much is computed at once, and what is known about what fits. Without influence on the result.
    policy: Policy,
    /// What the loss is multiplied by in the backward pass.
    loss_scale: LossScale,
    /// Where the run is.
    progress: Progress,
}

/// What came of the attempts at a step, before anything has changed for it.
pub(crate) struct Tried<L, T> {
    outcome: Result<(GoodStep<L, T>, Policy), TrainError>,
    /// What it took to make it fit.
    pub(crate) recoveries: Vec<Recovery>,
    /// The plan of the last attempt.
    pub(crate) used: Option<Plan>,
}

/// The state before a step, where it is on the host alone, and the error that this is.
pub(crate) type Stranded = Box<(ModelSnapshot, TrainError)>;

/// What became of a step.
pub(crate) enum Settled<T> {
    /// It was committed.
    Good {
        /// What the step reports, such as its losses.
        told: T,
        /// The largest micro-batch that it was computed in.
        micro_batch: usize,
    },
    /// Its gradients were not finite in a half format: the update was left out.
    Skipped {
        /// The loss scale from now on.
        loss_scale: f64,
    },
}

/// Where a run is. Data order, augmentation and dropout follow from it and the seed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Optimizer steps done.
    pub step: u64,
    /// Epochs done.
    pub epoch: u64,
    /// Batches of the current epoch done.
    pub batch: usize,
    /// The step after which the validation samples were last scored.
    pub evaluated: u64,
    /// Images trained on, every epoch counted.
    pub images: u64,
    /// Seconds spent in training steps, waiting for data included, evaluation and saving not.
    pub seconds: f64,
    /// Seconds of these spent waiting for data.
    #[serde(default)]
    pub waiting_seconds: f64,
    /// The best validation so far.
    pub best: Option<Best>,
    /// How often memory ran out and the run went on.
    #[serde(default)]
    pub recoveries: u64,
    /// Seconds that cost.
    #[serde(default)]
    pub recovery_seconds: f64,
}

/// Steps after which ranks compare all that they hold, as they do at the end of each epoch. It is read to the host for that.
pub(crate) const STEPS_BETWEEN_COMPARISONS: u64 = 100;

/// No run has more steps, epochs, images or seconds than this.
const MOST: u64 = 1 << 50;

impl Progress {
    /// The last step, up to this one, after which several ranks compare what they hold: a multiple of the steps between comparisons, or the
    /// end of an epoch.
    pub(crate) fn last_comparison(&self) -> u64 {
        let by_count = self.step / STEPS_BETWEEN_COMPARISONS * STEPS_BETWEEN_COMPARISONS;
        by_count.max(self.step.saturating_sub(self.batch as u64))
    }

    /// Checks numbers that were read from a file: none is above 2^50, times are not negative, and nothing happened after the
    /// last step.
    ///
    /// # Errors
    /// A sentence that names the number.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Self {
            step,
            epoch,
            batch,
            evaluated,
            images,
            seconds,
            waiting_seconds,
            best,
            recoveries,
            recovery_seconds,
        } = self;
        let counts = [
            ("step", *step, MOST),
            ("epoch", *epoch, *step),
            ("batch", *batch as u64, *step),
            ("evaluated", *evaluated, *step),
            ("images", *images, MOST),
            ("recoveries", *recoveries, MOST),
        ];
        if let Some((name, value, most)) = counts.into_iter().find(|(_, value, most)| value > most) {
            return Err(format!("{name} is {value}, and at most {most} is possible"));
        }
        let times =
            [("seconds", *seconds), ("waiting_seconds", *waiting_seconds), ("recovery_seconds", *recovery_seconds)];
        if let Some((name, value)) = times.into_iter().find(|(_, value)| !(0.0..=MOST as f64).contains(value)) {
            return Err(format!("{name} is {value}, which cannot be a time"));
        }
        match best {
            Some(Best { epoch: at, step: after, accuracy, loss })
                if *after > *step
                    || *at > *epoch + 1
                    // What numbers are off counts below nothing.
                    || *accuracy > 1.0
                    || *loss < 0.0 =>
            {
                Err(format!("the best epoch is {at} after step {after} with accuracy {accuracy} and loss {loss}"))
            }
            _ => Ok(()),
        }
    }
}

/// The best epoch so far.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// Its number, from 1.
    pub epoch: u64,
    /// The step it ended with.
    pub step: u64,
    /// Its validation accuracy; where images may have several labels, the mean area under their ROC curves; where pixels have classes,
    /// the mean foreground Dice; where images have numbers, the root of the mean squared error, negative.
    pub accuracy: f64,
    /// Its validation loss, which decides between equal accuracies.
    pub loss: f64,
}

impl Best {
    /// Whether a score is better than this one.
    pub fn is_beaten_by(&self, accuracy: f64, loss: f64) -> bool {
        accuracy > self.accuracy || (accuracy == self.accuracy && loss < self.loss)
    }
}

impl<L> TrainState<L> {
    /// A run at its start, with feature maps of a format.
    pub fn new(model_state: L, policy: Policy, precision: Precision) -> Self {
        Self { model_state, policy, loss_scale: LossScale::new(precision), progress: Progress::default() }
    }

    /// What learns.
    pub(crate) fn model_state(&self) -> &L {
        &self.model_state
    }

    /// How much is computed at once, and what is known about what fits.
    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// What the loss is multiplied by in the backward pass.
    pub(crate) fn loss_scale(&self) -> LossScale {
        self.loss_scale
    }

    /// Where the run is.
    pub(crate) fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Where the run was when it ended.
    pub(crate) fn into_progress(self) -> Progress {
        self.progress
    }

    /// Makes a good step's result the state of the run, `images` images and `seconds` further; or goes past one whose gradients
    /// were not finite, if a smaller loss scale may help.
    ///
    /// # Errors
    /// Why the step could not be computed. Nothing has changed then.
    pub(crate) fn settle<T>(
        &mut self,
        tried: Tried<L, T>,
        images: usize,
        seconds: f64,
    ) -> Result<Settled<T>, TrainError> {
        match (tried.outcome, self.loss_scale.after_overflow()) {
            (Ok((GoodStep { state, micro_batch, told }, policy)), _) => {
                self.commit(state, policy, images, seconds);
                Ok(Settled::Good { told, micro_batch })
            }
            (Err(TrainError::NotFinite { .. }), Some(next)) => {
                self.skip(next, images, seconds);
                Ok(Settled::Skipped { loss_scale: next.factor() })
            }
            (Err(error), _) => Err(error),
        }
    }

    /// Makes a good step's result the state of the run: parameters, running statistics, optimizer and data position
    /// together. Nothing else changes them.
    fn commit(&mut self, model_state: L, policy: Policy, images: usize, seconds: f64) {
        let _range = kindling_nvtx::range(|| "commit");
        self.model_state = model_state;
        self.policy = policy;
        self.loss_scale = self.loss_scale.after_good();
        self.advance(images, seconds);
    }

    /// Goes past a step whose gradients were not finite with this loss scale: nothing moves but the scale and the position.
    fn skip(&mut self, loss_scale: LossScale, images: usize, seconds: f64) {
        self.loss_scale = loss_scale;
        self.advance(images, seconds);
    }

    fn advance(&mut self, images: usize, seconds: f64) {
        self.progress.step += 1;
        self.progress.batch += 1;
        self.progress.images += images as u64;
        self.progress.seconds += seconds;
    }

    /// Counts seconds in which a step waited for its data.
    pub(crate) fn waited(&mut self, seconds: f64) {
        self.progress.waiting_seconds += seconds;
    }

    /// Goes on with another policy than the one that was found, since something else is asked for.
    pub(crate) fn replan(&mut self, policy: Policy) {
        self.policy = policy;
    }

    /// Notes that what learns was evaluated after the last step, and the score if none was better.
    pub(crate) fn evaluated(&mut self, best: Option<Best>) {
        self.progress.evaluated = self.progress.step;
        self.progress.best = best.or(self.progress.best);
    }

    /// Counts a recovery.
    pub(crate) fn recovered(&mut self, seconds: f64) {
        self.progress.recoveries += 1;
        self.progress.recovery_seconds += seconds;
    }

    /// Ends the current epoch.
    pub(crate) fn end_epoch(&mut self) {
        self.progress.epoch += 1;
        self.progress.batch = 0;
    }
}

impl<L: Checkpointable + Clone> TrainState<L> {
    /// Computes the next step on `device` until it fits. What learns is only read, and may move to other allocations.
    ///
    /// # Errors
    /// The device does not take the state back.
    pub(crate) fn try_step<T>(
        &mut self,
        device: &Device,
        compute: impl Fn(&L, &Attempt) -> Result<GoodStep<L, T>, TrainError>,
    ) -> Result<Tried<L, T>, Stranded> {
        let (step, loss_scale) = (self.progress.step + 1, self.loss_scale.factor());
        let movable = Movable::new(&mut self.model_state, device, step, self.policy.has_own_allocations());
        let (mut recoveries, mut used) = (Vec::new(), None);
        let outcome = carry_out(
            &self.policy,
            device,
            || movable.make_room(),
            |recovery| recoveries.push(recovery.clone()),
            |plan| {
                used = Some(*plan);
                movable.attempt(|state| compute(state, &Attempt { step, plan: *plan, loss_scale }))
            },
        );
        match movable.into_stranded() {
            Some(stranded) => Err(Box::new(stranded)),
            None => Ok(Tried { outcome, recoveries, used }),
        }
    }
}

impl<L: Checkpointable> TrainState<L> {
    /// The state that a checkpoint holds; what an older one lacks is as it is here.
    ///
    /// # Errors
    /// A sentence about what does not fit.
    pub(crate) fn restored(
        self,
        snapshot: ModelSnapshot,
        policy: Option<Policy>,
        loss_scale: Option<LossScale>,
        progress: Progress,
        device: &Device,
    ) -> Result<Self, String> {
        Ok(Self {
            model_state: self.model_state.restored(snapshot, device)?,
            policy: policy.unwrap_or(self.policy),
            loss_scale: loss_scale.unwrap_or(self.loss_scale),
            progress,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_have_compared_what_they_hold_at_a_hundredth_step_or_the_end_of_an_epoch() {
        let last = |step, batch| Progress { step, batch, ..Progress::default() }.last_comparison();
        assert_eq!((last(0, 0), last(5, 5), last(99, 99)), (0, 0, 0), "the first epoch has not ended");
        assert_eq!((last(12, 0), last(15, 3), last(17, 5)), (12, 12, 12), "it ended after step 12");
        assert_eq!((last(100, 4), last(101, 5), last(199, 99)), (100, 100, 100));
        assert_eq!((last(250, 3), last(250, 80)), (247, 200));
    }
}
