//! Memory: what is in use, and which device errors mean that there was not enough.

mod budget;
mod counting;
mod failure;
mod limits;
mod meter;
pub mod planner;
mod resident;
mod size;

pub use budget::{
    Ballast, Granted, PROCESS_BYTES, capacity, counted_room, forget_peak, grant_host, hold_ballast, limit_host,
    on_tight_memory, peak_since, resident_of,
};
pub use counting::{CountingAllocator, HostUsage, failed_allocation, host_usage, reset_host_peak};
pub use failure::{Failure, classify, panic_message};
pub use limits::{Rule, SystemLimit, tightest_limit};
pub use meter::{Meter, Usage};
pub use resident::{resident_bytes, resident_peak_bytes};
pub use size::MemorySize;
