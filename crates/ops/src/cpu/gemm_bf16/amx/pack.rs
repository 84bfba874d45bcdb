//! Factors packed in panels: 16 rows, or columns, tile after tile.
//!
//! A tile of rows has a line for each of them, with 16 pairs that follow each other. A tile of columns has a line for each pair, with that
//! of each column. Pairs beyond the inner dimension are zeros in both.

#![allow(unsafe_code)]

use std::arch::x86_64::{__m512i, __mmask16, _mm512_mask_storeu_epi32, _mm512_setzero_si512};

use super::super::pack::{Factor, Line, PAIRS, Part, Source, lowest, turn};
use super::{SIDE, tiles};

/// Packs some outer places of a left factor, whose numbers are tiles from one on: panels of `tiles` tiles, one after the other.
///
/// # Safety
/// The processor has the instructions of registers, the part lies in the source, and there is room for a panel for every 16 outer places
/// begun.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
pub(in super::super) unsafe fn rows<T: Factor>(source: Source<'_, T>, part: Part, to: *mut Line) {
    let tiles = tiles(part.inners.div_ceil(2));
    let (mut place, numbers) = (to, 2 * SIDE);
    for outer in (0..part.outers).step_by(SIDE) {
        let outers = (part.outers - outer).min(SIDE);
        for tile in 0..tiles {
            let inner = tile * numbers;
            let inners = (part.inners - inner).min(numbers);
            let part = Part { outer: part.outer + outer, outers, inner: part.inner + inner, inners };
            // SAFETY: the tile's part lies in the source, and there is room for its lines.
            unsafe {
                if source.is_contiguous_across() {
                    rows_of_columns(source, part, place);
                } else {
                    for row in 0..SIDE {
                        match row < outers {
                            true => {
                                let of_row = Part { outer: part.outer + row, outers: 1, ..part };
                                source.row(of_row, place.add(row));
                            }
                            false => place.add(row).write(Line::ZERO),
                        }
                    }
                }
            }
            place = place.wrapping_add(SIDE);
        }
    }
}

/// A tile of [`rows`] of a source whose outer places follow each other.
///
/// # Safety
/// As there.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
unsafe fn rows_of_columns<T: Factor>(source: Source<'_, T>, part: Part, to: *mut Line) {
    let pair = |pair: usize| match 2 * pair < part.inners {
        // SAFETY: the pair is one of the part.
        true => unsafe { source.line(Part { inner: part.inner + 2 * pair, inners: part.inners - 2 * pair, ..part }) },
        false => _mm512_setzero_si512(),
    };
    for half in 0..2 {
        let eight = |at: usize| pair(8 * half + at);
        let pairs = [eight(0), eight(1), eight(2), eight(3), eight(4), eight(5), eight(6), eight(7)];
        // SAFETY: half of each of the tile's 16 lines.
        unsafe { turn(pairs, to.cast::<u32>().add(8 * half), PAIRS, SIDE) };
    }
}

/// Packs at most 16 outer places of a right factor: a panel with a line for each pair, and zeros up to a whole tile.
///
/// # Safety
/// The processor has the instructions of registers, the part lies in the source, and there is room for the panel.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
#[inline]
pub(in super::super) unsafe fn columns<T: Factor>(source: Source<'_, T>, part: Part, to: *mut Line) {
    let pairs = part.inners.div_ceil(2);
    // SAFETY: lines of the panel are written, and what is read lies in the part.
    unsafe {
        if source.is_contiguous_across() {
            for pair in 0..pairs {
                let of_pair = Part { inner: part.inner + 2 * pair, inners: part.inners - 2 * pair, ..part };
                to.add(pair).cast::<__m512i>().write(source.line(of_pair));
            }
        } else {
            let first = to.cast::<u32>();
            source.sixteen(part, [first, first.add(8)], PAIRS);
        }
        for pair in pairs..tiles(pairs) * SIDE {
            to.add(pair).write(Line::ZERO);
        }
    }
}

/// Packs at most 16 filters from one on into a panel, pair by pair of channels and tap by tap.
///
/// # Safety
/// The processor has the instructions of registers, the weight has `filters * channels * taps` numbers, and there is room for the panel.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
pub(in super::super) unsafe fn taps<T: Factor>(
    weight: &[T],
    [filters, channels, taps]: [usize; 3],
    first: usize,
    to: *mut Line,
) {
    let pairs = channels.div_ceil(2) * taps;
    let mut row: Vec<Line> = vec![Line::ZERO; tiles(pairs)];
    for filter in 0..SIDE {
        if first + filter >= filters {
            row.fill(Line::ZERO);
        } else {
            let of_filter = weight.as_ptr().wrapping_add((first + filter) * channels * taps);
            for (pair, channel) in (0..channels).step_by(2).enumerate() {
                for tap in (0..taps).step_by(PAIRS) {
                    let mask = lowest(taps - tap) as __mmask16;
                    let of_second = if channel + 1 < channels { mask } else { 0 };
                    let from = of_filter.wrapping_add(channel * taps + tap);
                    // SAFETY: the masks leave out what is behind the taps of a channel, and a channel that there is not. The row has
                    // a place for each pair.
                    unsafe {
                        let line = T::pairs(from, mask, from.wrapping_add(taps), of_second);
                        let place = row.as_mut_ptr().cast::<i32>().add(pair * taps + tap);
                        _mm512_mask_storeu_epi32(place, mask, line);
                    }
                }
            }
        }
        for (tile, line) in row.iter().enumerate() {
            // SAFETY: a line of the panel.
            unsafe { to.add(tile * SIDE + filter).write(*line) };
        }
    }
}
