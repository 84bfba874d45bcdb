//! Products of two factors whose numbers follow each other along the inner dimension: one is turned, so that it is columns of pairs, and the
//! other is copied as it lies, as rows.

#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m512, __m512i, __mmask16, _MM_HINT_T0, _mm_prefetch, _mm512_add_ps, _mm512_castpd_ps, _mm512_castps_pd,
    _mm512_mask_storeu_ps, _mm512_maskz_loadu_epi32, _mm512_maskz_loadu_ps, _mm512_or_si512, _mm512_setzero_si512,
    _mm512_shuffle_f32x4, _mm512_unpackhi_pd, _mm512_unpackhi_ps, _mm512_unpacklo_pd, _mm512_unpacklo_ps,
};
use std::ops::Range;

use super::super::super::matrix::Stretches;
use super::super::super::parts::parts_of;
use super::super::super::tiles::{Target, blocks};
use super::super::output::{Place, To};
use super::super::pack::{Factor, Line, PAIRS, Part, Source, lowest};
use super::super::with_scratch;
use super::kernel::{Panels, SUMS, of_tile};
use super::outer::registers;
use super::pack::{columns, rows};
use super::{BOTH, Configured, SIDE, tiles};

/// Tiles of a panel: those of a block of the inner dimension.
const DEEP: usize = 32;
/// The most numbers of the inner dimension that are added up before the sum is added to the target.
pub(in super::super) const INNER: usize = DEEP * 2 * SIDE;
/// Panels of the turned factor at a time: 192 KiB.
const TURNED: usize = 6;
/// Lines of those.
const OF_TURNED: usize = TURNED * DEEP * SIDE;
/// Lines of two panels of rows that lie.
const OF_LYING: usize = BOTH * DEEP * SIDE;
/// Lines of the scratch.
pub(super) const SCRATCH: usize = OF_TURNED + OF_LYING + SUMS;

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
            for some in parts_of(of_turned.clone(), TURNED * SIDE) {
                for (panel, some) in parts_of(some.clone(), SIDE).enumerate() {
                    // SAFETY: there is room for so many panels of a block.
                    unsafe { columns(turned, part(&some), panels.wrapping_add(panel * of_panel)) };
                }
                for two in parts_of(of_lying.clone(), BOTH * SIDE) {
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
    with_scratch(|scratch| {
        let (packed, sums) = scratch.split_at_mut(OF_LYING);
        let packed = packed.as_mut_ptr();
        for deep in parts_of(0..tiles, DEEP) {
            let pieces: Vec<Vec<Piece>> = deep.clone().map(|tile| pieces_of(right, tile)).collect();
            for two in parts_of(starts.clone(), BOTH * SIDE) {
                for (tile, pieces) in pieces.iter().enumerate() {
                    for (panel, some) in parts_of(two.clone(), SIDE).enumerate() {
                        let to = packed.wrapping_add((panel * deep.len() + tile) * SIDE);
                        // SAFETY: there is room for two panels, and the stretches lie in their slice.
                        unsafe { copy(right, &right.starts[some], pieces, to) };
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
fn pieces_of(right: Stretches<'_>, tile: usize) -> Vec<Piece> {
    let of_stretch = right.length / 2;
    let end = (right.count * of_stretch).min((tile + 1) * PAIRS);
    let (mut pieces, mut pair) = (Vec::new(), tile * PAIRS);
    while pair < end {
        let (stretch, within, lane) = (pair / of_stretch, pair % of_stretch, pair % PAIRS);
        let count = (of_stretch - within).min(end - pair);
        let from = (stretch * right.step + 2 * within) as isize - 2 * lane as isize;
        pieces.push(Piece { pairs: (lowest(count) << lane) as __mmask16, from });
        pair += count;
    }
    pieces
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
        for (pair, some) in parts_of(those.clone(), BOTH * SIDE).enumerate() {
            let column = turned.wrapping_add(BOTH * pair * of_turned);
            let behind = (some.len() > SIDE).then(|| column.wrapping_add(of_turned));
            let panels = Panels { rows: (lying, below), columns: (column, behind), tiles: self.tiles };
            prefetch(place, [these, &some]);
            // SAFETY: as the caller promises.
            unsafe { panels.multiply(configured, sums.as_mut_ptr(), false) };
            for (at, lying) in parts_of(these.clone(), SIDE).enumerate() {
                for (behind, turned) in parts_of(some.clone(), SIDE).enumerate() {
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
    Place { target, turned: by_rows, add }: Place,
    sums: [__m512; SIDE],
    [lying, turned]: [&Range<usize>; 2],
) {
    if !by_rows {
        let (rows, mask) = (sums.into_iter().take(lying.len()), lowest(turned.len()) as __mmask16);
        // SAFETY: as the caller promises.
        unsafe { To::Singles(target.at(lying.start, turned.start)).put(0, target.stride, rows, mask, add) };
        return;
    }
    let mask = lowest(lying.len()) as __mmask16;
    for (row, made) in turned.clone().zip(transposed(sums)) {
        // SAFETY: the mask leaves out what is beyond the rows that lie.
        unsafe {
            let to = target.at(row, lying.start);
            let sum = if add { _mm512_add_ps(_mm512_maskz_loadu_ps(mask, to), made) } else { made };
            _mm512_mask_storeu_ps(to, mask, sum);
        }
    }
}

/// Rows become columns.
#[target_feature(enable = "avx512f")]
#[inline]
fn transposed(rows: [__m512; SIDE]) -> [__m512; SIDE] {
    // Of each quarter of a register, the numbers of four rows in a column of this quarter.
    let mut fours = rows;
    for (fours, rows) in fours.as_chunks_mut::<4>().0.iter_mut().zip(rows.as_chunks::<4>().0) {
        let [a, b, c, d] = *rows;
        let pairs =
            |low: bool, a, b| _mm512_castps_pd(if low { _mm512_unpacklo_ps(a, b) } else { _mm512_unpackhi_ps(a, b) });
        let (first, second) = ([pairs(true, a, b), pairs(false, a, b)], [pairs(true, c, d), pairs(false, c, d)]);
        *fours = [
            _mm512_castpd_ps(_mm512_unpacklo_pd(first[0], second[0])),
            _mm512_castpd_ps(_mm512_unpackhi_pd(first[0], second[0])),
            _mm512_castpd_ps(_mm512_unpacklo_pd(first[1], second[1])),
            _mm512_castpd_ps(_mm512_unpackhi_pd(first[1], second[1])),
        ];
    }
    let mut columns = fours;
    for place in 0..4 {
        let [a, b, c, d] = [fours[place], fours[4 + place], fours[8 + place], fours[12 + place]];
        let (even, odd) = (_mm512_shuffle_f32x4::<0b10_00_10_00>(a, b), _mm512_shuffle_f32x4::<0b11_01_11_01>(a, b));
        let (evens, odds) = (_mm512_shuffle_f32x4::<0b10_00_10_00>(c, d), _mm512_shuffle_f32x4::<0b11_01_11_01>(c, d));
        columns[place] = _mm512_shuffle_f32x4::<0b10_00_10_00>(even, evens);
        columns[4 + place] = _mm512_shuffle_f32x4::<0b10_00_10_00>(odd, odds);
        columns[8 + place] = _mm512_shuffle_f32x4::<0b11_01_11_01>(even, evens);
        columns[12 + place] = _mm512_shuffle_f32x4::<0b11_01_11_01>(odd, odds);
    }
    columns
}

/// Has the place where these rows meet loaded into the cache while they are multiplied: it lies line by line in the target, and no
/// processor foresees that.
#[target_feature(enable = "avx512f")]
#[inline]
fn prefetch(Place { target, turned: by_rows, .. }: Place, [lying, turned]: [&Range<usize>; 2]) {
    let (rows, columns) = if by_rows { (turned, lying) } else { (lying, turned) };
    for row in rows.clone() {
        for column in columns.clone().step_by(SIDE) {
            _mm_prefetch::<_MM_HINT_T0>(target.at(row, column).cast());
        }
    }
}

/// Whether the product of so many rows with so many columns takes less time if the columns are turned and not the rows: then sums lie as
/// they are written. In cycles, about, for each tile of a panel: turning takes 80, copying 24, and a tile of sums 30, or 100 if it is
/// turned itself.
pub(in super::super) fn turns_columns(rows: usize, columns: usize, inner: usize) -> bool {
    let [rows, columns] = [rows, columns].map(|side| side.div_ceil(SIDE));
    let deep = tiles(inner.div_ceil(2)).clamp(1, DEEP);
    let time = |turned: usize, lying: usize, put: usize| {
        (80 * turned + 24 * lying * turned.div_ceil(TURNED)) * deep + put * turned * lying
    };
    time(columns, rows, 30) <= time(rows, columns, 100)
}
