//! Device memory that is allocated for each tensor by itself, instead of in pages.
//!
//! CubeCL places tensors in pages that are as large as the largest tensor so far. Pages never shrink while a process runs, and a
//! single small tensor keeps its whole page alive. After a step that was too large, a card of 512 MiB may be full of five pages with
//! a few live tensors each. A tensor in an allocation of its own keeps nothing else alive, so a step then needs only what its live
//! tensors need. Freed allocations are kept for tensors of the same size, and returned when the device refuses an allocation.

use burn::tensor::Device;
use send_wrapper::SendWrapper;

use crate::pages::Pages;
use crate::pools;

/// Has the pools of a device take pages before anything lies in them. They keep them for all tensors to come, and as long as these find
/// room they take no more. Tells whether the device had that much; if not, nothing is taken.
pub fn take_pages(device: &Device, pages: Pages) -> bool {
    pools::take(device, pages)
}

/// Whether a device places several tensors in a page, so that memory can become fragmented.
pub fn has_pages(device: &Device) -> bool {
    device.clone().without_autodiff().memory_pool_usage().is_some()
}

/// Runs `task` with an allocation of its own for each tensor that it creates on this thread. On a device without pages, it just runs
/// `task`.
///
/// `task` must not panic: this thread would keep allocating in the same way.
pub fn with_own_allocations<T>(device: &Device, task: impl FnOnce() -> T) -> T {
    let device = device.clone().without_autodiff();
    // Burn requires closures that could move to another thread, but runs them on this one.
    let run = |task: SendWrapper<_>| SendWrapper::new(call(task));
    device.memory_persistent_allocations(SendWrapper::new(task), run).take()
}

fn call<T, F: FnOnce() -> T>(task: SendWrapper<F>) -> T {
    task.take()()
}
