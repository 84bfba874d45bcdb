//! Whether there is room for a map before it is made.
//!
//! A CPU process that asks for more memory than there is gets killed, and Rust's allocator cannot report failure to the
//! operation that asked. So that a limit can be kept all the same, layers announce what they are about to make, and
//! whoever keeps the limit may refuse. Without a keeper, announcing costs one atomic load.

use std::sync::OnceLock;

use burn::tensor::{DType, Tensor};

/// Says whether `bytes` more fit; the text of a refusal becomes a panic, as failures of a device's runtime do.
pub type Keeper = fn(bytes: usize) -> Result<(), String>;

static KEEPER: OnceLock<Keeper> = OnceLock::new();

/// Lets `keeper` be asked from now on, for the life of the process. Returns whether it is the first.
pub fn keep(keeper: Keeper) -> bool {
    KEEPER.set(keeper).is_ok()
}

/// Announces an allocation.
///
/// # Panics
/// If the keeper refuses, with its text.
pub(crate) fn announce(bytes: usize) {
    if let Some(keeper) = KEEPER.get()
        && let Err(refusal) = keeper(bytes)
    {
        panic!("{refusal}");
    }
}

/// Announces a map of this shape beside `x`, if `x` lies in the process's own memory.
pub(crate) fn announce_like<const D: usize>(x: &Tensor<D>, elements: usize) {
    if KEEPER.get().is_some() && crate::cpu::on_cpu(x) {
        announce(elements * bytes_of(x.dtype()));
    }
}

fn bytes_of(dtype: DType) -> usize {
    dtype.size()
}
