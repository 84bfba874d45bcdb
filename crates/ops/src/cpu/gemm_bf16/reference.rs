//! What the kernels compute, to the bit, as scalar code. [`super`] says it in words.

use half::bf16;

use super::super::matrix::Mode;
use super::super::tiles::blocks;
use super::{INNER, outer};

/// A factor as a function of the place along the outer and along the inner dimension.
pub(super) type Numbers<'a> = &'a dyn Fn(usize, usize) -> f32;

/// The number that a factor of float32 is rounded to.
pub(super) fn rounded(value: f32) -> f32 {
    flushed(bf16::from_f32(flushed(value)).to_f32())
}

/// Subnormal numbers count as zeros.
fn flushed(value: f32) -> f32 {
    if value.is_subnormal() { 0.0f32.copysign(value) } else { value }
}

/// Two products, added to a sum as the instruction does.
fn with_pair(sum: f32, left: [f32; 2], right: [f32; 2]) -> f32 {
    let [left, right] = [left, right].map(|pair| pair.map(flushed));
    let sum = flushed(left[1].mul_add(right[1], flushed(sum)));
    flushed(left[0].mul_add(right[0], sum))
}

/// Element (row, column) of a product. `contiguous` says whether both factors are along the inner dimension, `before` is what the target
/// held.
pub(super) fn element(
    [row, inner, column]: [usize; 3],
    left: Numbers<'_>,
    right: Numbers<'_>,
    contiguous: bool,
    mode: Mode,
    before: f32,
) -> f32 {
    let mut target = if mode == Mode::Add { Some(before) } else { None };
    for depth in blocks(inner, if contiguous { INNER } else { outer::INNER }, 2) {
        let mut sum = 0.0;
        for first in depth.clone().step_by(2) {
            let pair = |numbers: Numbers<'_>, place: usize| {
                [first, first + 1].map(|at| if at < depth.end { numbers(place, at) } else { 0.0 })
            };
            sum = with_pair(sum, pair(left, row), pair(right, column));
        }
        target = Some(target.map_or(sum, |target| target + sum));
    }
    target.unwrap_or(0.0)
}

/// A number of a convolution: the sum over pairs of channels and over taps. `filter` and `under` say what numbers a channel has for a tap.
pub(super) fn of_taps(channels: usize, taps: usize, filter: Numbers<'_>, under: Numbers<'_>) -> f32 {
    let mut sum = 0.0;
    for first in (0..channels).step_by(2) {
        for tap in 0..taps {
            let pair = |numbers: Numbers<'_>| {
                [first, first + 1].map(|channel| if channel < channels { numbers(channel, tap) } else { 0.0 })
            };
            sum = with_pair(sum, pair(filter), pair(under));
        }
    }
    sum
}

/// What is added up to a number that held `before`: products of two rows that consist of so many stretches of `length` numbers. `left` and
/// `right` say what numbers a row has in a stretch.
pub(super) fn of_stretches([count, length]: [usize; 2], left: Numbers<'_>, right: Numbers<'_>, before: f32) -> f32 {
    let mut target = before;
    for stretches in blocks(count, (INNER / length).max(1), 1) {
        let mut sum = 0.0;
        for stretch in stretches {
            for first in (0..length).step_by(2) {
                let pair = |numbers: Numbers<'_>| [first, first + 1].map(|at| numbers(stretch, at));
                sum = with_pair(sum, pair(left), pair(right));
            }
        }
        target += sum;
    }
    target
}
