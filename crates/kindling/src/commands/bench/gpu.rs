//! What NVIDIA's management library knows about a GPU: energy, clocks, versions. It comes with the driver and is loaded
//! when it is asked; where it is missing nothing of it is known.

use kindling_runs::bench::Conditions;

use crate::device::DeviceChoice;

#[cfg(not(feature = "cuda"))]
pub(super) use none::Gpu;
#[cfg(feature = "cuda")]
pub(super) use nvidia::Gpu;

#[cfg(feature = "cuda")]
mod nvidia {
    use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
    use nvml_wrapper::{Device, Nvml, cuda_driver_version_major, cuda_driver_version_minor};

    use super::*;
    use crate::device::cuda;

    /// Names of the library: distributions install the first, developers' packages the second.
    const LIBRARIES: [&str; 2] = ["libnvidia-ml.so.1", "libnvidia-ml.so"];

    /// A GPU as the library knows it: by its identifier, since CUDA and the library count GPUs in different orders, and CUDA
    /// only those of `CUDA_VISIBLE_DEVICES`.
    pub(crate) struct Gpu {
        nvml: Nvml,
        uuid: String,
    }

    impl Gpu {
        /// The GPU behind a device, if the library is there.
        pub(crate) fn of(choice: DeviceChoice) -> Option<Self> {
            let DeviceChoice::Cuda(index) = choice else { return None };
            let nvml = LIBRARIES.iter().find_map(|name| Nvml::builder().lib_path(name.as_ref()).init().ok())?;
            let gpu = Self { nvml, uuid: cuda::uuid(index)? };
            gpu.device().is_some().then_some(gpu)
        }

        fn device(&self) -> Option<Device<'_>> {
            self.nvml.device_by_uuid(self.uuid.as_str()).ok()
        }

        /// Energy since the driver was loaded, in joules; GPUs before Volta do not tell.
        pub(crate) fn joules(&self) -> Option<f64> {
            self.device()?.total_energy_consumption().ok().map(|millijoules| millijoules as f64 / 1e3)
        }

        /// The newest CUDA that the driver serves.
        pub(crate) fn cuda(&self) -> Option<String> {
            let version = self.nvml.sys_cuda_driver_version().ok()?;
            Some(format!("{}.{}", cuda_driver_version_major(version), cuda_driver_version_minor(version)))
        }

        pub(crate) fn driver(&self) -> Option<String> {
            self.nvml.sys_driver_version().ok()
        }

        /// The state of the GPU beside that of the host.
        pub(crate) fn conditions(&self, host: Conditions) -> Conditions {
            let Some(device) = self.device() else { return host };
            Conditions {
                gpu_mhz: device.clock_info(Clock::SM).ok(),
                gpu_mhz_max: device.max_clock_info(Clock::SM).ok(),
                gpu_memory_mhz: device.clock_info(Clock::Memory).ok(),
                gpu_celsius: device.temperature(TemperatureSensor::Gpu).ok(),
                gpu_power_limit_watts: device.enforced_power_limit().ok().map(|milliwatts| f64::from(milliwatts) / 1e3),
                ..host
            }
        }
    }
}

#[cfg(not(feature = "cuda"))]
mod none {
    use super::*;

    pub(crate) struct Gpu;

    impl Gpu {
        pub(crate) fn of(_: DeviceChoice) -> Option<Self> {
            None
        }

        pub(crate) fn joules(&self) -> Option<f64> {
            None
        }

        pub(crate) fn cuda(&self) -> Option<String> {
            None
        }

        pub(crate) fn driver(&self) -> Option<String> {
            None
        }

        pub(crate) fn conditions(&self, host: Conditions) -> Conditions {
            host
        }
    }
}
