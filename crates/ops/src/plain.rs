//! Out of the gradient graph.

use burn::tensor::Tensor;

/// The tensor outside any gradient graph, on the plain device.
pub fn plain<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    if tensor.is_autodiff() { tensor.inner() } else { tensor }
}
