//! Memory: what is in use, and which device errors mean that there was not enough.

mod allocation;
mod budget;
mod counting;
mod failure;
mod meter;
pub mod planner;
mod pools;
mod size;

pub use allocation::{has_pages, with_own_allocations};
pub use budget::{Ballast, capacity, forget_peak, hold_ballast, limit_host, peak_since, without_probes};
pub use counting::{CountingAllocator, HostUsage, host_usage, reset_host_peak};
pub use failure::{Failure, classify, panic_message, reason};
pub use meter::{Meter, Usage, observe};
pub use size::MemorySize;
