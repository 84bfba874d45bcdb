//! Own operations for the CPU device, with their backward passes.
//!
//! Burn's depthwise weight gradient loops over channels and its batch norm is a chain of whole-tensor operations; on a
//! CPU both are most of a step. The operations here are plain loops over planes, spread over the cores, compiled for
//! the instruction set that is found at run time. They serve float32 on Burn's `Flex` device; everything else takes
//! the path through Burn's own operations, which the tests compare them with.
//!
//! Results do not depend on the number of threads: a plane is computed by one thread, and sums over planes are added in
//! order.

mod activation;
mod autodiff;
mod depthwise;
mod lanes;
mod norm_act;
#[cfg(test)]
mod tests;

use burn::backend::ops::FloatTensorOps;
use burn::backend::{Backend, Dispatch, DispatchDevice, Flex, backend_extension, tensor::FloatTensor};
use burn::tensor::{DType, Tensor, TensorData};
use burn_flex::FlexTensor;

use crate::activation::Activation;
use depthwise::Geometry;
use norm_act::NormAct;

/// What the CPU device can do beyond Burn's operations.
#[backend_extension(Autodiff, Flex)]
pub(crate) trait CpuOps: Backend {
    /// Depthwise convolution to `ceil(size / stride)` rows and columns; `x` `[n, c, h, w]`, `weight` `[c, 1, k, k]`, `k`
    /// 3, 5, 7, 9 or 11; `before` zeros above and to the left, and as many below and to the right as needed.
    fn depthwise(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        stride: usize,
        before: [usize; 2],
    ) -> FloatTensor<Self>;

    /// A 1x1 convolution as the matrix product it is; `x` `[n, c, pixels]`, `weight` `[1, output, c]`.
    fn pointwise(x: FloatTensor<Self>, weight: FloatTensor<Self>) -> FloatTensor<Self>;

    /// Normalisation with given statistics, then the activation; `weight` and `bias` `[c]`, `statistics`
    /// `[2, groups, c]` (means, then biased variances). Its backward pass takes the statistics for functions of `x`.
    fn norm_act(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        statistics: FloatTensor<Self>,
        groups: Vec<usize>,
        epsilon: f64,
        activation: Activation,
    ) -> FloatTensor<Self>;

    /// Mean and biased variance of each channel of each group, `[2, groups, c]`. Has no gradient.
    fn statistics(x: FloatTensor<Self>, groups: Vec<usize>) -> FloatTensor<Self>;
}

/// Whether a tensor is one these operations serve.
pub(crate) fn serves<const D: usize>(x: &Tensor<D>) -> bool {
    x.dtype() == DType::F32 && on_cpu(x)
}

/// Whether a tensor lies in the process's own memory.
pub(crate) fn on_cpu<const D: usize>(x: &Tensor<D>) -> bool {
    matches!(x.device().without_autodiff().as_dispatch(), DispatchDevice::Flex(_))
}

/// See [`CpuOps::depthwise`]. The caller has asked [`serves`] and [`depthwise_kernel`].
pub(crate) fn depthwise(x: Tensor<4>, weight: Tensor<4>, stride: usize, before: [usize; 2]) -> Tensor<4> {
    Tensor::from_dispatch(<Dispatch as CpuOps>::depthwise(x.into_dispatch(), weight.into_dispatch(), stride, before))
}

/// See [`CpuOps::pointwise`]. The caller has asked [`serves`].
pub(crate) fn pointwise(x: Tensor<3>, weight: Tensor<3>) -> Tensor<3> {
    Tensor::from_dispatch(<Dispatch as CpuOps>::pointwise(x.into_dispatch(), weight.into_dispatch()))
}

/// Whether there is a depthwise operation for kernels of this side.
pub(crate) fn depthwise_kernel(kernel: usize) -> bool {
    matches!(kernel, 3 | 5 | 7 | 9 | 11)
}

/// See [`CpuOps::norm_act`].
pub(crate) fn norm_act(
    x: Tensor<4>,
    weight: Tensor<1>,
    bias: Tensor<1>,
    statistics: Tensor<3>,
    groups: Vec<usize>,
    epsilon: f64,
    activation: Activation,
) -> Tensor<4> {
    Tensor::from_dispatch(<Dispatch as CpuOps>::norm_act(
        x.into_dispatch(),
        weight.into_dispatch(),
        bias.into_dispatch(),
        statistics.into_dispatch(),
        groups,
        epsilon,
        activation,
    ))
}

/// See [`CpuOps::statistics`]; `x` is on the device without gradients.
pub(crate) fn statistics(x: Tensor<4>, groups: Vec<usize>) -> Tensor<3> {
    Tensor::from_dispatch(<Dispatch as CpuOps>::statistics(x.into_dispatch(), groups))
}

impl CpuOps for Flex {
    fn depthwise(x: FlexTensor, weight: FlexTensor, stride: usize, before: [usize; 2]) -> FlexTensor {
        let geometry = Geometry::of(&x, &weight, stride, before);
        tensor(depthwise::forward(&values(&x), &values(&weight), &geometry), geometry.output())
    }

    fn pointwise(x: FlexTensor, weight: FlexTensor) -> FlexTensor {
        Flex::float_matmul(weight, x)
    }

    fn norm_act(
        x: FlexTensor,
        weight: FlexTensor,
        bias: FlexTensor,
        statistics: FlexTensor,
        groups: Vec<usize>,
        epsilon: f64,
        activation: Activation,
    ) -> FlexTensor {
        let shape = dims(&x);
        let norm = NormAct::new(shape, &values(&weight), &values(&bias), &values(&statistics), groups, epsilon);
        tensor(norm.forward(&values(&x), activation), shape)
    }

    fn statistics(x: FlexTensor, groups: Vec<usize>) -> FlexTensor {
        let shape = dims(&x);
        let values = norm_act::statistics(&values(&x), shape, &groups);
        FlexTensor::from_data(TensorData::new(values, [2, groups.len(), shape[1]]))
    }
}

/// The elements of a tensor in row-major order, copied only if they lie otherwise.
struct Values(FlexTensor);

impl std::ops::Deref for Values {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        // A contiguous tensor has a slice; `values` made it contiguous.
        self.0.as_slice::<f32>().unwrap_or(&[])
    }
}

fn values(tensor: &FlexTensor) -> Values {
    Values(if tensor.as_slice::<f32>().is_some() { tensor.clone() } else { tensor.to_contiguous() })
}

fn tensor(values: Vec<f32>, shape: [usize; 4]) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(values, shape))
}

fn dims(x: &FlexTensor) -> [usize; 4] {
    use burn::backend::TensorMetadata;
    x.shape().dims()
}
