//! One function decides whether an error is out-of-memory; nothing else looks at error texts.
//!
//! Burn 0.22 has no error type for it: CubeCL's typed errors become text on the way up. The texts below are those of
//! `cubecl-runtime` 0.11.3 (`src/server/base.rs`), the CUDA driver, and Rust's allocator.

use std::any::Any;

use crate::size::MemorySize;

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

/// What stands before the bytes that were asked for.
const ASKED: &str = "out of device memory allocating";

/// Texts that mean memory ran out.
const OUT_OF_MEMORY: [&str; 9] = [
    ASKED,
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

/// The longest reason that is told, in characters.
const LONGEST: usize = 200;

/// What an error's text says in short: how much memory was asked for, or the line that decides what it means. Texts of
/// CubeCL are chains, and their first line says only that something went wrong.
pub fn reason(text: &str) -> String {
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let decisive = |needles: &[&str]| lines().find(|line| needles.iter().any(|needle| line.contains(needle)));
    let told = match classify(text) {
        // The line below names the call that failed.
        Failure::DeviceLost => lines().find(|line| line.contains("failed with status")).map(said_by_driver),
        Failure::TensorTooLarge => {
            bytes_after(text, TOO_LARGE[0]).map(|size| format!("a tensor of {size} is larger than the device allows"))
        }
        Failure::OutOfMemory => bytes_after(text, ASKED)
            .map(|size| format!("the device had no room for {size} more"))
            .or_else(|| decisive(&OUT_OF_MEMORY).map(str::to_string)),
        Failure::Other => lines().find(|line| !VAGUE.contains(line)).map(str::to_string),
    };
    told.unwrap_or_else(|| lines().next().unwrap_or(text).to_string()).chars().take(LONGEST).collect()
}

/// First lines that say nothing.
const VAGUE: [&str; 2] = ["An error happened during execution", "Caused by:"];

/// The size behind a text, as `allocating 4096 bytes` has it.
fn bytes_after(text: &str, needle: &str) -> Option<MemorySize> {
    let (_, rest) = text.split_once(needle)?;
    let digits: String = rest.trim_start_matches([' ', ':']).chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok().map(MemorySize)
}

/// A driver's refusal, with the name of the statuses that users look up.
fn said_by_driver(line: &str) -> String {
    let status = line.rsplit(' ').next().unwrap_or_default();
    let name = match status {
        "214" => " (uncorrectable memory error)",
        "700" => " (illegal address)",
        "702" => " (launch timeout)",
        "710" => " (assertion on the device)",
        "715" => " (illegal instruction)",
        "716" => " (misaligned address)",
        "719" => " (launch failure)",
        _ => "",
    };
    format!("{line}{name}")
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
    fn the_reason_is_what_decides_and_not_the_first_line() {
        let chain =
            "An error happened during execution\nCaused by:\n  out of device memory allocating 103809024 bytes\n";
        let lost = "An error happened during execution\nCaused by:\n  The device is poisoned\nCaused by:\n  \
                    cuLaunchKernel failed with status 700\nBacktrace:\n";
        let cases = [
            (chain, "the device had no room for 99 MiB more"),
            ("can't allocate buffer of size: 68719476736", "a tensor of 64 GiB is larger than the device allows"),
            (lost, "cuLaunchKernel failed with status 700 (illegal address)"),
            ("Should run when selected by autotune.", "Should run when selected by autotune."),
            ("An error happened during execution\nCaused by:\n  Incompatible shapes", "Incompatible shapes"),
            ("Incompatible shapes\nmore", "Incompatible shapes"),
            ("", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(reason(text), expected, "{text}");
        }
    }

    #[test]
    fn a_panic_gives_its_text() {
        for payload in [Box::new("lost") as Box<dyn Any + Send>, Box::new("lost".to_string())] {
            assert_eq!(panic_message(payload.as_ref()), "lost");
        }
    }
}
