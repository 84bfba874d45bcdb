//! Choosing the device at run time.

pub(crate) mod cuda;
#[cfg(feature = "cuda")]
mod driver;
#[cfg(feature = "cuda")]
pub(crate) mod failed_kernels;
mod install;
#[cfg(feature = "cuda")]
mod peak;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;

use anyhow::{Result, anyhow, bail};
use burn::tensor::{Device, Tensor};
use kindling_layers::Precision;
use kindling_memory::panic_message;
use kindling_runs::DeviceFacts;

/// The device a user asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeviceChoice {
    /// CUDA if it is all there, otherwise the CPU.
    Auto,
    /// The CPU.
    Cpu,
    /// An NVIDIA GPU by number.
    Cuda(usize),
    /// Whatever wgpu finds first: AMD, Intel and Apple GPUs, or Vulkan in software.
    Wgpu,
}

impl FromStr for DeviceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |digits: &str| digits.parse().map_err(|_| format!("`{digits}` is not the number of a GPU"));
        match text.split_once(':') {
            None => match text {
                "auto" => Ok(Self::Auto),
                "cpu" => Ok(Self::Cpu),
                "cuda" => Ok(Self::Cuda(0)),
                "wgpu" => Ok(Self::Wgpu),
                _ => Err("choose auto, cpu, cuda, cuda:N or wgpu".to_string()),
            },
            Some(("cuda", digits)) => number(digits).map(Self::Cuda),
            Some(_) => Err("choose auto, cpu, cuda, cuda:N or wgpu".to_string()),
        }
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(index) => write!(f, "cuda:{index}"),
            Self::Wgpu => f.write_str("wgpu"),
        }
    }
}

/// A device that works, and what is known about it.
pub(crate) struct Chosen {
    /// Without gradients.
    pub(crate) device: Device,
    pub(crate) facts: DeviceFacts,
}

impl Chosen {
    /// Fails if the device does not compute in a format, and says in which it does.
    pub(crate) fn check_precision(&self, precision: Precision) -> Result<()> {
        if precision.is_supported_by(&self.device) {
            return Ok(());
        }
        let others = Precision::ALL.iter().filter(|precision| precision.is_supported_by(&self.device));
        let others: Vec<String> = others.map(Precision::to_string).collect();
        bail!("{} does not compute in {precision}; --precision can be {}", self.facts.device, others.join(" or "))
    }
}

impl DeviceChoice {
    /// The device that a configuration asks for.
    pub(crate) fn configured(text: &str) -> Result<Self> {
        text.parse().map_err(|known| anyhow!("the configuration asks for the device `{text}`; {known}"))
    }

    /// The device of one of several processes on a machine: where none is named, each has the next GPU.
    pub(crate) fn of_rank(self, local_rank: usize) -> Self {
        match self {
            Self::Auto if !self.is_cpu() => Self::Cuda(local_rank % cuda::count().max(1)),
            other => other,
        }
    }

    /// Whether what opens is the CPU.
    pub(crate) fn is_cpu(self) -> bool {
        self == Self::Cpu || self == Self::Auto && cuda::missing(0).is_some()
    }

    /// Opens the device.
    pub(crate) fn open(self) -> Result<Chosen> {
        match self {
            Self::Auto if !self.is_cpu() => Self::Cuda(0).open(),
            Self::Auto | Self::Cpu => Ok(Chosen {
                device: Device::flex(),
                facts: DeviceFacts { device: "cpu".to_string(), ..DeviceFacts::default() },
            }),
            Self::Cuda(index) => match cuda::missing(index) {
                Some(missing) => bail!("--device {self} cannot be used: {missing}; --device cpu always works"),
                None => cuda::open(index),
            },
            Self::Wgpu => wgpu::open(),
        }
    }
}

/// Makes a device compute something: a runtime that cannot start panics at first use, on a thread of its own.
fn works(device: &Device) -> Result<(), String> {
    let sum =
        catch_unwind(AssertUnwindSafe(|| kindling_ops::sum(Tensor::<1>::ones([2], device)).try_into_scalar::<f32>()));
    match sum {
        Ok(Ok(2.0)) => Ok(()),
        Ok(Ok(other)) => Err(format!("1 + 1 gave {other}")),
        Ok(Err(error)) => Err(error.to_string()),
        Err(panic) => Err(panic_message(panic.as_ref())),
    }
}

/// Devices that wgpu reaches.
pub(crate) mod wgpu {
    #[cfg(feature = "wgpu")]
    use burn::tensor::DeviceType;

    use super::*;

    #[cfg(feature = "wgpu")]
    pub(crate) fn open() -> Result<Chosen> {
        let device = Device::wgpu(Default::default());
        if let Err(reason) = works(&device) {
            if finds_nothing() {
                bail!(
                    "--device wgpu cannot be used: no driver of Vulkan, Metal or DirectX shows a device (on Linux, install the \
                     GPU's Vulkan driver and libvulkan.so.1); --device cpu always works"
                );
            }
            bail!(
                "--device wgpu cannot be used: {}; it needs a GPU with a Vulkan, Metal or DirectX driver, and \
                 --device cpu always works",
                kindling_memory::reason(&reason)
            );
        }
        let name = device.identity().map_or_else(|| "wgpu".to_string(), |identity| identity.name);
        Ok(Chosen { device, facts: DeviceFacts { device: format!("{name} (wgpu)"), ..DeviceFacts::default() } })
    }

    /// Whether there is no device at all. The runtime's own answer is that of a thread that panicked.
    #[cfg(feature = "wgpu")]
    fn finds_nothing() -> bool {
        catch_unwind(|| Device::enumerate(DeviceType::Wgpu)).is_ok_and(|found| found.is_empty())
    }

    #[cfg(not(feature = "wgpu"))]
    pub(crate) fn open() -> Result<Chosen> {
        bail!("this build has no wgpu (feature `wgpu`)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_named_as_the_help_says() {
        for (text, choice) in [
            ("auto", DeviceChoice::Auto),
            ("cpu", DeviceChoice::Cpu),
            ("cuda", DeviceChoice::Cuda(0)),
            ("cuda:3", DeviceChoice::Cuda(3)),
            ("wgpu", DeviceChoice::Wgpu),
        ] {
            assert_eq!(text.parse(), Ok(choice));
            assert_eq!(choice.to_string().parse(), Ok(choice));
        }
        for text in ["gpu", "cuda:x", "cpu:0", ""] {
            assert!(text.parse::<DeviceChoice>().is_err(), "{text}");
        }
    }
}
