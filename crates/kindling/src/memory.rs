//! What a user says about memory.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, bail};
use burn::tensor::Device;
use kindling_data::{Preprocess, keep_decoders_within};
use kindling_layers::trace::Trace;
use kindling_layers::{Checkpointing, Freeze};
use kindling_memory::planner::{self, OptimizerKind, Situation, Target};
use kindling_memory::{
    Ballast, MemorySize, Meter, Plan, SystemLimit, grant_host, hold_ballast, limit_host, tightest_limit,
};
use kindling_runs::DeviceFacts;
use kindling_trainer::OptimizerConfig;
use kindling_zoo::{models, segmentation_models};
use serde::{Deserialize, Serialize, Serializer};

use crate::config::{DataConfig, ModelConfig, RunConfig};
use crate::device::{DeviceChoice, cuda};
use crate::model::AnyModel;

/// A value, or whatever turns out to be best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice<T> {
    Auto,
    Fixed(T),
}

impl<T> Choice<T> {
    /// The value, if there is one.
    pub(crate) fn fixed(self) -> Option<T> {
        match self {
            Self::Auto => None,
            Self::Fixed(value) => Some(value),
        }
    }
}

impl<T: FromStr<Err: fmt::Display>> FromStr for Choice<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            value => value.parse().map(Self::Fixed).map_err(|error: T::Err| format!("{error} (or auto)")),
        }
    }
}

impl<T: Serialize> Serialize for Choice<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str("auto"),
            Self::Fixed(value) => value.serialize(serializer),
        }
    }
}

/// The most memory to use. In files it is a text, as on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) enum MemoryBudget {
    /// In bytes.
    Bytes(u64),
    /// In percent of what the device has.
    Percent(f64),
}

impl FromStr for MemoryBudget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(share) = text.strip_suffix('%') else {
            return text.parse().map(|MemorySize(bytes)| Self::Bytes(bytes));
        };
        let share = share.trim().parse::<f64>().ok().filter(|share| *share > 0.0 && *share <= 100.0);
        share.map(Self::Percent).ok_or_else(|| format!("`{text}` is no share of a memory; write it like 80%"))
    }
}

impl TryFrom<String> for MemoryBudget {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<MemoryBudget> for String {
    fn from(budget: MemoryBudget) -> Self {
        budget.to_string()
    }
}

impl fmt::Display for MemoryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{bytes}"),
            Self::Percent(share) => write!(f, "{share}%"),
        }
    }
}

/// A budget that is kept for as long as this lives.
pub(crate) struct Imposed {
    pub(crate) bytes: u64,
    _ballast: Vec<Ballast>,
}

/// What a driver rounds allocations to: a GPU's memory cannot be divided more finely.
const GRANULE: u64 = 2 << 20;

impl MemoryBudget {
    /// Limits the process to it on the CPU, and returns it in bytes.
    fn limit_process(self) -> Result<u64> {
        let total = tightest_limit().map(|limit| limit.bytes);
        // More than the system allows would end with the system killing the process; what it allows is kept to less closely.
        let bytes = self.of(total)?.min(total.map_or(u64::MAX, |total| total / 16 * 15));
        limit_host(bytes);
        Ok(bytes)
    }

    /// In bytes, where `total` is what there is.
    fn of(self, total: Option<u64>) -> Result<u64> {
        match (self, total) {
            (Self::Bytes(bytes), _) => Ok(bytes),
            (Self::Percent(share), Some(total)) => Ok((total as f64 * share / 100.0) as u64),
            (Self::Percent(_), None) => {
                bail!("how much memory there is cannot be found out; give --memory-budget in bytes")
            }
        }
    }

    /// In bytes, on a device that need not be open: of a GPU its whole memory counts.
    pub(crate) fn on(self, device: DeviceChoice) -> Result<u64> {
        self.of(memory_of(device))
    }

    /// Limits the process to it on a device: on the CPU by counting, on a GPU by holding the rest. What other processes
    /// have of a GPU, and what its context takes, is not part of the rest.
    pub(crate) fn impose(self, device: &Device, facts: &DeviceFacts) -> Result<Imposed> {
        if device.memory_pool_usage().is_none() {
            return Ok(Imposed { bytes: self.limit_process()?, _ballast: Vec::new() });
        }
        let total = facts.device_memory_bytes;
        let bytes = self.of(total)?;
        let reserved = || Meter::new(device).read().reserved;
        let free = || cuda::index_of(device).and_then(cuda::free);
        let Some(mut available) = free().or(total) else {
            bail!("how much memory {} has cannot be found out, so --memory-budget cannot be kept on it", facts.device)
        };
        let mut held = Vec::new();
        // Twice, because the driver may not have counted everything the first time.
        for _ in 0..2 {
            let rest = (available + reserved()).saturating_sub(bytes) / GRANULE * GRANULE;
            if rest == 0 {
                break;
            }
            match hold_ballast(device, rest) {
                Ok(ballast) => held.push(ballast),
                Err(_) if !held.is_empty() => break,
                Err(reason) => bail!("{} of {} could not be held back: {reason}", MemorySize(rest), facts.device),
            }
            available = free().unwrap_or(0);
        }
        Ok(Imposed { bytes, _ballast: held })
    }
}

/// Limits the process to the budget of a run on the CPU from here on: data sets are read before a device is open.
pub(crate) fn limit_before_reading(budget: Option<MemoryBudget>, device: DeviceChoice) -> Result<()> {
    if device.is_cpu()
        && let Some(budget) = budget
    {
        budget.limit_process()?;
    }
    Ok(())
}

/// Share of the system's limit that is used where nothing else is asked for: the rest is for whoever shares it.
const DEFAULT_SHARE: f64 = 0.9;

/// Processes of a run on this machine, which share its memory.
static SHARING: AtomicU64 = AtomicU64::new(1);

/// The budget of a process nobody gave one, and the limit it is a share of.
pub(crate) fn default_budget() -> Option<(u64, SystemLimit)> {
    let limit = tightest_limit()?;
    let share = (limit.bytes as f64 * DEFAULT_SHARE) as u64 / SHARING.load(Ordering::Relaxed);
    Some((share, limit))
}

/// Divides what nobody has given a budget for among the processes of a run on this machine.
pub(crate) fn share_among(processes: usize) {
    SHARING.store(processes.max(1) as u64, Ordering::Relaxed);
    limit_to_system();
}

/// The memory of a device that need not be open: on the CPU the tightest limit of the system, of a GPU all it has.
pub(crate) fn memory_of(device: DeviceChoice) -> Option<u64> {
    match device {
        DeviceChoice::Auto if device.is_cpu() => memory_of(DeviceChoice::Cpu),
        DeviceChoice::Auto => memory_of(DeviceChoice::Cuda(0)),
        DeviceChoice::Cpu => tightest_limit().map(|limit| limit.bytes),
        DeviceChoice::Cuda(index) => cuda::total(index),
        DeviceChoice::Wgpu => None,
    }
}

/// Limits this process to a share of what the system lets it have, so that it stops with a sentence before it is killed.
pub(crate) fn limit_to_system() {
    keep_decoders_within(|bytes| Ok(Box::new(grant_host(bytes)?)));
    if let Some((bytes, _)) = default_budget() {
        limit_host(bytes);
    }
}

/// Where a run starts. With a budget, with what the planner says will fit; on a CPU without one, with one normalisation
/// group at a time, which larger micro-batches do not make faster, and with activation checkpointing if the
/// system's limit asks for it; on a GPU with the whole batch. What does not fit is found out, and room is made use of.
/// `decoding` is what reading an image takes, in bytes.
pub(crate) fn starting_plan(
    config: &RunConfig,
    trace: &Trace,
    device: &Device,
    budget: Option<u64>,
    decoding: u64,
) -> Plan {
    let group = config.train.largest_group();
    let fixed = config.train.activation_checkpointing;
    let (most, budget) = match (budget, default_budget()) {
        (None, _) if device.memory_pool_usage().is_some() => {
            return Plan { micro_batch: config.train.batch_size, checkpointing: fixed.unwrap_or(Checkpointing::None) };
        }
        (Some(budget), _) => (usize::MAX, budget),
        (None, Some((share, _))) => (group, share),
        (None, None) => (group, u64::MAX),
    };
    let situation = |checkpointing| Situation { decoding, ..situation(config, checkpointing, device) };
    let levels = fixed.map_or(Checkpointing::ALL.to_vec(), |level| vec![level]);
    let fitting = levels.iter().find_map(|&checkpointing| {
        let (micro_batch, _) = planner::largest_micro_batch(trace, &situation(checkpointing), budget)?;
        Some(Plan { micro_batch: micro_batch.min(most), checkpointing })
    });
    // If nothing is predicted to fit, the least is tried: a prediction is no refusal.
    let least = Plan { micro_batch: group, checkpointing: levels.last().copied().unwrap_or(Checkpointing::None) };
    fitting.unwrap_or(least)
}

/// What a device means for a prediction: all that compile kernels have the pools of CubeCL.
fn target(device: &Device) -> Target {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    if device.memory_pool_usage().is_some() { Target::Cuda } else { Target::Cpu { threads } }
}

/// A run as the planner sees it; its micro-batch is not looked at.
fn situation(config: &RunConfig, checkpointing: Checkpointing, device: &Device) -> Situation {
    let train = &config.train;
    Situation {
        micro_batch: train.largest_group(),
        ghost_batch_size: train.ghost_batch_size,
        checkpointing,
        optimizer: match train.optimizer {
            OptimizerConfig::AdamW { .. } => OptimizerKind::AdamW,
            OptimizerConfig::Sgd { momentum, .. } => OptimizerKind::Sgd { momentum: momentum > 0.0 },
        },
        ema: train.ema.is_some(),
        freeze: config.model.freeze,
        workers: config.workers,
        element_bytes: train.precision.bytes(),
        ..Situation::whole_batch(train.batch_size, target(device))
    }
}

/// Layers named in a report.
const LAYERS: usize = 10;
/// Models named in a report.
const MODELS: usize = 5;

/// What to say when even the smallest step does not fit: what needs the most, and what would fit.
pub(crate) fn does_not_fit(
    config: &RunConfig,
    trace: &Trace,
    device: &Device,
    budget: Option<u64>,
    decoding: u64,
) -> String {
    let mut lines = vec!["what this model keeps for its backward pass, largest first:".to_string()];
    let least = situation(config, Checkpointing::None, device);
    let mut layers = planner::by_layer(trace, &least);
    layers.sort_by_key(|layer| std::cmp::Reverse(layer.kept));
    for layer in layers.iter().take(LAYERS) {
        lines.push(format!("  {:>10}  {} ({})", MemorySize(layer.kept).to_string(), layer.name, layer.kind));
    }
    let Some(budget) = budget.or(default_budget().map(|(share, _)| share)) else { return lines.join("\n") };
    let smallest = situation(config, config.train.activation_checkpointing.unwrap_or(Checkpointing::Blocks), device);
    let fits = |model: &str, size: usize, ghost_batch_size: usize| -> bool {
        let altered = RunConfig {
            model: ModelConfig { name: model.to_string(), start: None, freeze: Freeze::None, ..config.model.clone() },
            data: DataConfig {
                preprocess: Preprocess { size, ..config.data.preprocess.clone() },
                ..config.data.clone()
            },
            ..config.clone()
        };
        // Of the layers alone: memory is what there is none of.
        let trace = AnyModel::find(model).and_then(|model| model.trace(&altered.model_options(), size));
        let Ok(trace) = trace else { return false };
        let situation = Situation { ghost_batch_size, decoding, ..smallest };
        planner::largest_micro_batch(&trace, &situation, budget).is_some()
    };
    let (size, group) = (config.data.preprocess.size, config.train.ghost_batch_size);
    lines.push(format!("what would fit into {}, by the planner:", MemorySize(budget)));
    let smaller_group = [group / 2, group / 4, 1].into_iter().filter(|&it| it >= 1 && it < group);
    if let Some(group) = smaller_group.into_iter().find(|&it| fits(&config.model.name, size, it)) {
        lines.push(format!("  --ghost-batch-size {group} (it changes what batch norm computes)"));
    }
    let smaller_size = [size * 3 / 4, size / 2, size / 4].map(|it| it / 32 * 32);
    if let Some(size) = smaller_size.into_iter().find(|&it| it >= 32 && fits(&config.model.name, it, group)) {
        lines.push(format!("  --image-size {size}"));
    }
    let others: Vec<String> = match config.is_segmentation() {
        true => segmentation_models().map(|model| model.key()).collect(),
        false => models().map(|entry| entry.name().to_string()).collect(),
    };
    let others = others.into_iter().filter(|name| fits(name, size, group)).take(MODELS);
    lines.extend(others.map(|name| format!("  --model {name}")));
    if lines.last().is_some_and(|line| line.starts_with("what would")) {
        lines.push("  nothing that was looked at: smaller groups, smaller images, other models".to_string());
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_an_amount_or_a_share() {
        for (text, budget) in [("8GiB", MemoryBudget::Bytes(8 << 30)), ("80%", MemoryBudget::Percent(80.0))] {
            assert_eq!(text.parse(), Ok(budget));
            assert_eq!(budget.to_string().parse(), Ok(budget));
        }
        for text in ["", "GiB", "-1GiB", "120%", "0%", "8 bananas", "0"] {
            assert!(text.parse::<MemoryBudget>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_choice_is_auto_or_a_value() {
        assert_eq!("auto".parse::<Choice<usize>>(), Ok(Choice::Auto));
        assert_eq!("4".parse(), Ok(Choice::Fixed(4usize)));
        assert!("some".parse::<Choice<usize>>().is_err());
    }
}
