//! Convolutions of whole maps: of all channels to all (dense), of each channel by itself (depthwise), and transposed.
//!
//! With `x` `[n, c, h, w]`, `s` the stride, `d` the dilation and `b` the zeros before, a dense convolution with filters
//! `[output, c, k, k]` is
//!
//! `y[n, o, i, j] = sum over c, u, v of x[n, c, s i + d u - b0, s j + d v - b1] weight[o, c, u, v]`,
//!
//! where outside the map there are zeros; a depthwise one has filters `[c, 1, k, k]` and no sum over `c`; a transposed one is the
//! gradient of a dense one's input. `y` has the format of `x`; weights are float32, and so are their gradients.
//!
//! On the CPU dense convolutions are matrix products ([`cpu::dense`]), 3x3 ones by Winograd's transforms (`cpu::winograd`), and
//! depthwise ones sums over few places of a plane ([`cpu::depthwise`]). On the devices of CubeCL dense convolutions are Burn's,
//! and 1x1 ones matrix products ([`cube::dense`]); depthwise ones have kernels of their own ([`cube::depthwise`]).

pub(crate) mod cpu;
#[cfg(feature = "cube")]
pub(crate) mod cube;
mod graph;

#[cfg(feature = "cube")]
use burn::backend::fusion::custom::TensorSpec;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, ExtensionType, backend_extension};
use burn::tensor::Tensor;

use crate::graph::Gradient;
#[cfg(feature = "cube")]
use crate::graph::GradientMetadata;

/// Which convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Convolution {
    /// See [`depthwise`].
    Depthwise(Places),
    /// See [`dense`].
    Dense(Places),
}

impl Convolution {
    /// The output's shape, for a map of this shape and so many filters.
    #[cfg(feature = "cube")]
    pub(crate) fn output(self, [batch, channels, ..]: [usize; 4], filters: usize) -> [usize; 4] {
        match self {
            Self::Depthwise(Places { out, .. }) => [batch, channels, out[0], out[1]],
            Self::Dense(Places { out, .. }) => [batch, filters, out[0], out[1]],
        }
    }
}

/// Where the kernel of a convolution is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// Steps between places.
    pub stride: usize,
    /// Steps between the pixels under the kernel; 1 where they are neighbours.
    pub dilation: usize,
    /// Zeros above and to the left.
    pub before: [usize; 2],
    /// Places below each other and beside each other.
    pub out: [usize; 2],
}

/// Depthwise convolution to `out` rows and columns; `x` `[n, c, h, w]`, `weight` `[c, 1, k, k]` float32, `before` zeros above and
/// to the left, and as many below and to the right as needed.
///
/// The caller has asked [`crate::serves`] and [`depthwise_kernel`].
pub fn depthwise(x: Tensor<4>, weight: Tensor<4>, places: Places) -> Tensor<4> {
    Tensor::from_dispatch(<Dispatch as Convolutions>::depthwise(x.into_dispatch(), weight.into_dispatch(), places))
}

/// Convolution of all channels to all; `x` `[n, c, h, w]`, `weight` `[output, c, k, k]` float32.
///
/// The caller has asked [`crate::serves`].
pub fn dense(x: Tensor<4>, weight: Tensor<4>, places: Places) -> Tensor<4> {
    Tensor::from_dispatch(<Dispatch as Convolutions>::dense(x.into_dispatch(), weight.into_dispatch(), places))
}

/// Either of the two.
pub fn conv(x: Tensor<4>, weight: Tensor<4>, convolution: Convolution) -> Tensor<4> {
    match convolution {
        Convolution::Depthwise(places) => depthwise(x, weight, places),
        Convolution::Dense(places) => dense(x, weight, places),
    }
}

/// Whether there is a depthwise operation for kernels of this side.
pub fn depthwise_kernel(kernel: usize) -> bool {
    matches!(kernel, 3 | 5 | 7 | 9 | 11)
}

/// The dense convolution backwards: from maps of `out` rows and columns to larger ones of `size`; `weight` `[c, output, k, k]`.
///
/// The caller has asked [`crate::serves_on_cpu`].
pub fn transposed(x: Tensor<4>, weight: Tensor<4>, places: Places, size: [usize; 2]) -> Tensor<4> {
    let (x, weight) = (x.into_dispatch(), weight.into_dispatch());
    Tensor::from_dispatch(<Dispatch as TransposedConvolution>::transposed(x, weight, places, size))
}

/// Convolutions of a backend.
#[backend_extension(Autodiff, Flex, Cube: cfg(feature = "cube"), Fusion: cfg(feature = "cube"))]
pub(crate) trait Convolutions: Backend {
    /// See [`depthwise`].
    #[fusion(dtype = x, shape = [x[0], x[1], places.out[0], places.out[1]].into())]
    fn depthwise(x: FloatTensor<Self>, weight: FloatTensor<Self>, places: Places) -> FloatTensor<Self>;

    /// See [`dense`].
    #[fusion(dtype = x, shape = [x[0], weight[0], places.out[0], places.out[1]].into())]
    fn dense(x: FloatTensor<Self>, weight: FloatTensor<Self>, places: Places) -> FloatTensor<Self>;
}

/// What only the CPU has.
#[backend_extension(Autodiff, Flex)]
pub(crate) trait TransposedConvolution: Backend {
    /// See [`transposed`].
    fn transposed(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        places: Places,
        size: [usize; 2],
    ) -> FloatTensor<Self>;
}

/// The gradients of a convolution's map and filters.
#[derive(ExtensionType)]
#[extension_type(fusion: cfg(feature = "cube"))]
pub(crate) struct OfConvolution<B: Backend> {
    #[extension_type]
    pub(crate) x: Gradient<B>,
    #[extension_type]
    pub(crate) weight: Gradient<B>,
}

/// Which of them are wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) x: bool,
    pub(crate) weight: bool,
}

/// The gradients of [`Convolutions`] for the gradient `dy` of the output.
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
}

/// What they look like.
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
