//! Copying tensors to host memory immediately.
//!
//! For a device of CubeCL, Burn's `try_into_data` returns data that is not in host memory yet. It refers to the device's memory and
//! is copied when it is first accessed, with a panic if that fails. So everything that must outlive the device or its tensor, and the
//! finite check, which must learn of errors, reads through this module.

use burn::tensor::{AllocationProperty, Tensor, TensorData};

/// The values of a tensor in memory of this process, independent of the device.
///
/// # Errors
/// The device's error message.
pub fn read<const D: usize>(tensor: Tensor<D>) -> Result<TensorData, String> {
    tensor.try_into_data().map_err(|error| error.to_string()).and_then(at_once)
}

/// As [`read`], for data that was taken from a tensor already. Data in host memory is returned as it is.
///
/// # Errors
/// The device's error message.
pub fn at_once(data: TensorData) -> Result<TensorData, String> {
    if !matches!(data.bytes().property(), AllocationProperty::Device) {
        return Ok(data);
    }
    let (bytes, shape, dtype) = data.into_parts();
    // Copy once more, because the bytes that are read may be in pinned memory that belongs to the device.
    let copy = bytes.read(Default::default()).map_err(|error| error.to_string())?.to_vec();
    TensorData::try_from_bytes_vec(copy, shape, dtype).map_err(|error| error.to_string())
}
