//! Memory a run uses on its device.

use burn::tensor::Device;

use crate::counting;

/// Memory in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of live tensors (on the CPU: of everything the process holds).
    pub in_use: u64,
    /// Bytes the device's allocator holds, in use or kept for later (on the CPU: the same as `in_use`).
    pub reserved: u64,
    /// The most in use so far. On the CPU every allocation is seen; on a GPU only the moments it was asked for.
    pub peak: u64,
}

/// Watches the memory of one device.
///
/// On a GPU the figures are those of Burn's pools at the moments [`Meter::read`] is called (it costs a round trip to
/// the device's thread but no synchronisation); on the CPU those of the counting allocator.
#[derive(Debug)]
pub struct Meter {
    device: Device,
    peak: u64,
}

impl Meter {
    /// A meter for `device`. On the CPU the process's peak starts again from what is live now.
    pub fn new(device: &Device) -> Self {
        counting::reset_host_peak();
        Self { device: device.clone().without_autodiff(), peak: 0 }
    }

    /// What is in use now.
    pub fn read(&mut self) -> Usage {
        match self.device.memory_pool_usage() {
            Some(pools) => {
                self.peak = self.peak.max(pools.bytes_in_use);
                Usage { in_use: pools.bytes_in_use, reserved: pools.bytes_reserved, peak: self.peak }
            }
            None => {
                let host = counting::host_usage();
                let current = host.current as u64;
                self.peak = self.peak.max(host.peak as u64);
                Usage { in_use: current, reserved: current, peak: self.peak }
            }
        }
    }
}
