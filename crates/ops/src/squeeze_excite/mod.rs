//! The two operations of squeeze-excite that read a whole map: the mean of each plane, and each plane times a number.

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

/// The mean of each plane of `x` `[n, c, h, w]`: `[n, c]` float32.
pub fn means(x: Tensor<4>) -> Tensor<2> {
    Tensor::from_dispatch(<Dispatch as SqueezeExcite>::means(x.into_dispatch()))
}

/// Each plane of `x` `[n, c, h, w]` times its number in `gate` `[n, c]` float32.
pub fn scale(x: Tensor<4>, gate: Tensor<2>) -> Tensor<4> {
    Tensor::from_dispatch(<Dispatch as SqueezeExcite>::scale(x.into_dispatch(), gate.into_dispatch()))
}

/// See the module.
#[backend_extension(Autodiff, Flex, Cube: cfg(feature = "cube"), Fusion: cfg(feature = "cube"))]
pub(crate) trait SqueezeExcite: Backend {
    /// See [`means`].
    #[fusion(dtype = DType::F32, shape = [x[0], x[1]].into())]
    fn means(x: FloatTensor<Self>) -> FloatTensor<Self>;

    /// See [`scale`].
    #[fusion(dtype = x, shape = x)]
    fn scale(x: FloatTensor<Self>, gate: FloatTensor<Self>) -> FloatTensor<Self>;
}

/// The gradients of [`scale`]'s map and gate.
#[derive(ExtensionType)]
#[extension_type(fusion: cfg(feature = "cube"))]
pub(crate) struct OfScale<B: Backend> {
    #[extension_type]
    pub(crate) x: Gradient<B>,
    #[extension_type]
    pub(crate) gate: Gradient<B>,
}

/// Which of them are wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) x: bool,
    pub(crate) gate: bool,
}

/// The gradients of [`SqueezeExcite`] for the gradient `dy` of the output.
#[backend_extension(Flex, Cube: cfg(feature = "cube"), Fusion: cfg(feature = "cube"))]
pub(crate) trait SqueezeExciteGradients: Backend {
    /// Of [`means`]: a map of this shape and format.
    #[fusion(meta = |_, shape, dtype| TensorSpec::new((*shape).into(), *dtype))]
    fn means_backward(dy: FloatTensor<Self>, shape: [usize; 4], dtype: DType) -> FloatTensor<Self>;

    /// Of [`scale`].
    #[fusion(meta = |x, gate, _, wanted| OfScaleMetadata {
        x: GradientMetadata::of_map(x, wanted.x),
        gate: GradientMetadata::of_weight(gate, wanted.gate),
    })]
    fn scale_backward(
        x: FloatTensor<Self>,
        gate: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        wanted: Wanted,
    ) -> OfScale<Self>;
}
