//! Which devices and formats the operations support, and small conversions of tensors for them.

use burn::backend::DispatchDevice;
use burn::tensor::{DType, Device, FloatDType, Tensor};

/// Whether these operations support a tensor: float32, bf16 or f16 on the CPU or a device of CubeCL, and float64 on the CPU.
pub fn serves<const D: usize>(x: &Tensor<D>) -> bool {
    let own = match x.device().without_autodiff().as_dispatch() {
        DispatchDevice::Flex(_) => true,
        #[cfg(feature = "cube")]
        DispatchDevice::Cube(_) => true,
        #[allow(unreachable_patterns)] // which variants exist depends on the features that Burn is built with
        _ => false,
    };
    own && (matches!(x.dtype(), DType::F32 | DType::BF16 | DType::F16) || x.dtype() == DType::F64 && on_cpu(x))
}

/// Whether the operations on `x` support normalisation groups of these sizes. The CPU supports any. Other devices support the groups
/// that `kindling_layers::pass::normalisation_groups` makes: sizes that differ by at most one, the larger ones first.
pub fn serves_groups<const D: usize>(x: &Tensor<D>, groups: &[usize]) -> bool {
    let even = groups.is_sorted_by(|a, b| a >= b) && groups.first().zip(groups.last()).is_none_or(|(a, b)| a - b <= 1);
    even || on_cpu(x)
}

/// The tensor in a format; itself if that is its own.
pub fn cast<const D: usize>(x: Tensor<D>, format: FloatDType) -> Tensor<D> {
    if x.dtype() == DType::from(format) { x } else { x.cast(format) }
}

/// Whether a tensor lies in the memory of the process.
pub fn on_cpu<const D: usize>(x: &Tensor<D>) -> bool {
    is_cpu(x.device())
}

pub(crate) fn is_cpu(device: Device) -> bool {
    matches!(device.without_autodiff().as_dispatch(), DispatchDevice::Flex(_))
}

/// Whether inference on a device treats each sample alone, so that its result has the same bits whatever samples share the batch. It
/// does on the CPU. On other devices, kernels follow from the size of the batch.
pub fn infers_samples_alone(device: &Device) -> bool {
    is_cpu(device.clone())
}

/// Into how many parts so many images of a height and a width are divided where each is inferred alone, each part on threads of its own at
/// first: at least 1, at most as many as threads or images.
pub fn inferred_apart(images: usize, [height, width]: [usize; 2], threads: usize) -> usize {
    /// Pixels of images for which it pays that a thread prepares the filters of all layers for itself, which takes memory for each thread,
    /// too, where they are not kept ([`crate::FilterCache`]).
    const PIXELS: usize = 1 << 14;
    let worth = images.saturating_mul(height).saturating_mul(width) / PIXELS;
    worth.min(threads).min(images).max(1)
}

/// Whether sums over samples on a device are taken in one fixed order, so that a training step has the same bits however it is cut. They
/// are on the CPU, where a step is computed one normalisation group at a time. On other devices, kernels follow from the size of
/// the batch.
pub fn sums_in_a_fixed_order(device: &Device) -> bool {
    is_cpu(device.clone())
}

/// Whether products of float32 numbers on a device have factors that are rounded to ten bits (TF32). They do on GPUs with tensor cores.
pub fn rounds_factors(device: &Device) -> bool {
    match device.clone().without_autodiff().as_dispatch() {
        #[cfg(feature = "cube")]
        DispatchDevice::Cube(device) => has_tensor_cores(&device.client()),
        #[allow(unreachable_patterns)] // which variants exist depends on the features that Burn is built with
        _ => false,
    }
}

/// Whether a device has instructions that multiply tiles. They round float32 factors to ten bits (TF32).
#[cfg(feature = "cube")]
pub(crate) fn has_tensor_cores(client: &burn_cubecl::cubecl::client::Client) -> bool {
    let matmul = &client.properties().features.matmul;
    !(matmul.cmma.is_empty() && matmul.mma.is_empty())
}

/// Whether these operations support a tensor and it lies on the CPU.
pub fn serves_on_cpu<const D: usize>(x: &Tensor<D>) -> bool {
    on_cpu(x) && serves(x)
}

/// The tensor without its gradient graph.
pub fn plain<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    if tensor.is_autodiff() { tensor.inner() } else { tensor }
}

/// Applies an operation of Burn whose output has channels last. On GPUs, a map of one channel is given the strides of a plane before
/// and after it, and so is its gradient; `cube::layout::whole_planes` has the reason.
pub fn by_planes(x: Tensor<4>, operation: impl FnOnce(Tensor<4>) -> Tensor<4>) -> Tensor<4> {
    as_planes(operation(as_planes(x)))
}

fn as_planes(x: Tensor<4>) -> Tensor<4> {
    let [batch, channels, height, width] = x.dims();
    if channels > 1 || on_cpu(&x) {
        return x;
    }
    // A reshape to the same shape would be dropped, so go through another one.
    x.reshape([batch * height, width]).reshape([batch, channels, height, width])
}
