//! The threads that compute on the CPU.

use std::num::NonZeroUsize;

/// Threads that this process computes with, unless a launcher divides a machine: as `RAYON_NUM_THREADS` says, otherwise as many as there
/// are cores.
pub(crate) fn usual() -> usize {
    let asked = std::env::var("RAYON_NUM_THREADS").ok().and_then(|text| text.parse().ok());
    asked.filter(|&threads| threads > 0).unwrap_or_else(cores)
}

/// Cores that this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// Makes this thread one of `count` that compute. Otherwise it would hand every operation to `count` others, sleep, and be woken: twelve
/// thousand times a second in a small network, for 5 to 15 % of the time of a step on two cores. Must be called before anything is computed;
/// later it changes nothing.
///
/// One thread alone stays beside this one, so that what other threads ask for is done while this one waits.
pub(crate) fn compute_here(count: usize) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(count);
    let pool = if count > 1 { pool.use_current_thread() } else { pool };
    // A pool that is there already is as good, only slower.
    let _ = pool.build_global();
}
