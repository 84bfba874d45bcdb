//! Memory limits on the CPU: allocations are reserved before they are made.
//!
//! A CPU process that allocates more memory than there is gets killed, and Rust's allocator cannot report a failure to the
//! operation that allocates. To keep a limit all the same, layers and the optimizer's update reserve what they are about to
//! allocate, and a keeper may refuse. Without a keeper, a reservation costs one atomic load.

use std::sync::OnceLock;

use burn::tensor::{DType, Tensor};

/// Decides whether `bytes` more fit. The text of a refusal becomes a panic, as failures of a device's runtime do.
pub type Keeper = fn(bytes: usize) -> Result<(), String>;

static KEEPER: OnceLock<Keeper> = OnceLock::new();

/// Sets the keeper for the rest of the process. Returns false, and changes nothing, if there is one already.
pub fn keep(keeper: Keeper) -> bool {
    KEEPER.set(keeper).is_ok()
}

/// Asks the keeper whether `bytes` more fit.
///
/// # Errors
/// The keeper's refusal.
pub(crate) fn ask(bytes: usize) -> Result<(), String> {
    KEEPER.get().map_or(Ok(()), |keeper| keeper(bytes))
}

/// Asks whether a copy of `x` fits. Always succeeds if `x` is not on the CPU.
///
/// # Errors
/// The keeper's refusal.
pub fn ask_for_copy<const D: usize>(x: &Tensor<D>) -> Result<(), String> {
    if KEEPER.get().is_some() && crate::device::on_cpu(x) {
        ask(x.shape().num_elements() * bytes_of(x.dtype()))
    } else {
        Ok(())
    }
}

/// Asks whether the memory in use is within the limit.
///
/// # Errors
/// The keeper's refusal.
pub fn ask_afterwards() -> Result<(), String> {
    ask(0)
}

/// Reserves memory.
///
/// # Panics
/// If the keeper refuses, with its text.
pub(crate) fn bytes(bytes: usize) {
    if let Err(refusal) = ask(bytes) {
        // A refusal is expected, so it bypasses the panic hook: with RUST_BACKTRACE set, the hook would also read megabytes of
        // symbols while memory is short.
        std::panic::resume_unwind(Box::new(refusal));
    }
}

/// Reserves memory for `elements` numbers of the format of `x`, if `x` lies on the CPU.
///
/// # Panics
/// If the keeper refuses, with its text.
pub fn like<const D: usize>(x: &Tensor<D>, elements: usize) {
    if KEEPER.get().is_some() && crate::device::on_cpu(x) {
        bytes(elements * bytes_of(x.dtype()));
    }
}

fn bytes_of(dtype: DType) -> usize {
    dtype.size()
}
