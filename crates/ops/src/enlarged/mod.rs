//! Convolutions of enlarged maps, with which the blocks of a U-Net's decoder begin: every pixel of a map becomes a square of four equal
//! ones, the channels of another map of that size follow, and a 3x3 kernel goes over both.
//!
//! With `x` `[n, c, h, w]`, `beside` `[n, d, 2 h, 2 w]` and filters `[output, c + d, 3, 3]`, the result is that of
//! [`crate::resize()`] (nearest), concatenation and [`crate::dense`] with one zero around the map. But of the nine pixels of `x` under the
//! kernel there are only four different ones, two in each direction. So four filters of 2x2 taps, which are sums of the nine, one for each
//! quarter of the output (every second row and column), compute the same with 4 instead of 9 multiply-adds a channel and pixel. The same
//! holds for the gradients. The enlarged map is neither computed nor kept: the backward pass needs `x` and `beside` alone.
//!
//! That pays where products are most of the work and there is no better way: for maps of bf16 that are multiplied as they are stored
//! ([`enlarges`]). In float32 Winograd's transforms save as much.

mod cpu;
mod graph;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, ExtensionType, backend_extension};
use burn::tensor::{DType, Tensor};

use crate::cpu::factors::multiplies_as_stored;
use crate::device::on_cpu;
use crate::graph::Gradient;

pub use cpu::EnlargedScratch;

/// The fewest columns of a map that is enlarged: a register has the pixels of so many.
const COLUMNS: usize = 16;

/// Whether [`dense_of_enlarged`] supports this map and an output of `size` rows and columns.
pub fn convolves_enlarged(x: &Tensor<4>, size: [usize; 2]) -> bool {
    let [_, _, height, width] = x.dims();
    on_cpu(x) && enlarges(x.dtype(), [height, width], size)
}

/// Whether [`dense_of_enlarged`] supports, on the CPU, maps of a format and so many rows and columns, and an output of `size` rows and columns.
pub fn enlarges(format: DType, [height, width]: [usize; 2], size: [usize; 2]) -> bool {
    multiplies_as_stored(format) && size == [2 * height, 2 * width] && width >= COLUMNS
}

/// The convolution of `x` `[n, c, h, w]`, each pixel of which becomes four, and of `beside` `[n, d, 2 h, 2 w]`, if there is one, with
/// `weight` `[output, c + d, 3, 3]` float32: `[n, output, 2 h, 2 w]`, in the format of `x`.
///
/// The caller must have checked [`convolves_enlarged`].
///
/// # Panics
/// If the shapes do not fit each other, or `beside` has another format than `x`.
pub fn dense_of_enlarged(x: Tensor<4>, beside: Option<Tensor<4>>, weight: Tensor<4>) -> Tensor<4> {
    let [batch, channels, height, width] = x.dims();
    let others = beside.as_ref().map_or(0, |beside| {
        let [of_batch, channels, rows, columns] = beside.dims();
        assert_eq!(
            [of_batch, rows, columns],
            [batch, 2 * height, 2 * width],
            "a map beside has the enlarged map's size"
        );
        assert_eq!(beside.dtype(), x.dtype(), "both maps have one format");
        channels
    });
    let [_, read, kernel, _] = weight.dims();
    assert_eq!([read, kernel], [channels + others, 3], "3x3 filters for the channels of both maps");
    let beside = beside.map_or(Beside::Nothing, |beside| Beside::Map(beside.into_dispatch()));
    Tensor::from_dispatch(<Dispatch as Enlarged>::convolve(x.into_dispatch(), beside, weight.into_dispatch()))
}

/// The map beside the one that is enlarged, if there is one.
#[derive(ExtensionType, Clone, Debug)]
pub(crate) enum Beside<B: Backend> {
    Nothing,
    Map(FloatTensor<B>),
}

/// See the module.
#[backend_extension(Autodiff, Flex)]
pub(crate) trait Enlarged: Backend {
    /// See [`dense_of_enlarged`].
    fn convolve(
        x: FloatTensor<Self>,
        #[extension_type] beside: Beside<Self>,
        weight: FloatTensor<Self>,
    ) -> FloatTensor<Self>;
}

/// The gradients of [`dense_of_enlarged`].
#[derive(ExtensionType)]
pub(crate) struct OfEnlarged<B: Backend> {
    #[extension_type]
    pub(crate) x: Gradient<B>,
    #[extension_type]
    pub(crate) beside: Gradient<B>,
    #[extension_type]
    pub(crate) weight: Gradient<B>,
}

/// Which of these gradients are wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) x: bool,
    pub(crate) beside: bool,
    pub(crate) weight: bool,
}

/// The backward pass of [`Enlarged`].
#[backend_extension(Flex)]
pub(crate) trait EnlargedGradients: Backend {
    /// For the gradient `dy` of the output.
    fn convolve_backward(
        x: FloatTensor<Self>,
        #[extension_type] beside: Beside<Self>,
        weight: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        wanted: Wanted,
    ) -> OfEnlarged<Self>;
}
