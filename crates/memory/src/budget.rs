//! A limit below what the device has.
//!
//! On the CPU the limit is kept by counting live bytes: layers announce what they are about to make, and what would pass
//! the limit is refused with a text that means "out of memory". On a GPU it is kept by holding the rest as ballast, so
//! that the device itself refuses, as a card of that size would.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use burn::tensor::Device;

use crate::{counting, pools};

/// No limit.
const NONE: u64 = u64::MAX;

static HOST_LIMIT: AtomicU64 = AtomicU64::new(NONE);

/// Limits the live bytes of this process from now on.
pub fn limit_host(bytes: u64) {
    HOST_LIMIT.store(bytes, Relaxed);
    kindling_layers::room::keep(check_host);
}

/// Whether `bytes` more fit.
fn check_host(bytes: usize) -> Result<(), String> {
    let limit = HOST_LIMIT.load(Relaxed);
    let current = counting::host_usage().current as u64;
    // The last tenth is for what Burn's own operations allocate between two announcements.
    if current.saturating_add(bytes as u64) <= limit - limit / 10 {
        return Ok(());
    }
    Err(format!("{bytes} bytes more would exceed the memory budget of {limit} bytes, of which {current} are in use"))
}

/// Memory of a device that is held and not used.
#[derive(Debug)]
pub struct Ballast {
    _held: pools::Apart,
}

/// Holds `bytes` of a device's memory for as long as the result lives, outside of the pools that tensors come from: exactly
/// as much as was asked for, up to what the driver rounds an allocation to.
///
/// # Errors
/// What the device says if it does not have that much, or that it has no memory of its own.
pub fn hold_ballast(device: &Device, bytes: u64) -> Result<Ballast, String> {
    match pools::hold(device, bytes) {
        Some(held) => Ok(Ballast { _held: held? }),
        None => Err("the device has no memory of its own to hold".to_string()),
    }
}

/// Keeps CubeCL from measuring how fast a device's memory is, for which it would fetch up to half of it beside what a run
/// needs. On devices that tune no kernels nothing is to be done.
pub fn without_probes(device: &Device) {
    pools::without_probes(device);
}

/// The bytes this process may use on a device, if that is known.
pub fn capacity(device: &Device) -> Option<u64> {
    match pools::pools(device) {
        Some(_) => None,
        None => match HOST_LIMIT.load(Relaxed) {
            NONE => None,
            limit => Some(limit),
        },
    }
}

/// Lets [`peak_since`] start again.
pub fn forget_peak(device: &Device) {
    if pools::pools(device).is_none() {
        counting::start_window();
    }
}

/// The most bytes in use since [`forget_peak`]; on a GPU those in use now.
pub fn peak_since(device: &Device) -> u64 {
    match pools::pools(device) {
        Some(pools) => pools.in_use,
        None => counting::window_peak() as u64,
    }
}
