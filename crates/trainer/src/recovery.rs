//! Carrying out something that may run out of memory: try, make room, try with less, until it works or nothing is left to
//! try. What is tried must leave the state it starts from as it is.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Tensor};
use kindling_memory::{Plan, capacity, forget_peak, observe, peak_since, with_own_allocations};

use crate::error::TrainError;
use crate::policy::{Decision, Happened, Policy};

/// One recovery from a lack of memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Recovery {
    /// What the device said, in short.
    pub reason: String,
    /// What was done about it.
    pub lever: String,
    /// From the start of what failed until the next try.
    pub seconds: f64,
}

/// Runs `attempt` with the policy's plan until it succeeds, and returns its result with the policy afterwards. `make_room`
/// gives back what a failed attempt has left behind. `attempt` must not panic.
///
/// # Errors
/// The last failure if it is not a lack of memory, [`TrainError::DoesNotFit`] if nothing is left to try.
pub fn carry_out<T>(
    policy: &Policy,
    device: &Device,
    make_room: impl Fn(),
    mut recovered: impl FnMut(&Recovery),
    mut attempt: impl FnMut(&Plan) -> Result<T, TrainError>,
) -> Result<(T, Policy), TrainError> {
    let mut policy = policy.clone();
    let mut tried = Vec::new();
    loop {
        let plan = policy.plan();
        let began = Instant::now();
        forget_peak(device);
        let outcome = match policy.has_own_allocations() {
            true => with_own_allocations(device, || attempt(&plan)),
            false => attempt(&plan),
        };
        let (reason, too_large, micro_batch) = match outcome {
            Ok(result) => {
                let seconds = began.elapsed().as_secs_f64();
                let good = Happened::Good { peak: peak_since(device), capacity: capacity(device), seconds };
                return Ok((result, policy.after(good).0));
            }
            Err(TrainError::OutOfMemory { reason, too_large, micro_batch, .. }) => (reason, too_large, micro_batch),
            Err(TrainError::InferenceOutOfMemory { reason, too_large, images }) => (reason, too_large, images),
            // The graph of a step that was computed to its end is gone.
            Err(other @ TrainError::NotFinite { .. }) => return Err(other),
            Err(other) => {
                make_room();
                return Err(other);
            }
        };
        let (next, decision) = policy.after(Happened::OutOfMemory { too_large, capacity: capacity(device) });
        policy = next;
        let lever = match decision {
            Decision::Reclaim => "freed what was cached".to_string(),
            Decision::Separate => "each tensor in an allocation of its own".to_string(),
            Decision::Retry(smaller) => describe(&plan, &smaller),
            Decision::Continue => "tried again".to_string(),
            Decision::GiveUp => {
                // Whoever saves what was reached before needs the memory that this attempt still holds.
                make_room();
                return Err(TrainError::DoesNotFit { micro_batch, reason, tried });
            }
        };
        make_room();
        let seconds = began.elapsed().as_secs_f64();
        recovered(&Recovery { reason, lever: lever.clone(), seconds });
        tried.push(lever);
    }
}

/// A change of plan in words.
pub(crate) fn describe(from: &Plan, to: &Plan) -> String {
    if from.checkpointing != to.checkpointing {
        format!("activation checkpointing {} -> {}", from.checkpointing, to.checkpointing)
    } else {
        format!("micro-batch {} -> {}", from.micro_batch, to.micro_batch)
    }
}

/// Gives back what a failed attempt has left on the device.
pub fn make_room(device: &Device) {
    let cleaning = || {
        let plain = device.clone().without_autodiff();
        let _ = plain.sync();
        observe(&plain);
        plain.memory_cleanup();
        let _ = plain.sync();
    };
    // A failure in here is one more sign of what is known already.
    let _ = catch_unwind(AssertUnwindSafe(cleaning));
}

/// [`make_room`] after a step that may have been abandoned between its forward and its backward pass.
///
/// Burn keeps the graph of such a forward pass, with every tensor in it, until a backward pass runs through the same
/// graph; that graph is the one the parameters belong to. So a backward pass through one element of a parameter is run
/// first. Parameters that the forward pass did not reach have graphs of their own, so each is taken, but by itself: its
/// gradient is as large as it is, and all of them at once would be asked of a device that is full.
pub fn abandon_graph<M: Module>(model: &M, device: &Device) {
    struct FirstElements;
    impl ModuleVisitor for FirstElements {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let value = param.val();
            if value.is_require_grad() {
                let length = value.shape().num_elements();
                drop(value.reshape([length]).narrow(0, 0, 1).backward());
            }
        }
    }
    let backward = || model.visit(&mut FirstElements);
    let _ = catch_unwind(AssertUnwindSafe(backward));
    make_room(device);
}
