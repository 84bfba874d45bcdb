//! Memory: what is in use, and which device errors mean that there was not enough.

mod counting;
mod failure;
mod meter;

pub use counting::{CountingAllocator, HostUsage, host_usage, reset_host_peak};
pub use failure::{Failure, classify, panic_message};
pub use meter::{Meter, Usage};
