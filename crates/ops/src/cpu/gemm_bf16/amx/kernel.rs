//! The loop of all products of tiles.

#![allow(unsafe_code)]

use std::arch::asm;

use super::super::pack::Line;
use super::{BOTH, Configured, SIDE};

/// One or two panels of tiles of each factor: where the first tile of each lies.
#[derive(Clone, Copy)]
pub(super) struct Panels {
    pub(super) rows: (*const Line, Option<*const Line>),
    pub(super) columns: (*const Line, Option<*const Line>),
    /// Tiles of each panel that are multiplied, one at least.
    pub(super) tiles: usize,
}

/// Lines of the sums of a kernel: those of the tile at (row, column) begin at [`of_tile`].
pub(super) const SUMS: usize = BOTH * BOTH * SIDE;

/// The first line of the sums of a tile.
pub(super) fn of_tile(row: usize, column: usize) -> usize {
    (BOTH * row + column) * SIDE
}

impl Panels {
    /// Writes the sums of products, or adds these to the sums that are there.
    ///
    /// # Safety
    /// The panels have so many tiles, and there is room for [`SUMS`] lines, which hold numbers if these are added to.
    pub(super) unsafe fn multiply(self, _: &Configured, sums: *mut Line, add: bool) {
        /// The loop for some tiles of sums, whose offsets are given, with what it does for each tile of the panels, the registers that hold
        /// addresses, and these.
        macro_rules! kernel {
            ([$($sum:literal at $place:literal),*], [$($step:literal),*], [$($name:ident: $from:expr),*]) => {
                // SAFETY: tiles have their shape while there is a `Configured`. What is read are tiles of the panels and of the sums, as the
                // caller promises, and what is written are those of the sums.
                unsafe {
                    asm!(
                        "test {add:e}, {add:e}",
                        "jz 2f",
                        $(concat!("tileloadd tmm", $sum, ", [{sums} + {line} + ", $place, "]"),)*
                        "jmp 3f",
                        "2:",
                        $(concat!("tilezero tmm", $sum),)*
                        "3:",
                        $($step,)*
                        $(concat!("add {", stringify!($name), "}, 1024"),)*
                        "dec {tiles}",
                        "jnz 3b",
                        $(concat!("tilestored [{sums} + {line} + ", $place, "], tmm", $sum),)*
                        add = in(reg) u32::from(add),
                        sums = in(reg) sums,
                        line = in(reg) size_of::<Line>(),
                        tiles = inout(reg) self.tiles => _,
                        $($name = inout(reg) $from => _,)*
                        out("tmm0") _,
                        out("tmm1") _,
                        out("tmm2") _,
                        out("tmm3") _,
                        out("tmm4") _,
                        out("tmm5") _,
                        out("tmm6") _,
                        out("tmm7") _,
                        options(nostack),
                    )
                }
            };
        }
        let (row, column) = (self.rows.0, self.columns.0);
        match (self.rows.1, self.columns.1) {
            (Some(row_below), Some(column_behind)) => kernel!(
                [0 at 0, 1 at 1024, 2 at 2048, 3 at 3072],
                [
                    "tileloadd tmm4, [{row} + {line}]",
                    "tileloadd tmm6, [{column} + {line}]",
                    "tileloadd tmm7, [{column_behind} + {line}]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tileloadd tmm5, [{row_below} + {line}]",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    "tdpbf16ps tmm2, tmm5, tmm6",
                    "tdpbf16ps tmm3, tmm5, tmm7"
                ],
                [row: row, row_below: row_below, column: column, column_behind: column_behind]
            ),
            (None, Some(column_behind)) => kernel!(
                [0 at 0, 1 at 1024],
                [
                    "tileloadd tmm4, [{row} + {line}]",
                    "tileloadd tmm6, [{column} + {line}]",
                    "tileloadd tmm7, [{column_behind} + {line}]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tdpbf16ps tmm1, tmm4, tmm7"
                ],
                [row: row, column: column, column_behind: column_behind]
            ),
            (Some(row_below), None) => kernel!(
                [0 at 0, 2 at 2048],
                [
                    "tileloadd tmm6, [{column} + {line}]",
                    "tileloadd tmm4, [{row} + {line}]",
                    "tileloadd tmm5, [{row_below} + {line}]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tdpbf16ps tmm2, tmm5, tmm6"
                ],
                [row: row, row_below: row_below, column: column]
            ),
            (None, None) => kernel!(
                [0 at 0],
                [
                    "tileloadd tmm4, [{row} + {line}]",
                    "tileloadd tmm6, [{column} + {line}]",
                    "tdpbf16ps tmm0, tmm4, tmm6"
                ],
                [row: row, column: column]
            ),
        }
    }
}
