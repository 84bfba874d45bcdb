//! Own operations for the CPU device, with their backward passes.
//!
//! Burn's depthwise weight gradient loops over channels, its batch norm is a chain of whole-tensor operations, its matrix
//! products are made twice and its convolutions go through other layouts; on a CPU these were most of a step. The operations
//! here are plain loops over planes and matrix products on the maps as they lie, spread over the cores, compiled for
//! the instruction set that is found at run time. They serve float32 and the half formats on Burn's `Flex` device;
//! everything else takes the path through Burn's own operations, which the tests compare them with.
//!
//! Weights are float32, sums are made in float32 or wider, and a map's format is that of the output. Results do not
//! depend on the number of threads: a plane is computed by one thread, and sums over planes are added in order.

mod activation;
mod adamw;
mod after_norm;
mod autodiff;
mod conv;
mod conv_input;
mod correlate;
mod depthwise;
mod filters;
mod gate;
mod gemm;
mod join;
mod lanes;
mod max_pool;
mod norm_act;
mod reading;
mod scratch;
#[cfg(test)]
mod tests;
mod unread;
mod unread_autodiff;
mod values;
mod winograd;
mod winograd_tiles;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, DispatchDevice, Flex, backend_extension};
use burn::tensor::{DType, Tensor};
use burn_flex::FlexTensor;

use after_norm::Shape;
use conv::Dense;
use depthwise::Geometry;
use values::{dims, tensor, values};

pub use adamw::{AdamWStep, adamw};
pub use scratch::ConvScratch;
pub(crate) use unread::{Again, Normalisation, Pooling, Unread, join_serves};

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

    /// Convolution of all channels to all, to `out` rows and columns; `weight` `[output, c, k, k]`, otherwise as
    /// [`CpuOps::depthwise`].
    fn dense(x: FloatTensor<Self>, weight: FloatTensor<Self>, places: Places) -> FloatTensor<Self>;

    /// The convolution backwards: from maps of `out` rows and columns to larger ones of `size`; `weight` `[c, output, k, k]`.
    fn transposed(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        places: Places,
        size: [usize; 2],
    ) -> FloatTensor<Self>;

    /// Mean and biased variance of each channel of each group, `[2, groups, c]`, float32. Has no gradient.
    fn statistics(x: FloatTensor<Self>, groups: Vec<usize>) -> FloatTensor<Self>;

    /// The mean of each plane, `[n, c]`, float32.
    fn means(x: FloatTensor<Self>) -> FloatTensor<Self>;

    /// Each plane of `x` times its number in `gate`, `[n, c]`, float32.
    fn scale(x: FloatTensor<Self>, gate: FloatTensor<Self>) -> FloatTensor<Self>;
}

/// Which convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Convolution {
    /// [`CpuOps::depthwise`].
    Depthwise { stride: usize, before: [usize; 2] },
    /// [`CpuOps::dense`].
    Dense(Places),
}

/// Where the kernel of a convolution is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    /// Steps between places.
    pub(crate) stride: usize,
    /// Zeros above and to the left.
    pub(crate) before: [usize; 2],
    /// Places below each other and beside each other.
    pub(crate) out: [usize; 2],
}

/// Whether a tensor is one these operations serve.
pub(crate) fn serves<const D: usize>(x: &Tensor<D>) -> bool {
    matches!(x.dtype(), DType::F32 | DType::BF16 | DType::F16) && on_cpu(x)
}

/// Whether a tensor lies in the process's own memory.
pub(crate) fn on_cpu<const D: usize>(x: &Tensor<D>) -> bool {
    matches!(x.device().without_autodiff().as_dispatch(), DispatchDevice::Flex(_))
}

/// See [`CpuOps::depthwise`]. The caller has asked [`serves`] and [`depthwise_kernel`].
pub(crate) fn depthwise(x: Tensor<4>, weight: Tensor<4>, stride: usize, before: [usize; 2]) -> Tensor<4> {
    Tensor::from_dispatch(<Dispatch as CpuOps>::depthwise(x.into_dispatch(), weight.into_dispatch(), stride, before))
}

/// See [`CpuOps::dense`]. The caller has asked [`serves`].
pub(crate) fn dense(x: Tensor<4>, weight: Tensor<4>, places: Places) -> Tensor<4> {
    Tensor::from_dispatch(<Dispatch as CpuOps>::dense(x.into_dispatch(), weight.into_dispatch(), places))
}

/// Either of the two.
pub(crate) fn conv(x: Tensor<4>, weight: Tensor<4>, convolution: Convolution) -> Tensor<4> {
    match convolution {
        Convolution::Depthwise { stride, before } => depthwise(x, weight, stride, before),
        Convolution::Dense(places) => dense(x, weight, places),
    }
}

/// See [`CpuOps::transposed`]. The caller has asked [`serves`].
pub(crate) fn transposed(x: Tensor<4>, weight: Tensor<4>, places: Places, size: [usize; 2]) -> Tensor<4> {
    Tensor::from_dispatch(<Dispatch as CpuOps>::transposed(x.into_dispatch(), weight.into_dispatch(), places, size))
}

/// Whether there is a depthwise operation for kernels of this side.
pub(crate) fn depthwise_kernel(kernel: usize) -> bool {
    matches!(kernel, 3 | 5 | 7 | 9 | 11)
}

/// See [`CpuOps::statistics`]; `x` is on the device without gradients.
pub(crate) fn statistics(x: Tensor<4>, groups: Vec<usize>) -> Tensor<3> {
    Tensor::from_dispatch(<Dispatch as CpuOps>::statistics(x.into_dispatch(), groups))
}

/// See [`CpuOps::means`].
pub(crate) fn means(x: Tensor<4>) -> Tensor<2> {
    Tensor::from_dispatch(<Dispatch as CpuOps>::means(x.into_dispatch()))
}

/// See [`CpuOps::scale`].
pub(crate) fn scale(x: Tensor<4>, gate: Tensor<2>) -> Tensor<4> {
    Tensor::from_dispatch(<Dispatch as CpuOps>::scale(x.into_dispatch(), gate.into_dispatch()))
}

impl CpuOps for Flex {
    fn depthwise(x: FlexTensor, weight: FlexTensor, stride: usize, before: [usize; 2]) -> FlexTensor {
        let geometry = Geometry::of(dims(&x), &weight, stride, before);
        tensor(depthwise::forward(&values(&x), &values(&weight), &geometry), geometry.output(), x.dtype())
    }

    fn dense(x: FlexTensor, weight: FlexTensor, places: Places) -> FlexTensor {
        let shape = Dense::of(dims(&x), &weight, places);
        tensor(conv::forward(&values(&x), &values(&weight), &shape), shape.output_shape(), x.dtype())
    }

    fn transposed(x: FlexTensor, weight: FlexTensor, places: Places, size: [usize; 2]) -> FlexTensor {
        let shape = Dense::backwards(&x, &weight, places, size);
        tensor(conv_input::backward_input(&values(&x), &values(&weight), &shape), shape.input_shape(), x.dtype())
    }

    fn statistics(x: FlexTensor, groups: Vec<usize>) -> FlexTensor {
        let shape = dims(&x);
        let of_groups = norm_act::statistics(&values(&x), shape, &groups);
        tensor(of_groups, [2, groups.len(), shape[1]], DType::F32)
    }

    fn means(x: FlexTensor) -> FlexTensor {
        let [batch, channels, height, width] = dims(&x);
        tensor(gate::means(&values(&x), height * width), [batch, channels], DType::F32)
    }

    fn scale(x: FlexTensor, gate: FlexTensor) -> FlexTensor {
        let shape = dims(&x);
        tensor(gate::scale(&values(&x), &values(&gate), shape[2] * shape[3]), shape, x.dtype())
    }
}

impl Convolution {
    fn shape(self, x: [usize; 4], weight: &FlexTensor) -> Shape {
        match self {
            Self::Depthwise { stride, before } => Shape::Depthwise(Geometry::of(x, weight, stride, before)),
            Self::Dense(places) => Shape::Dense(Dense::of(x, weight, places)),
        }
    }
}

impl Shape {
    fn output(&self) -> [usize; 4] {
        match self {
            Self::Depthwise(geometry) => geometry.output(),
            Self::Dense(dense) => dense.output_shape(),
        }
    }
}

impl Dense {
    fn of([batch, input, height, width]: [usize; 4], weight: &FlexTensor, places: Places) -> Self {
        let [output, _, kernel, _] = dims(weight);
        let Places { stride, before, out } = places;
        Self { batch, input, output, height, width, kernel, stride, before, out }
    }

    /// The convolution whose output has the shape of `x`.
    fn backwards(x: &FlexTensor, weight: &FlexTensor, places: Places, [height, width]: [usize; 2]) -> Self {
        let [_, input, ..] = dims(weight);
        Self::of([dims(x)[0], input, height, width], weight, places)
    }
}
