//! Tensors as others need them: out of the gradient graph, or with planes that Burn's fusion reads rightly.

use burn::tensor::Tensor;

use crate::on_cpu;

/// The tensor outside any gradient graph, on the plain device.
pub fn plain<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    if tensor.is_autodiff() { tensor.inner() } else { tensor }
}

/// What an operation of Burn that leaves channels last makes of a map: before and behind it, on GPUs, a map of one channel, or its
/// gradient, gets the strides of a plane, for the reason that `cube::layout::whole_planes` has.
pub fn by_planes(x: Tensor<4>, operation: impl FnOnce(Tensor<4>) -> Tensor<4>) -> Tensor<4> {
    as_planes(operation(as_planes(x)))
}

fn as_planes(x: Tensor<4>) -> Tensor<4> {
    let [batch, channels, height, width] = x.dims();
    if channels > 1 || on_cpu(&x) {
        return x;
    }
    // Two shapes, because one and the same would change nothing.
    x.reshape([batch * height, width]).reshape([batch, channels, height, width])
}
