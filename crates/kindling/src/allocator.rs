//! The allocator of the process, and how long it keeps what is free.

use std::ffi::{c_int, c_long};

use kindling_memory::{CountingAllocator, LargeBlocks, on_tight_memory};
use mimalloc::MiMalloc;

/// Keeps the pages of tensors, which glibc returns to the kernel: half of a CPU step otherwise goes into page faults. Large blocks lie side
/// by side, all others are mimalloc's. Around both, live bytes are counted for the peak every run reports.
#[global_allocator]
static ALLOCATOR: CountingAllocator<LargeBlocks<MiMalloc>> = CountingAllocator(LargeBlocks(MiMalloc));

/// `mi_option_purge_delay` of `mi_option_t` in mimalloc's header, versions 2 and 3; the crate does not name it.
const PURGE_DELAY: c_int = 15;
/// Longer than a step takes, which needs the same pages again.
const MILLISECONDS: c_long = 60_000;

/// Keeps free pages for a minute instead of a second. A step that takes longer than the allocator waits has every page
/// taken away and cleared again: 14 % of the time of MobileNetV2's with 16 images at 512x512 on 2 cores. `MIMALLOC_PURGE_DELAY` says otherwise if it is set.
///
/// Where memory gets tight, what is free is given back at once, whatever its age.
///
/// # Safety argument
/// `mi_option_set_default` takes two integers, checks the first against its table, and stores the second; it is not
/// safe beside other threads that read options, and none has been started where `main` begins. `mi_collect`
/// takes a truth value and may be called from any thread at any time; it frees nothing that is in use.
#[allow(unsafe_code)]
pub(crate) fn keep_pages() {
    // SAFETY: above.
    unsafe { libmimalloc_sys::mi_option_set_default(PURGE_DELAY, MILLISECONDS) }
    // SAFETY: above.
    on_tight_memory(|| unsafe { libmimalloc_sys::mi_collect(true) });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(unsafe_code)]
    fn pages_are_kept_for_longer_than_a_step_unless_the_environment_says_otherwise() {
        // SAFETY: an integer that is checked against a table; nothing is written.
        let delay = || unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) };
        let before = delay();
        keep_pages();
        if std::env::var_os("MIMALLOC_PURGE_DELAY").is_some() {
            assert_eq!(delay(), before);
        } else {
            assert_eq!((before, delay()), (1000, MILLISECONDS), "this option's default is a second in mimalloc 3");
        }
    }
}
