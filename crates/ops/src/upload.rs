//! From numbers of the host to tensors of a device.

mod host;
#[cfg(feature = "cuda")]
mod pinned;

use burn::tensor::{DType, Device, FloatDType, Tensor, TensorData};

use crate::device::{cast, is_cpu};

/// A tensor of these numbers, rounded to a format. All cores round them in the memory of the process; an NVIDIA GPU reads them from
/// pinned memory, into which all cores copy, and rounds them itself: on one core, the copies of a batch of large images take longer than a
/// step. On a device that computes in float64, which only tests have, they are float64.
///
/// # Panics
/// If the shape has another number of elements.
pub fn upload<const D: usize>(numbers: &[f32], shape: [usize; D], format: FloatDType, device: &Device) -> Tensor<D> {
    if device.settings().float_dtype == FloatDType::F64 {
        return Tensor::from_data(TensorData::new(numbers.to_vec(), shape), device);
    }
    if is_cpu(device.clone()) {
        return Tensor::from_data(host::copy(numbers, shape, format), (device, DType::from(format)));
    }
    #[cfg(feature = "cuda")]
    if let Some(bytes) = pinned::copy(numbers, device) {
        return cast(Tensor::from_data(TensorData::from_bytes(bytes, shape, DType::F32), device), format);
    }
    cast(Tensor::from_data(TensorData::new(numbers.to_vec(), shape), device), format)
}
