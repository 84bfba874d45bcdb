//! An attempt at a step, and the result of a good one.

use kindling_memory::Plan;

/// An attempt at a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attempt {
    /// The step, counted from 1.
    pub step: u64,
    /// How much is computed at once.
    pub plan: Plan,
    /// The loss is multiplied by it for the backward pass, and the gradients are divided by it.
    pub loss_scale: f64,
}

/// A step that was computed and found good, not yet committed.
pub struct GoodStep<S, T> {
    /// The state after it.
    pub state: S,
    /// The largest micro-batch that it was computed in.
    pub micro_batch: usize,
    /// What the step reports, such as its losses.
    pub told: T,
}
