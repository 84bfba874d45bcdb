//! Which devices and formats the operations serve, and tensors as they need them.

use burn::backend::DispatchDevice;
use burn::tensor::{DType, Device, Tensor};

/// Whether a tensor is one these operations serve: of float32 or a half format, and on the CPU of float64.
pub fn serves<const D: usize>(x: &Tensor<D>) -> bool {
    let own = match x.device().without_autodiff().as_dispatch() {
        DispatchDevice::Flex(_) => true,
        #[cfg(feature = "cube")]
        DispatchDevice::Cube(_) => true,
        #[allow(unreachable_patterns)] // which devices there are depends on who builds Burn
        _ => false,
    };
    own && (matches!(x.dtype(), DType::F32 | DType::BF16 | DType::F16) || x.dtype() == DType::F64 && on_cpu(x))
}

/// Whether the operations on `x` take normalisation groups of these sizes: on the CPU any, elsewhere as
/// `kindling_layers::pass::normalisation_groups` makes them, even ones with the larger first.
pub fn serves_groups<const D: usize>(x: &Tensor<D>, groups: &[usize]) -> bool {
    let even = groups.is_sorted_by(|a, b| a >= b) && groups.first().zip(groups.last()).is_none_or(|(a, b)| a - b <= 1);
    even || on_cpu(x)
}

/// Whether a tensor lies in the process's own memory.
pub fn on_cpu<const D: usize>(x: &Tensor<D>) -> bool {
    is_cpu(x.device())
}

fn is_cpu(device: Device) -> bool {
    matches!(device.without_autodiff().as_dispatch(), DispatchDevice::Flex(_))
}

/// Whether a device infers each sample by itself: to the bit the same whatever samples are computed beside it. The CPU does;
/// others choose their kernels by the size of the batch.
pub fn infers_samples_alone(device: &Device) -> bool {
    is_cpu(device.clone())
}

/// Whether a tensor lies in the process's own memory and is one that these operations serve; [`crate::transposed`] serves no others.
pub fn serves_on_cpu<const D: usize>(x: &Tensor<D>) -> bool {
    on_cpu(x) && serves(x)
}

/// The tensor outside any gradient graph, on the plain device.
pub fn plain<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    if tensor.is_autodiff() { tensor.inner() } else { tensor }
}

/// What an operation of Burn that leaves channels last makes of a map: before and behind it, on GPUs, a map of one channel, or its
/// gradient, gets the strides of a plane, for the reason that `cube::layout::whole_planes` has.
pub fn by_planes(x: Tensor<4>, operation: impl FnOnce(Tensor<4>) -> Tensor<4>) -> Tensor<4> {
    as_planes(operation(as_planes(x)))
}

fn as_planes(x: Tensor<4>) -> Tensor<4> {
    let [batch, channels, height, width] = x.dims();
    if channels > 1 || on_cpu(&x) {
        return x;
    }
    // Two shapes, because one and the same would change nothing.
    x.reshape([batch * height, width]).reshape([batch, channels, height, width])
}
