//! What becomes of one network in a step, given the sums over its micro-batches: the finite check, the update.

use burn::module::Module;
use burn::tensor::Tensor;
use kindling_layers::host;
use kindling_nvtx::range;

use crate::attempt::Attempt;
use crate::error::TrainError;
use crate::fault::{Faults, Phase};
use crate::model_state::{ModelState, Move, decay_at};
use crate::norm_momentum::NormMomentum;
use crate::sums::Sums;

/// What the finite check read.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// [`Sums::numbers`].
    pub numbers: Vec<f64>,
    /// The norm of all gradients, without the loss scale.
    pub norm: f64,
}

/// How the networks of a run are updated.
#[derive(Clone, Debug)]
pub struct Update {
    /// Gradients of a network whose global norm is larger are scaled down to it.
    pub clip_norm: Option<f64>,
    /// The least weight of a step's statistics in the running ones.
    pub norm_momentum: NormMomentum,
    /// Decay of the moving average of the weights, where one is kept.
    pub ema: Option<f64>,
    /// What tests make go wrong.
    pub faults: Faults,
}

impl Update {
    /// The finite check of one network: reads its numbers, the norm of its gradients, and whether its statistics are numbers, in one transfer
    /// that depends on all of them. What failed on the device shows here, before anything has changed.
    ///
    /// # Errors
    /// [`TrainError::NotFinite`] if the loss or the norm is no number, [`TrainError::Overflow`] if a statistic is none, otherwise what the
    /// device says.
    pub fn check(
        &self,
        sums: &mut Sums,
        phase: Phase,
        at: &Attempt,
        micro_batch: usize,
    ) -> Result<Checked, TrainError> {
        let step = at.step;
        self.faults.scale(step, &mut sums.gradients);
        self.faults.at(step, phase, 0);
        let _range = range(|| "finite check");
        let failed = |text: &str| TrainError::of_device(Some(step), micro_batch, text);
        let squares = sums.gradients.squared_norm().filter(|_| !sums.numbers.is_empty());
        let squares = squares.ok_or_else(|| failed("the batch is empty or the network has no parameters"))?;
        let statistics = sums.statistics.squared_norm();
        let with_statistics = statistics.is_some();
        let all = sums.numbers.drain(..).chain([squares]).chain(statistics).map(|number| number.reshape([1]));
        let mut numbers = read(Tensor::cat(all.collect(), 0)).map_err(|text| failed(&text))?;
        // A feature map of numbers whose squares are too large is normalised to zeros: loss and gradients do not tell.
        let statistics = if with_statistics { numbers.pop().unwrap_or(f64::NAN) } else { 0.0 };
        let norm = numbers.pop().map_or(f64::NAN, f64::sqrt) / at.loss_scale;
        match numbers.first() {
            Some(loss) if loss.is_finite() && norm.is_finite() && !statistics.is_finite() => {
                Err(TrainError::Overflow { step })
            }
            Some(loss) if loss.is_finite() && norm.is_finite() => Ok(Checked { numbers, norm }),
            loss => Err(TrainError::NotFinite { step, loss: loss.copied().unwrap_or(f64::NAN), norm }),
        }
    }

    /// The state of a network after a step in which its gradients had this norm; the one before stays as it is.
    pub fn apply<M: Module>(
        &self,
        before: &ModelState<M>,
        sums: Sums,
        norm: f64,
        rate: f64,
        phase: Phase,
        at: &Attempt,
    ) -> ModelState<M> {
        let &Attempt { step, loss_scale, .. } = at;
        let by = Move {
            rate: self.faults.rate(step, rate),
            scale: match self.clip_norm {
                Some(limit) if norm > limit => limit / norm / loss_scale,
                _ => 1.0 / loss_scale,
            },
            momentum: self.norm_momentum.at(step),
            decay: self.ema.map_or(0.0, |decay| decay_at(decay, step)),
        };
        self.faults.at(step, phase, 0);
        let statistics = self.faults.statistics(step, sums.statistics);
        self.faults.moved(step, before, before.moved(sums.gradients, statistics, &by))
    }

    /// Reads a number that depends on everything a step has made: an update allocates as well, and what failed of it shows only
    /// here. Only whether it can be read counts: a weight that is not a number shows in the next step's loss.
    ///
    /// # Errors
    /// What the device says.
    pub fn confirm(&self, witness: Option<Tensor<1>>, at: &Attempt, micro_batch: usize) -> Result<(), TrainError> {
        let read = witness.map_or(Ok(()), |number| read(number).map(|_| ()));
        read.map_err(|text| TrainError::of_device(Some(at.step), micro_batch, &text))?;
        self.faults.at(at.step, Phase::Commit, 0);
        Ok(())
    }
}

fn read(values: Tensor<1>) -> Result<Vec<f64>, String> {
    let data = host::read(values)?;
    data.convert::<f64>().try_to_vec::<f64>().map_err(|error| format!("{error:?}"))
}
