//! What CubeCL's pools hold on a device, and memory that is held outside of them.
//!
//! CubeCL carves tensors out of pages that it fetches from the driver and keeps. What a run takes from its device is pages,
//! not tensors: with reserved bytes a second process finds out whether it has room.

use burn::tensor::Device;

/// What the pools of a device hold, in bytes; what was allocated outside of them (ballast) is not in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pools {
    /// Live tensors.
    pub(crate) in_use: u64,
    /// Pages, in use or kept for later.
    pub(crate) reserved: u64,
    /// The most that `reserved` can have been: while pages grow, those of a former size go back as they empty.
    pub(crate) high_water: u64,
}

/// What is held outside of the pools, each piece an allocation of the driver of just its size.
#[derive(Debug)]
pub(crate) struct Apart {
    #[cfg(feature = "cube")]
    _pieces: Vec<burn_cubecl::cubecl::server::Handle>,
}

#[cfg(feature = "cube")]
mod cube {
    use std::time::Duration;

    use burn::backend::DispatchDevice;
    use burn_cubecl::cubecl::client::Client;
    use burn_cubecl::cubecl::throughput::{
        MemoryAccess, MemorySpec, ThroughputKey, ThroughputMode, ThroughputValue, working_set_sweep,
    };
    use burn_cubecl::cubecl::{MemoryPoolKind, MemoryPoolReport, MemoryScope};

    use super::*;

    fn client(device: &Device) -> Option<Client> {
        match device.clone().without_autodiff().as_dispatch() {
            DispatchDevice::Cube(device) => Some(device.client()),
            #[allow(unreachable_patterns)] // which devices there are depends on who builds Burn
            _ => None,
        }
    }

    pub(crate) fn pools(device: &Device) -> Option<Pools> {
        let report = client(device)?.memory_report(MemoryScope::Device);
        let mut pools = Pools::default();
        let mut apart = 0;
        for stream in &report.streams {
            for pool in stream.pools.dynamic.iter().chain([&stream.pools.persistent]) {
                pools.in_use += pool.usage.bytes_in_use;
                pools.reserved += pool.usage.bytes_reserved;
                pools.high_water += most(pool);
            }
            apart += stream.pools.persistent.usage.bytes_reserved;
        }
        // Once tensors have allocations of their own, pages went back for them: their most and these never were there together.
        // Such allocations are kept when they are free, so that what is reserved now is the most of the step before.
        if apart > 0 {
            pools.high_water = pools.reserved;
        }
        Some(pools)
    }

    /// The most bytes a pool has held at once.
    fn most(pool: &MemoryPoolReport) -> u64 {
        match pool.kind {
            MemoryPoolKind::Adaptive { page_size, .. } => (page_size * pool.pages_peak).max(pool.usage.bytes_reserved),
            _ => pool.usage.bytes_reserved,
        }
    }

    /// Bytes of one piece of ballast: far below what a device gives to one allocation.
    const PIECE: u64 = 256 << 20;

    pub(crate) fn hold(device: &Device, bytes: u64) -> Option<Result<Apart, String>> {
        let client = client(device)?;
        let mut sizes = vec![PIECE as usize; (bytes / PIECE) as usize];
        sizes.extend(Some((bytes % PIECE) as usize).filter(|rest| *rest > 0));
        let pieces = client
            .memory_dedicated_allocation(sizes, |sizes| sizes.into_iter().map(|size| client.empty(size)).collect());
        let pieces: Vec<_> = pieces;
        let held = client.check(&pieces).map_err(|error| error.to_string());
        Some(held.map(|()| Apart { _pieces: pieces }))
    }

    /// Answers what CubeCL would measure before it tunes the first reduction or matrix product: how fast memory is, for
    /// which it fetches two buffers of up to a quarter of the device, again for every size it asks about. Without an answer
    /// it tries all the kernels it knows, and a run's peak is that of the run.
    pub(crate) fn without_probes(device: &Device) {
        let Some(client) = client(device) else { return };
        let unknown = ThroughputValue { ops_count: 0, duration: Duration::ZERO };
        for access in [MemoryAccess::Copy, MemoryAccess::Read, MemoryAccess::Write] {
            for bytes in working_set_sweep(access.default_working_set()) {
                let key = ThroughputKey { mode: ThroughputMode::Memory(MemorySpec::new(access, bytes)) };
                // What is known already stays known.
                let _ = client.measure_throughput(key, || Ok(unknown));
            }
        }
    }
}

#[cfg(feature = "cube")]
pub(crate) use cube::{hold, pools, without_probes};

#[cfg(not(feature = "cube"))]
pub(crate) fn pools(device: &Device) -> Option<Pools> {
    let usage = device.clone().without_autodiff().memory_pool_usage()?;
    let (in_use, reserved) = (usage.bytes_in_use, usage.bytes_reserved);
    Some(Pools { in_use, reserved, high_water: reserved })
}

#[cfg(not(feature = "cube"))]
pub(crate) fn hold(_: &Device, _: u64) -> Option<Result<Apart, String>> {
    None
}

#[cfg(not(feature = "cube"))]
pub(crate) fn without_probes(_: &Device) {}
