//! Lines of a plane whose columns are dealt out, so that neighbouring tiles are neighbours in memory.

use super::transform::Tiles;
use crate::cpu::gemm::Threads;
use crate::cpu::lanes::{deal, interleave};
use crate::cpu::real::Real;
use crate::cpu::values::{Source, Stored};

/// Some lines of a plane, each dealt out to as many parts as tiles are columns apart: the first part has the first of so many columns, and so
/// on. Then neighbouring tiles fill a register.
#[derive(Default)]
pub(super) struct Lines<T> {
    values: Vec<T>,
    /// A line as it is in the plane.
    line: Vec<T>,
    /// Half of the columns of a line that is dealt to four parts.
    half: Vec<T>,
    /// Columns from one tile to the next.
    side: usize,
    /// Elements of a part.
    pitch: usize,
}

/// Lines of a plane of `size`, the first of them `first` lines below the one that is `before[0]` lines above the plane, each from `before[1]`
/// columns to the left of the plane on.
#[derive(Clone, Copy)]
pub(super) struct Under {
    pub(super) size: [usize; 2],
    pub(super) before: [usize; 2],
    pub(super) first: usize,
    pub(super) count: usize,
    /// Columns of a line, divided by the columns from one tile to the next.
    pub(super) pitch: usize,
}

impl<T: Stored> Lines<T> {
    /// Takes lines of a plane, with zeros outside it. Tiles will be `side` columns apart: 2 or 4.
    pub(super) fn take(&mut self, plane: Source<'_, T>, side: usize, under: Under) {
        let Under { size: [height, width], before, first, count, pitch } = under;
        let length = side * pitch;
        (self.side, self.pitch) = (side, pitch);
        self.values.resize(count * length, T::of(0.0));
        self.line.clear();
        self.line.resize(length, T::of(0.0));
        let taken = width.min(length - before[1]);
        for (index, parts) in self.values.chunks_exact_mut(length).enumerate() {
            match (first + index).checked_sub(before[0]).filter(|line| *line < height) {
                None => parts.fill(T::of(0.0)),
                Some(line) => {
                    let line = plane.part(line * width..line * width + taken);
                    line.copy_to(&mut self.line[before[1]..][..taken], Threads::One);
                    deal_out(&self.line, side, parts, &mut self.half);
                }
            }
        }
    }
}

impl<T: Real> Lines<T> {
    /// The tiles of `N` lines and columns whose first line is `first`.
    pub(super) fn tiles<const N: usize>(&self, first: usize, count: usize) -> Tiles<'_, T, N> {
        let begin = |row: usize, column: usize| {
            (self.side * (first + row) + column % self.side) * self.pitch + column / self.side
        };
        let begin = std::array::from_fn(|row| std::array::from_fn(|column| begin(row, column)));
        Tiles { values: &self.values, begin, count }
    }

    /// A buffer of `count` elements, and those that [`collect`] works with.
    pub(super) fn buffers(&mut self, count: usize) -> (&mut [T], &mut Vec<T>, &mut Vec<T>) {
        let Self { values, line, half, .. } = self;
        values.resize(count, T::of(0.0));
        (values, line, half)
    }
}

/// Deals the elements of a line to `side` parts of the same size in turn.
fn deal_out<T: Real>(line: &[T], side: usize, parts: &mut [T], half: &mut Vec<T>) {
    let (first, second) = parts.split_at_mut(parts.len() / 2);
    if side == 2 {
        return deal(line, first, second);
    }
    half.resize(line.len(), T::of(0.0));
    let (even, odd) = half.split_at_mut(line.len() / 2);
    deal(line, even, odd);
    let pitch = first.len() / 2;
    let ((zero, one), (two, three)) = (first.split_at_mut(pitch), second.split_at_mut(pitch));
    deal(even, zero, two);
    deal(odd, one, three);
}

/// Takes the elements of a line from `side` parts of the same size in turn. Those for which the line has no room are left out.
pub(super) fn collect<T: Real>(parts: &[T], side: usize, line: &mut [T], half: &mut Vec<T>) {
    let (first, second) = parts.split_at(parts.len() / 2);
    if side == 2 {
        return interleave(first, second, line);
    }
    half.resize(parts.len(), T::of(0.0));
    let (even, odd) = half.split_at_mut(parts.len() / 2);
    let pitch = first.len() / 2;
    interleave(&first[..pitch], &second[..pitch], even);
    interleave(&first[pitch..], &second[pitch..], odd);
    interleave(even, odd, line);
}
