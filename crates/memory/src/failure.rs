//! One function decides whether an error is out-of-memory; nothing else looks at error texts.
//!
//! Burn 0.22 has no error type for it: CubeCL's typed errors become text on the way up. The texts below are those of
//! `cubecl-runtime` 0.11.3 (`src/server/base.rs`), the CUDA driver, and Rust's allocator.

use std::any::Any;

/// What a device error means for the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// There was not enough memory; less work may fit.
    OutOfMemory,
    /// One tensor is larger than the device can ever hold in one piece; the same size must not be tried again.
    TensorTooLarge,
    /// The device is lost to this process.
    DeviceLost,
    /// Anything else: an error of the program or of its input.
    Other,
}

/// Texts that mean one tensor is too large, whatever is freed.
const TOO_LARGE: [&str; 1] = ["can't allocate buffer of size"];

/// Texts that mean memory ran out.
const OUT_OF_MEMORY: [&str; 9] = [
    "out of device memory allocating",
    "every page size the memory tracks still holds live allocations",
    "couldn't map storage for a deferred allocation",
    "was never allocated: the reservation behind it failed",
    "CUDA_ERROR_OUT_OF_MEMORY",
    "memory allocation of",
    "would exceed the memory budget of",
    // Autotune panics when nothing it tried could be launched, which happens when the device is full
    // (`cubecl-runtime`, `src/tune/local.rs` and `schedule.rs`).
    "Should run when selected by autotune",
    "Can't execute the autotune plan",
];

/// Decides what the text of an error or of a panic means. A group of errors is as bad as its worst member.
pub fn classify(text: &str) -> Failure {
    if text.contains("evice is poisoned") {
        Failure::DeviceLost
    } else if TOO_LARGE.iter().any(|needle| text.contains(needle)) {
        Failure::TensorTooLarge
    } else if OUT_OF_MEMORY.iter().any(|needle| text.contains(needle)) {
        Failure::OutOfMemory
    } else {
        Failure::Other
    }
}

/// The text of a caught panic.
pub fn panic_message(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_string()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic without a message".to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_runtimes_are_told_apart() {
        let cases = [
            ("out of device memory allocating 1048576 bytes", Failure::OutOfMemory),
            (
                "Can't allocate 4096 bytes: every page size the memory tracks still holds live allocations",
                Failure::OutOfMemory,
            ),
            ("memory 12 was never allocated: the reservation behind it failed", Failure::OutOfMemory),
            ("can't allocate buffer of size: 68719476736", Failure::TensorTooLarge),
            (
                "Several failures at once\n skipped `ReduceKernel`: it needed memory 7, which carried the failure\n \
                 Caused by:\n  can't allocate buffer of size: 68719476736",
                Failure::TensorTooLarge,
            ),
            ("out of device memory allocating 8 bytes\nThe device is poisoned: illegal address", Failure::DeviceLost),
            ("The tensors have incompatible shapes", Failure::Other),
        ];
        for (text, expected) in cases {
            assert_eq!(classify(text), expected, "{text}");
        }
    }

    #[test]
    fn a_panic_gives_its_text() {
        for payload in [Box::new("lost") as Box<dyn Any + Send>, Box::new("lost".to_string())] {
            assert_eq!(panic_message(payload.as_ref()), "lost");
        }
    }
}
