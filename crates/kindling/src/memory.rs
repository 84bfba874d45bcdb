//! What a user says about memory.

use std::fmt;
use std::str::FromStr;

use anyhow::{Result, bail};
use burn::tensor::Device;
use kindling_memory::{MemorySize, limit_host};
use kindling_trainer::{Plan, Recompute};
use kindling_zoo::Network;

use crate::config::RunConfig;

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

/// The most memory to use.
#[derive(Clone, Copy, Debug, PartialEq)]
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

impl fmt::Display for MemoryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{bytes}"),
            Self::Percent(share) => write!(f, "{share}%"),
        }
    }
}

impl MemoryBudget {
    /// Limits the process to it on a device, and returns it in bytes.
    pub(crate) fn impose(self, device: &Device) -> Result<u64> {
        if device.memory_pool_usage().is_some() {
            bail!("--memory-budget holds on the CPU only yet; a GPU gives what it has");
        }
        let bytes = match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(share) => match installed() {
                Some(total) => (total as f64 * share / 100.0) as u64,
                None => bail!("how much memory this machine has cannot be found out; give --memory-budget in bytes"),
            },
        };
        limit_host(bytes);
        Ok(bytes)
    }
}

/// The memory of this machine in bytes: what its control group allows, if that is less than what is installed.
fn installed() -> Option<u64> {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let kilobytes = read("/proc/meminfo")?
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok())?;
    let allowed = read("/sys/fs/cgroup/memory.max").and_then(|text| text.trim().parse::<u64>().ok());
    Some(allowed.unwrap_or(u64::MAX).min(kilobytes * 1024))
}

/// Where a run starts: one normalisation group at a time on a CPU, which larger micro-batches do not make faster; less
/// than that is found when it does not fit.
pub(crate) fn starting_plan(config: &RunConfig, _network: &Network, _budget: Option<u64>) -> Result<Plan> {
    let micro_batch = config.train.micro_batch.unwrap_or(config.train.largest_group());
    Ok(Plan { micro_batch, recompute: config.train.recompute.unwrap_or(Recompute::None) })
}

/// What to say when even the smallest step does not fit.
pub(crate) fn does_not_fit(_config: &RunConfig, _budget: Option<u64>) -> Result<String> {
    Ok(String::new())
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
