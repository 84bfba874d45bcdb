//! The two forms of the method, and which of them a convolution takes.

use super::lines::Lines;
use super::transform::{Tiles, four, transform, two};
use crate::convolution::cpu::shape::Dense;
use crate::cpu::real::Real;

/// How many output pixels are computed together, on each side of a square.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// F(2x2, 3x3): 4 multiplications for an output pixel, instead of 9.
    Two,
    /// F(4x4, 3x3): 2.25 multiplications.
    Four,
}

/// With fewer squares of four pixels a side in a sample, products of 36 values are so narrow that reading their filters takes longer than
/// the multiplications that they save.
const FEWEST_FOURS: usize = 64;

impl Form {
    pub(crate) fn of(shape: &Dense) -> Self {
        let fours = shape.out.map(|size| size.div_ceil(4)).iter().product::<usize>();
        if fours < FEWEST_FOURS { Self::Two } else { Self::Four }
    }

    /// With fewer input or output channels, the transforms cost more than the products save.
    pub(super) fn fewest_channels(self) -> usize {
        match self {
            Self::Two => 16,
            Self::Four => 2,
        }
    }

    /// Pixels on each side of the square of output that a tile makes.
    pub(super) fn side(self) -> usize {
        match self {
            Self::Two => 2,
            Self::Four => 4,
        }
    }

    /// Values on each side of a tile.
    pub(super) fn tile(self) -> usize {
        self.side() + 2
    }

    /// Values of a tile.
    pub(super) fn values(self) -> usize {
        self.tile() * self.tile()
    }

    /// The line, or column, of a transformed filter that becomes line `line` when the filter is turned by 180 degrees.
    pub(super) fn turned(self, line: usize) -> usize {
        match self {
            Self::Two => [3, 1, 2, 0][line],
            Self::Four => [5, 3, 4, 1, 2, 0][line],
        }
    }

    /// Transforms the tiles of input, `count` of them beside each other, the first line of which is `first`.
    pub(super) fn of_input<T: Real>(self, lines: &Lines<T>, first: usize, count: usize, to: &mut [T], pitch: usize) {
        match self {
            Self::Two => transform(two::OfInput, &lines.tiles(first, count), to, pitch),
            Self::Four => transform(four::OfInput, &lines.tiles(first, count), to, pitch),
        }
    }

    /// Transforms squares of the output's gradient.
    pub(super) fn of_gradient<T: Real>(self, lines: &Lines<T>, first: usize, count: usize, to: &mut [T], pitch: usize) {
        match self {
            Self::Two => transform(two::OfGradient, &lines.tiles(first, count), to, pitch),
            Self::Four => transform(four::OfGradient, &lines.tiles(first, count), to, pitch),
        }
    }

    /// Transforms the products `begin` elements after the beginning of each plane into squares of output, whose values are written to
    /// planes of `count` elements.
    pub(super) fn to_output<T: Real>(self, made: &[T], begin: usize, pitch: usize, count: usize, to: &mut [T]) {
        match self {
            Self::Two => transform(two::ToOutput, &Tiles::of_planes(made, begin, pitch, count), to, count),
            Self::Four => transform(four::ToOutput, &Tiles::of_planes(made, begin, pitch, count), to, count),
        }
    }

    /// Transforms the taps of `count` filters, each tap in a plane of `count` elements.
    pub(super) fn of_filter<T: Real>(self, taps: &[T], count: usize, to: &mut [T]) {
        match self {
            Self::Two => transform(two::OfFilter, &Tiles::of_planes(taps, 0, count, count), to, count),
            Self::Four => transform(four::OfFilter, &Tiles::of_planes(taps, 0, count, count), to, count),
        }
    }

    /// Transforms sums of products into the gradients of the taps of `count` filters.
    pub(super) fn to_filter<T: Real>(self, sums: &[T], count: usize, to: &mut [T]) {
        match self {
            Self::Two => transform(two::ToFilter, &Tiles::of_planes(sums, 0, count, count), to, count),
            Self::Four => transform(four::ToFilter, &Tiles::of_planes(sums, 0, count, count), to, count),
        }
    }
}
