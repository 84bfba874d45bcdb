//! The training pass: the context of a forward pass in training mode.
//!
//! Models are plain Burn modules that know nothing of training. Whoever trains opens a pass around the forward instead. It says
//!
//! - which samples the rows of the batch are, so that dropout draws from (seed, epoch, sample, layer), and neither micro-batches nor
//!   a retry or a second forward can change a mask;
//! - which rows form a normalisation group, so that a micro-batch of whole groups computes what the whole batch would.
//!
//! It also collects batch statistics, because running statistics are state, and state changes only in `commit`.
//!
//! Without a pass, every layer infers. A pass belongs to the thread that runs the forward.

use std::cell::RefCell;
use std::collections::BTreeMap;

use burn::module::{Module, ParamId};
use burn::tensor::Tensor;
use kindling_ops as ops;

use crate::parameters::{self, Flat};

/// The most samples of a normalisation group where nothing else is asked for.
pub const GHOST_BATCH_SIZE: usize = 8;

/// One training-mode forward pass over consecutive samples of a global batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrainingPass {
    /// Sizes of the normalisation groups, in order; their sum is the number of rows.
    pub groups: Vec<usize>,
    /// The run's seed.
    pub seed: u64,
    /// The epoch the samples are drawn in.
    pub epoch: u64,
    /// The sample of each row.
    pub samples: Vec<u64>,
}

impl TrainingPass {
    /// A pass whose rows are one normalisation group and samples `0..batch` of epoch 0: what PyTorch's `train()` does.
    pub fn whole_batch(batch: usize) -> Self {
        Self { groups: vec![batch], seed: 0, epoch: 0, samples: (0..batch as u64).collect() }
    }
}

/// Sizes of the normalisation groups of a batch: one group if it holds `at_most` samples or fewer, otherwise as few
/// groups as possible, as even as possible, the larger ones first.
///
/// # Panics
/// If `at_most` is 0.
pub fn normalisation_groups(batch: usize, at_most: usize) -> Vec<usize> {
    assert!(at_most > 0, "a normalisation group holds at least one sample");
    let groups = batch.div_ceil(at_most);
    (0..groups).map(|group| batch / groups + usize::from(group < batch % groups)).collect()
}

/// The size of the largest of the [`normalisation_groups`].
pub fn largest_group(batch: usize, at_most: usize) -> usize {
    batch.div_ceil(batch.div_ceil(at_most.max(1)).max(1)).max(1)
}

/// Batch statistics of one or more passes, to be committed to the running statistics.
#[derive(Clone, Debug, Default)]
pub struct BatchStatistics {
    sums: BTreeMap<ParamId, StatisticSum>,
}

#[derive(Clone, Debug)]
struct StatisticSum {
    sum: Tensor<1>,
    groups: usize,
    momentum: f64,
}

impl BatchStatistics {
    /// Adds the statistics of another pass over the same model.
    pub fn merge(&mut self, other: Self) {
        for (id, statistic) in other.sums {
            self.add(id, statistic.sum, statistic.groups, statistic.momentum);
        }
    }

    /// The running statistics that [`BatchStatistics::commit`] would change.
    pub fn ids(&self) -> Vec<ParamId> {
        self.sums.keys().copied().collect()
    }

    /// The sum over groups of one running statistic, `[features]`, on the plain device.
    pub fn sum(&self, id: ParamId) -> Option<Tensor<1>> {
        self.sums.get(&id).map(|statistic| statistic.sum.clone())
    }

    /// The sum of the squares of all of them, `[1]`; none if there are no statistics.
    pub fn squared_norm(&self) -> Option<Tensor<1>> {
        let sums: Vec<Tensor<1>> = self.sums.values().map(|statistic| statistic.sum.clone()).collect();
        kindling_ops::squared_norm(&sums)
    }

    /// How much of itself one running statistic gives up for the mean of a step.
    pub fn momentum(&self, id: ParamId) -> Option<f64> {
        self.sums.get(&id).map(|statistic| statistic.momentum)
    }

    /// Adds the sum over some groups of one running statistic, `[features]`.
    pub fn add(&mut self, id: ParamId, sum: Tensor<1>, groups: usize, momentum: f64) {
        let entry = match self.sums.remove(&id) {
            Some(known) => StatisticSum { sum: known.sum + sum, groups: known.groups + groups, momentum },
            None => StatisticSum { sum, groups, momentum },
        };
        self.sums.insert(id, entry);
    }

    /// Updates the model's running statistics with the mean over all groups: `(1 - momentum) * running + momentum * mean`, where the
    /// momentum is the layer's, or `least` if that is larger (with 0 it is always the layer's). Returns the model with new running
    /// statistics; everything else is shared.
    pub fn commit<M: Module>(mut self, model: M, least: f64) -> M {
        let running = parameters::flat(&model, |id| self.sums.contains_key(&id));
        let moving = running.into_iter().filter_map(|Flat { id, values: running, .. }| {
            let StatisticSum { sum, groups, momentum } = self.sums.remove(&id)?;
            Some(Moving { id, running, sum, groups, momentum: momentum.max(least) })
        });
        let moved = moved(moving.collect());
        parameters::replace(model, moved)
    }
}

/// A running statistic, and what moves it.
struct Moving {
    id: ParamId,
    running: Tensor<1>,
    sum: Tensor<1>,
    groups: usize,
    momentum: f64,
}

/// New running statistics by parameter.
fn moved(found: Vec<Moving>) -> BTreeMap<ParamId, Tensor<1>> {
    // Those that move by the same numbers move together, where a device has an operation for that.
    let alike = |a: &Moving, b: &Moving| (a.groups, a.momentum) == (b.groups, b.momentum);
    let of_some = |some: &[Moving]| -> Vec<Tensor<1>> {
        let pairs: Vec<_> = some.iter().map(|statistic| [statistic.running.clone(), statistic.sum.clone()]).collect();
        let Moving { groups, momentum, .. } = some[0];
        ops::lerp(&pairs, 1.0 / groups as f64, momentum).unwrap_or_else(|| some.iter().map(Moving::moved).collect())
    };
    found
        .chunk_by(alike)
        .flat_map(|some| some.iter().map(|statistic| statistic.id).zip(of_some(some)).collect::<Vec<_>>())
        .collect()
}

impl Moving {
    /// One after the other.
    fn moved(&self) -> Tensor<1> {
        let mean = self.sum.clone().div_scalar(self.groups as f64);
        self.running.clone().mul_scalar(1.0 - self.momentum).add(mean.mul_scalar(self.momentum))
    }
}

thread_local! {
    static CURRENT: RefCell<Option<(TrainingPass, BatchStatistics)>> = const { RefCell::new(None) };
}

/// Runs `forward` in training mode and returns its result and the batch statistics.
///
/// If `forward` panics, the thread is back in inference mode and the statistics are gone.
///
/// # Panics
/// If a training pass is already running on this thread.
pub fn training<R>(pass: TrainingPass, forward: impl FnOnce() -> R) -> (R, BatchStatistics) {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            CURRENT.with_borrow_mut(|current| *current = None);
        }
    }

    CURRENT.with_borrow_mut(|current| {
        assert!(current.is_none(), "training passes do not nest");
        *current = Some((pass, BatchStatistics::default()));
    });
    let leave = Leave;
    let result = forward();
    let statistics = CURRENT.with_borrow_mut(Option::take).map(|(_, statistics)| statistics).unwrap_or_default();
    drop(leave);
    (result, statistics)
}

/// Runs `forward` in inference mode inside a training pass: for parts of a network that do not train.
pub(crate) fn suspended<R>(forward: impl FnOnce() -> R) -> R {
    struct Return(Option<(TrainingPass, BatchStatistics)>);
    impl Drop for Return {
        fn drop(&mut self) {
            CURRENT.with_borrow_mut(|current| *current = self.0.take());
        }
    }
    let _return = Return(CURRENT.with_borrow_mut(Option::take));
    forward()
}

/// The pass that is running on this thread, if there is one.
pub(crate) fn current() -> Option<TrainingPass> {
    CURRENT.with_borrow(|current| current.as_ref().map(|(pass, _)| pass.clone()))
}

/// Whether a pass is running on this thread.
pub fn is_training() -> bool {
    CURRENT.with_borrow(Option::is_some)
}

/// Adds the sum over `groups` groups of a statistic, whose running value is the parameter `id`, to the current pass.
///
/// `sum` is outside any gradient graph.
pub(crate) fn observe(id: ParamId, sum: Tensor<1>, groups: usize, momentum: f64) {
    CURRENT.with_borrow_mut(|current| {
        if let Some((_, statistics)) = current {
            statistics.add(id, sum, groups, momentum);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_as_even_as_possible_and_hold_at_most_eight() {
        assert_eq!(normalisation_groups(1, 8), [1]);
        assert_eq!(normalisation_groups(8, 8), [8]);
        assert_eq!(normalisation_groups(9, 8), [5, 4]);
        assert_eq!(normalisation_groups(20, 8), [7, 7, 6]);
        assert_eq!(normalisation_groups(32, 8), [8; 4]);
        for batch in 1..200 {
            let groups = normalisation_groups(batch, 8);
            assert_eq!(groups.first(), Some(&largest_group(batch, 8)));
            assert_eq!(groups.iter().sum::<usize>(), batch);
            assert!(groups.iter().max().unwrap_or(&0) - groups.iter().min().unwrap_or(&0) <= 1);
        }
    }

    #[test]
    fn a_panic_inside_a_pass_leaves_the_thread_inferring() {
        let outcome = std::panic::catch_unwind(|| training(TrainingPass::whole_batch(2), || panic!("device lost")));
        assert!(outcome.is_err());
        assert!(current().is_none());
    }
}
