//! Products of a left factor that is packed once, and of a right one that is packed a part at a time, just before it is multiplied.

#![allow(unsafe_code)]

use std::arch::x86_64::{__m512, _mm512_load_ps};
use std::ops::Range;

use super::super::super::parts::parts_of;
use super::super::super::tiles::blocks;
use super::super::pack::Line;
use super::super::with_scratch;
use super::kernel::{Panels, SUMS, of_tile};
use super::{BOTH, Configured, SIDE};

/// Tiles of a panel, panels of columns, and panels of rows that are multiplied at a time, at most. The columns of these take 256 KiB and their
/// sums 128 KiB, which leaves room in a second-level cache for the rows.
const DEEP: usize = 32;
const WIDE: usize = 8;
const HIGH: usize = 16;
/// Lines of columns.
const OF_COLUMNS: usize = WIDE * DEEP * SIDE;
/// Lines of the scratch.
pub(super) const SCRATCH: usize = OF_COLUMNS + HIGH * WIDE * SIDE;

/// What is multiplied.
pub(in super::super) struct Factors<P> {
    /// Panels of the left factor, packed.
    pub(in super::super) rows: *const Line,
    /// Tiles of a panel.
    pub(in super::super) tiles: usize,
    /// Gives some tiles of a panel of the right factor: packed into the lines that it gets, or where they lie.
    pub(in super::super) columns: P,
}

/// Computes the product of some panels of rows and of columns. `put` gets a panel of rows and one or two of columns that follow each other,
/// and of each of these a register for each row; of one alone it gets it twice.
///
/// # Safety
/// [`super::available`]; all tiles of these panels of the left factor have been packed, and `columns` gives those that it is asked for.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
pub(in super::super) unsafe fn product<P: Fn(usize, Range<usize>, *mut Line) -> *const Line>(
    factors: &Factors<P>,
    rows: Range<usize>,
    columns: Range<usize>,
    put: impl Fn(usize, Range<usize>, [[__m512; SIDE]; BOTH]),
) {
    // SAFETY: as the caller promises.
    let configured = unsafe { Configured::new() };
    with_scratch(|scratch| {
        let (packed, sums) = scratch.split_at_mut(OF_COLUMNS);
        let (packed, sums) = (packed.as_mut_ptr(), sums.as_mut_ptr());
        for high in parts_of(rows.clone(), HIGH) {
            for wide in parts_of(columns.clone(), WIDE) {
                for deep in blocks(factors.tiles, DEEP, 1) {
                    let of_panel = deep.len() * SIDE;
                    let mut given = [packed.cast_const(); WIDE];
                    for ((panel, column), given) in wide.clone().enumerate().zip(&mut given) {
                        *given = (factors.columns)(column, deep.clone(), packed.wrapping_add(panel * of_panel));
                    }
                    let mut sums = sums;
                    for two in parts_of(high.clone(), BOTH) {
                        let row = |row: usize| factors.rows.wrapping_add((row * factors.tiles + deep.start) * SIDE);
                        for (pair, some) in parts_of(wide.clone(), BOTH).enumerate() {
                            let panels = Panels {
                                rows: (row(two.start), (two.len() > 1).then(|| row(two.start + 1))),
                                columns: (given[BOTH * pair], (some.len() > 1).then(|| given[BOTH * pair + 1])),
                                tiles: deep.len(),
                            };
                            // SAFETY: the panels have been packed, and there is room for sums of each two by two of them, which have
                            // been written unless these are the first tiles.
                            unsafe { panels.multiply(&configured, sums, deep.start > 0) };
                            if deep.end == factors.tiles {
                                for (at, row) in two.clone().enumerate() {
                                    // SAFETY: the tiles have just been written.
                                    let made = |column: usize| unsafe { registers(sums.add(of_tile(at, column))) };
                                    put(row, some.clone(), [made(0), made(some.len() - 1)]);
                                }
                            }
                            // Those that nothing more is added to may be overwritten.
                            sums = sums.wrapping_add(if factors.tiles > DEEP { SUMS } else { 0 });
                        }
                    }
                }
            }
        }
    });
}

/// The rows of a tile of sums.
///
/// # Safety
/// The processor has the instruction, and the tile has been written.
#[target_feature(enable = "avx512f")]
#[inline]
pub(super) unsafe fn registers(tile: *const Line) -> [__m512; SIDE] {
    // SAFETY: as the caller promises.
    let row = |row: usize| unsafe { _mm512_load_ps(tile.add(row).cast()) };
    [
        row(0),
        row(1),
        row(2),
        row(3),
        row(4),
        row(5),
        row(6),
        row(7),
        row(8),
        row(9),
        row(10),
        row(11),
        row(12),
        row(13),
        row(14),
        row(15),
    ]
}
