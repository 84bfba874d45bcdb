//! A limit below what the device has.
//!
//! On the CPU the limit is what a user's limit counts: the memory that the process occupies. It is kept in two ways. Layers,
//! checkpoints and decoders announce what they are about to make, and what would pass the share of the limit that is left
//! for counted bytes is refused with a text that means "out of memory"; that share is the one `kindling plan` works with. And
//! where the process itself, measured, would pass the limit, free pages are given back to the system, and if that is not
//! enough, what was announced is refused. On a GPU the limit is kept by holding the rest as ballast, so that the device
//! itself refuses, as a card of that size would.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};

use burn::tensor::Device;
use kindling_given::in_units;

use crate::{counting, limits, pools, resident};

/// No limit.
const NONE: u64 = u64::MAX;

static HOST_LIMIT: AtomicU64 = AtomicU64::new(NONE);
/// Bytes that were granted to be made soon, by others than the one who asks.
static GRANTED: AtomicU64 = AtomicU64::new(0);
static ASKING: Mutex<()> = Mutex::new(());
/// Whether allocations may fail, so that they are better tried before they are relied on.
static TRY_FIRST: AtomicBool = AtomicBool::new(false);
static GIVE_BACK: OnceLock<fn()> = OnceLock::new();

/// What the process occupies beside what is counted: its code, its stacks, and what the allocator keeps of its own.
pub const PROCESS_BYTES: u64 = 60 << 20;
/// One part in so many of the counted bytes is added by the allocator, which rounds up and leaves gaps.
const ALLOCATOR_SHARE: u64 = 8;

/// One part in so many of a limit is what the process may pass it by where the count says that there is room: what other
/// threads have freed cannot always be given back, and a plan that fits is to run.
const TOLERANCE: u64 = 32;

/// What a process occupies whose counted bytes are `counted` at their peak.
pub fn resident_of(counted: u64) -> u64 {
    counted.saturating_add(counted / ALLOCATOR_SHARE).saturating_add(PROCESS_BYTES)
}

/// The counted bytes that a budget has room for: the most whose [`resident_of`] is within it.
pub fn counted_room(budget: u64) -> u64 {
    let bytes = budget.saturating_sub(PROCESS_BYTES);
    bytes - bytes / (ALLOCATOR_SHARE + 1)
}

/// Limits the memory that this process occupies from now on.
pub fn limit_host(bytes: u64) {
    HOST_LIMIT.store(bytes, Relaxed);
    TRY_FIRST.store(limits::allocations_may_fail(), Relaxed);
    kindling_ops::reserve::keep(check_host);
}

/// Says how the allocator gives free pages back to the system. Only the first of several is taken.
pub fn on_tight_memory(give_back: fn()) {
    let _ = GIVE_BACK.set(give_back);
}

/// Gives free pages back to the system.
pub(crate) fn give_back() {
    if let Some(give_back) = GIVE_BACK.get() {
        give_back();
    }
}

/// Whether `bytes` more fit.
fn check_host(bytes: usize) -> Result<(), String> {
    let limit = HOST_LIMIT.load(Relaxed);
    let asked = bytes as u64;
    let current = (counting::host_usage().current as u64).saturating_add(GRANTED.load(Relaxed));
    let room = counted_room(limit);
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

/// Gives free pages back to the system if the process would pass its limit with `bytes` more and all that others were
/// granted, which they may be about to write to. Does not panic.
pub(crate) fn keep_resident(bytes: u64) {
    let limit = HOST_LIMIT.load(Relaxed);
    if limit != NONE && beyond(limit, bytes.saturating_add(GRANTED.load(Relaxed))).is_some() {
        give_back();
    }
}

/// What the process occupies, if with `bytes` more that would be beyond `most`.
fn beyond(most: u64, bytes: u64) -> Option<u64> {
    resident::resident_bytes().filter(|resident| resident.saturating_add(bytes) > most)
}

/// Whether the process may grow by `asked` bytes, after giving back what is free if that is what it takes. Of what others were
/// granted some is resident already, so that it is not added up for a refusal: the count does that.
fn check_resident(asked: u64, limit: u64) -> Result<(), String> {
    keep_resident(asked);
    if limit == NONE {
        return Ok(());
    }
    beyond(limit.saturating_add(limit / TOLERANCE), asked).map_or(Ok(()), |resident| {
        Err(format!(
            "{} more beside a process of {} would exceed the memory budget of {}",
            in_units(asked),
            in_units(resident),
            in_units(limit)
        ))
    })
}

/// Bytes that a budget was asked for and granted. Dropped, they may be had by others.
#[derive(Debug)]
pub struct Granted {
    bytes: u64,
}

impl Drop for Granted {
    fn drop(&mut self) {
        GRANTED.fetch_sub(self.bytes, Relaxed);
    }
}

/// Asks for `bytes` of host memory that will be allocated while the answer lives.
///
/// # Errors
/// The sentence of a refusal.
pub fn grant_host(bytes: u64) -> Result<Granted, String> {
    // One after the other, so that two cannot be granted what is enough for one.
    let _asking = ASKING.lock().unwrap_or_else(PoisonError::into_inner);
    check_host(usize::try_from(bytes).unwrap_or(usize::MAX))?;
    GRANTED.fetch_add(bytes, Relaxed);
    Ok(Granted { bytes })
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

/// The bytes this process may use on a device, if that is known: on the CPU, of those that are counted.
pub fn capacity(device: &Device) -> Option<u64> {
    match pools::pools(device) {
        Some(_) => None,
        None => match HOST_LIMIT.load(Relaxed) {
            NONE => None,
            limit => Some(counted_room(limit)),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_into_a_budget_and_what_a_process_takes_are_the_same_sum() {
        for budget in [100 << 20, 140 << 20, (1 << 30) + 7, 1 << 40] {
            let room = counted_room(budget);
            assert!(resident_of(room) <= budget, "{room} of {budget}");
            assert!(resident_of(room + 16) > budget, "{room} of {budget}");
        }
        assert_eq!(counted_room(PROCESS_BYTES), 0);
        assert_eq!(counted_room(0), 0);
    }
}
