//! A limit below what the device has.
//!
//! On the CPU the limit is kept by counting live bytes: layers announce what they are about to make, and what would pass
//! the limit is refused with a text that means "out of memory". On a GPU it is kept by holding the rest as ballast, so
//! that the device itself refuses, as a card of that size would.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use burn::tensor::{Device, Tensor};

use crate::counting;

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
    _held: Vec<Tensor<1>>,
}

/// Bytes of one piece of ballast: far below what a device gives to one allocation.
const PIECE: u64 = 256 << 20;

/// Holds `bytes` of a device's memory for as long as the result lives.
///
/// # Errors
/// What the device says if it does not have that much.
pub fn hold_ballast(device: &Device, bytes: u64) -> Result<Ballast, String> {
    let device = device.clone().without_autodiff();
    let mut held = Vec::new();
    let mut left = bytes;
    while left > 0 {
        let piece = left.min(PIECE);
        let elements = piece.div_ceil(size_of::<f32>() as u64) as usize;
        let tensor = Tensor::<1>::ones([elements], &device);
        // Whether it is there shows when some of it is read.
        tensor.clone().narrow(0, 0, 1).try_into_data().map_err(|error| error.to_string())?;
        held.push(tensor);
        left -= piece;
    }
    Ok(Ballast { _held: held })
}

/// The bytes this process may use on a device, if that is known.
pub fn capacity(device: &Device) -> Option<u64> {
    match device.clone().without_autodiff().memory_pool_usage() {
        Some(_) => None,
        None => match HOST_LIMIT.load(Relaxed) {
            NONE => None,
            limit => Some(limit),
        },
    }
}

/// Lets [`peak_since`] start again.
pub fn forget_peak(device: &Device) {
    if device.clone().without_autodiff().memory_pool_usage().is_none() {
        counting::start_window();
    }
}

/// The most bytes in use since [`forget_peak`]; on a GPU those in use now.
pub fn peak_since(device: &Device) -> u64 {
    match device.clone().without_autodiff().memory_pool_usage() {
        Some(pools) => pools.bytes_in_use,
        None => counting::window_peak() as u64,
    }
}
