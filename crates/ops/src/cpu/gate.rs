//! The two operations of squeeze-excite that read a whole map: the mean of each plane, and each plane times a number.

use rayon::prelude::*;

use super::lanes::{sum, sum_pairs, vectorised};

/// The mean of each plane of `plane` pixels.
pub(super) fn means(x: &[f32], plane: usize) -> Vec<f32> {
    let mean = |values: &[f32]| {
        vectorised(
            #[inline(always)]
            || (sum(values, |value| value) / plane as f64) as f32,
        )
    };
    x.par_chunks_exact(plane).map(mean).collect()
}

/// Each plane times its number.
pub(super) fn scale(x: &[f32], gate: &[f32], plane: usize) -> Vec<f32> {
    let mut y = vec![0.0; x.len()];
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
pub(super) fn backward_gate(x: &[f32], dy: &[f32], plane: usize) -> Vec<f32> {
    let product = |(x, dy): (&[f32], &[f32])| {
        vectorised(
            #[inline(always)]
            || sum_pairs(x, dy, |x, dy| (x * dy, 0.0)).0 as f32,
        )
    };
    x.par_chunks_exact(plane).zip(dy.par_chunks_exact(plane)).map(product).collect()
}
