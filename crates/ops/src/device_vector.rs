//! Vectors in memory of an NVIDIA GPU by their addresses, for libraries beside CubeCL that read and write there.
//!
//! CubeCL orders what it does by streams of its own, and what another library does on the GPU is none of it. So whoever has an address
//! calls [`DeviceVector::settle`] before another library goes to it, and lets that library end before CubeCL does.

use std::any::Any;

use burn::backend::{Cube, DispatchDevice};
use burn::tensor::{DType, Device, Shape, Tensor};
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{CubeBackend, CubeDevice, cubecl};
use cubecl::future::block_on;
use cubecl::prelude::{CubeCount, CubeDim};
use cubecl_cuda::CudaRuntime;
use cubecl_server::runtime::Runtime;

use crate::cube::units::UNITS;

/// Numbers that a unit adds before a further cube is launched.
const EACH: usize = 8;
/// The most cubes: enough to fill any GPU.
const MOST_CUBES: usize = 1024;

/// A float32 vector whose numbers stand behind each other in memory of a GPU, where it stays as long as it lives.
pub struct DeviceVector {
    tensor: CubeTensor,
    address: u64,
    /// Keeps the memory where it is.
    _resource: Box<dyn Any>,
}

impl std::fmt::Debug for DeviceVector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeviceVector").field("address", &self.address).field("floats", &self.floats()).finish()
    }
}

impl DeviceVector {
    /// A tensor outside any gradient graph, `[n]`. Nobody else may write to it.
    ///
    /// # Errors
    /// If it is not float32 or not on an NVIDIA GPU, or what computed it has failed.
    pub fn of(tensor: Tensor<1>) -> Result<Self, String> {
        if tensor.dtype() != DType::F32 {
            return Err(format!("a vector of {:?} is not one of float32", tensor.dtype()));
        }
        let fused = tensor.try_into_primitive::<Cube>().map_err(|error| format!("{error:?}"))?;
        let tensor = fused.client.clone().resolve_tensor_float::<CubeBackend>(fused);
        Self::found(into_contiguous(tensor))
    }

    /// A new vector of so many numbers, which have no values yet.
    ///
    /// # Errors
    /// If `device` is not an NVIDIA GPU, or has no memory left.
    pub fn empty(device: &Device, floats: usize) -> Result<Self, String> {
        match device.clone().without_autodiff().as_dispatch() {
            DispatchDevice::Cube(device @ CubeDevice::Cuda(_)) => {
                let shape = Shape::new([floats]);
                Self::found(empty_device_contiguous_dtype(device.client(), device.clone(), shape, DType::F32))
            }
            _ => Err("the device is not an NVIDIA GPU".to_string()),
        }
    }

    fn found(tensor: CubeTensor) -> Result<Self, String> {
        type Server = <CudaRuntime as Runtime>::Server;
        let resource =
            tensor.client.get_resource::<Server>(tensor.handle.clone()).map_err(|error| error.to_string())?;
        let address = resource.resource().ptr;
        Ok(Self { tensor, address, _resource: Box::new(resource) })
    }

    /// Where its first number is, as CUDA counts.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its length.
    pub fn floats(&self) -> usize {
        self.tensor.meta.num_elements()
    }

    /// Adds `length` numbers from `right` on to those from `left` on, in place. The two do not overlap.
    ///
    /// # Panics
    /// If they do, or reach beyond the vector, or it has 2^32 numbers or more.
    pub fn add(&self, left: usize, right: usize, length: usize) {
        let (first, last) = (left.min(right), left.max(right));
        assert!(first + length <= last && last + length <= self.floats(), "numbers of the vector that do not overlap");
        let [left, right, numbers] = [left, right, length].map(|it| u32::try_from(it).expect("a vector of a room"));
        let cubes = length.div_ceil(UNITS as usize * EACH).clamp(1, MOST_CUBES);
        kernel::add_within::launch(
            &self.tensor.client,
            CubeCount::Static(cubes as u32, 1, 1),
            CubeDim::new_1d(UNITS),
            self.tensor.clone().into_tensor_arg(),
            left,
            right,
            numbers,
        );
    }

    /// Returns when all that CubeCL was asked to do is done.
    ///
    /// # Errors
    /// The device's words, if it is lost or something that was to write to this vector has failed.
    pub fn settle(&self) -> Result<(), String> {
        block_on(self.tensor.client.sync_buffers([&self.tensor.handle])).map_err(|error| error.to_string())
    }

    /// Reads its first numbers to the host.
    ///
    /// # Errors
    /// As [`Self::settle`].
    ///
    /// # Panics
    /// If it has fewer.
    pub fn read(&self, into: &mut [f32]) -> Result<(), String> {
        let rest = self.floats().checked_sub(into.len()).expect("no more numbers are read than there are");
        let handle = self.tensor.handle.clone().offset_end((rest * size_of::<f32>()) as u64);
        let bytes = self.tensor.client.read_one(handle).map_err(|error| error.to_string())?;
        for (number, bytes) in into.iter_mut().zip(bytes.chunks_exact(size_of::<f32>())) {
            *number = bytemuck::pod_read_unaligned(bytes);
        }
        Ok(())
    }
}

mod kernel {
    use burn_cubecl::cubecl;
    use cubecl::prelude::*;

    /// Each unit takes every `units * cubes`-th number, so that neighbouring units read neighbouring numbers.
    #[cube(launch)]
    pub(super) fn add_within(x: &mut Tensor<f32>, left: u32, right: u32, length: u32) {
        let mut at = CUBE_POS_X * CUBE_DIM_X + UNIT_POS_X;
        while at < length {
            let sum = x[(left + at) as usize] + x[(right + at) as usize];
            x[(left + at) as usize] = sum;
            at += CUBE_COUNT_X * CUBE_DIM_X;
        }
    }
}
