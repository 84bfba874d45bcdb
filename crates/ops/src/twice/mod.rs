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

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Device, FloatDType, TensorData};
    use rand::RngExt;

    /// More numbers than one thread adds up.
    const SHAPE: [usize; 4] = [2, 3, 90, 91];

    #[test]
    fn the_gradient_of_a_map_that_is_read_twice_has_the_bits_of_burns_sum() {
        let mut rng = kindling_random::rng(8, kindling_random::Purpose::Display, 0, 0);
        let device = Device::flex().autodiff();
        for format in [FloatDType::F32, FloatDType::BF16, FloatDType::F16, FloatDType::F64] {
            let mut random = || {
                let values: Vec<f32> = (0..SHAPE.iter().product()).map(|_| rng.random::<f32>() - 0.5).collect();
                Tensor::<4>::from_data(TensorData::new(values, SHAPE), &device).cast(format).detach()
            };
            let (x, a, b) = (random(), random(), random());
            let gradient = |readers: fn(Tensor<4>) -> [Tensor<4>; 2]| {
                let leaf = x.clone().require_grad();
                // No leaf itself, as maps in a network.
                let [one, other] = readers(leaf.clone() * 2.0);
                let mut gradients = (one * a.clone() + other * b.clone()).sum().backward();
                leaf.grad_remove(&mut gradients).expect("a gradient").into_data()
            };
            let [found, expected] = [gradient(twice), gradient(|x| [x.clone(), x])];
            assert!(found.as_bytes() == expected.as_bytes(), "{format:?}");
        }
    }

    #[test]
    fn a_map_without_gradients_is_only_referred_to() {
        let x = Tensor::<4>::ones([1, 2, 3, 4], &Device::flex());
        let [one, other] = twice(x.clone());
        assert!(
            [one, other].iter().all(|read| read.clone().into_data() == x.clone().into_data() && !read.is_autodiff())
        );
    }
}
