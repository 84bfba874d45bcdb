//! Attempts whose panics may mean a lack of memory.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

use kindling_memory::{Failure, classify, panic_message};

/// Why an attempt failed.
pub(crate) enum Failed {
    /// The error message of the device.
    Error(String),
    /// The payload of a panic.
    Panic(Box<dyn Any + Send>),
}

impl Failed {
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Error(text) => text.clone(),
            Self::Panic(payload) => panic_message(payload.as_ref()),
        }
    }
}

thread_local! {
    static TRYING: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`; a panic in it is a failure. The caller must discard what `work` has changed if it fails.
pub(crate) fn attempt<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, Failed> {
    TRYING.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(work));
    TRYING.set(false);
    match outcome {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(text)) => Err(Failed::Error(text)),
        Err(payload) => Err(Failed::Panic(payload)),
    }
}

/// From now on a panic inside [`attempt`] that means a lack of memory is not announced: it is about to be dealt with, and
/// Burn's dashboard would leave the screen for it. All others reach the hook that was there before.
pub(crate) fn expect_lack_of_memory() {
    let before = take_hook();
    set_hook(Box::new(move |panic| {
        let lacks_memory = |text| matches!(classify(text), Failure::OutOfMemory | Failure::TensorTooLarge);
        if !(TRYING.get() && panic.payload_as_str().is_some_and(lacks_memory)) {
            before(panic);
        }
    }));
}
