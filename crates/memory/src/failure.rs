//! One function decides whether an error is out-of-memory; nothing else looks at error texts.
//!
//! Burn 0.22 has no error type for it: typed errors of CubeCL become text on the way up, and wgpu panics. Every text that is
//! known stands in a table with the place in the source it was read from; the tests have a whole message for each.

use std::any::Any;

use Failure::{DeviceLost, OutOfMemory, TensorTooLarge};

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

impl Failure {
    /// How bad it is among others in one message.
    fn rank(self) -> u8 {
        match self {
            Self::Other => 0,
            Self::OutOfMemory => 1,
            Self::TensorTooLarge => 2,
            Self::DeviceLost => 3,
        }
    }
}

/// A part of a message that tells what it means, and where it comes from: crate, version, file and line.
struct Known {
    text: &'static str,
    means: Failure,
    #[cfg_attr(not(test), allow(dead_code))] // for people, and for the test that nothing is without
    source: &'static str,
}

const fn known(means: Failure, text: &'static str, source: &'static str) -> Known {
    Known { text, means, source }
}

const KNOWN: [Known; 14] = [
    known(DeviceLost, "evice is poisoned", "cubecl-runtime 0.11.3, src/server/base.rs:443"),
    known(DeviceLost, "Parent device is lost", "wgpu-core 30.0.1, src/device/mod.rs:345"),
    // More memory does not help where a tensor is larger than any buffer.
    known(TensorTooLarge, "can't allocate buffer of size", "cubecl-runtime 0.11.3, src/server/base.rs:1183"),
    known(OutOfMemory, "out of device memory allocating", "cubecl-runtime 0.11.3, src/server/base.rs:1201"),
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
    known(OutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "cudarc 0.19.10, src/driver/sys/mod.rs:5244"),
    known(OutOfMemory, "wgpu error: Out of Memory", "wgpu 30.0.1, src/backend/wgpu_core.rs:694, src/api/device.rs:941"),
    known(OutOfMemory, "Not enough memory left", "wgpu-core 30.0.1, src/device/mod.rs:347"),
    known(OutOfMemory, "memory allocation of", "Rust 1.95, library/std/src/alloc.rs:374"),
    known(OutOfMemory, "would exceed the memory budget of", "this crate, src/budget.rs, `check_host`"),
    // Autotune panics when nothing it tried could be launched, which happens when the device is full.
    known(OutOfMemory, "Should run when selected by autotune", "cubecl-runtime 0.11.3, src/tune/local.rs:207 and 224"),
    known(
        OutOfMemory,
        "Can't execute the autotune plan",
        "cubecl-runtime 0.11.3, src/tune/tuner.rs:448, src/tune/schedule.rs:477",
    ),
];

/// Decides what the text of an error or of a panic means. A group of errors is as bad as its worst member.
pub fn classify(text: &str) -> Failure {
    let meanings = KNOWN.iter().filter(|known| text.contains(known.text)).map(|known| known.means);
    meanings.max_by_key(|failure| failure.rank()).unwrap_or(Failure::Other)
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

    /// Whole messages, put together from the formats that the sources name.
    const MESSAGES: [(&str, Failure); 17] = [
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
        // A group is as bad as its worst member.
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
    fn a_panic_gives_its_text() {
        for payload in [Box::new("lost") as Box<dyn Any + Send>, Box::new("lost".to_string())] {
            assert_eq!(panic_message(payload.as_ref()), "lost");
        }
    }
}
