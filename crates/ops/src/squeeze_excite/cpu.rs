//! The operations of squeeze-excite on the CPU.

use burn::backend::Flex;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::{DType, Shape};
use burn_flex::FlexTensor;
use rayon::prelude::*;

use super::{OfMultiply, SqueezeExcite, SqueezeExciteGradients, Wanted};
use crate::cpu::lanes::{sum, sum_pairs, vectorised};
use crate::cpu::real::Real;
use crate::cpu::reserve_like;
use crate::cpu::values::{computed_in, dims, tensor, values};
use crate::graph::Gradient;

impl SqueezeExcite for Flex {
    fn global_average_pool(x: FlexTensor) -> FlexTensor {
        let [batch, channels, height, width] = dims(&x);
        computed_in!(T = x.dtype(); tensor(global_average_pool::<T>(&values(&x), height * width), [batch, channels], T::DTYPE))
    }

    fn channel_multiply(x: FlexTensor, gate: FlexTensor) -> FlexTensor {
        let shape = dims(&x);
        computed_in!(T = x.dtype(); {
            let y = channel_multiply::<T>(&values(&x), &values(&gate), shape[2] * shape[3]);
            tensor(y, shape, x.dtype())
        })
    }
}

impl SqueezeExciteGradients for Flex {
    fn global_average_pool_backward(dy: FlexTensor, shape: [usize; 4], dtype: DType) -> FlexTensor {
        let [batch, channels, height, width] = shape;
        let each = computed_in!(T = dtype; {
            let each: Vec<T> = values::<T>(&dy).iter().map(|dy| *dy / T::of((height * width) as f64)).collect();
            tensor(each, [batch, channels, 1, 1], dtype)
        });
        // All pixels of a plane have the same gradient, so it is stored once and broadcast.
        Flex::float_expand(each, Shape::new(shape))
    }

    fn channel_multiply_backward(
        x: FlexTensor,
        factors: FlexTensor,
        dy: FlexTensor,
        wanted: Wanted,
    ) -> OfMultiply<Self> {
        let shape = dims(&x);
        let plane = shape[2] * shape[3];
        computed_in!(T = x.dtype(); {
            let dy = values::<T>(&dy);
            reserve_like(&x);
            let of_gate = Gradient::if_wanted(wanted.gate, || {
                tensor(backward_gate(&values(&x), &dy, plane), [shape[0], shape[1]], T::DTYPE)
            });
            let of_x =
                Gradient::if_wanted(wanted.x, || tensor(channel_multiply(&dy, &values(&factors), plane), shape, x.dtype()));
            OfMultiply { x: of_x, gate: of_gate }
        })
    }
}

/// The mean of each plane of `plane` pixels.
fn global_average_pool<T: Real>(x: &[T], plane: usize) -> Vec<T> {
    let mean = |values: &[T]| {
        vectorised(
            #[inline(always)]
            || T::of(sum(values, |value| value) / plane as f64),
        )
    };
    x.par_chunks_exact(plane).map(mean).collect()
}

/// Each plane times its factor.
fn channel_multiply<T: Real>(x: &[T], gate: &[T], plane: usize) -> Vec<T> {
    let mut y = vec![T::of(0.0); x.len()];
    y.par_chunks_exact_mut(plane).zip(x.par_chunks_exact(plane)).zip(gate).for_each(|((y, x), gate)| {
        vectorised(
            #[inline(always)]
            || {
                for (y, x) in y.iter_mut().zip(x) {
                    *y = *x * *gate;
                }
            },
        );
    });
    y
}

/// The gradient of the factors: the sum over each plane of the map times the gradient of the output.
fn backward_gate<T: Real>(x: &[T], dy: &[T], plane: usize) -> Vec<T> {
    let product = |(x, dy): (&[T], &[T])| {
        vectorised(
            #[inline(always)]
            || T::of(sum_pairs(x, dy, |x, dy| (x * dy, T::of(0.0))).0),
        )
    };
    x.par_chunks_exact(plane).zip(dy.par_chunks_exact(plane)).map(product).collect()
}
