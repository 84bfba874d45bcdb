//! When memory is tight: the limit of the process, what was granted of it, and the allocator of small blocks, which then returns its free
//! pages.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::resident;

/// No limit.
pub(crate) const NONE: u64 = u64::MAX;

/// What a process grows by between two looks at its size: code that is read for the first time, small blocks, and pages that the system counts
/// late. Measured are 4.5 to 8.5 MiB.
const UNSEEN: u64 = 16 << 20;

static LIMIT: AtomicU64 = AtomicU64::new(NONE);
/// Bytes that were granted and are about to be allocated.
static GRANTED: AtomicU64 = AtomicU64::new(0);
static GIVE_BACK: OnceLock<fn()> = OnceLock::new();

/// The most memory that this process may occupy, or [`NONE`].
pub(crate) fn limit() -> u64 {
    LIMIT.load(Relaxed)
}

pub(crate) fn set_limit(bytes: u64) {
    LIMIT.store(bytes, Relaxed);
}

/// Bytes that were granted and are about to be allocated.
pub(crate) fn granted() -> u64 {
    GRANTED.load(Relaxed)
}

pub(crate) fn grant(bytes: u64) {
    GRANTED.fetch_add(bytes, Relaxed);
}

pub(crate) fn take_back(bytes: u64) {
    GRANTED.fetch_sub(bytes, Relaxed);
}

/// Sets the function that returns free pages of the allocator to the system. Only the first call counts.
pub fn on_tight_memory(give_back: fn()) {
    let _ = GIVE_BACK.set(give_back);
}

/// Returns free pages of the allocator to the system.
pub(crate) fn give_back() {
    if let Some(give_back) = GIVE_BACK.get() {
        give_back();
    }
}

/// How many bytes the process would exceed its limit by, with `bytes` of new pages, everything that was granted, which may be written to at
/// any moment, and what nobody sees coming. Does not panic.
pub(crate) fn beyond(bytes: u64) -> Option<u64> {
    let limit = limit();
    if limit == NONE {
        return None;
    }
    let all = resident::resident_bytes()?.saturating_add(bytes).saturating_add(granted()).saturating_add(UNSEEN);
    all.checked_sub(limit).filter(|beyond| *beyond > 0)
}
