//! From numbers of the host to tensors of a device.

#[cfg(feature = "cuda")]
mod pinned;

use burn::tensor::{Device, Tensor, TensorData};

/// A float32 tensor of these numbers. An NVIDIA GPU reads them from pinned memory, into which all cores copy: on one core, the copies of a
/// batch of large images take longer than a step.
///
/// # Panics
/// If the shape has another number of elements.
pub fn upload<const D: usize>(numbers: &[f32], shape: [usize; D], device: &Device) -> Tensor<D> {
    #[cfg(feature = "cuda")]
    if let Some(bytes) = pinned::copy(numbers, device) {
        return Tensor::from_data(TensorData::from_bytes(bytes, shape, burn::tensor::DType::F32), device);
    }
    Tensor::from_data(TensorData::new(numbers.to_vec(), shape), device)
}
