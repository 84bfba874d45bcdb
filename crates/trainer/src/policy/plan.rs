//! The plans there are for computing a step, from the most memory to the least.

use burn::tensor::Device;
use kindling_layers::Checkpointing;
use kindling_memory::{Plan, has_pages};
use kindling_ops::sums_in_a_fixed_order;
use serde::{Deserialize, Serialize};

use crate::config::MOST_SAMPLES;

/// Which plans there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    group: usize,
    largest: usize,
    least: Checkpointing,
    most: Checkpointing,
    #[serde(default)]
    pages: bool,
}

impl Limits {
    /// Everything from one normalisation group (the largest, of `group` samples) to the global batch at once, with any
    /// activation checkpointing. A group is at least one sample and a batch at least one group.
    pub fn new(group: usize, batch: usize) -> Self {
        let group = group.max(1);
        Self { group, largest: batch.max(group), least: Checkpointing::None, most: Checkpointing::Blocks, pages: false }
    }

    /// [`Limits::new`] for a device: where sums are taken in a fixed order, never more than `at_once` normalisation groups are computed at
    /// once, and where tensors share pages, each can have an allocation of its own instead.
    pub fn on(device: &Device, group: usize, batch: usize, at_once: usize) -> Self {
        let batch = if sums_in_a_fixed_order(device) { batch.min(group.saturating_mul(at_once)) } else { batch };
        Self::new(group, batch).with_pages(has_pages(device))
    }

    /// Inference on up to `largest` samples: any number of them, and no gradients to keep activations for.
    pub fn of_inference(largest: usize) -> Self {
        Self::new(1, largest).with_checkpointing(Checkpointing::None, Checkpointing::None)
    }

    /// Never more than `samples` at once, but always one group. A micro-batch the user fixed is such a bound and the
    /// start: it still shrinks when it does not fit, for it does not change the result.
    pub fn with_largest(mut self, samples: usize) -> Self {
        self.largest = samples.clamp(self.group, self.largest);
        self
    }

    /// Activation checkpointing from `least` to `most` only. What the user fixed, or a model that can do but one, is both.
    pub fn with_checkpointing(mut self, least: Checkpointing, most: Checkpointing) -> Self {
        (self.least, self.most) = (least.min(most), most);
        self
    }

    /// Checks numbers that were read from a file.
    pub(super) fn check(&self) -> Result<(), String> {
        let Self { group, largest, least, most, .. } = *self;
        if group == 0 || group > largest || largest > MOST_SAMPLES || least > most {
            return Err(format!("micro-batches from {group} to {largest} samples are not possible"));
        }
        Ok(())
    }

    /// On a device whose tensors share pages (`pages`), each can have an allocation of its own instead.
    pub fn with_pages(mut self, pages: bool) -> Self {
        self.pages = pages;
        self
    }

    pub(super) fn has_pages(&self) -> bool {
        self.pages
    }

    /// The micro-batches there are, ascending: the group doubled while that is below the largest, and the largest.
    ///
    /// A double above three quarters of the largest is left out: computing 64 of 70 samples saves next to nothing.
    pub fn sizes(&self) -> Vec<usize> {
        let doubles = std::iter::successors(Some(self.group), |size| size.checked_mul(2));
        let below = doubles.take_while(|&size| size < self.largest);
        let mut sizes: Vec<usize> =
            below.filter(|&size| size == self.group || size <= self.largest - self.largest / 4).collect();
        sizes.push(self.largest);
        sizes
    }

    /// The plan nearest to `plan` that exists and computes no more samples at once, where there is one.
    pub(super) fn nearest(&self, plan: Plan) -> Plan {
        let size = self.sizes().into_iter().rev().find(|&size| size <= plan.micro_batch);
        Plan { micro_batch: size.unwrap_or(self.group), checkpointing: plan.checkpointing.clamp(self.least, self.most) }
    }

    /// The next rung down: fewer samples, and more checkpointing only where that is one group.
    pub(super) fn smaller(&self, plan: Plan) -> Option<Plan> {
        if let Some(micro_batch) = self.sizes().into_iter().rev().find(|&size| size < plan.micro_batch) {
            return Some(Plan { micro_batch, ..plan });
        }
        let checkpointing =
            Checkpointing::ALL.into_iter().find(|&level| level > plan.checkpointing && level <= self.most)?;
        Some(Plan { checkpointing, ..plan })
    }

    /// The next rung up: less checkpointing, and more samples only where there is none to undo.
    pub(super) fn larger(&self, plan: Plan) -> Option<Plan> {
        let less =
            Checkpointing::ALL.into_iter().rev().find(|&level| level < plan.checkpointing && level >= self.least);
        if let Some(checkpointing) = less {
            return Some(Plan { checkpointing, ..plan });
        }
        let micro_batch = self.sizes().into_iter().find(|&size| size > plan.micro_batch)?;
        Some(Plan { micro_batch, ..plan })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(micro_batch: usize, checkpointing: Checkpointing) -> Plan {
        Plan { micro_batch, checkpointing }
    }

    fn rungs(limits: Limits) -> Vec<Plan> {
        let top = limits.nearest(plan(usize::MAX, Checkpointing::None));
        std::iter::successors(Some(top), |&plan| limits.smaller(plan)).collect()
    }

    #[test]
    fn sizes_are_doubles_of_a_group_and_end_with_the_batch() {
        assert_eq!(Limits::new(8, 64).sizes(), [8, 16, 32, 64]);
        assert_eq!(Limits::new(8, 8).sizes(), [8]);
        assert_eq!(Limits::new(1, 6).sizes(), [1, 2, 4, 6]);
        assert_eq!(Limits::new(8, 70).sizes(), [8, 16, 32, 70], "64 of 70 saves next to nothing");
        assert_eq!(Limits::new(5, 9).sizes(), [5, 9], "one group is always there");
        assert_eq!(Limits::new(0, 0).sizes(), [1]);
    }

    #[test]
    fn what_the_user_fixed_bounds_the_plans() {
        let limits =
            Limits::new(8, 64).with_largest(24).with_checkpointing(Checkpointing::Stages, Checkpointing::Stages);
        let start = limits.nearest(plan(64, Checkpointing::None));
        assert_eq!(start, plan(24, Checkpointing::Stages));
        assert_eq!(limits.larger(start), None);
        assert_eq!(rungs(limits).iter().map(|plan| plan.micro_batch).collect::<Vec<_>>(), [24, 16, 8]);
        assert!(rungs(limits).iter().all(|plan| plan.checkpointing == Checkpointing::Stages));
        assert_eq!(Limits::new(8, 64).with_largest(3).sizes(), [8], "a group cannot be cut");
    }

    #[test]
    fn every_rung_needs_less_than_the_one_above_and_leads_back_to_it() {
        for batch in 1..100 {
            for group in 1..=batch {
                let limits = Limits::new(group, batch);
                for pair in rungs(limits).windows(2) {
                    assert!(pair[0].needs_at_least(&pair[1]) && !pair[1].needs_at_least(&pair[0]));
                    assert_eq!(limits.larger(pair[1]), Some(pair[0]));
                }
            }
        }
    }
}
