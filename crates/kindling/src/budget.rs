//! What a user says about memory, and what is kept to where nobody says anything.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, bail};
use burn::tensor::Device;
use kindling_data::keep_decoders_within;
use kindling_memory::{Ballast, MemorySize, Meter, SystemLimit, grant_host, hold_ballast, limit_host, tightest_limit};
use kindling_runs::DeviceFacts;
use serde::{Deserialize, Serialize};

use crate::device::{DeviceChoice, cuda};

/// The most memory to use. In files it is a text, as on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) enum MemoryBudget {
    /// A number of bytes.
    Bytes(u64),
    /// A share of the memory that the device has, in percent.
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
}
