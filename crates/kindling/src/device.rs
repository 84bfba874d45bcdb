//! Choosing the device at run time.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Result, bail};
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
    /// Opens the device.
    pub(crate) fn open(self) -> Result<Chosen> {
        match self {
            Self::Auto if cuda::missing(0).is_none() => Self::Cuda(0).open(),
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
    let sum = catch_unwind(AssertUnwindSafe(|| Tensor::<1>::ones([2], device).sum().try_into_scalar::<f32>()));
    match sum {
        Ok(Ok(2.0)) => Ok(()),
        Ok(Ok(other)) => Err(format!("1 + 1 gave {other}")),
        Ok(Err(error)) => Err(error.to_string()),
        Err(panic) => Err(panic_message(panic.as_ref())),
    }
}

fn first_line(text: &str) -> &str {
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("no reason given")
}

/// NVIDIA GPUs.
pub(crate) mod cuda {
    use super::*;

    /// Files a CUDA run needs.
    const NVRTC: &str = "libnvrtc.so";
    const DRIVER: &str = "libcuda.so";
    /// Folders the loader looks in: distributions, containers with a mounted driver, WSL, NixOS.
    const SYSTEM: [&str; 8] = [
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
        "/usr/lib",
        "/usr/local/nvidia/lib64",
        "/usr/local/nvidia/lib",
        "/usr/lib/wsl/lib",
        "/run/opengl-driver/lib",
    ];
    const HEADER: &str = "include/cuda_runtime.h";

    /// What is missing for GPU `index`, in words; `None` if it is all there.
    pub(crate) fn missing(index: usize) -> Option<String> {
        if !cfg!(feature = "cuda") {
            return Some("this build has no CUDA (feature `cuda`)".to_string());
        }
        match count() {
            0 => return Some("no NVIDIA driver (libcuda.so.1) with a GPU was found".to_string()),
            gpus if index >= gpus => return Some(format!("there are {gpus} NVIDIA GPUs, numbered from 0")),
            _ => {}
        }
        if nvrtc().is_none() {
            return Some(format!(
                "the kernel compiler {NVRTC} was not found (install the CUDA toolkit, or `pip install \
                 nvidia-cuda-nvrtc` and put its lib folder on LD_LIBRARY_PATH)"
            ));
        }
        if headers().is_none() {
            return Some("the CUDA headers were not found (set CUDA_PATH to a folder with include/)".to_string());
        }
        None
    }

    /// NVIDIA GPUs that the driver shows. Burn is only asked where there is a driver: its answer starts every GPU
    /// runtime of the build, and some of them talk.
    #[cfg(feature = "cuda")]
    pub(crate) fn count() -> usize {
        use burn::tensor::DeviceType;
        if library(DRIVER).is_none() {
            return 0;
        }
        catch_unwind(|| Device::enumerate(DeviceType::Cuda).into_vec().len()).unwrap_or(0)
    }

    #[cfg(not(feature = "cuda"))]
    pub(crate) fn count() -> usize {
        0
    }

    /// Where NVRTC lies.
    pub(crate) fn nvrtc() -> Option<PathBuf> {
        library(NVRTC)
    }

    /// Where a shared library lies whose name begins so: on `LD_LIBRARY_PATH`, in the toolkit, in the folders of
    /// systems and containers, and last where the loader's cache says.
    fn library(name: &str) -> Option<PathBuf> {
        let mut folders: Vec<PathBuf> =
            std::env::var_os("LD_LIBRARY_PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default();
        folders.extend(toolkits().into_iter().map(|folder| folder.join("lib64")));
        folders.extend(SYSTEM.map(PathBuf::from));
        let inside = |folder: PathBuf| {
            let entries = std::fs::read_dir(folder).ok()?;
            entries
                .flatten()
                .find(|entry| entry.file_name().to_string_lossy().starts_with(name))
                .map(|entry| entry.path())
        };
        folders.into_iter().find_map(inside).or_else(|| {
            let cache = std::process::Command::new("ldconfig").arg("-p").output().ok()?;
            let lines = String::from_utf8_lossy(&cache.stdout).into_owned();
            let line = lines.lines().find(|line| line.trim_start().starts_with(name))?;
            line.split_once("=> ").map(|(_, path)| PathBuf::from(path))
        })
    }

    /// Where the CUDA headers lie.
    pub(crate) fn headers() -> Option<PathBuf> {
        toolkits().into_iter().find(|folder| folder.join(HEADER).exists())
    }

    /// Folders a toolkit may be in, in the order CubeCL looks.
    fn toolkits() -> Vec<PathBuf> {
        match std::env::var_os("CUDA_PATH") {
            Some(path) => vec![PathBuf::from(path)],
            None => ["/usr/local/cuda", "/opt/cuda", "/usr"].map(PathBuf::from).to_vec(),
        }
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn open(index: usize) -> Result<Chosen> {
        let device = Device::cuda(index);
        if let Err(reason) = works(&device) {
            bail!("--device cuda:{index} was found but does not work: {}", first_line(&reason));
        }
        let name = device.identity().map_or_else(|| format!("cuda:{index}"), |identity| identity.name);
        let device_memory_bytes = memory(index);
        let facts = DeviceFacts { device: name, driver: driver(), device_memory_bytes, ..DeviceFacts::default() };
        Ok(Chosen { device, facts })
    }

    #[cfg(not(feature = "cuda"))]
    pub(crate) fn open(_: usize) -> Result<Chosen> {
        bail!("this build has no CUDA (feature `cuda`)")
    }

    /// Memory of a GPU in bytes, as `nvidia-smi` tells it.
    #[cfg(feature = "cuda")]
    fn memory(index: usize) -> Option<u64> {
        let query = ["--query-gpu=memory.total", "--format=csv,noheader,nounits", "-i"];
        let output = std::process::Command::new("nvidia-smi").args(query).arg(index.to_string()).output().ok()?;
        let mebibytes: u64 = String::from_utf8_lossy(&output.stdout).trim().parse().ok()?;
        Some(mebibytes << 20)
    }

    /// The kernel driver's version, where the system tells it.
    pub(crate) fn driver() -> Option<String> {
        let text = std::fs::read_to_string("/proc/driver/nvidia/version").ok()?;
        let version = |word: &&str| word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.');
        text.lines().next()?.split_whitespace().find(version).map(str::to_string)
    }
}

/// Devices that wgpu reaches.
pub(crate) mod wgpu {
    use super::*;

    #[cfg(feature = "wgpu")]
    pub(crate) fn open() -> Result<Chosen> {
        let device = Device::wgpu(Default::default());
        if let Err(reason) = works(&device) {
            bail!(
                "--device wgpu cannot be used: {}; it needs a GPU with a Vulkan, Metal or DirectX driver, and \
                 --device cpu always works",
                first_line(&reason)
            );
        }
        let name = device.identity().map_or_else(|| "wgpu".to_string(), |identity| identity.name);
        Ok(Chosen { device, facts: DeviceFacts { device: format!("{name} (wgpu)"), ..DeviceFacts::default() } })
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
