//! Memory is reserved for an image before it is decoded.
//!
//! How much a decoder takes is known from the header. Where a memory budget is kept, it is asked first, and a loader's
//! thread waits until others have let go of what they hold, so that fewer decode at once when memory is tight. It gives up
//! only when nothing is left to wait for.

use std::any::Any;
use std::cell::RefCell;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::error::DataError;

/// Grants bytes for as long as its answer lives, or refuses with a sentence.
pub type Keeper = fn(bytes: u64) -> Result<Box<dyn Any>, String>;

static KEEPER: OnceLock<Keeper> = OnceLock::new();
/// Decoders that hold what they were granted.
static HOLDING: AtomicUsize = AtomicUsize::new(0);
/// What is smaller than this is not asked for.
const SMALL: u64 = 1 << 20;
/// The time between two attempts of a thread that waits.
const PAUSE: Duration = Duration::from_millis(10);

/// Refusals in a row, while no other thread holds memory, before giving up.
const TRIES: u32 = 100;

thread_local! {
    /// Set while the thread that this one works for only waits for it.
    static AWAITED: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Lets `keeper` be asked from now on, for the life of the process. Returns whether it is the first.
pub fn keep_decoders_within(keeper: Keeper) -> bool {
    KEEPER.set(keeper).is_ok()
}

/// Makes this thread work for another, which sets the flag while it only waits. Until then the other may still free memory.
pub(crate) fn work_for(awaited: Arc<AtomicBool>) {
    AWAITED.set(Some(awaited));
}

/// Memory that a decoder was granted, given back when this is dropped.
pub(crate) struct Reserved(#[expect(dead_code, reason = "held, and let go when dropped")] Option<Held>);

struct Held(Option<Box<dyn Any>>);

impl Drop for Held {
    fn drop(&mut self) {
        // First the bytes, then the word that they are held.
        self.0 = None;
        HOLDING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Reserves what decoding a file takes. Ask once for all of it: a thread that holds some and waits for more may wait for ever.
///
/// # Errors
/// [`DataError::ReservationRefused`] if it is refused and no other thread holds memory that could become free.
pub(crate) fn reserve(path: &Path, bytes: u64) -> Result<Reserved, DataError> {
    let Some(keeper) = KEEPER.get().filter(|_| bytes >= SMALL) else { return Ok(Reserved(None)) };
    let mut in_vain = 0;
    loop {
        // Looked at first: what becomes free after the refusal is found at the next question.
        let others = HOLDING.load(Ordering::SeqCst) > 0;
        let awaited = AWAITED.with_borrow(|flag| flag.as_ref().is_none_or(|flag| flag.load(Ordering::SeqCst)));
        match keeper(bytes) {
            Ok(granted) => {
                HOLDING.fetch_add(1, Ordering::SeqCst);
                return Ok(Reserved(Some(Held(Some(granted)))));
            }
            // What another has decoded is in use for a moment longer than what it was granted.
            Err(_) if others || !awaited || in_vain < TRIES => {
                in_vain = if others || !awaited { 0 } else { in_vain + 1 };
                std::thread::sleep(PAUSE);
            }
            Err(reason) => return Err(DataError::ReservationRefused { path: path.to_owned(), bytes, reason }),
        }
    }
}
