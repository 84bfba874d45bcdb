//! Reading tensors to the host, at once.
//!
//! What Burn's `try_into_data` returns for a device of CubeCL is not in host memory yet: it holds on to the device's memory
//! and copies when it is first looked at, with a panic if that fails. So a copy that is to outlive the device, a gate that is
//! to learn of errors, and whatever is kept longer than its tensor are read through here.

use burn::tensor::{AllocationProperty, Tensor, TensorData};

/// The values of a tensor, in memory of this process that does not depend on the device any more.
///
/// # Errors
/// What the device says.
pub fn read<const D: usize>(tensor: Tensor<D>) -> Result<TensorData, String> {
    tensor.try_into_data().map_err(|error| error.to_string()).and_then(at_once)
}

/// The same for what was taken from a tensor already. What is in host memory stays where it is.
///
/// # Errors
/// What the device says.
pub fn at_once(data: TensorData) -> Result<TensorData, String> {
    if !matches!(data.bytes().property(), AllocationProperty::Device) {
        return Ok(data);
    }
    let (bytes, shape, dtype) = data.into_parts();
    // A copy, because what is read stays beside the device's memory, and may be pinned.
    let copy = bytes.read(Default::default()).map_err(|error| error.to_string())?.to_vec();
    TensorData::try_from_bytes_vec(copy, shape, dtype).map_err(|error| error.to_string())
}
