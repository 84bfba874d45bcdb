//! A global allocator that counts live bytes.

use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::heap::{grow, shrink};
use crate::large;

/// Bytes of the last failed allocation; 0 if none failed.
static FAILED: AtomicUsize = AtomicUsize::new(0);

/// Wraps an allocator and counts its live bytes.
///
/// Requested bytes are counted; memory that the wrapped allocator adds by rounding or keeps for later is not. A call costs two relaxed
/// atomic operations.
#[derive(Debug, Default)]
pub struct CountingAllocator<A>(pub A);

/// Bytes of the last allocation that the system refused, if there was one. May be called in a signal handler.
pub fn failed_allocation() -> Option<usize> {
    Some(FAILED.load(Relaxed)).filter(|bytes| *bytes > 0)
}

/// Allocates. If that fails, free pages are returned to the system, and it is tried once more.
fn persistently(bytes: usize, allocate: impl Fn() -> *mut u8) -> *mut u8 {
    let block = allocate();
    if !block.is_null() {
        return block;
    }
    large::give_back();
    let block = allocate();
    if block.is_null() {
        FAILED.store(bytes, Relaxed);
    }
    block
}

// SAFETY: every call is handed to the wrapped allocator unchanged, a second time if it failed, which changes nothing, and
// its answer is returned unchanged, so the contract of `GlobalAlloc` holds if it holds for `A`. What is called in between gives pages
// back, which allocates little through here and does not unwind. The counters never allocate and never panic: they are plain atomics
// with wrapping arithmetic. `shrink` follows the wrapped call, and only a block that `A` handed out, whose
// size was added when it was, is ever subtracted.
#[allow(unsafe_code)]
unsafe impl<A: GlobalAlloc> GlobalAlloc for CountingAllocator<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise about `layout` is the one `A` asks for.
        let block = persistently(layout.size(), || unsafe { self.0.alloc(layout) });
        if !block.is_null() {
            grow(layout.size());
        }
        block
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as in `alloc`.
        let block = persistently(layout.size(), || unsafe { self.0.alloc_zeroed(layout) });
        if !block.is_null() {
            grow(layout.size());
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller promises that `block` came from this allocator, hence from `A`, with `layout`.
        unsafe { self.0.dealloc(block, layout) };
        shrink(layout.size());
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: as in `dealloc`; the caller promises that `new_size` is valid for the alignment.
        // A failed call leaves the block as it is, so that it may be repeated.
        let moved = persistently(new_size, || unsafe { self.0.realloc(block, layout, new_size) });
        if !moved.is_null() {
            shrink(layout.size());
            grow(new_size);
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::{HostUsage, host_usage, reset_host_peak};

    // The counters are global, so one test makes all calls, with an allocator that the test harness does not use.
    #[test]
    #[allow(unsafe_code)]
    fn live_bytes_and_their_peak_are_counted() {
        let allocator = CountingAllocator(std::alloc::System);
        let layout = Layout::from_size_align(1000, 8).expect("a valid layout");
        let before = host_usage().current;
        reset_host_peak();
        // SAFETY: the layout is not empty; every block is freed once with the layout it has then.
        unsafe {
            let block = allocator.alloc(layout);
            assert!(!block.is_null());
            assert_eq!(host_usage().current, before + 1000);
            let block = allocator.realloc(block, layout, 5000);
            assert_eq!(host_usage().current, before + 5000);
            let zeroed = allocator.alloc_zeroed(layout);
            assert_eq!(*zeroed, 0);
            assert_eq!(host_usage().current, before + 6000);
            allocator.dealloc(zeroed, layout);
            allocator.dealloc(block, Layout::from_size_align(5000, 8).expect("a valid layout"));
        }
        assert_eq!(host_usage(), HostUsage { current: before, peak: before + 6000 });
        reset_host_peak();
        assert_eq!(host_usage().peak, before);
    }
}
