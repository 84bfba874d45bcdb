//! The end of a residual block in one pass: a branch is normalised, a shortcut is added, and an activation applied, plane by plane.

use rayon::prelude::*;

use super::reading::Reading;
use crate::activation::Activation;
use crate::activation::cpu::{ForActivation, Function, dispatch};
use crate::cpu::lanes::vectorised;
use crate::cpu::real::Real;

/// `activation(branch + shortcut)`.
pub(crate) fn forward<T: Real>(branch: &Reading<'_, T>, shortcut: &[T], activation: Activation) -> Vec<T> {
    let plane = branch.plane();
    let mut y = vec![T::of(0.0); branch.x.len()];
    y.par_chunks_mut(plane).zip(shortcut.par_chunks(plane)).enumerate().for_each(|(index, (y, shortcut))| {
        branch.fill(index, 0, y);
        dispatch(activation, Add { y, shortcut });
    });
    y
}

struct Add<'a, T> {
    y: &'a mut [T],
    shortcut: &'a [T],
}

impl<T: Real> ForActivation for Add<'_, T> {
    type Output = ();

    fn run<F: Function>(self, _: F) {
        vectorised(
            #[inline(always)]
            || {
                for (y, shortcut) in self.y.iter_mut().zip(self.shortcut) {
                    *y = F::value(*y + *shortcut);
                }
            },
        );
    }
}

/// The gradient of a sum that a ReLU follows, from the output `y` and its gradient.
pub(crate) fn of_sum<T: Real>(y: &[T], dy: &[T]) -> Vec<T> {
    const PIECE: usize = 1 << 15;
    let mut sum = vec![T::of(0.0); dy.len()];
    sum.par_chunks_mut(PIECE).zip(y.par_chunks(PIECE)).zip(dy.par_chunks(PIECE)).for_each(|((sum, y), dy)| {
        vectorised(
            #[inline(always)]
            || {
                for ((sum, y), dy) in sum.iter_mut().zip(y).zip(dy) {
                    *sum = if *y > T::of(0.0) { *dy } else { T::of(0.0) };
                }
            },
        );
    });
    sum
}
