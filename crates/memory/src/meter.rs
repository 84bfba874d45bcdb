//! Measures the memory that a run uses on its device.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use burn::tensor::Device;

use crate::heap;
use crate::pools::{self, Pools};

/// The most bytes that the pools of a device held in any observation since the last meter was created.
static MOST_RESERVED: AtomicU64 = AtomicU64::new(0);

/// Memory in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of live tensors; on the CPU, of all live allocations of the process.
    pub in_use: u64,
    /// Bytes that the device's allocator holds, in use or kept for later; on the CPU, the same as `in_use`.
    pub reserved: u64,
    /// The peak so far: of `reserved` on a GPU, since other processes cannot use that memory, and of `in_use` on the CPU.
    pub peak: u64,
}

/// Measures the memory of one device.
///
/// On a GPU, the figures come from CubeCL's pools. Pools return pages only on request, so it is enough to observe them before that
/// ([`observe`]) and when the meter is read. An observation costs a round trip to the device's thread, but no synchronisation. On the
/// CPU, the figures come from the heap allocator.
#[derive(Debug)]
pub struct Meter {
    device: Device,
    peak: u64,
}

impl Meter {
    /// A meter for `device`, whose peak starts from the current usage.
    pub fn new(device: &Device) -> Self {
        heap::reset_host_peak();
        MOST_RESERVED.store(0, Relaxed);
        Self { device: device.clone().without_autodiff(), peak: 0 }
    }

    /// The current usage and the peak.
    pub fn read(&mut self) -> Usage {
        match seen(&self.device) {
            Some(pools) => Usage { in_use: pools.in_use, reserved: pools.reserved, peak: MOST_RESERVED.load(Relaxed) },
            None => {
                let host = heap::host_usage();
                let current = host.current as u64;
                self.peak = self.peak.max(host.peak as u64);
                Usage { in_use: current, reserved: current, peak: self.peak }
            }
        }
    }
}

/// Records what the pools of a device hold, for the peak of [`Meter`]. Call this before pools are asked to return pages, and where they
/// may hold the most. Does nothing on the CPU, where every allocation is counted.
pub fn observe(device: &Device) {
    seen(device);
}

fn seen(device: &Device) -> Option<Pools> {
    let pools = pools::pools(device)?;
    MOST_RESERVED.fetch_max(pools.high_water, Relaxed);
    Some(pools)
}
