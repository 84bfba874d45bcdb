//! Memory: how much is in use, how much a step will need, and which device errors mean that there was not enough.
//!
//! | module | holds |
//! |---|---|
//! | `counting`, `heap` | an allocator that counts, and the live bytes of the process's heap that it counted |
//! | `large` | where large blocks lie, and their pages |
//! | `resident` | the size of the process according to the system |
//! | `limits`, `budget`, `tight`, `size` | the tightest limit of the system, a budget below it, what happens when it is near, and amounts of memory as text |
//! | `meter`, `pools`, `allocation` | memory in use on a device, CubeCL's pools, and separate allocations instead of pages |
//! | `failure` | the meaning of an error's text |
//! | `plan` | the plan of a step, which planner, policy and command share |
//! | `pages` | how tensors lie in CubeCL's pages, and the pages that a run takes in advance |
//! | [`planner`] | simulates the allocations of a step and counts its work, from the trace alone |

mod allocation;
mod budget;
mod counting;
mod failure;
mod heap;
mod large;
mod limits;
mod meter;
mod pages;
mod plan;
pub mod planner;
mod pools;
mod resident;
mod size;
mod tight;

pub use allocation::{has_pages, take_pages, with_own_allocations};
pub use budget::{
    Ballast, Granted, PROCESS_BYTES, capacity, counted_within, forget_peak, grant_host, hold_ballast, limit_host,
    peak_since, resident_of,
};
pub use counting::{CountingAllocator, failed_allocation};
pub use failure::{Failure, classify, panic_message, reason};
pub use heap::{HostUsage, host_usage, reset_host_peak};
pub use large::LargeBlocks;
pub use limits::{Rule, SystemLimit, tightest_limit};
pub use meter::{Meter, Usage, observe};
pub use pages::Pages;
pub use plan::Plan;
pub use resident::{resident_bytes, resident_peak_bytes};
pub use size::MemorySize;
pub use tight::on_tight_memory;
