//! Memory a run uses on its device.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use burn::tensor::Device;

use crate::counting;
use crate::pools::{self, Pools};

/// The most bytes that a device's pools were seen to hold since the last meter was made.
static MOST_RESERVED: AtomicU64 = AtomicU64::new(0);

/// Memory in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of live tensors (on the CPU: of everything the process holds).
    pub in_use: u64,
    /// Bytes the device's allocator holds, in use or kept for later (on the CPU: the same as `in_use`).
    pub reserved: u64,
    /// The most so far: on a GPU of what its allocator holds, which is what nobody else can have; on the CPU of what is in
    /// use.
    pub peak: u64,
}

/// Watches the memory of one device.
///
/// On a GPU the figures are those of CubeCL's pools. Those give pages back when they are asked to, so it is enough to look
/// before that ([`observe`]) and when the meter is read; a look costs a round trip to the device's thread but no
/// synchronisation. On the CPU the figures are those of the counting allocator.
#[derive(Debug)]
pub struct Meter {
    device: Device,
    peak: u64,
}

impl Meter {
    /// A meter for `device`. The peak starts again from what is held now.
    pub fn new(device: &Device) -> Self {
        counting::reset_host_peak();
        MOST_RESERVED.store(0, Relaxed);
        Self { device: device.clone().without_autodiff(), peak: 0 }
    }

    /// What is in use now.
    pub fn read(&mut self) -> Usage {
        match seen(&self.device) {
            Some(pools) => Usage { in_use: pools.in_use, reserved: pools.reserved, peak: MOST_RESERVED.load(Relaxed) },
            None => {
                let host = counting::host_usage();
                let current = host.current as u64;
                self.peak = self.peak.max(host.peak as u64);
                Usage { in_use: current, reserved: current, peak: self.peak }
            }
        }
    }
}

/// Looks at what a device's pools hold, for the peak that a [`Meter`] tells: to be called before they are asked to give
/// pages back, and where they may hold the most. Nothing happens on the CPU, which counts by itself.
pub fn observe(device: &Device) {
    seen(device);
}

fn seen(device: &Device) -> Option<Pools> {
    let pools = pools::pools(device)?;
    MOST_RESERVED.fetch_max(pools.high_water, Relaxed);
    Some(pools)
}
