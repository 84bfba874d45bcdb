//! What the kernels compute, to the bit, as scalar code. [`super`] says it in words.

use std::ops::Range;

use half::bf16;

use super::super::matrix::Mode;
use super::super::tiles::blocks;
use super::{inner, outer, turned};

/// Sums that an element of a block of inner products has.
const SUMS: usize = 16;

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

/// Element (row, column) of a product. `by_inner` says of which products it is made, `before` is what the target held.
pub(super) fn element(
    [row, inner, column]: [usize; 3],
    left: Numbers<'_>,
    right: Numbers<'_>,
    by_inner: bool,
    mode: Mode,
    before: f32,
) -> f32 {
    let mut target = if mode == Mode::Add { Some(before) } else { None };
    let pair = |depth: &Range<usize>, pair: usize, numbers: Numbers<'_>, place: usize| {
        [0, 1].map(|second| match depth.start + 2 * pair + second {
            at if at < depth.end => numbers(place, at),
            _ => 0.0,
        })
    };
    let most = if by_inner { inner::INNER } else { outer::INNER };
    let multiple = if by_inner { 2 * SUMS } else { 2 };
    for depth in blocks(inner, most, multiple) {
        let sums = if by_inner { SUMS } else { 1 };
        let mut partial = [0.0f32; SUMS];
        for at in 0..depth.len().div_ceil(2).next_multiple_of(sums) {
            let (left, right) = (pair(&depth, at, left, row), pair(&depth, at, right, column));
            partial[at % sums] = with_pair(partial[at % sums], left, right);
        }
        let sum = if by_inner { in_halves(partial) } else { partial[0] };
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
    for stretches in blocks(count, (turned::INNER / length).max(1), 1) {
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

/// The sum of the sums: of each quarter, the first and third plus the second and fourth; then the quarters by twos.
fn in_halves(sums: [f32; SUMS]) -> f32 {
    let quarter = |at: usize| (sums[4 * at] + sums[4 * at + 2]) + (sums[4 * at + 1] + sums[4 * at + 3]);
    (quarter(0) + quarter(1)) + (quarter(2) + quarter(3))
}
