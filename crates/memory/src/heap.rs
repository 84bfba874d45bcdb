//! The live bytes of the process's heap and their peaks. [`crate::CountingAllocator`] counts them.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static CURRENT: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
/// The peak of the current window, which is a step.
static WINDOW: AtomicUsize = AtomicUsize::new(0);

/// Live bytes of the process's heap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostUsage {
    /// Bytes that are live now.
    pub current: usize,
    /// The most live bytes since the start or the last [`reset_host_peak`].
    pub peak: usize,
}

/// Live bytes of the process's heap; zero where [`CountingAllocator`](crate::CountingAllocator) is not the global allocator.
pub fn host_usage() -> HostUsage {
    HostUsage { current: CURRENT.load(Relaxed), peak: PEAK.load(Relaxed) }
}

/// Resets the peak to the bytes that are live now.
pub fn reset_host_peak() {
    PEAK.store(CURRENT.load(Relaxed), Relaxed);
}

/// Starts a window, whose peak begins with the bytes that are live now.
pub(crate) fn start_window() {
    WINDOW.store(CURRENT.load(Relaxed), Relaxed);
}

/// The most live bytes since [`start_window`].
pub(crate) fn window_peak() -> usize {
    WINDOW.load(Relaxed)
}

/// Counts bytes that were allocated.
pub(crate) fn grow(bytes: usize) {
    let now = CURRENT.fetch_add(bytes, Relaxed) + bytes;
    // A load is cheaper than the exchange that updating a maximum takes, and most calls are below both peaks.
    if now > PEAK.load(Relaxed) {
        PEAK.fetch_max(now, Relaxed);
    }
    if now > WINDOW.load(Relaxed) {
        WINDOW.fetch_max(now, Relaxed);
    }
}

/// Counts bytes that were freed.
pub(crate) fn shrink(bytes: usize) {
    CURRENT.fetch_sub(bytes, Relaxed);
}
