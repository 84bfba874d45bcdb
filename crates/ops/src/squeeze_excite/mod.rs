//! The two operations of squeeze-excite that read a whole map: the global average pool, and the multiplication of each channel of
//! each sample by a factor.

mod cpu;
#[cfg(feature = "cube")]
pub(crate) mod cube;
mod graph;

#[cfg(feature = "cube")]
use burn::backend::fusion::custom::TensorSpec;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, ExtensionType, backend_extension};
use burn::tensor::{DType, Tensor};

use crate::graph::Gradient;
#[cfg(feature = "cube")]
use crate::graph::GradientMetadata;

/// Global average pool: the mean of each plane of `x` `[n, c, h, w]`, `[n, c]` float32.
pub fn global_average_pool(x: Tensor<4>) -> Tensor<2> {
    Tensor::from_dispatch(<Dispatch as SqueezeExcite>::global_average_pool(x.into_dispatch()))
}

/// Multiplies each plane of `x` `[n, c, h, w]` by its factor in `gate` `[n, c]` float32.
pub fn channel_multiply(x: Tensor<4>, gate: Tensor<2>) -> Tensor<4> {
    Tensor::from_dispatch(<Dispatch as SqueezeExcite>::channel_multiply(x.into_dispatch(), gate.into_dispatch()))
}

/// See the module.
#[backend_extension(Autodiff, Flex, Cube: cfg(feature = "cube"), Fusion: cfg(feature = "cube"))]
pub(crate) trait SqueezeExcite: Backend {
    /// See [`global_average_pool`].
    #[fusion(dtype = DType::F32, shape = [x[0], x[1]].into())]
    fn global_average_pool(x: FloatTensor<Self>) -> FloatTensor<Self>;

    /// See [`channel_multiply`].
    #[fusion(dtype = x, shape = x)]
    fn channel_multiply(x: FloatTensor<Self>, gate: FloatTensor<Self>) -> FloatTensor<Self>;
}

/// The gradients of the map and the gate of [`channel_multiply`].
#[derive(ExtensionType)]
#[extension_type(fusion: cfg(feature = "cube"))]
pub(crate) struct OfMultiply<B: Backend> {
    #[extension_type]
    pub(crate) x: Gradient<B>,
    #[extension_type]
    pub(crate) gate: Gradient<B>,
}

/// Which of these gradients are wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) x: bool,
    pub(crate) gate: bool,
}

/// Backward passes of [`SqueezeExcite`], for the gradient `dy` of the output.
#[backend_extension(Flex, Cube: cfg(feature = "cube"), Fusion: cfg(feature = "cube"))]
pub(crate) trait SqueezeExciteGradients: Backend {
    /// The gradient of the map of [`global_average_pool`], which has this shape and format.
    #[fusion(meta = |_, shape, dtype| TensorSpec::new((*shape).into(), *dtype))]
    fn global_average_pool_backward(dy: FloatTensor<Self>, shape: [usize; 4], dtype: DType) -> FloatTensor<Self>;

    /// The gradients of [`channel_multiply`].
    #[fusion(meta = |x, gate, _, wanted| OfMultiplyMetadata {
        x: GradientMetadata::of_map(x, wanted.x),
        gate: GradientMetadata::of_weight(gate, wanted.gate),
    })]
    fn channel_multiply_backward(
        x: FloatTensor<Self>,
        gate: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        wanted: Wanted,
    ) -> OfMultiply<Self>;
}
