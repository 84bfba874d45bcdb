//! Memory: what is in use, and which device errors mean that there was not enough.

mod allocation;
mod budget;
mod counting;
mod failure;
mod limits;
mod meter;
pub mod planner;
mod pools;
mod resident;
mod size;

pub use allocation::{has_pages, with_own_allocations};
pub use budget::{
    Ballast, Granted, PROCESS_BYTES, capacity, counted_room, forget_peak, grant_host, hold_ballast, limit_host,
    on_tight_memory, peak_since, resident_of, without_probes,
};
pub use counting::{CountingAllocator, HostUsage, failed_allocation, host_usage, reset_host_peak};
pub use failure::{Failure, classify, panic_message, reason};
pub use limits::{Rule, SystemLimit, tightest_limit};
pub use meter::{Meter, Usage, observe};
pub use resident::{resident_bytes, resident_peak_bytes};
pub use size::MemorySize;
