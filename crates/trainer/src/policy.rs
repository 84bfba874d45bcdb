//! How much is computed at once, and what to do when it was too much.
//!
//! A pure function from (state, what happened) to (state, what to do): no device, no clock, no chance. Every lever
//! changes memory and time and never the result. The plans that exist form a ladder, shown for groups of 8 in a batch
//! of 32:
//!
//! ```text
//! 32, none   16, none   8, none   8, stages   8, blocks
//!    ----- an out-of-memory error goes this way ---->
//!    <---- room for long enough goes this way, one rung at a time -----
//!
//! out of memory -> once a step: free cached memory, the same plan again
//!               -> once a run, where tensors share pages: from now on each has an allocation of its own, the same plan again
//!               -> again, or a tensor no device memory can hold: the next rung
//!                  (rungs that failed with as little memory are skipped; a trial goes back to where it came from)
//!               -> no rung left: give up
//! good step     -> thrash? 3 of the last 10 steps at this plan needed memory freed, or a plan on trial takes over twice
//!                  the time of the one before it: as if it had failed, the next rung
//!               -> room? the rung above is expected within 90 % of the capacity and has not failed with as little:
//!                  after `wait` such steps in a row, go up, on trial for `wait` steps
//! a trial       -> fails: `wait` doubles (16 to 16,384 steps)
//!               -> holds: `wait` halves
//! ```
//!
//! Why it cannot swing: a plan that failed is remembered with the capacity of that moment, and neither it nor a plan
//! that needs more is tried below 1.05 times that. In a world that stays as it is every plan therefore fails at most
//! once, and there are at most log2(batch / group) + 3 retries in the whole run.
//!
//! Inference takes a policy of its own: without gradients the same size needs other memory, and there are no groups to
//! keep whole and no activations to keep ([`Limits::of_inference`]).

#[cfg(test)]
mod pages_tests;
mod plan;
#[cfg(test)]
mod tests;

use kindling_layers::Checkpointing;
use kindling_memory::Plan;
use serde::{Deserialize, Serialize};

pub use plan::Limits;

/// Good steps with room before growing, at first.
const FIRST_WAIT: u64 = 16;
/// The longest such wait: a run of days should still notice that its neighbour has gone.
const LONGEST_WAIT: u64 = 16_384;
/// Steps at a plan over which thrash is judged; a median over them is not moved by a few steps spent compiling kernels.
const WINDOW: usize = 10;
/// Steps of the window that may succeed only after memory was freed, and one more is thrash.
const FREED_AT_MOST: u32 = 2;
/// A plan on trial that takes this many times as long as the smaller one is thrash.
const SLOWER: f64 = 2.0;
/// Share of the capacity a larger plan may be expected to need: the rest is for fragments and peaks nobody measured.
const FILL: f64 = 0.9;
/// One part in so many of a measured peak is forgotten at each step that stays below it.
const FADES: u64 = 128;
/// How much more capacity makes a failed plan worth another try.
const MORE_CAPACITY: f64 = 1.05;
/// Growth of the peak expected from one level less of checkpointing, while nothing was measured. A guess in between:
/// too low costs one failed step, which is remembered; too high costs time for the rest of the run.
const UNDO_CHECKPOINTING: f64 = 1.5;

/// What became of an attempt at a step.
///
/// Capacity is the bytes this process may use: the device's (or the user's) limit less what others hold. Without it
/// plans that never failed are still tried, and plans that failed never again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Happened {
    /// It was computed.
    Good {
        /// The most bytes in use at once in this step alone.
        peak: u64,
        /// Bytes this process may use now, if known.
        capacity: Option<u64>,
        /// Seconds this attempt computed, without waiting for data.
        seconds: f64,
    },
    /// The device ran out of memory; nothing has changed.
    OutOfMemory {
        /// The tensor is larger than the device can ever allocate, so freeing memory is no use.
        too_large: bool,
        /// Bytes this process may use now, if known.
        capacity: Option<u64>,
    },
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The next step, with [`Policy::plan`]; it may have grown, or shrunk for thrash.
    Continue,
    /// Free cached memory, then the same step with the same plan.
    Reclaim,
    /// Free cached memory, then the same step with the same plan, from now on with an allocation of its own for each tensor
    /// ([`Policy::has_own_allocations`]).
    Separate,
    /// Free cached memory, then the same step with this smaller plan.
    Retry(Plan),
    /// The smallest plan does not fit.
    GiveUp,
}

/// The last lever pulled in the step under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Lever {
    Nothing,
    Reclaimed,
    Separated,
    Shrunk,
}

/// A plan that did not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Failed {
    plan: Plan,
    /// The most capacity it failed with; `None` if no capacity would tell that it fits now.
    capacity: Option<u64>,
}

/// The most bytes in use at once in the last steps at a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Measured {
    plan: Plan,
    peak: u64,
}

/// A plan that was grown to and has not held for long enough.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Trial {
    from: Plan,
    /// Median seconds of a step there.
    seconds: f64,
}

/// The state, all of it: plain data, a few hundred bytes, to be stored with a checkpoint.
///
/// What failed was learnt on one device under one configuration: on another device, or under other limits, start anew.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    limits: Limits,
    plan: Plan,
    lever: Lever,
    #[serde(default)]
    own_allocations: bool,
    /// Good steps since this plan was taken.
    held: u64,
    /// The last of them in a row in which the rung above had room.
    room: u64,
    /// How long such a row must be to grow, and a trial to hold.
    wait: u64,
    /// The last steps at this plan, newest in the lowest bit: whether memory had to be freed.
    freed: u32,
    /// Seconds of the last steps at this plan, newest last.
    seconds: Vec<f64>,
    trial: Option<Trial>,
    /// At most one entry for each plan.
    failed: Vec<Failed>,
    /// At most one entry for each plan.
    measured: Vec<Measured>,
}

impl Policy {
    /// Starts at the plan nearest to `start` that `limits` allow.
    pub fn new(limits: Limits, start: Plan) -> Self {
        Self {
            limits,
            plan: limits.nearest(start),
            lever: Lever::Nothing,
            own_allocations: false,
            held: 0,
            room: 0,
            wait: FIRST_WAIT,
            freed: 0,
            seconds: Vec::new(),
            trial: None,
            failed: Vec::new(),
            measured: Vec::new(),
        }
    }

    /// Starts at `start`, but for the micro-batch and the checkpointing that the user has fixed.
    pub fn with_fixed(
        mut limits: Limits,
        micro_batch: Option<usize>,
        checkpointing: Option<Checkpointing>,
        start: Plan,
    ) -> Self {
        if let Some(most) = micro_batch {
            limits = limits.with_largest(most);
        }
        if let Some(level) = checkpointing {
            let level = limits.nearest(Plan { checkpointing: level, ..start }).checkpointing;
            limits = limits.with_checkpointing(level, level);
        }
        let micro_batch = micro_batch.unwrap_or(start.micro_batch);
        Self::new(limits, Plan { micro_batch, ..start })
    }

    /// Checks numbers that were read from a file.
    ///
    /// # Errors
    /// A sentence that names the number.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.limits.check()?;
        let known = |plan: Plan| self.limits.nearest(plan) == plan;
        let plans = self.failed.iter().map(|failed| failed.plan).chain(self.measured.iter().map(|it| it.plan));
        let plans = plans.chain([self.plan]).chain(self.trial.map(|trial| trial.from));
        if let Some(plan) = plans.into_iter().find(|plan| !known(*plan)) {
            return Err(format!("there is no plan with a micro-batch of {} in this run", plan.micro_batch));
        }
        let times = self.seconds.iter().copied().chain(self.trial.map(|trial| trial.seconds));
        if let Some(seconds) = times.into_iter().find(|seconds| !(seconds.is_finite() && *seconds >= 0.0)) {
            return Err(format!("a step took {seconds} seconds"));
        }
        if !(FIRST_WAIT..=LONGEST_WAIT).contains(&self.wait) || self.seconds.len() > WINDOW || self.freed >> WINDOW > 0
        {
            return Err(format!("the wait for a larger plan is {} steps, or the last steps are too many", self.wait));
        }
        Ok(())
    }

    /// How to compute the next attempt.
    pub fn plan(&self) -> Plan {
        self.plan
    }

    /// Whether each tensor has an allocation of its own, so that none keeps a page of others. Once memory was short it stays
    /// so: what a plan needs is then what its live tensors need, and pages that grew for a larger plan are no more.
    pub fn has_own_allocations(&self) -> bool {
        self.own_allocations
    }

    /// Which plans this policy chooses from.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// The state after an attempt with [`Policy::plan`], and what to do next.
    pub fn after(&self, happened: Happened) -> (Self, Decision) {
        let mut next = self.clone();
        let decision = match happened {
            Happened::Good { peak, capacity, seconds } => {
                next.note(peak, seconds);
                next.adapt(capacity);
                Decision::Continue
            }
            Happened::OutOfMemory { too_large: false, .. } if self.lever == Lever::Nothing => {
                next.lever = Lever::Reclaimed;
                Decision::Reclaim
            }
            // Pages are cut for the largest tensor, so even one that is too large for a page may have room by itself.
            Happened::OutOfMemory { .. } if self.limits.has_pages() && !self.own_allocations => {
                next.own_allocations = true;
                next.lever = Lever::Separated;
                Decision::Separate
            }
            Happened::OutOfMemory { too_large, capacity } => {
                // A device that can never hold a tensor does not hold it with more memory free either.
                if next.shrink(capacity, if too_large { None } else { capacity }) {
                    next.lever = Lever::Shrunk;
                    Decision::Retry(next.plan)
                } else {
                    next.lever = Lever::Nothing;
                    Decision::GiveUp
                }
            }
        };
        (next, decision)
    }

    /// Writes down a good step.
    fn note(&mut self, peak: u64, seconds: f64) {
        let freed = self.lever == Lever::Reclaimed;
        self.lever = Lever::Nothing;
        self.freed = (self.freed << 1 | u32::from(freed)) & ((1 << WINDOW) - 1);
        if self.seconds.len() == WINDOW {
            self.seconds.remove(0);
        }
        self.seconds.push(seconds);
        match self.measured.iter_mut().find(|measured| measured.plan == self.plan) {
            // A peak fades, or a single one while kernels are tuned would forbid growth for the rest of the run.
            Some(measured) => measured.peak = peak.max(measured.peak - measured.peak / FADES),
            None => self.measured.push(Measured { plan: self.plan, peak }),
        }
        self.held += 1;
    }

    /// Chooses the plan of the next step after a good one.
    fn adapt(&mut self, capacity: Option<u64>) {
        // At the smallest plan thrash is no reason to stop: slow is better than not at all.
        if self.thrashes() && self.shrink(capacity, capacity) {
            return;
        }
        if self.trial.is_some() && self.held >= self.wait {
            self.trial = None;
            self.wait = (self.wait / 2).max(FIRST_WAIT);
        }
        let larger = self.limits.larger(self.plan).filter(|&larger| self.has_room(larger, capacity));
        self.room = if larger.is_some() && self.freed & 1 == 0 { self.room + 1 } else { 0 };
        if let Some(larger) = larger.filter(|_| self.room >= self.wait) {
            let trial = Trial { from: self.plan, seconds: median(&self.seconds) };
            self.take(larger, Some(trial));
        }
    }

    /// Whether this plan works only just.
    fn thrashes(&self) -> bool {
        // Speed is compared in a trial only: an older figure may be that of a machine with less to do.
        let slow = |trial: Trial| trial.seconds > 0.0 && median(&self.seconds) > SLOWER * trial.seconds;
        self.freed.count_ones() > FREED_AT_MOST || (self.seconds.len() == WINDOW && self.trial.is_some_and(slow))
    }

    /// Remembers that the plan failed with the capacity `failed_with` and takes the next rung that has not failed with
    /// as little as `capacity`, or the last one. False if there is none.
    fn shrink(&mut self, capacity: Option<u64>, failed_with: Option<u64>) -> bool {
        let before = self.trial.map(|trial| trial.from);
        let Some(mut smaller) = before.or_else(|| self.limits.smaller(self.plan)) else {
            return false;
        };
        match self.failed.iter_mut().find(|failed| failed.plan == self.plan) {
            Some(failed) => failed.capacity = failed.capacity.zip(failed_with).map(|(old, new)| old.max(new)),
            None => self.failed.push(Failed { plan: self.plan, capacity: failed_with }),
        }
        while self.has_failed(smaller, capacity) {
            let Some(next) = self.limits.smaller(smaller) else { break };
            smaller = next;
        }
        if self.trial.is_some() {
            self.wait = (self.wait * 2).min(LONGEST_WAIT);
        }
        self.take(smaller, None);
        true
    }

    /// Goes over to a plan.
    fn take(&mut self, plan: Plan, trial: Option<Trial>) {
        (self.plan, self.trial) = (plan, trial);
        (self.held, self.room, self.freed) = (0, 0, 0);
        self.seconds.clear();
    }

    /// Whether `plan`, or one that needs no more, failed with as much memory as there is now.
    fn has_failed(&self, plan: Plan, capacity: Option<u64>) -> bool {
        self.failed.iter().filter(|failed| plan.needs_at_least(&failed.plan)).any(|failed| {
            failed.capacity.zip(capacity).is_none_or(|(then, now)| (now as f64) < MORE_CAPACITY * then as f64)
        })
    }

    /// Whether the rung above can be expected to fit.
    fn has_room(&self, larger: Plan, capacity: Option<u64>) -> bool {
        let fits = |capacity: u64| self.expected(larger).is_some_and(|peak| peak <= FILL * capacity as f64);
        !self.has_failed(larger, capacity) && capacity.is_none_or(fits)
    }

    /// The peak to expect of the rung above: what it was, or else what the peaks below it say.
    fn expected(&self, larger: Plan) -> Option<f64> {
        let peak = |plan: Plan| self.measured.iter().find(|measured| measured.plan == plan).map(|it| it.peak as f64);
        if let Some(known) = peak(larger) {
            return Some(known);
        }
        let here = peak(self.plan)?;
        if larger.checkpointing != self.plan.checkpointing {
            return Some(UNDO_CHECKPOINTING * here);
        }
        // Weights do not grow with the samples, so in proportion is the most it can be; two sizes tell them apart.
        let size = self.plan.micro_batch;
        let ratio = larger.micro_batch as f64 / size as f64;
        let alike = |it: &&Measured| it.plan.checkpointing == larger.checkpointing && it.plan.micro_batch < size;
        let Some(below) = self.measured.iter().filter(alike).max_by_key(|it| it.plan.micro_batch) else {
            return Some(here * ratio);
        };
        let a_sample = (here - below.peak as f64) / (size - below.plan.micro_batch) as f64;
        Some((here + a_sample.max(0.0) * (larger.micro_batch - size) as f64).min(here * ratio))
    }
}

/// The middle of `values`, 0 without any.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}
