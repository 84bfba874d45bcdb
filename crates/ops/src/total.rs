//! The sum of all numbers of a tensor.

use burn::tensor::Tensor;

use crate::device::on_cpu;

/// The sum of all numbers, `[1]`, in an order that depends on the shape alone.
///
/// On GPUs it is taken along one axis after the other. Burn's own sum of everything adds atomically there: in another order in every run,
/// and into a zero that can be read although the sum failed for lack of memory (`SumStrategy::OneShot` of burn-cubecl 0.22.1).
pub fn total<const D: usize>(x: Tensor<D>) -> Tensor<1> {
    if on_cpu(&x) {
        return x.sum();
    }
    (0..D).rev().fold(x, |x, axis| x.sum_dim(axis)).reshape([1])
}
