//! The operations of squeeze-excite on the CPU.

use burn::backend::Flex;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::{DType, Shape};
use burn_flex::FlexTensor;
use rayon::prelude::*;

use super::{OfScale, SqueezeExcite, SqueezeExciteGradients, Wanted};
use crate::cpu::announce_like;
use crate::cpu::lanes::{sum, sum_pairs, vectorised};
use crate::cpu::real::Real;
use crate::cpu::values::{computed_in, dims, tensor, values};
use crate::graph::Gradient;

impl SqueezeExcite for Flex {
    fn means(x: FlexTensor) -> FlexTensor {
        let [batch, channels, height, width] = dims(&x);
        computed_in!(T = x.dtype(); tensor(means::<T>(&values(&x), height * width), [batch, channels], T::DTYPE))
    }

    fn scale(x: FlexTensor, gate: FlexTensor) -> FlexTensor {
        let shape = dims(&x);
        computed_in!(T = x.dtype(); {
            let y = scale::<T>(&values(&x), &values(&gate), shape[2] * shape[3]);
            tensor(y, shape, x.dtype())
        })
    }
}

impl SqueezeExciteGradients for Flex {
    fn means_backward(dy: FlexTensor, shape: [usize; 4], dtype: DType) -> FlexTensor {
        let [batch, channels, height, width] = shape;
        let each = computed_in!(T = dtype; {
            let each: Vec<T> = values::<T>(&dy).iter().map(|dy| *dy / T::of((height * width) as f64)).collect();
            tensor(each, [batch, channels, 1, 1], dtype)
        });
        // One number a plane, however large the plane is.
        Flex::float_expand(each, Shape::new(shape))
    }

    fn scale_backward(x: FlexTensor, factors: FlexTensor, dy: FlexTensor, wanted: Wanted) -> OfScale<Self> {
        let shape = dims(&x);
        let plane = shape[2] * shape[3];
        computed_in!(T = x.dtype(); {
            let dy = values::<T>(&dy);
            announce_like(&x);
            let of_gate = Gradient::if_wanted(wanted.gate, || {
                tensor(backward_gate(&values(&x), &dy, plane), [shape[0], shape[1]], T::DTYPE)
            });
            let of_x =
                Gradient::if_wanted(wanted.x, || tensor(scale(&dy, &values(&factors), plane), shape, x.dtype()));
            OfScale { x: of_x, gate: of_gate }
        })
    }
}

/// The mean of each plane of `plane` pixels.
fn means<T: Real>(x: &[T], plane: usize) -> Vec<T> {
    let mean = |values: &[T]| {
        vectorised(
            #[inline(always)]
            || T::of(sum(values, |value| value) / plane as f64),
        )
    };
    x.par_chunks_exact(plane).map(mean).collect()
}

/// Each plane times its number.
fn scale<T: Real>(x: &[T], gate: &[T], plane: usize) -> Vec<T> {
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

/// The gradient of the numbers: the sum over each plane of the map times the output's gradient.
fn backward_gate<T: Real>(x: &[T], dy: &[T], plane: usize) -> Vec<T> {
    let product = |(x, dy): (&[T], &[T])| {
        vectorised(
            #[inline(always)]
            || T::of(sum_pairs(x, dy, |x, dy| (x * dy, T::of(0.0))).0),
        )
    };
    x.par_chunks_exact(plane).zip(dy.par_chunks_exact(plane)).map(product).collect()
}
