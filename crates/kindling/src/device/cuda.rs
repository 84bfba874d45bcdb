//! NVIDIA GPUs.

use std::path::PathBuf;

use anyhow::{Result, bail};
use burn::tensor::Device;
use kindling_layers::Precision;
use kindling_ops::Peak;

use super::{Chosen, install};

/// What is missing for GPU `index`, in words; `None` if it is all there.
pub(crate) fn missing(index: usize) -> Option<String> {
    #[cfg(not(feature = "cuda"))]
    {
        let _ = index;
        Some("this build has no CUDA (feature `cuda`)".to_string())
    }
    #[cfg(feature = "cuda")]
    {
        // What is missing can be installed, so it is told first where there is a GPU at all.
        match super::driver::count() {
            Err(reason) => Some(reason),
            Ok(_) => install::missing().or_else(|| super::driver::refusal(index)),
        }
    }
}

/// NVIDIA GPUs that the driver shows to this process.
#[cfg(feature = "cuda")]
pub(crate) fn count() -> usize {
    super::driver::count().unwrap_or(0)
}

#[cfg(not(feature = "cuda"))]
pub(crate) fn count() -> usize {
    0
}

/// Where NVRTC lies.
pub(crate) fn nvrtc() -> Option<PathBuf> {
    install::nvrtc()
}

/// Where the CUDA headers lie.
pub(crate) fn headers() -> Option<PathBuf> {
    install::headers()
}

#[cfg(feature = "cuda")]
pub(crate) fn open(index: usize) -> Result<Chosen> {
    use kindling_runs::DeviceFacts;

    use super::{DeviceChoice, driver as cuda_driver, works};

    super::failed_kernels::watch();
    let context = cuda_driver::hold(index);
    let device = Device::cuda(index);
    if let Err(reason) = works(&device) {
        bail!("--device cuda:{index} was found but does not work: {}", kindling_memory::reason(&reason));
    }
    // The device keeps the context from here on.
    drop(context);
    let name = device.identity().map_or_else(|| DeviceChoice::Cuda(index).to_string(), |identity| identity.name);
    let device_memory_bytes = cuda_driver::free_and_total(index).map(|(_, total)| total);
    let facts = DeviceFacts { device: name, driver: driver(), device_memory_bytes, ..DeviceFacts::default() };
    Ok(Chosen { device, facts })
}

#[cfg(not(feature = "cuda"))]
pub(crate) fn open(_: usize) -> Result<Chosen> {
    bail!("this build has no CUDA (feature `cuda`)")
}

/// A GPU's identifier, by which other tools of NVIDIA know it.
#[cfg(feature = "cuda")]
pub(crate) fn uuid(index: usize) -> Option<String> {
    super::driver::uuid(index)
}

/// The number of the GPU that a device is, if it is one of CUDA's.
#[cfg(feature = "cuda")]
pub(crate) fn index_of(device: &Device) -> Option<usize> {
    use burn::backend::DispatchDevice;
    match device.clone().without_autodiff().as_dispatch() {
        DispatchDevice::Cube(burn::cubecl::Device::Cuda(cuda)) => Some(cuda.index),
        _ => None,
    }
}

#[cfg(not(feature = "cuda"))]
pub(crate) fn index_of(_: &Device) -> Option<usize> {
    None
}

/// Bytes that can still be allocated on GPU `index`.
#[cfg(feature = "cuda")]
pub(crate) fn free(index: usize) -> Option<u64> {
    super::driver::free_and_total(index).map(|(free, _)| free)
}

#[cfg(not(feature = "cuda"))]
pub(crate) fn free(_: usize) -> Option<u64> {
    None
}

/// All bytes of GPU `index`.
#[cfg(feature = "cuda")]
pub(crate) fn total(index: usize) -> Option<u64> {
    super::driver::free_and_total(index).map(|(_, total)| total)
}

#[cfg(not(feature = "cuda"))]
pub(crate) fn total(_: usize) -> Option<u64> {
    None
}

/// What GPU `index` reaches at most in products of a format, and of which properties that follows, in words.
#[cfg(feature = "cuda")]
pub(crate) fn peak(index: usize, precision: Precision) -> Result<(Peak, String)> {
    let Some(properties) = super::driver::properties(index) else {
        bail!(
            "the driver does not tell clocks and memory of cuda:{index}, so what it reaches is not known; leave out --roofline"
        )
    };
    match properties.peak(precision) {
        Some(peak) => Ok((peak, properties.describe())),
        None => {
            let (major, minor) = properties.capability;
            bail!("what GPUs of compute capability {major}.{minor} reach is not known here; leave out --roofline")
        }
    }
}

#[cfg(not(feature = "cuda"))]
pub(crate) fn peak(_: usize, _: Precision) -> Result<(Peak, String)> {
    bail!("this build has no CUDA (feature `cuda`)")
}

/// The kernel driver's version, where the system tells it.
pub(crate) fn driver() -> Option<String> {
    let text = std::fs::read_to_string("/proc/driver/nvidia/version").ok()?;
    let version = |word: &&str| word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.');
    text.lines().next()?.split_whitespace().find(version).map(str::to_string)
}
