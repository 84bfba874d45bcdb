//! Convolutions of whole maps: dense (from all channels to all), depthwise (each channel by itself) and transposed.
//!
//! With `x` `[n, c, h, w]`, stride `s`, dilation `d` and `b` zeros of padding above and to the left, a dense convolution with
//! filters `[output, c, k, k]` is
//!
//! `y[n, o, i, j] = sum over c, u, v of x[n, c, s i + d u - b0, s j + d v - b1] weight[o, c, u, v]`,
//!
//! where `x` is zero outside the map. A depthwise convolution has filters `[c, 1, k, k]` and no sum over `c`. A transposed
//! convolution is the gradient of a dense one's input. `y` has the format of `x`; weights and their gradients are float32.
//!
//! On the CPU, dense convolutions are matrix products ([`cpu::dense`]), 3x3 ones after Winograd's transforms (`cpu::winograd`), and
//! depthwise convolutions are sums of shifted planes ([`cpu::depthwise`]). On the devices of CubeCL, dense
//! convolutions are matrix products ([`cube::dense`]), and depthwise ones have kernels of their own ([`cube::depthwise`]).

pub(crate) mod cpu;
#[cfg(feature = "cube")]
pub(crate) mod cube;
mod graph;
pub(crate) mod portions;

#[cfg(feature = "cube")]
use burn::backend::fusion::custom::TensorSpec;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, ExtensionType, backend_extension};
use burn::tensor::Tensor;

use crate::graph::Gradient;
#[cfg(feature = "cube")]
use crate::graph::GradientMetadata;

/// A kind of convolution and its geometry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Convolution {
    /// See [`depthwise`].
    Depthwise(Places),
    /// See [`dense`].
    Dense(Places),
}

impl Convolution {
    /// The shape of the output, for a map of this shape and this number of filters.
    #[cfg(feature = "cube")]
    pub(crate) fn output(self, [batch, channels, ..]: [usize; 4], filters: usize) -> [usize; 4] {
        match self {
            Self::Depthwise(Places { out, .. }) => [batch, channels, out[0], out[1]],
            Self::Dense(Places { out, .. }) => [batch, filters, out[0], out[1]],
        }
    }
}

/// The places at which the kernel of a convolution is put on the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// Pixels from one place to the next, 1 or more.
    pub stride: usize,
    /// Pixels from one tap of the kernel to the next; 1 where they are neighbours.
    pub dilation: usize,
    /// Rows of zeros above the map, and columns of zeros to its left.
    pub before: [usize; 2],
    /// Rows and columns of places: height and width of the output.
    pub out: [usize; 2],
}

/// Depthwise convolution of `x` `[n, c, h, w]` with `weight` `[c, 1, k, k]` float32. Below and to the right there are as many zeros
/// as the output needs.
///
/// The caller must have checked [`crate::serves`] and [`depthwise_kernel`].
pub fn depthwise(x: Tensor<4>, weight: Tensor<4>, places: Places) -> Tensor<4> {
    Tensor::from_dispatch(<Dispatch as Convolutions>::depthwise(x.into_dispatch(), weight.into_dispatch(), places))
}

/// Dense convolution of `x` `[n, c, h, w]` with `weight` `[output, c, k, k]` float32.
///
/// The caller must have checked [`crate::serves`].
pub fn dense(x: Tensor<4>, weight: Tensor<4>, places: Places) -> Tensor<4> {
    Tensor::from_dispatch(<Dispatch as Convolutions>::dense(x.into_dispatch(), weight.into_dispatch(), places))
}

/// [`depthwise`] or [`dense`].
pub fn conv(x: Tensor<4>, weight: Tensor<4>, convolution: Convolution) -> Tensor<4> {
    match convolution {
        Convolution::Depthwise(places) => depthwise(x, weight, places),
        Convolution::Dense(places) => dense(x, weight, places),
    }
}

/// Whether [`depthwise`] supports kernels of this side.
pub fn depthwise_kernel(kernel: usize) -> bool {
    matches!(kernel, 3 | 5 | 7 | 9 | 11)
}

/// Transposed convolution: from a map of `places.out` rows and columns to one of `size`, with `weight` `[c, output, k, k]`. `places`
/// belong to the convolution whose input gradient this is, from `size` to `places.out`.
///
/// The caller must have checked [`crate::serves`].
pub fn transposed(x: Tensor<4>, weight: Tensor<4>, places: Places, size: [usize; 2]) -> Tensor<4> {
    let (x, weight) = (x.into_dispatch(), weight.into_dispatch());
    Tensor::from_dispatch(<Dispatch as Convolutions>::transposed(x, weight, places, size))
}

/// The convolutions that every backend implements.
#[backend_extension(Autodiff, Flex, Cube: cfg(feature = "cube"), Fusion: cfg(feature = "cube"))]
pub(crate) trait Convolutions: Backend {
    /// See [`depthwise`].
    #[fusion(dtype = x, shape = [x[0], x[1], places.out[0], places.out[1]].into())]
    fn depthwise(x: FloatTensor<Self>, weight: FloatTensor<Self>, places: Places) -> FloatTensor<Self>;

    /// See [`dense`].
    #[fusion(dtype = x, shape = [x[0], weight[0], places.out[0], places.out[1]].into())]
    fn dense(x: FloatTensor<Self>, weight: FloatTensor<Self>, places: Places) -> FloatTensor<Self>;

    /// See [`transposed`].
    #[fusion(dtype = x, shape = [x[0], weight[1], size[0], size[1]].into())]
    fn transposed(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        places: Places,
        size: [usize; 2],
    ) -> FloatTensor<Self>;
}

/// The gradients of the map and the filters of a convolution.
#[derive(ExtensionType)]
#[extension_type(fusion: cfg(feature = "cube"))]
pub(crate) struct OfConvolution<B: Backend> {
    #[extension_type]
    pub(crate) x: Gradient<B>,
    #[extension_type]
    pub(crate) weight: Gradient<B>,
}

/// Which of these gradients are wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) x: bool,
    pub(crate) weight: bool,
}

/// Backward passes of [`Convolutions`], for the gradient `dy` of the output.
#[backend_extension(Flex, Cube: cfg(feature = "cube"), Fusion: cfg(feature = "cube"))]
pub(crate) trait ConvolutionGradients: Backend {
    #[fusion(meta = gradients_of)]
    fn depthwise_backward(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        places: Places,
        wanted: Wanted,
    ) -> OfConvolution<Self>;

    #[fusion(meta = gradients_of)]
    fn dense_backward(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        places: Places,
        wanted: Wanted,
    ) -> OfConvolution<Self>;

    #[fusion(meta = gradients_of)]
    fn transposed_backward(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        places: Places,
        wanted: Wanted,
    ) -> OfConvolution<Self>;
}

/// Shapes and formats of the gradients, for Burn's fusion.
#[cfg(feature = "cube")]
fn gradients_of(
    x: &TensorSpec,
    weight: &TensorSpec,
    _: &TensorSpec,
    _: &Places,
    wanted: &Wanted,
) -> OfConvolutionMetadata {
    OfConvolutionMetadata {
        x: GradientMetadata::of_map(x, wanted.x),
        weight: GradientMetadata::of_weight(weight, wanted.weight),
    }
}
