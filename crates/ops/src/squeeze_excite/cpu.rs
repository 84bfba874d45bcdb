//! The operations of squeeze-excite on the CPU.

use burn::backend::Flex;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::{DType, Shape};
use burn_flex::FlexTensor;
use rayon::prelude::*;

use super::{OfMultiply, SqueezeExcite, SqueezeExciteGradients, Wanted};
use crate::cpu::gemm::Threads;
use crate::cpu::lanes::{sum, sum_pairs, vectorised};
use crate::cpu::making::Making;
use crate::cpu::real::Real;
use crate::cpu::reserve_like;
use crate::cpu::tensors::{computed_in, contiguous, dims, tensor, values};
use crate::cpu::values::{Elements, Source, Stored};
use crate::graph::Gradient;

impl SqueezeExcite for Flex {
    fn global_average_pool(x: FlexTensor) -> FlexTensor {
        let [batch, channels, height, width] = dims(&x);
        computed_in!(T = x.dtype(); {
            let means = global_average_pool::<T>(contiguous(&x).source(), height * width);
            tensor(means, [batch, channels])
        })
    }

    fn channel_multiply(x: FlexTensor, gate: FlexTensor) -> FlexTensor {
        let shape = dims(&x);
        computed_in!(T = x.dtype(); {
            let y = channel_multiply::<T>(contiguous(&x).source(), &values(&gate), shape[2] * shape[3]);
            tensor(y, shape)
        })
    }
}

impl SqueezeExciteGradients for Flex {
    fn global_average_pool_backward(dy: FlexTensor, shape: [usize; 4], dtype: DType) -> FlexTensor {
        let [batch, channels, height, width] = shape;
        let each = computed_in!(T = dtype; {
            let (dy, mut each) = (values::<T>(&dy), Elements::zeros(batch * channels, dtype));
            each.target().in_pieces(|at, each| {
                each.iter_mut().zip(&dy[at..]).for_each(|(each, dy)| *each = *dy / T::of((height * width) as f64));
            });
            tensor(each, [batch, channels, 1, 1])
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
            let dy = contiguous(&dy);
            reserve_like(&x);
            let of_gate = Gradient::if_wanted(wanted.gate, || {
                tensor(backward_gate::<T>(contiguous(&x).source(), dy.source(), plane), [shape[0], shape[1]])
            });
            let of_x = Gradient::if_wanted(wanted.x, || {
                tensor(channel_multiply::<T>(dy.source(), &values(&factors), plane), shape)
            });
            OfMultiply { x: of_x, gate: of_gate }
        })
    }
}

/// The mean of each plane of `plane` pixels.
fn global_average_pool<T: Stored>(x: Source<'_, T>, plane: usize) -> Vec<T> {
    let mean = |index: usize| {
        let mut total = 0.0;
        x.chunk(index, plane).in_pieces(|_, x| {
            total = vectorised(
                #[inline(always)]
                || sum(total, x, |value| value),
            );
        });
        T::of(total / plane as f64)
    };
    (0..x.len() / plane).into_par_iter().map(mean).collect()
}

/// Each plane times its factor.
fn channel_multiply<T: Stored>(x: Source<'_, T>, gate: &[T], plane: usize) -> Elements<T> {
    let mut y = Making::like(x, x.len());
    y.parts(plane).into_par_iter().zip(gate).enumerate().for_each(|(index, (y, gate))| {
        let y = y.begin(Threads::One);
        let x = x.chunk(index, plane);
        y.in_pieces(|at, y| {
            x.part(at..at + y.len()).in_pieces(|from, x| {
                vectorised(
                    #[inline(always)]
                    || {
                        for (y, x) in y[from..].iter_mut().zip(x) {
                            *y = *x * *gate;
                        }
                    },
                );
            });
        });
    });
    y.made()
}

/// The gradient of the factors: the sum over each plane of the map times the gradient of the output.
fn backward_gate<T: Stored>(x: Source<'_, T>, dy: Source<'_, T>, plane: usize) -> Vec<T> {
    let product = |index: usize| {
        let mut totals = (0.0, 0.0);
        x.chunk(index, plane).in_pieces_with(dy.chunk(index, plane), |_, x, dy| {
            totals = vectorised(
                #[inline(always)]
                || sum_pairs(totals, x, dy, |x, dy| (x * dy, T::of(0.0))),
            );
        });
        T::of(totals.0)
    };
    (0..x.len() / plane).into_par_iter().map(product).collect()
}
