//! The end of a residual block in one pass: a branch is normalised, a shortcut is added, and an activation applied, plane by plane.

use rayon::prelude::*;

use super::reading::Reading;
use crate::activation::Activation;
use crate::activation::cpu::{ForActivation, Function, Relu, dispatch};
use crate::cpu::gemm::Threads;
use crate::cpu::halves::{Half, SHARE};
use crate::cpu::lanes::vectorised;
use crate::cpu::making::Making;
use crate::cpu::real::Real;
use crate::cpu::values::{Elements, Source, Stored, Target};

/// `activation(branch + shortcut)`.
pub(crate) fn forward<T: Stored>(
    branch: &Reading<'_, T>,
    shortcut: Source<'_, T>,
    activation: Activation,
) -> Elements<T> {
    let plane = branch.plane();
    let mut y = Making::like(branch.x, branch.x.len());
    y.parts(plane).into_par_iter().enumerate().for_each(|(index, y)| {
        let mut y = y.begin(Threads::One);
        let shortcut = shortcut.chunk(index, plane);
        if add_as_stored(branch, index, shortcut, activation, &mut y) {
            return;
        }
        y.in_pieces(|at, y| {
            branch.fill(index, at, y);
            shortcut.part(at..at + y.len()).in_pieces(|from, shortcut| {
                dispatch(activation, Add { y: &mut y[from..], shortcut });
            });
        });
    });
    y.made()
}

/// The sum of a plane of bf16 and a shortcut, in one loop where the branch has no activation of its own, as in residual networks. Returns
/// whether that is so; otherwise nothing is done.
fn add_as_stored<T: Stored>(
    branch: &Reading<'_, T>,
    index: usize,
    shortcut: Source<'_, T>,
    activation: Activation,
    y: &mut Target<'_, T>,
) -> bool {
    let (x, y) = match (branch.x.chunk(index, branch.plane()), shortcut, y) {
        (Source::Halves(Half::Bf16, x), Source::Halves(Half::Bf16, shortcut), Target::Halves(y)) => ([x, shortcut], y),
        _ => return false,
    };
    let of = branch.coefficients(index).map(|number| number.wide() as f32);
    match (branch.activation, activation) {
        (Activation::Identity, Activation::Identity) => y.write_of_two(
            x,
            #[inline(always)]
            |x, shortcut| sum(of, x, shortcut),
        ),
        (Activation::Identity, Activation::Relu) => y.write_of_two(
            x,
            #[inline(always)]
            |x, shortcut| Relu::value(sum(of, x, shortcut)),
        ),
        _ => return false,
    }
    true
}

/// The sum of a number of the branch and one of the shortcut.
#[inline(always)]
fn sum([scale, shift, factor]: [f32; 3], x: f32, shortcut: f32) -> f32 {
    (x * scale + shift) * factor + shortcut
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
pub(crate) fn of_sum<T: Stored>(y: Source<'_, T>, dy: Source<'_, T>) -> Elements<T> {
    let mut sum = Making::like(y, dy.len());
    sum.parts(SHARE).into_par_iter().enumerate().for_each(|(index, sum)| {
        let mut sum = sum.begin(Threads::One);
        let share = index * SHARE..dy.len().min((index + 1) * SHARE);
        let (y, dy) = (y.part(share.clone()), dy.part(share));
        if let (Source::Halves(Half::Bf16, y), Source::Halves(Half::Bf16, dy), Target::Halves(sum)) = (y, dy, &mut sum)
        {
            return sum.write_of_two(
                [y, dy],
                #[inline(always)]
                |y, dy| if y > 0.0 { dy } else { 0.0 },
            );
        }
        sum.in_pieces(|at, sum| {
            let pixels = at..at + sum.len();
            y.part(pixels.clone()).in_pieces_with(dy.part(pixels), |from, y, dy| {
                vectorised(
                    #[inline(always)]
                    || {
                        for ((sum, y), dy) in sum[from..].iter_mut().zip(y).zip(dy) {
                            *sum = if *y > T::of(0.0) { *dy } else { T::of(0.0) };
                        }
                    },
                );
            });
        });
    });
    sum.made()
}
