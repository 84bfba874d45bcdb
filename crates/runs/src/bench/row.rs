//! One configuration measured in one process.

use std::collections::BTreeMap;

use kindling_metrics::Quartiles;
use serde::{Deserialize, Serialize};

use super::Configuration;
use crate::Environment;

/// How a row is timed. It changes how precise a figure is, and not what the figure measures.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Protocol {
    /// Steps before the first window: kernels are compiled, memory is fetched.
    pub warmup: usize,
    /// How many windows are timed.
    pub windows: usize,
    /// A window ends with the first step after so many seconds.
    pub window_seconds: f64,
}

/// A measured row, or one that failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The engine that computed: `kindling` or `pytorch`.
    pub engine: String,
    /// What the engine was free to choose, e.g. the memory layout; rows that differ in it alone are alike.
    #[serde(default)]
    pub variant: Option<String>,
    /// Everything that decides what was computed.
    pub configuration: Configuration,
    /// [`Configuration::hash`] of the configuration.
    pub configuration_hash: String,
    /// Warm-up, number and length of the windows.
    pub protocol: Protocol,
    /// The figures, or why there are none.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Versions of the software, by name.
    #[serde(default)]
    pub software: BTreeMap<String, String>,
    /// The machine and the versions that the row was measured on.
    pub environment: Environment,
    /// The state of the machine.
    #[serde(default)]
    pub conditions: Conditions,
    /// What a reader has to know.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The figures of a row, or why there are none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(clippy::large_enum_variant)] // few rows
pub enum Outcome {
    /// The row was measured.
    Measured(Measured),
    /// The row failed.
    Failed(Failure),
}

/// The figures of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Images a second, over the windows.
    pub images_per_second: Quartiles,
    /// Seconds of a step, over all steps of all windows.
    pub step_seconds: Quartiles,
    /// Seconds of the very first step, which compiles kernels.
    pub first_step_seconds: f64,
    /// Every window.
    pub windows: Vec<Window>,
    /// Steps in all windows.
    pub steps: u64,
    /// Samples computed at once, at the end.
    pub micro_batch: usize,
    /// How often memory ran out and a step was done again, warm-up included.
    pub recoveries: u64,
    /// Updates left out because a gradient of a half format was not finite, warm-up included.
    pub skipped_updates: u64,
    /// Loss of the last step, of training rows.
    pub loss: Option<f64>,
    /// Memory used.
    pub memory: MemoryUsed,
    /// Energy of the windows, where the device tells it.
    pub energy: Option<Energy>,
}

/// A stretch of time with whole steps.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Images computed in the window.
    pub images: u64,
    /// Length of the window in seconds.
    pub seconds: f64,
}

impl Window {
    /// Images a second.
    pub fn speed(&self) -> f64 {
        self.images as f64 / self.seconds
    }
}

/// The most memory a row used. What cannot be found out is none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryUsed {
    /// Bytes of live tensors on the device; on the CPU of everything live in the process's heap.
    pub peak_in_use_bytes: Option<u64>,
    /// Bytes the engine's allocator held on the device, in use or kept for later.
    pub peak_reserved_bytes: Option<u64>,
    /// Resident memory of the process on the host, as the system counts it.
    pub peak_process_bytes: Option<u64>,
    /// How the first two were seen.
    pub how: String,
}

/// Energy of a device.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Energy {
    /// Joules of the whole device while the windows ran.
    pub joules: f64,
    /// Those joules, divided by the number of images.
    pub joules_per_image: f64,
}

/// Why there are no figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What kind of failure it is.
    pub kind: FailureKind,
    /// One sentence that says why.
    pub reason: String,
}

/// Why a row has no figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::Display)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "lowercase")]
pub enum FailureKind {
    /// Memory ran out, and nothing was left to try.
    #[strum(to_string = "out of memory")]
    OutOfMemory,
    /// The configuration cannot be measured, or the device failed.
    Error,
    /// The engine has a fault.
    Panic,
    /// The process was ended from outside.
    Killed,
    /// It took longer than it was allowed.
    Timeout,
}

/// The state of the machine when the windows had run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Conditions {
    /// Whether kernels were chosen in this process or read from a cache, in words.
    pub autotune: String,
    /// Mean clock of the processor's cores in MHz.
    pub cpu_mhz: Option<f64>,
    /// Processes that wanted to run in the minute before, on average; above the number of cores others disturbed the row.
    pub load: Option<f64>,
    /// Clock of the GPU's cores in MHz.
    pub gpu_mhz: Option<u32>,
    /// Highest clock that the GPU allows, in MHz.
    pub gpu_mhz_max: Option<u32>,
    /// Clock of the GPU's memory in MHz.
    pub gpu_memory_mhz: Option<u32>,
    /// Temperature of the GPU in degrees Celsius.
    pub gpu_celsius: Option<u32>,
    /// Power the GPU may draw in watts.
    pub gpu_power_limit_watts: Option<f64>,
}

impl Row {
    /// The figures, if there are any.
    pub fn measured(&self) -> Option<&Measured> {
        match &self.outcome {
            Outcome::Measured(measured) => Some(measured),
            Outcome::Failed(_) => None,
        }
    }

    /// Why there are none.
    pub fn failure(&self) -> Option<&Failure> {
        match &self.outcome {
            Outcome::Measured(_) => None,
            Outcome::Failed(failure) => Some(failure),
        }
    }

    /// Engine and variant: `pytorch (channels_last)`.
    pub fn engine_label(&self) -> String {
        match &self.variant {
            Some(variant) => format!("{} ({variant})", self.engine),
            None => self.engine.clone(),
        }
    }
}
