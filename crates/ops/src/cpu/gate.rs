//! The two operations of squeeze-excite that read a whole map: the mean of each plane, and each plane times a number.

use rayon::prelude::*;

use super::lanes::{sum, sum_pairs, vectorised};
use super::real::Real;

/// The mean of each plane of `plane` pixels.
pub(super) fn means<T: Real>(x: &[T], plane: usize) -> Vec<T> {
    let mean = |values: &[T]| {
        vectorised(
            #[inline(always)]
            || T::of(sum(values, |value| value) / plane as f64),
        )
    };
    x.par_chunks_exact(plane).map(mean).collect()
}

/// Each plane times its number.
pub(super) fn scale<T: Real>(x: &[T], gate: &[T], plane: usize) -> Vec<T> {
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
pub(super) fn backward_gate<T: Real>(x: &[T], dy: &[T], plane: usize) -> Vec<T> {
    let product = |(x, dy): (&[T], &[T])| {
        vectorised(
            #[inline(always)]
            || T::of(sum_pairs(x, dy, |x, dy| (x * dy, T::of(0.0))).0),
        )
    };
    x.par_chunks_exact(plane).zip(dy.par_chunks_exact(plane)).map(product).collect()
}
