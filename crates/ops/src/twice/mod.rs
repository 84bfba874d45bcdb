//! A map that two operations read, as the input of a residual block is read by its first convolution and by its shortcut.
//!
//! Burn adds up the gradients of such a map when the second arrives: on one thread, and numbers of half formats one by one. Here they
//! wait for each other, and are added on all threads. The sum is the same to the bit.

mod cpu;
mod graph;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, ExtensionType, Flex, backend_extension};
use burn::tensor::Tensor;
use burn_flex::FlexTensor;

use crate::device::{on_cpu, serves};

/// The same map for two readers. What is differentiated must depend on both: a gradient of one alone is not passed on.
pub fn twice(x: Tensor<4>) -> [Tensor<4>; 2] {
    if !(x.is_autodiff() && on_cpu(&x) && serves(&x)) {
        return [x.clone(), x];
    }
    let Both { one, other } = <Dispatch as Twice>::twice(x.into_dispatch());
    [one, other].map(Tensor::from_dispatch)
}

/// A map for each of two readers.
#[derive(ExtensionType)]
pub(crate) struct Both<B: Backend> {
    pub(crate) one: FloatTensor<B>,
    pub(crate) other: FloatTensor<B>,
}

/// See [`twice()`].
#[backend_extension(Autodiff, Flex)]
pub(crate) trait Twice: Backend {
    fn twice(x: FloatTensor<Self>) -> Both<Self>;
}

/// The gradient of a map that is read twice.
#[backend_extension(Flex)]
pub(crate) trait SumOfTwo: Backend {
    /// The sum of two tensors of one shape and format.
    fn sum_of_two(one: FloatTensor<Self>, other: FloatTensor<Self>) -> FloatTensor<Self>;
}

impl Twice for Flex {
    fn twice(x: FlexTensor) -> Both<Self> {
        Both { one: x.clone(), other: x }
    }
}
