//! Memory budgets: limits below what the device has.
//!
//! On the CPU, the limit applies to the memory that the process occupies, as a limit set by the system would. It is enforced in two
//! ways. First, layers, checkpoints and decoders reserve the memory of their allocations. A reservation that would exceed the part of the limit
//! that is available for counted bytes is refused with a text that means "out of memory". `kindling plan` uses the same part. Second, if
//! the measured size of the process would exceed the limit, free pages are returned to the system, and if that is not enough, the
//! reservation is refused. On a GPU, the rest of the memory is held as ballast, so that the device itself refuses allocations as a
//! card of that size would.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use burn::tensor::Device;
use kindling_given::in_units;

use crate::tight::{self, NONE};
use crate::{heap, large, limits, pools, resident};

static ASKING: Mutex<()> = Mutex::new(());
/// Whether allocations can fail, so that they should be tried before they are relied on.
static TRY_FIRST: AtomicBool = AtomicBool::new(false);

/// Bytes that the process occupies besides counted bytes: code, stacks, and the allocator's own data. Measured are 60 to 68 MiB, by the
/// machine and by what of the code a run needs.
pub const PROCESS_BYTES: u64 = 68 << 20;
/// The allocator, which rounds up and leaves gaps, adds one part in this many to the counted bytes.
const ALLOCATOR_SHARE: u64 = 8;

/// If the counted bytes are within the limit, the process may exceed it by one part in this many. Memory that other threads have freed
/// cannot always be returned to the system, and a plan that fits must run.
const TOLERANCE: u64 = 64;

/// The size of a process whose counted bytes are `counted` at their peak.
pub fn resident_of(counted: u64) -> u64 {
    counted.saturating_add(counted / ALLOCATOR_SHARE).saturating_add(PROCESS_BYTES)
}

/// The most counted bytes whose [`resident_of`] is within a budget.
pub fn counted_within(budget: u64) -> u64 {
    let bytes = budget.saturating_sub(PROCESS_BYTES);
    bytes - bytes / (ALLOCATOR_SHARE + 1)
}

/// Limits the memory that this process occupies from now on.
pub fn limit_host(bytes: u64) {
    tight::set_limit(bytes);
    TRY_FIRST.store(limits::allocations_may_fail(), Relaxed);
    kindling_ops::reserve::keep(check_host);
}

/// Whether `bytes` more fit.
fn check_host(bytes: usize) -> Result<(), String> {
    let limit = tight::limit();
    let asked = bytes as u64;
    let current = (heap::host_usage().current as u64).saturating_add(tight::granted());
    let room = counted_within(limit);
    if current.saturating_add(asked) > room {
        let process = limit - room;
        return Err(format!(
            "{} more beside {} in use would exceed the memory budget of {}, {} of which are for the process itself",
            in_units(asked),
            in_units(current),
            in_units(limit),
            in_units(process)
        ));
    }
    check_resident(asked, limit)?;
    if TRY_FIRST.load(Relaxed) {
        let mut tried: Vec<u8> = Vec::new();
        let outcome = tried.try_reserve_exact(bytes);
        std::hint::black_box(&mut tried);
        outcome.map_err(|_| {
            format!("memory allocation of {} failed beside {} in use", in_units(asked), in_units(current))
        })?;
    }
    Ok(())
}

/// Whether the process may grow by `asked` bytes, if necessary after returning free pages; those of large blocks can be used again or
/// returned at any time. Granted bytes are not added here, because a part of them is resident already; the count takes care of them.
fn check_resident(asked: u64, limit: u64) -> Result<(), String> {
    if limit == NONE {
        return Ok(());
    }
    let beyond = |most: u64| {
        let used = resident::resident_bytes()?.saturating_sub(large::kept_bytes());
        (used.saturating_add(asked) > most).then_some(used)
    };
    if beyond(limit).is_some() {
        large::give_back();
    }
    beyond(limit.saturating_add(limit / TOLERANCE)).map_or(Ok(()), |used| {
        Err(format!(
            "{} more beside a process of {} would exceed the memory budget of {}",
            in_units(asked),
            in_units(used),
            in_units(limit)
        ))
    })
}

/// Bytes that were granted from a budget. Dropping this releases them.
#[derive(Debug)]
pub struct Granted {
    bytes: u64,
}

impl Drop for Granted {
    fn drop(&mut self) {
        tight::take_back(self.bytes);
    }
}

/// Requests `bytes` of host memory that will be allocated while the result lives.
///
/// # Errors
/// The sentence of a refusal.
pub fn grant_host(bytes: u64) -> Result<Granted, String> {
    // One request at a time, so that two are not granted what is enough for one.
    let _asking = ASKING.lock().unwrap_or_else(PoisonError::into_inner);
    check_host(usize::try_from(bytes).unwrap_or(usize::MAX))?;
    tight::grant(bytes);
    Ok(Granted { bytes })
}

/// Device memory that is held and not used.
#[derive(Debug)]
pub struct Ballast {
    _held: pools::Apart,
}

/// Holds `bytes` of a device's memory while the result lives, outside the pools that tensors come from: exactly this much, up to the
/// rounding of the driver.
///
/// # Errors
/// The device's error message if it does not have that much, or a sentence if it has no memory of its own.
pub fn hold_ballast(device: &Device, bytes: u64) -> Result<Ballast, String> {
    match pools::hold(device, bytes) {
        Some(held) => Ok(Ballast { _held: held? }),
        None => Err("the device has no memory of its own to hold".to_string()),
    }
}

/// The bytes that this process may use on a device, if that is known; on the CPU, counted bytes.
pub fn capacity(device: &Device) -> Option<u64> {
    match pools::pools(device) {
        Some(_) => None,
        None => match tight::limit() {
            NONE => None,
            limit => Some(counted_within(limit)),
        },
    }
}

/// Restarts [`peak_since`].
pub fn forget_peak(device: &Device) {
    if pools::pools(device).is_none() {
        heap::start_window();
    }
}

/// The most bytes in use since [`forget_peak`]; on a GPU, the bytes in use now.
pub fn peak_since(device: &Device) -> u64 {
    match pools::pools(device) {
        Some(pools) => pools.in_use,
        None => heap::window_peak() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_into_a_budget_and_what_a_process_takes_are_the_same_sum() {
        for budget in [100 << 20, 140 << 20, (1 << 30) + 7, 1 << 40] {
            let room = counted_within(budget);
            assert!(resident_of(room) <= budget, "{room} of {budget}");
            assert!(resident_of(room + 16) > budget, "{room} of {budget}");
        }
        assert_eq!(counted_within(PROCESS_BYTES), 0);
        assert_eq!(counted_within(0), 0);
    }
}
