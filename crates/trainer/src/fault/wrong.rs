//! Wrong results on demand: what a fault in this crate could do to a run that goes on as if all were well.
//!
//! Tests that compare runs are tested with these: one that lets a wrong run pass compares nothing.

use std::str::FromStr;

use burn::module::Module;
use kindling_layers::pass::BatchStatistics;

use super::Faults;
use crate::gradients::GradientSum;
use crate::micro_batch::MicroBatch;
use crate::model_state::ModelState;

/// Something wrong, in one step or in all of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Wrong {
    /// The step, counted from 1; every step if there is none.
    step: Option<u64>,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    /// The sum of the gradients is multiplied by this.
    Scale(f64),
    /// The learning rate is multiplied by this.
    Rate(f64),
    /// A micro-batch, counted from 0, is left out.
    Lost(usize),
    /// A micro-batch, counted from 0, is computed and added twice.
    Doubled(usize),
    /// A part of the state stays as it was.
    Stale(Part),
}

/// A part of the state that a step should have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Parameters and running statistics.
    Network,
    /// Running statistics alone.
    Statistics,
    /// Moments and counters.
    Optimizer,
    /// The moving average of the weights.
    Average,
}

const PARTS: [(&str, Part); 4] = [
    ("network", Part::Network),
    ("statistics", Part::Statistics),
    ("optimizer", Part::Optimizer),
    ("average", Part::Average),
];

impl Faults {
    fn wrong_in(&self, step: u64) -> impl Iterator<Item = What> {
        self.wrong.iter().filter(move |wrong| wrong.step.is_none_or(|at| at == step)).map(|wrong| wrong.what)
    }

    /// The micro-batches of a step: those given, unless one was asked to be lost or doubled.
    pub fn micro_batches(&self, step: u64, mut given: Vec<MicroBatch>) -> Vec<MicroBatch> {
        for what in self.wrong_in(step) {
            match what {
                What::Lost(index) if index < given.len() => drop(given.remove(index)),
                What::Doubled(index) if index < given.len() => given.insert(index, given[index].clone()),
                _ => {}
            }
        }
        given
    }

    /// Multiplies the gradients of a step by what was asked for.
    pub(crate) fn scale(&self, step: u64, gradients: &mut GradientSum) {
        for what in self.wrong_in(step) {
            if let What::Scale(factor) = what {
                gradients.scale(factor);
            }
        }
    }

    /// The learning rate of a step.
    pub(crate) fn rate(&self, step: u64, rate: f64) -> f64 {
        self.wrong_in(step).fold(rate, |rate, what| if let What::Rate(factor) = what { rate * factor } else { rate })
    }

    /// The statistics that a step commits.
    pub(crate) fn statistics(&self, step: u64, observed: BatchStatistics) -> BatchStatistics {
        let stale = self.wrong_in(step).any(|what| what == What::Stale(Part::Statistics));
        if stale { BatchStatistics::default() } else { observed }
    }

    /// What a step makes of a model state: all of it is new, unless a part was asked to be stale.
    pub(crate) fn moved<M: Module>(
        &self,
        step: u64,
        before: &ModelState<M>,
        mut after: ModelState<M>,
    ) -> ModelState<M> {
        for what in self.wrong_in(step) {
            match what {
                What::Stale(Part::Network) => after.model = before.model.clone(),
                What::Stale(Part::Optimizer) => after.optimizer = before.optimizer.clone(),
                What::Stale(Part::Average) => after.average = before.average.clone(),
                _ => {}
            }
        }
        after
    }
}

impl FromStr for Wrong {
    type Err = String;

    /// What stands behind `wrong@`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (mut step, mut what) = (None, None);
        for pair in text.split(',') {
            let not = || format!("`{pair}` in `wrong@{text}` is not understood");
            let (key, value) = pair.split_once('=').ok_or_else(not)?;
            let number = || value.parse::<f64>().ok().filter(|number| number.is_finite()).ok_or_else(not);
            let index = || value.parse::<usize>().map_err(|_| not());
            let found = match key {
                "step" if value == "every" => {
                    step = Some(None);
                    continue;
                }
                "step" => {
                    step = Some(Some(value.parse().map_err(|_| not())?));
                    continue;
                }
                "scale" => What::Scale(number()?),
                "rate" => What::Rate(number()?),
                "lost" => What::Lost(index()?),
                "doubled" => What::Doubled(index()?),
                "stale" => {
                    let part = PARTS.iter().find(|(name, _)| *name == value).ok_or_else(not)?;
                    What::Stale(part.1)
                }
                _ => return Err(not()),
            };
            if what.replace(found).is_some() {
                return Err(format!("`wrong@{text}` names two things that are wrong: give each its own entry"));
            }
        }
        match (step, what) {
            (Some(step), Some(what)) => Ok(Self { step, what }),
            _ => Err(format!(
                "`wrong@{text}` lacks its step, or what is wrong in it: scale, rate, lost, doubled or stale"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::micro_batch::micro_batches;

    fn faults(text: &str) -> Faults {
        text.parse().expect("faults")
    }

    #[test]
    fn a_micro_batch_is_lost_or_doubled_in_the_step_named_at_every_attempt() {
        let given = || micro_batches(16, 4, 4);
        let lost = faults("wrong@step=2,lost=1; wrong@step=3,doubled=0");
        for _ in 0..2 {
            let rows = |step| lost.micro_batches(step, given()).iter().map(|cut| cut.rows.start).collect::<Vec<_>>();
            assert_eq!(rows(1), [0, 4, 8, 12]);
            assert_eq!(rows(2), [0, 8, 12]);
            assert_eq!(rows(3), [0, 0, 4, 8, 12]);
        }
        assert_eq!(faults("wrong@step=2,lost=9").micro_batches(2, given()), given());
    }

    #[test]
    fn a_rate_is_wrong_in_the_step_named_or_in_every_step() {
        assert_eq!([1, 2, 3].map(|step| faults("wrong@step=2,rate=0.5").rate(step, 4.0)), [4.0, 2.0, 4.0]);
        assert_eq!([1, 2].map(|step| faults("wrong@step=every,rate=-1").rate(step, 4.0)), [-4.0; 2]);
        assert_eq!(Faults::default().rate(1, 4.0), 4.0);
    }

    #[test]
    fn something_wrong_that_is_not_understood_is_a_sentence() {
        for text in [
            "wrong@step=2",
            "wrong@scale=2",
            "wrong@step=2,scale=x",
            "wrong@step=2,scale=inf",
            "wrong@step=two,scale=2",
            "wrong@step=2,stale=weights",
            "wrong@step=2,lost=-1",
            "wrong@step=2,scale=2,rate=2",
            "wrong@step=2,phase=finite-check",
            "wrong",
        ] {
            assert!(text.parse::<Faults>().is_err(), "{text}");
        }
    }
}
