//! Right factors that are packed once, for products with some rows of a left one at a time: pixels that many filters are multiplied with.

#![allow(unsafe_code)]

use std::ops::Range;

use super::super::matrix::Matrix;
use super::super::parts::parts;
use super::super::tiles::assert_inside;
use super::outer::{INNER, LANES, Left, Written, pack_right};
use super::output::To;
use super::pack::{Factor, Line, Part, Source};
use super::{Instruction, amx, available};

/// A right factor, rounded to bf16 and packed, whose inner dimension is a single block.
#[derive(Default)]
pub(crate) struct Right {
    /// What it was packed for, once it was.
    instruction: Option<Instruction>,
    pub(super) lines: Vec<Line>,
    inner: usize,
    columns: usize,
}

impl Right {
    /// Bytes of a packed factor.
    pub(crate) fn bytes(inner: usize, columns: usize) -> usize {
        lines(Instruction::fastest(), inner, columns) * size_of::<Line>()
    }

    /// Rounds and packs a factor, into the memory of the one before.
    ///
    /// # Panics
    /// If the matrix does not lie in its slice, its inner dimension is not a single block, or the processor lacks the instructions
    /// ([`available`]).
    pub(crate) fn pack<T: Factor>(&mut self, matrix: Matrix<'_, T>) {
        self.pack_for(Instruction::fastest(), matrix);
    }

    pub(super) fn pack_for<T: Factor>(&mut self, instruction: Instruction, matrix: Matrix<'_, T>) {
        let [inner, columns] = matrix.shape;
        assert!((1..=INNER).contains(&inner), "a right factor that is packed once has one block");
        assert!(available(), "the processor multiplies numbers of bf16");
        let source = Source::of_right(matrix);
        let count = lines(instruction, inner, columns);
        self.lines.reserve_exact(count.saturating_sub(self.lines.len()));
        self.lines.resize(count, Line::ZERO);
        (self.instruction, self.inner, self.columns) = (Some(instruction), inner, columns);
        let to = self.lines.as_mut_ptr();
        // SAFETY: the processor has the instructions, the parts lie in the source, and there is room for so many lines.
        unsafe {
            match instruction {
                Instruction::OfRegisters => pack_right(source, &(0..columns), &(0..inner), to),
                Instruction::OfTiles => {
                    for some in parts(columns, LANES) {
                        let part = Part { outer: some.start, outers: some.len(), inner: 0, inners: inner };
                        amx::columns(source, part, to.add(amx::lines(some.start, inner.div_ceil(2))));
                    }
                }
            }
        }
    }
}

impl Left {
    /// Writes some rows of this factor, from a multiple of [`Left::PANEL`] on, times `right` to the matrix of bits of bf16 whose rows begin `stride`
    /// elements apart in `target`. The bits are those of [`Left::write`].
    ///
    /// # Panics
    /// If the shapes do not match, rows are not there or begin elsewhere, the product does not lie in its slice, or the factors were packed
    /// for other instructions.
    pub(crate) fn write_rows(&self, rows: Range<usize>, right: &Right, target: &mut [u16], stride: usize) {
        let ([all, inner], columns) = (self.shape(), right.columns);
        assert_eq!(inner, right.inner, "the inner dimensions of a product agree");
        assert!(right.instruction == Some(self.instruction()), "both factors are packed for the same instructions");
        assert!(rows.start.is_multiple_of(Self::PANEL) && rows.end <= all, "rows begin with a panel and are there");
        if rows.is_empty() || columns == 0 {
            return;
        }
        assert_inside(target.len(), stride, [rows.len(), columns]);
        let written = Written { to: To::Halves(target.as_mut_ptr()), stride, add: false };
        // SAFETY: the factors were packed, so the processor has the instructions; rows and columns are there, and lie in the target.
        unsafe {
            match self.instruction() {
                Instruction::OfRegisters => self.tiles_of_rows(rows, right.lines.as_ptr(), columns, written),
                Instruction::OfTiles => {
                    let packed = |panel: usize, tiles: Range<usize>, _: *mut Line| {
                        let of_panel = amx::lines(LANES, inner.div_ceil(2));
                        right.lines.as_ptr().wrapping_add(panel * of_panel + tiles.start * amx::SIDE)
                    };
                    self.product_of_tiles(rows, 0..columns, packed, written);
                }
            }
        }
    }
}

/// Lines of a packed factor.
fn lines(instruction: Instruction, inner: usize, columns: usize) -> usize {
    match instruction {
        Instruction::OfRegisters => columns.div_ceil(LANES) * inner.div_ceil(2),
        Instruction::OfTiles => amx::lines(columns, inner.div_ceil(2)),
    }
}
