//! Memory of a device for tensors one by one, instead of pieces of pages.
//!
//! CubeCL carves tensors from pages as large as the largest tensor it has served. Pages never get smaller while a process
//! runs, and one small tensor that lives on keeps its whole page: after a step that was too large, a card of 512 MiB may be
//! full of five pages with a few live tensors each. A tensor in an allocation of its own pins nothing but itself, so what
//! a step needs is then what its live tensors need. What is freed is kept for tensors of the same size, and given back when
//! the device refuses an allocation.

use burn::tensor::Device;
use send_wrapper::SendWrapper;

/// Whether a device hands out pieces of pages, so that tensors can get in each other's way.
pub fn has_pages(device: &Device) -> bool {
    device.clone().without_autodiff().memory_pool_usage().is_some()
}

/// Runs `task` with an allocation of its own for each tensor it makes on this thread. On a device without pages it just runs.
///
/// `task` must not panic: the allocations of this thread would stay as they are in it.
pub fn with_own_allocations<T>(device: &Device, task: impl FnOnce() -> T) -> T {
    let device = device.clone().without_autodiff();
    // Burn wants closures that may move to another thread, and runs them on this one.
    let run = |task: SendWrapper<_>| SendWrapper::new(call(task));
    device.memory_persistent_allocations(SendWrapper::new(task), run).take()
}

fn call<T, F: FnOnce() -> T>(task: SendWrapper<F>) -> T {
    task.take()()
}
