//! One function decides whether an error is out-of-memory; nothing else looks at error texts.
//!
//! Burn 0.22 has no error type for this: CubeCL's typed errors become text on the way up, and wgpu panics. A table lists every known
//! text with its place in the source, and the tests have a complete message for each.

use std::any::Any;

use crate::size::MemorySize;
use Failure::{DeviceLost, OutOfMemory, TensorTooLarge};

/// What a device error means for the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// There was not enough memory; a smaller plan may fit.
    OutOfMemory,
    /// A tensor is larger than any single allocation of the device, so the same size must not be tried again.
    TensorTooLarge,
    /// The device is lost for this process.
    DeviceLost,
    /// Anything else: an error of the program or of its input.
    Other,
}

impl Failure {
    /// Severity, if a message contains several failures.
    fn rank(self) -> u8 {
        match self {
            Self::Other => 0,
            Self::OutOfMemory => 1,
            Self::TensorTooLarge => 2,
            Self::DeviceLost => 3,
        }
    }
}

/// A part of a message, its meaning, and where it comes from: crate, version, file and line.
struct Known {
    text: &'static str,
    means: Failure,
    #[cfg_attr(not(test), allow(dead_code))] // for readers, and for the test that every entry has one
    source: &'static str,
}

const fn known(means: Failure, text: &'static str, source: &'static str) -> Known {
    Known { text, means, source }
}

const KNOWN: [Known; 15] = [
    known(DeviceLost, "evice is poisoned", "cubecl-runtime 0.11.3, src/server/base.rs:443"),
    known(DeviceLost, "Parent device is lost", "wgpu-core 30.0.1, src/device/mod.rs:345"),
    // More memory does not help if a tensor is larger than any buffer.
    known(TensorTooLarge, TOO_LARGE, "cubecl-runtime 0.11.3, src/server/base.rs:1183"),
    known(OutOfMemory, ASKED, "cubecl-runtime 0.11.3, src/server/base.rs:1201"),
    known(
        OutOfMemory,
        "every page size the memory tracks still holds live allocations",
        "cubecl-runtime 0.11.3, src/server/base.rs:1235",
    ),
    known(
        OutOfMemory,
        "couldn't map storage for a deferred allocation",
        "cubecl-runtime 0.11.3, src/server/base.rs:1288",
    ),
    known(
        OutOfMemory,
        "was never allocated: the reservation behind it failed",
        "cubecl-server 0.11.3, src/memory_management/error_graph.rs:248",
    ),
    // If one of several outputs of a launch was refused, the errors of the others say this instead of the refusal.
    known(
        OutOfMemory,
        "Memory location was never initialized",
        "cubecl-server 0.11.3, src/memory_management/memory_manage.rs:639",
    ),
    known(OutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "cudarc 0.19.10, src/driver/sys/mod.rs:5244"),
    known(OutOfMemory, "wgpu error: Out of Memory", "wgpu 30.0.1, src/backend/wgpu_core.rs:694, src/api/device.rs:941"),
    known(OutOfMemory, "Not enough memory left", "wgpu-core 30.0.1, src/device/mod.rs:347"),
    known(OutOfMemory, "memory allocation of", "Rust 1.95, library/std/src/alloc.rs:374"),
    known(OutOfMemory, "would exceed the memory budget of", "this crate, src/budget.rs, `check_host`"),
    // Autotune panics if no candidate could be launched, which happens when the device is full.
    known(OutOfMemory, "Should run when selected by autotune", "cubecl-runtime 0.11.3, src/tune/local.rs:207 and 224"),
    known(
        OutOfMemory,
        "Can't execute the autotune plan",
        "cubecl-runtime 0.11.3, src/tune/tuner.rs:448, src/tune/schedule.rs:477",
    ),
];

/// The text before the number of requested bytes.
const ASKED: &str = "out of device memory allocating";
/// The text before the size of a tensor that is too large for the device.
const TOO_LARGE: &str = "can't allocate buffer of size";

/// Decides what the text of an error or a panic means. A text with several failures means the most severe one.
pub fn classify(text: &str) -> Failure {
    let meanings = KNOWN.iter().filter(|known| text.contains(known.text)).map(|known| known.means);
    meanings.max_by_key(|failure| failure.rank()).unwrap_or(Failure::Other)
}

/// The length to which a reason is cut, in characters.
const LONGEST: usize = 200;

/// A short form of an error's text: how much memory was requested, or the line that determines its meaning. CubeCL's texts are chains of
/// causes, whose first line only says that something went wrong.
pub fn reason(text: &str) -> String {
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let decisive = || lines().find(|line| classify(line) == Failure::OutOfMemory);
    let told = match classify(text) {
        // The line below names the call that failed.
        Failure::DeviceLost => lines().find(|line| line.contains("failed with status")).map(said_by_driver),
        Failure::TensorTooLarge => {
            bytes_after(text, TOO_LARGE).map(|size| format!("a tensor of {size} is larger than the device allows"))
        }
        Failure::OutOfMemory => bytes_after(text, ASKED)
            .map(|size| format!("the device had no room for {size} more"))
            .or_else(|| decisive().map(str::to_string)),
        Failure::Other => lines().find(|line| !VAGUE.iter().any(|vague| line.starts_with(vague))).map(str::to_string),
    };
    told.unwrap_or_else(|| lines().next().unwrap_or(text).to_string()).chars().take(LONGEST).collect()
}

/// Beginnings of lines without information.
const VAGUE: [&str; 13] = [
    "An error happened during execution",
    "Caused by:",
    "Several failures at once",
    // Of what could not be computed because something before it could not; and "(472 older skip record(s) were dropped; ...".
    "skipped `",
    "(",
    "The bytes were never written",
    "An IO error happened",
    "A launch error happened",
    // Of a kernel that does not compile: the compiler's own words come below.
    "A compilation error happened during launch",
    "An error caused the compilation to fail",
    "A validation error caused the compilation to fail",
    "An unsupported instruction caused the compilation to fail",
    "[Compilation Error]",
];

/// The size after a text, as in `allocating 4096 bytes`.
fn bytes_after(text: &str, needle: &str) -> Option<MemorySize> {
    let (_, rest) = text.split_once(needle)?;
    let digits: String = rest.trim_start_matches([' ', ':']).chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok().map(MemorySize)
}

/// A driver's refusal, with the name of the status, which users can look up.
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

    /// Complete messages, composed from the formats in the sources.
    const MESSAGES: [(&str, Failure); 18] = [
        ("The device is poisoned\nCaused by:\n  illegal address", DeviceLost),
        ("wgpu error: Validation Error\n\nCaused by:\n  In Queue::submit\n    Parent device is lost\n\n", DeviceLost),
        ("can't allocate buffer of size: 68719476736\n   0: cubecl_runtime::server", TensorTooLarge),
        ("out of device memory allocating 1048576 bytes\n", OutOfMemory),
        ("Can't allocate 4096 bytes: every page size the memory tracks still holds live allocations\n", OutOfMemory),
        (
            "couldn't map storage for a deferred allocation of 4096 bytes\nCaused by:\n  no room in the pool",
            OutOfMemory,
        ),
        ("memory 12 was never allocated: the reservation behind it failed", OutOfMemory),
        (
            "Several failures at once\nCaused by:\n  The bytes were never written (failure #7, still claiming 3 buffer(s))\n\
             Caused by:\n  An IO error happened\nCaused by:\n  couldn't find resource for that handle: Memory location was \
             never initialized\nAsked at:\n",
            OutOfMemory,
        ),
        ("CUDA allocation error: DriverError(CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\")", OutOfMemory),
        ("wgpu error: Out of Memory\n", OutOfMemory),
        (
            "wgpu error: Validation Error\n\nCaused by:\n  In Device::create_buffer\n    Not enough memory left.\n",
            OutOfMemory,
        ),
        ("memory allocation of 1073741824 bytes failed", OutOfMemory),
        ("64 bytes more would exceed the memory budget of 1000 bytes, of which 950 are in use", OutOfMemory),
        ("Should run when selected by autotune.: Unknown(\"no kernel\")", OutOfMemory),
        ("Can't execute the autotune plan for key: MatmulKey\n - plan: []\n - results: []", OutOfMemory),
        // A text with several failures means the most severe one.
        (
            "Several failures at once\n skipped `ReduceKernel`: it needed memory 7, which carried the failure\n \
             Caused by:\n  can't allocate buffer of size: 68719476736",
            TensorTooLarge,
        ),
        ("out of device memory allocating 8 bytes\nThe device is poisoned: illegal address", DeviceLost),
        ("The tensors have incompatible shapes", Failure::Other),
    ];

    #[test]
    fn texts_of_the_runtimes_are_told_apart() {
        for (text, expected) in MESSAGES {
            assert_eq!(classify(text), expected, "{text}");
        }
    }

    #[test]
    fn every_known_text_has_a_source_and_decides_a_message_of_its_own() {
        for (index, Known { text, means, source }) in KNOWN.iter().enumerate() {
            assert!(source.contains("src/"), "{text}: {source}");
            let others =
                |message: &str| KNOWN.iter().enumerate().any(|(at, it)| at != index && message.contains(it.text));
            let own =
                |(message, failure): &(&str, Failure)| message.contains(text) && failure == means && !others(message);
            assert!(MESSAGES.iter().any(own), "no message shows what `{text}` means");
        }
    }

    #[test]
    fn the_reason_is_what_decides_and_not_the_first_line() {
        let chain =
            "An error happened during execution\nCaused by:\n  out of device memory allocating 103809024 bytes\n";
        let lost = "An error happened during execution\nCaused by:\n  The device is poisoned\nCaused by:\n  \
                    cuLaunchKernel failed with status 700\nBacktrace:\n";
        let compiled = "An error happened during execution\nCaused by:\n  A compilation error happened during launch\nCaused by:\n  \
                        An error caused the compilation to fail\nCaused by:\n  [Compilation Error] \n    \
                        default_program(5): catastrophic error: cannot open source file \"crt/mma.h\"\n[Source]  \n";
        let cases = [
            (compiled, "default_program(5): catastrophic error: cannot open source file \"crt/mma.h\""),
            (chain, "the device had no room for 99 MiB more"),
            ("can't allocate buffer of size: 68719476736", "a tensor of 64 GiB is larger than the device allows"),
            (lost, "cuLaunchKernel failed with status 700 (illegal address)"),
            ("Should run when selected by autotune.", "Should run when selected by autotune."),
            ("An error happened during execution\nCaused by:\n  Incompatible shapes", "Incompatible shapes"),
            ("Several failures at once\nCaused by:\n  An IO error happened\n  No such copy", "No such copy"),
            (
                "Several failures at once\n skipped `ElemwiseFuse`: it needed memory 7, which carried the failure\nCaused by:\n  \
                 Unable to load the PTX: no",
                "Unable to load the PTX: no",
            ),
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
