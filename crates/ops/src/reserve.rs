//! Whether there is room for a map before it is made.
//!
//! A CPU process that asks for more memory than there is gets killed, and Rust's allocator cannot report failure to the
//! operation that asked. So that a limit can be kept all the same, layers and the optimizer's update announce what they are
//! about to make, and whoever keeps the limit may refuse. Without a keeper, announcing costs one atomic load.

use std::sync::OnceLock;

use burn::tensor::{DType, Tensor};

/// Says whether `bytes` more fit; the text of a refusal becomes a panic, as failures of a device's runtime do.
pub type Keeper = fn(bytes: usize) -> Result<(), String>;

static KEEPER: OnceLock<Keeper> = OnceLock::new();

/// Lets `keeper` be asked from now on, for the life of the process. Returns whether it is the first.
pub fn keep(keeper: Keeper) -> bool {
    KEEPER.set(keeper).is_ok()
}

/// Asks for room for so many bytes.
///
/// # Errors
/// The keeper's refusal.
fn ask(bytes: usize) -> Result<(), String> {
    KEEPER.get().map_or(Ok(()), |keeper| keeper(bytes))
}

/// Asks for room for a copy of `x`, if it lies in the process's own memory.
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

/// Asks whether what is there already is within the limit.
///
/// # Errors
/// The keeper's refusal.
pub fn ask_afterwards() -> Result<(), String> {
    ask(0)
}

/// Announces an allocation.
///
/// # Panics
/// If the keeper refuses, with its text.
pub(crate) fn announce(bytes: usize) {
    if let Err(refusal) = ask(bytes) {
        // Nothing is wrong, so nobody is told by the panic hook; with RUST_BACKTRACE set it would also read megabytes of
        // symbols into memory that is short.
        std::panic::resume_unwind(Box::new(refusal));
    }
}

/// Announces so many elements of the type of `x` beside it, if `x` lies in the process's own memory.
///
/// # Panics
/// If the keeper refuses, with its text.
pub fn announce_like<const D: usize>(x: &Tensor<D>, elements: usize) {
    if KEEPER.get().is_some() && crate::device::on_cpu(x) {
        announce(elements * bytes_of(x.dtype()));
    }
}

fn bytes_of(dtype: DType) -> usize {
    dtype.size()
}
