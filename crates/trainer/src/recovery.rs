//! Carrying out something that may run out of memory: try, make room, try with less, until it works or nothing is left to
//! try. What is tried must leave the state it starts from as it is.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Tensor};
use kindling_memory::{Plan, capacity, forget_peak, observe, peak_since, with_own_allocations};
use kindling_ops::FilterCache;

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

/// A lack of memory that an attempt met.
pub(crate) struct Lack {
    /// What the device said, in short.
    reason: String,
    /// Whether one tensor is larger than the device can ever hold.
    pub(crate) too_large: bool,
}

impl Lack {
    /// The lack of memory that an error stands for, if it is one.
    fn of(error: &TrainError) -> Option<Self> {
        match error {
            TrainError::OutOfMemory { reason, too_large, .. }
            | TrainError::InferenceOutOfMemory { reason, too_large, .. } => {
                Some(Self { reason: reason.clone(), too_large: *too_large })
            }
            _ => None,
        }
    }
}

/// Something that may run out of memory, with what can be done about that.
pub(crate) trait Attempts {
    /// The result of an attempt that succeeds.
    type Done;

    /// Tries it. An attempt that fails leaves the state that it starts from as it is, and does not panic.
    fn attempt(&mut self) -> Result<Self::Done, TrainError>;

    /// Chooses what is done before the next attempt, in words; `None` if nothing is left to try.
    fn lever(&mut self, lack: &Lack) -> Option<String>;

    /// Gives back what a failed attempt has left behind.
    fn make_room(&self);

    /// The error to end with where nothing is left to try.
    fn give_up(self, last: TrainError) -> TrainError
    where
        Self: Sized,
    {
        last
    }
}

/// Tries until it fits: the one loop around everything that may run out of memory. `recovered` is told of what was done.
///
/// # Errors
/// The last failure if it is not a lack of memory, otherwise what [`Attempts::give_up`] says.
pub(crate) fn until_it_fits<A: Attempts>(
    mut attempts: A,
    mut recovered: impl FnMut(&Recovery),
) -> Result<A::Done, TrainError> {
    loop {
        let began = Instant::now();
        let error = match attempts.attempt() {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let Some(lack) = Lack::of(&error) else { return Err(error) };
        let Some(lever) = attempts.lever(&lack) else { return Err(attempts.give_up(error)) };
        attempts.make_room();
        recovered(&Recovery { reason: lack.reason, lever, seconds: began.elapsed().as_secs_f64() });
    }
}

/// Runs `attempt`, and once more after what is cached was freed, if memory was short. `attempt` must not panic.
///
/// # Errors
/// That of the last attempt.
pub fn once_more<T>(device: &Device, attempt: impl FnMut() -> Result<T, TrainError>) -> Result<T, TrainError> {
    until_it_fits(OnceMore { device, attempt, reclaimed: false }, |_| ())
}

/// Work that can only hope for what is cached.
struct OnceMore<'a, A> {
    device: &'a Device,
    attempt: A,
    reclaimed: bool,
}

impl<T, A: FnMut() -> Result<T, TrainError>> Attempts for OnceMore<'_, A> {
    type Done = T;

    fn attempt(&mut self) -> Result<T, TrainError> {
        (self.attempt)()
    }

    fn lever(&mut self, _: &Lack) -> Option<String> {
        let first = !std::mem::replace(&mut self.reclaimed, true);
        first.then(|| "freed what was cached".to_string())
    }

    fn make_room(&self) {
        make_room(self.device);
    }
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
    recovered: impl FnMut(&Recovery),
    attempt: impl FnMut(&Plan) -> Result<T, TrainError>,
) -> Result<(T, Policy), TrainError> {
    until_it_fits(Planned { policy: policy.clone(), device, tried: Vec::new(), make_room, attempt }, recovered)
}

/// Work that a policy plans.
struct Planned<'a, M, A> {
    policy: Policy,
    device: &'a Device,
    /// The levers that were pulled, in order.
    tried: Vec<String>,
    make_room: M,
    attempt: A,
}

impl<T, M: Fn(), A: FnMut(&Plan) -> Result<T, TrainError>> Attempts for Planned<'_, M, A> {
    type Done = (T, Policy);

    fn attempt(&mut self) -> Result<(T, Policy), TrainError> {
        let Self { policy, device, make_room, attempt, .. } = self;
        let plan = policy.plan();
        let began = Instant::now();
        forget_peak(device);
        let outcome = match policy.has_own_allocations() {
            true => with_own_allocations(device, || attempt(&plan)),
            false => attempt(&plan),
        };
        match outcome {
            Ok(result) => {
                let seconds = began.elapsed().as_secs_f64();
                let good = Happened::Good { peak: peak_since(device), capacity: capacity(device), seconds };
                Ok((result, policy.after(good).0))
            }
            Err(error) => {
                // The graph of a step that was computed to its end is gone.
                let computed = matches!(error, TrainError::NotFinite { .. } | TrainError::Overflow { .. });
                if !computed && Lack::of(&error).is_none() {
                    make_room();
                }
                Err(error)
            }
        }
    }

    fn lever(&mut self, lack: &Lack) -> Option<String> {
        let plan = self.policy.plan();
        let ran_out = Happened::OutOfMemory { too_large: lack.too_large, capacity: capacity(self.device) };
        let (next, decision) = self.policy.after(ran_out);
        self.policy = next;
        let lever = match decision {
            Decision::Reclaim => "freed what was cached".to_string(),
            Decision::Separate => "each tensor in an allocation of its own".to_string(),
            Decision::Retry(smaller) => describe(&plan, &smaller),
            Decision::Continue => "tried again".to_string(),
            Decision::GiveUp => return None,
        };
        self.tried.push(lever.clone());
        Some(lever)
    }

    fn make_room(&self) {
        (self.make_room)();
    }

    fn give_up(self, last: TrainError) -> TrainError {
        // Whoever saves what was reached before needs the memory that this attempt still holds.
        (self.make_room)();
        match last {
            TrainError::OutOfMemory { reason, micro_batch, .. }
            | TrainError::InferenceOutOfMemory { reason, images: micro_batch, .. } => {
                TrainError::DoesNotFit { micro_batch, reason, tried: self.tried }
            }
            other => other,
        }
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
        FilterCache::give_back();
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
