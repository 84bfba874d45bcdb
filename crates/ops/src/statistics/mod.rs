//! Mean and biased variance of each channel of each normalisation group.

mod cpu;
#[cfg(feature = "cube")]
mod cube;

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, Dispatch, backend_extension};
#[cfg(feature = "cube")]
use burn::tensor::DType;
use burn::tensor::Tensor;

use crate::graph::Tracked;

/// Mean and biased variance of each channel of each group of consecutive samples of `x` `[n, c, h, w]`: `[2, groups, c]` float32.
/// `groups` are the sizes of the groups. `x` must not be on a gradient graph.
pub fn statistics(x: Tensor<4>, groups: Vec<usize>) -> Tensor<3> {
    Tensor::from_dispatch(<Dispatch as Statistics>::statistics(x.into_dispatch(), groups))
}

/// See [`statistics()`].
#[backend_extension(Autodiff, Flex, Cube: cfg(feature = "cube"), Fusion: cfg(feature = "cube"))]
pub(crate) trait Statistics: Backend {
    /// Has no gradient of its own: the backward pass of the normalisation treats the statistics as functions of the map.
    #[fusion(dtype = DType::F32, shape = [2, groups.len(), x[1]].into())]
    fn statistics(x: FloatTensor<Self>, groups: Vec<usize>) -> FloatTensor<Self>;
}

impl<B: Statistics, C: CheckpointStrategy> Statistics for Autodiff<B, C> {
    fn statistics(x: Tracked<B, C>, groups: Vec<usize>) -> Tracked<B, C> {
        Tracked::<B, C>::new(B::statistics(x.into_primitive(), groups))
    }
}
