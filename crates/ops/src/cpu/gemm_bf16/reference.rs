//! What the kernels compute, to the bit, as scalar code. [`super`] says it in words.

use half::bf16;

use super::super::matrix::Mode;
use super::super::tiles::blocks;
use super::{INNER, Instruction, amx, outer};

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

/// The products of up to 16 pairs, added to a sum as a tile does.
fn with_tile(sum: f32, pairs: &[[[f32; 2]; 2]]) -> f32 {
    let mut apart = [0.0f32; 2];
    for at in 0..16 {
        let [left, right] = pairs.get(at).copied().unwrap_or_default();
        for (sum, (left, right)) in apart.iter_mut().zip(left.into_iter().zip(right)) {
            *sum = flushed(flushed(left).mul_add(flushed(right), *sum));
        }
    }
    flushed(flushed(sum) + flushed(apart[0] + apart[1]))
}

/// The sum of products of pairs.
fn added_up(instruction: Instruction, pairs: &[[[f32; 2]; 2]]) -> f32 {
    match instruction {
        Instruction::OfRegisters => pairs.iter().fold(0.0, |sum, [left, right]| with_pair(sum, *left, *right)),
        Instruction::OfTiles => pairs.chunks(16).fold(0.0, with_tile),
    }
}

/// Element (row, column) of a product. `contiguous` says whether both factors are along the inner dimension, `before` is what the target
/// held.
pub(super) fn element(
    instruction: Instruction,
    [row, inner, column]: [usize; 3],
    [left, right]: [Numbers<'_>; 2],
    contiguous: bool,
    mode: Mode,
    before: f32,
) -> f32 {
    let mut target = if mode == Mode::Add { Some(before) } else { None };
    let (most, multiple) = match (instruction, contiguous) {
        (Instruction::OfRegisters, false) => (outer::INNER, 2),
        (Instruction::OfRegisters, true) => (INNER, 2),
        (Instruction::OfTiles, false) => (inner.next_multiple_of(2), 2),
        (Instruction::OfTiles, true) => (amx::INNER, 32),
    };
    for depth in blocks(inner, most.max(2), multiple) {
        let pairs = depth.clone().step_by(2).map(|first| {
            let pair = |numbers: Numbers<'_>, place: usize| {
                [first, first + 1].map(|at| if at < depth.end { numbers(place, at) } else { 0.0 })
            };
            [pair(left, row), pair(right, column)]
        });
        let sum = added_up(instruction, &pairs.collect::<Vec<_>>());
        target = Some(target.map_or(sum, |target| target + sum));
    }
    target.unwrap_or(0.0)
}

/// A number of a convolution: the sum over pairs of channels and over taps. `filter` and `under` say what numbers a channel has for a tap.
pub(super) fn of_taps(
    instruction: Instruction,
    [channels, taps]: [usize; 2],
    filter: Numbers<'_>,
    under: Numbers<'_>,
) -> f32 {
    let places = (0..channels).step_by(2).flat_map(|first| (0..taps).map(move |tap| (first, tap)));
    let pairs = places.map(|(first, tap)| {
        [filter, under].map(|numbers| {
            [first, first + 1].map(|channel| if channel < channels { numbers(channel, tap) } else { 0.0 })
        })
    });
    added_up(instruction, &pairs.collect::<Vec<_>>())
}

/// What is added up to a number that held `before`: products of two rows that consist of so many stretches of `length` numbers. `left` and
/// `right` say what numbers a row has in a stretch.
pub(super) fn of_stretches(
    instruction: Instruction,
    [count, length]: [usize; 2],
    left: Numbers<'_>,
    right: Numbers<'_>,
    before: f32,
) -> f32 {
    let places = (0..count).flat_map(|stretch| (0..length).step_by(2).map(move |first| (stretch, first)));
    let pair = |(stretch, first)| [left, right].map(|numbers| [first, first + 1].map(|at| numbers(stretch, at)));
    let pairs: Vec<_> = places.map(pair).collect();
    match instruction {
        Instruction::OfRegisters => blocks(count, (INNER / length).max(1), 1)
            .map(|stretches| stretches.start * length / 2..stretches.end * length / 2)
            .fold(before, |target, block| target + added_up(instruction, &pairs[block])),
        Instruction::OfTiles => {
            pairs.chunks(amx::INNER / 2).fold(before, |target, block| target + added_up(instruction, block))
        }
    }
}
