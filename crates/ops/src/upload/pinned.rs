//! Copies in pinned memory, which a GPU reads without its driver copying once more.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

use burn::backend::DispatchDevice;
use burn::tensor::{AllocationProperty, Bytes, Device};
use burn_cubecl::CubeDevice;
use cubecl_environment::bytes::{AccessError, AccessPolicy, AllocationController};
use rayon::prelude::*;

/// Bytes that one task copies.
const AT_ONCE: usize = 1 << 20;

/// A copy of the numbers; `None` if the device is no NVIDIA GPU, or can no longer be asked for memory.
pub(super) fn copy(numbers: &[f32], device: &Device) -> Option<Bytes> {
    let device = device.clone().without_autodiff();
    let DispatchDevice::Cube(device @ CubeDevice::Cuda(_)) = device.as_dispatch() else { return None };
    let lent: &[u8] = bytemuck::cast_slice(numbers);
    // SAFETY: all of `lent` is initialised, and outlives `bytes`, which holds a pointer to it: CubeCL's `staging` either puts the
    // copy in its place and drops it, or leaves it, and then it is dropped here.
    let mut bytes = unsafe { Bytes::from_controller(Box::new(Lent(lent)), lent.len()) };
    device.client().staging(std::iter::once(&mut bytes), false);
    (bytes.property() != Lent::PROPERTY).then_some(bytes)
}

/// Memory of somebody else, to be copied from.
struct Lent(*const [u8]);

impl Lent {
    /// None that CubeCL's own memory has.
    const PROPERTY: AllocationProperty = AllocationProperty::Other;

    fn bytes(&self) -> &[u8] {
        // SAFETY: `copy` made it of a slice that outlives this.
        unsafe { &*self.0 }
    }
}

impl AllocationController for Lent {
    fn alloc_align(&self) -> usize {
        align_of::<f32>()
    }

    fn property(&self) -> AllocationProperty {
        Self::PROPERTY
    }

    unsafe fn memory_mut(&mut self, _policy: AccessPolicy) -> Result<&mut [MaybeUninit<u8>], AccessError> {
        Err(AccessError::WouldCopy)
    }

    fn memory(&self, _policy: AccessPolicy) -> Result<&[MaybeUninit<u8>], AccessError> {
        // SAFETY: as in `bytes`; initialised bytes may be seen as bytes that need not be.
        Ok(unsafe { &*(self.0 as *const [MaybeUninit<u8>]) })
    }

    unsafe fn copy_into(&self, into: &mut [u8]) {
        let from = self.bytes().par_chunks(AT_ONCE);
        into.par_chunks_mut(AT_ONCE).zip(from).for_each(|(into, from)| into.copy_from_slice(from));
    }
}
