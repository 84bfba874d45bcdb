//! The sum and the mean of all numbers of a tensor.
//!
//! On GPUs, Burn's sum adds atomically: in another order in every run, and into a zero that can be read although the kernel failed for lack
//! of memory (`SumStrategy::OneShot` of burn-cubecl 0.22.1). This one adds in an order that depends on the number of values alone.

#[cfg(feature = "cube")]
mod cube;
mod graph;

use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, Flex, backend_extension};
use burn::tensor::Tensor;
use burn_flex::FlexTensor;

use crate::device::{on_cpu, serves};

/// The sum of all numbers, `[1]`, in the format of `x`. Half formats are added up in float32.
#[allow(clippy::disallowed_methods)] // on the CPU
pub fn sum<const D: usize>(x: Tensor<D>) -> Tensor<1> {
    if on_cpu(&x) || !serves(&x) {
        return x.sum();
    }
    let numbers = x.shape().num_elements();
    Tensor::from_dispatch(<Dispatch as Sum>::sum(x.reshape([numbers]).into_dispatch()))
}

/// The mean of all numbers, `[1]`; see [`sum()`].
#[allow(clippy::disallowed_methods)] // on the CPU
pub fn mean<const D: usize>(x: Tensor<D>) -> Tensor<1> {
    if on_cpu(&x) {
        return x.mean();
    }
    let numbers = x.shape().num_elements();
    sum(x).div_scalar(numbers as f64)
}

/// See [`sum()`].
#[backend_extension(Autodiff, Flex, Cube: cfg(feature = "cube"), Fusion: cfg(feature = "cube"))]
pub(crate) trait Sum: Backend {
    /// `[n]` to `[1]`.
    #[fusion(dtype = x, shape = [1].into())]
    fn sum(x: FloatTensor<Self>) -> FloatTensor<Self>;
}

/// Required by the backend trait. [`sum()`] uses Burn's operation on the CPU and never comes here.
impl Sum for Flex {
    fn sum(x: FlexTensor) -> FlexTensor {
        <Self as FloatTensorOps<Self>>::float_sum(x)
    }
}
