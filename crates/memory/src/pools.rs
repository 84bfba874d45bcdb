//! The memory that CubeCL's pools hold on a device, and memory that is held outside the pools.
//!
//! CubeCL places tensors in pages that it allocates from the driver and keeps. So pages, not tensors, are what a run takes away from
//! other processes: `reserved` says how much that is.

use burn::tensor::Device;

/// Bytes that the pools of a device hold, without allocations outside the pools (ballast).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pools {
    /// Bytes of live tensors.
    pub(crate) in_use: u64,
    /// Bytes of pages, in use or kept for later.
    pub(crate) reserved: u64,
    /// An upper bound of what `reserved` has been. While the size of pages grows, empty pages of earlier sizes are returned.
    pub(crate) high_water: u64,
}

/// Memory that is held outside the pools. Each piece is an allocation of the driver of exactly its size.
#[derive(Debug)]
pub(crate) struct Apart {
    #[cfg(feature = "cube")]
    _pieces: Vec<burn_cubecl::cubecl::server::Handle>,
}

#[cfg(feature = "cube")]
mod cube {
    use burn::backend::DispatchDevice;
    use burn_cubecl::cubecl::client::Client;
    use burn_cubecl::cubecl::{MemoryPoolKind, MemoryPoolReport, MemoryScope};

    use super::*;
    use crate::pages::Pages;

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
        // When tensors get allocations of their own, pages are returned first, so the peaks of both do not add up. These allocations are
        // kept when they are freed, so what is reserved now is the peak of the step before.
        if apart > 0 {
            pools.high_water = pools.reserved;
        }
        Some(pools)
    }

    /// The most bytes a pool has held at once.
    fn most(pool: &MemoryPoolReport) -> u64 {
        match pool.kind {
            MemoryPoolKind::Adaptive { page_size, .. } | MemoryPoolKind::Sliced { page_size, .. } => {
                page_size * pool.pages_peak
            }
            _ => pool.usage.bytes_reserved,
        }
    }

    pub(crate) fn take(device: &Device, pages: Pages) -> bool {
        let Some(client) = client(device) else { return false };
        let tensors = pages.tensors(client.properties().memory.max_page_size);
        let taken: Vec<_> = tensors.map(|bytes| client.empty(bytes as usize)).collect();
        if client.check(&taken).is_ok() {
            return true;
        }
        drop(taken);
        // What was taken before the refusal. If this is refused too, the first allocation says so.
        let _ = client.memory_cleanup();
        false
    }

    /// Bytes of a piece of ballast: far below the largest allocation of any device.
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
}

#[cfg(feature = "cube")]
pub(crate) use cube::{hold, pools, take};

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
pub(crate) fn take(_: &Device, _: crate::pages::Pages) -> bool {
    false
}
