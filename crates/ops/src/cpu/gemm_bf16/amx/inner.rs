//! Products of two factors whose numbers follow each other along the inner dimension: one is turned, so that it is columns of pairs, and the
//! other is copied as it lies, as rows.

#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m512, __m512i, __mmask16, _mm512_add_ps, _mm512_castps_si512, _mm512_loadu_ps, _mm512_mask_storeu_ps,
    _mm512_maskz_loadu_epi32, _mm512_maskz_loadu_ps, _mm512_or_si512, _mm512_setzero_si512,
};
use std::ops::Range;

use super::super::super::matrix::Stretches;
use super::super::super::tiles::{Target, blocks};
use super::super::output::To;
use super::super::pack::{Factor, Line, PAIRS, Part, Source, lowest, turn};
use super::super::tile::Place;
use super::super::{INNER, with_scratch};
use super::kernel::{Panels, SUMS, of_tile};
use super::outer::registers;
use super::pack::{columns, rows};
use super::{BOTH, Configured, SIDE, parts, tiles};

/// Tiles of a panel: those of a block of the inner dimension.
const DEEP: usize = INNER / (2 * SIDE);
/// Panels of the turned factor at a time: 192 KiB.
const TURNED: usize = 6;
/// Lines of those.
const OF_TURNED: usize = TURNED * DEEP * SIDE;
/// Lines of two panels of rows that lie.
const OF_LYING: usize = BOTH * DEEP * SIDE;
/// Lines of the scratch.
pub(super) const SCRATCH: usize = OF_TURNED + OF_LYING + SUMS;

const _: () = assert!(DEEP * 2 * SIDE == INNER);

/// Computes a part of the product: rows of one factor that are turned, with rows of another that lie.
///
/// # Safety
/// [`super::available`]. The numbers of both factors follow each other along the inner dimension, and `inner` of them lie in each for every
/// row; the product of these rows lies in the place, and nobody else reads or writes it meanwhile.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
pub(in super::super) unsafe fn lying_by_turned<A: Factor, B: Factor>(
    (turned, of_turned): (Source<'_, A>, Range<usize>),
    (lying, of_lying): (Source<'_, B>, Range<usize>),
    inner: usize,
    place: Place,
) {
    // SAFETY: as the caller promises.
    let configured = unsafe { Configured::new() };
    with_scratch(|scratch| {
        let (panels, scratch) = scratch.split_at_mut(OF_TURNED);
        let (packed, sums) = scratch.split_at_mut(OF_LYING);
        let (panels, packed) = (panels.as_mut_ptr(), packed.as_mut_ptr());
        for depth in blocks(inner, INNER, 2 * SIDE) {
            let add = place.add || depth.start > 0;
            let of_panel = tiles(depth.len().div_ceil(2)) * SIDE;
            let part =
                |of: &Range<usize>| Part { outer: of.start, outers: of.len(), inner: depth.start, inners: depth.len() };
            for some in parts(of_turned.clone(), TURNED * SIDE) {
                for (panel, some) in parts(some.clone(), SIDE).enumerate() {
                    // SAFETY: there is room for so many panels of a block.
                    unsafe { columns(turned, part(&some), panels.wrapping_add(panel * of_panel)) };
                }
                for two in parts(of_lying.clone(), BOTH * SIDE) {
                    // SAFETY: there is room for two panels of a block.
                    unsafe { rows(lying, part(&two), packed) };
                    // SAFETY: the panels have been packed; these rows lie in the place, as the caller promises.
                    unsafe {
                        let factors = Factors {
                            lying: (packed, of_panel, &two),
                            turned: (panels, of_panel, &some),
                            tiles: of_panel / SIDE,
                        };
                        factors.multiply(&configured, sums, Place { add, ..place });
                    }
                }
            }
        }
    });
}

/// Adds the product of panels of a turned factor, from row `rows.start` on, a multiple of 16, with rows that are stretches of a strip.
///
/// # Safety
/// [`super::available`]. `panels` is the first of all panels of the turned factor; the stretches lie in their slice; the product of these rows
/// and starts lies in the target, and nobody else reads or writes it meanwhile.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
pub(in super::super) unsafe fn turned_by_stretches(
    (panels, rows): (*const Line, Range<usize>),
    right: Stretches<'_>,
    starts: Range<usize>,
    target: Target,
) {
    // SAFETY: as the caller promises.
    let configured = unsafe { Configured::new() };
    let tiles = tiles(right.count * right.length / 2);
    let place = Place { target, turned: true, add: true };
    let mut pieces = Vec::new();
    with_scratch(|scratch| {
        let (packed, sums) = scratch.split_at_mut(OF_LYING);
        let packed = packed.as_mut_ptr();
        for deep in parts(0..tiles, DEEP) {
            for two in parts(starts.clone(), BOTH * SIDE) {
                for tile in deep.clone() {
                    pieces_of(right, tile, &mut pieces);
                    for (panel, some) in parts(two.clone(), SIDE).enumerate() {
                        let to = packed.wrapping_add((panel * deep.len() + tile - deep.start) * SIDE);
                        // SAFETY: there is room for two panels, and the stretches lie in their slice.
                        unsafe { copy(right, &right.starts[some], &pieces, to) };
                    }
                }
                let first = panels.wrapping_add((rows.start / SIDE * tiles + deep.start) * SIDE);
                // SAFETY: the panels have been packed; these rows and starts lie in the target, as the caller promises.
                unsafe {
                    let factors = Factors {
                        lying: (packed, deep.len() * SIDE, &two),
                        turned: (first, tiles * SIDE, &rows),
                        tiles: deep.len(),
                    };
                    factors.multiply(&configured, sums, place);
                }
            }
        }
    });
}

/// Some pairs of a tile that follow each other in a stretch: which of its 16 they are, and how far behind the beginning of a row its first
/// pair would lie if all of them did.
#[derive(Clone, Copy)]
struct Piece {
    pairs: __mmask16,
    from: isize,
}

/// The pieces of a tile of stretches.
fn pieces_of(right: Stretches<'_>, tile: usize, pieces: &mut Vec<Piece>) {
    let of_stretch = right.length / 2;
    let end = (right.count * of_stretch).min((tile + 1) * PAIRS);
    pieces.clear();
    let mut pair = tile * PAIRS;
    while pair < end {
        let (stretch, within, lane) = (pair / of_stretch, pair % of_stretch, pair % PAIRS);
        let count = (of_stretch - within).min(end - pair);
        let from = (stretch * right.step + 2 * within) as isize - 2 * lane as isize;
        pieces.push(Piece { pairs: (lowest(count) << lane) as __mmask16, from });
        pair += count;
    }
}

/// Copies a tile of rows of stretches.
///
/// # Safety
/// The processor has the instructions, the stretches lie in their slice, and there is room for a tile.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
#[inline]
unsafe fn copy(right: Stretches<'_>, starts: &[usize], pieces: &[Piece], to: *mut Line) {
    for row in 0..SIDE {
        // Where there are fewer, one again, to no effect.
        let start = right.values.as_ptr().wrapping_add(*starts.get(row).unwrap_or(&starts[0]));
        let line = pieces.iter().fold(_mm512_setzero_si512(), |line, piece| {
            let from = start.wrapping_offset(piece.from).cast::<i32>();
            // SAFETY: pairs that the mask leaves lie in a stretch.
            _mm512_or_si512(line, unsafe { _mm512_maskz_loadu_epi32(piece.pairs, from) })
        });
        // SAFETY: a line of the tile.
        unsafe { to.add(row).cast::<__m512i>().write(line) };
    }
}

/// At most two panels of rows that lie, and some of rows that are turned: the first line of the first panel, lines from one to the next, and
/// the rows.
struct Factors<'a> {
    lying: (*const Line, usize, &'a Range<usize>),
    turned: (*const Line, usize, &'a Range<usize>),
    tiles: usize,
}

impl Factors<'_> {
    /// Writes the product, whose first row of the turned factor and of the one that lies are those of the place where they start.
    ///
    /// # Safety
    /// The processor has the instructions; the panels have been packed, and so many rows lie in the place, where nobody else reads or writes
    /// them meanwhile; there is room for the sums of a kernel.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn multiply(&self, configured: &Configured, sums: &mut [Line], place: Place) {
        let ((lying, of_lying, these), (turned, of_turned, those)) = (self.lying, self.turned);
        let below = (these.len() > SIDE).then(|| lying.wrapping_add(of_lying));
        for (pair, some) in parts(those.clone(), BOTH * SIDE).enumerate() {
            let column = turned.wrapping_add(BOTH * pair * of_turned);
            let behind = (some.len() > SIDE).then(|| column.wrapping_add(of_turned));
            let panels = Panels { rows: (lying, below), columns: (column, behind), tiles: self.tiles };
            // SAFETY: as the caller promises.
            unsafe { panels.multiply(configured, sums.as_mut_ptr(), false) };
            for (at, lying) in parts(these.clone(), SIDE).enumerate() {
                for (behind, turned) in parts(some.clone(), SIDE).enumerate() {
                    // SAFETY: the tile has just been written.
                    unsafe {
                        let made = registers(sums.as_ptr().add(of_tile(at, behind)));
                        put(place, made, [&lying, &turned]);
                    }
                }
            }
        }
    }
}

/// Writes the sums of 16 rows that lie, a register for each, with 16 that are turned, or adds them to what is there.
///
/// # Safety
/// The processor has the instructions, and these rows lie in the place.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
#[inline]
unsafe fn put(
    Place { target, turned: transposed, add }: Place,
    sums: [__m512; SIDE],
    [lying, turned]: [&Range<usize>; 2],
) {
    if !transposed {
        let (rows, mask) = (sums.into_iter().take(lying.len()), lowest(turned.len()) as __mmask16);
        // SAFETY: as the caller promises.
        unsafe { To::Singles(target.at(lying.start, turned.start)).put(0, target.stride, rows, mask, add) };
        return;
    }
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = sums.map(|row| _mm512_castps_si512(row));
    let (mut made, mask) = ([[0.0f32; SIDE]; SIDE], lowest(lying.len()) as __mmask16);
    // SAFETY: there is room for 16 rows of 16; the mask leaves out what is beyond the rows that lie.
    unsafe {
        let to = made.as_mut_ptr().cast::<u32>();
        turn([a, b, c, d, e, f, g, h], to, SIDE, SIDE);
        turn([i, j, k, l, m, n, o, p], to.add(SIDE / 2), SIDE, SIDE);
        for (row, made) in turned.clone().zip(&made) {
            let (to, made) = (target.at(row, lying.start), _mm512_loadu_ps(made.as_ptr()));
            let sum = if add { _mm512_add_ps(_mm512_maskz_loadu_ps(mask, to), made) } else { made };
            _mm512_mask_storeu_ps(to, mask, sum);
        }
    }
}
