//! Products of two factors whose numbers follow each other along the inner dimension, as those of a gradient of weights do.
//!
//! One factor is turned, a block at a time, and the other is read as it lies ([`super::tile`]), if it lies in whole pairs of bf16; otherwise
//! eight of its rows at a time are packed, too.

#![allow(unsafe_code)]

use std::ops::Range;

use super::super::tiles::{Target, blocks, grid, part};
use super::outer::{LANES, ROWS, VECTORS, pack_right};
use super::output::Place;
use super::pack::{Factor, Line, PAIRS, Part, Source};
use super::tile::{Tile, vectors};
use super::with_scratch;

/// The most numbers of the inner dimension that are added up in registers, before the sum is added to the target.
pub(crate) const INNER: usize = 1024;
/// Rows that are turned at a time, at most: two panels, of which a block stays in the second-level cache.
const TURNED: usize = 2 * VECTORS * LANES;
/// Lines that a block of the turned rows takes.
const OF_TURNED: usize = TURNED / LANES * INNER / 2;
/// The most numbers of a product that stay in the second-level cache with the block of a factor: 512 KiB.
const STAYS: usize = 1 << 17;
/// Lines of the scratch.
pub(super) const SCRATCH: usize = OF_TURNED + ROWS * INNER / (2 * PAIRS);

/// Whether the product of so many rows with so many columns takes less time if the columns are turned and not the rows, in quarters of the
/// time of a multiplication. Turning a register takes the time of three, and where there is only one for each pair that lies, a quarter more
/// is read than is multiplied. Turned rows are written as halves of lines of the cache; where the product does not stay in it, a register
/// then waits for as long as 46 multiplications for each row that lies (measured).
pub(super) fn turns_columns(rows: usize, columns: usize, inner: usize) -> bool {
    let pairs = inner.min(INNER).div_ceil(2);
    let wait = if rows.saturating_mul(columns) > STAYS { 4 * 46 } else { 0 };
    let time = |turned: usize, lying: usize, put: usize| {
        let (registers, lying) = (turned.div_ceil(LANES), lying.next_multiple_of(ROWS));
        let multiplied = 4 * registers * (lying + 3) + if registers == 1 { lying } else { 0 };
        multiplied * pairs + put * registers * lying
    };
    time(columns, rows, 0) < time(rows, columns, wait)
}

/// The product divided among tasks, as ranges of turned rows and of those that lie: the turned ones are if there are enough, because every
/// task turns its own.
pub(super) fn among(turned: usize, lying: usize, tasks: usize) -> Vec<(Range<usize>, Range<usize>)> {
    match turned.div_ceil(LANES) >= tasks {
        true => grid(turned, part(turned, tasks, LANES), lying, lying),
        false => grid(turned, turned, lying, part(lying, tasks, ROWS)),
    }
}

/// Computes a block of the product.
///
/// # Safety
/// The processor has the instructions. The numbers of both factors follow each other along the inner dimension, and `inner` of them
/// lie in each for every row; the product of these rows lies in the place, and nobody else reads or writes it meanwhile.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
pub(super) unsafe fn block<A: Factor, B: Factor>(
    (turned, of_turned): (Source<'_, A>, Range<usize>),
    (lying, of_lying): (Source<'_, B>, Range<usize>),
    inner: usize,
    place: Place,
) {
    with_scratch(|scratch| {
        let (lines, packed) = scratch.split_at_mut(OF_TURNED);
        let (lines, packed) = (lines.as_mut_ptr(), packed.as_mut_ptr());
        for depth in blocks(inner, INNER, 2) {
            let (pairs, add) = (depth.len().div_ceil(2), place.add || depth.start > 0);
            for some in of_turned.clone().step_by(TURNED) {
                let some = some..(some + TURNED).min(of_turned.end);
                let of_panel = LANES * vectors(some.len());
                let panels = || {
                    let begins = some.clone().step_by(of_panel).enumerate();
                    begins.map(|(panel, row)| (row..(row + of_panel).min(some.end), panel * of_panel / LANES * pairs))
                };
                for (rows, line) in panels() {
                    // SAFETY: there is a line for each pair of a block and every 16 of the rows that are turned at a time.
                    unsafe { pack_right(turned, &rows, &depth, lines.wrapping_add(line)) };
                }
                for row in of_lying.clone().step_by(ROWS) {
                    let count = (of_lying.end - row).min(ROWS);
                    // SAFETY: the rows lie in the source, and there is room for eight.
                    let from = unsafe { rows_of_pairs(lying, row, count, &depth, packed) };
                    for (rows, line) in panels() {
                        let (row, column) = if place.turned { (rows.start, row) } else { (row, rows.start) };
                        let start = place.target.at(row, column);
                        let tile = Tile {
                            from,
                            lines: lines.wrapping_add(line),
                            count: 1,
                            pairs,
                            step: 0,
                            turned: rows.len(),
                            lying: count,
                        };
                        // SAFETY: the panels have been packed above, and the tile is a part of the block.
                        unsafe { tile.compute(Place { target: Target { start, ..place.target }, add, ..place }) };
                    }
                }
            }
        }
    });
}

/// Where the pairs of eight rows begin: where they lie, or where they have been packed. Where there are fewer rows, one comes again.
///
/// # Safety
/// The processor has the instructions, the numbers lie in the source, and there is room for eight rows of a block.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
#[inline]
unsafe fn rows_of_pairs<T: Factor>(
    source: Source<'_, T>,
    first: usize,
    count: usize,
    depth: &Range<usize>,
    packed: *mut Line,
) -> [*const i32; ROWS] {
    let lies = T::HALF && depth.len().is_multiple_of(2);
    let of_row = depth.len().div_ceil(2 * PAIRS);
    std::array::from_fn(|row| {
        let row = if row < count { row } else { 0 };
        if lies {
            return source.at(first + row, depth.start).cast();
        }
        let to = packed.wrapping_add(row * of_row);
        let part = Part { outer: first + row, outers: 1, inner: depth.start, inners: depth.len() };
        // SAFETY: as the caller promises.
        unsafe { source.row(part, to) };
        to.cast_const().cast()
    })
}
