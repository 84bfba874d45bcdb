//! A tile of a product of rows that are read as they lie and of a factor that is turned: a register of it has the pairs of 16 of its rows,
//! and a pair of a row that lies is multiplied with all of these at once.

#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m512, __m512i, __mmask16, _mm256_add_ps, _mm256_loadu_ps, _mm256_mask_storeu_ps, _mm256_maskz_loadu_ps,
    _mm512_castps_si512, _mm512_dpbf16_ps, _mm512_set1_epi32, _mm512_setzero_ps,
};

use half::bf16;

use super::super::tiles::Target;
use super::outer::{LANES, ROWS, VECTORS};
use super::output::{Place, To};
use super::pack::{Line, halves, lowest, turn};

/// Registers of a pair in each panel of a turned factor but the last: at most three, and about as many in all panels, because with a
/// single one as many numbers are read as are multiplied.
pub(super) fn vectors(rows: usize) -> usize {
    let all = rows.div_ceil(LANES).max(1);
    all.div_ceil(all.div_ceil(VECTORS))
}

/// Eight rows that are read as they lie, and a panel of a turned factor.
pub(super) struct Tile {
    /// The first pair of each row.
    pub(super) from: [*const i32; ROWS],
    /// A line for each pair and every 16 rows begun of the turned factor.
    pub(super) lines: *const Line,
    /// Stretches of a row, the pairs of each, and from one to the next in numbers.
    pub(super) count: usize,
    pub(super) pairs: usize,
    pub(super) step: usize,
    /// Rows of the turned factor that are written, at most 48, and of the one that lies, at most eight.
    pub(super) turned: usize,
    pub(super) lying: usize,
}

impl Tile {
    /// Computes the tile and writes it.
    ///
    /// # Safety
    /// The processor has the instructions, all stretches lie in their slice, there is a line for each pair and every 16 rows, and the tile
    /// lies in the target, where nobody else reads or writes it meanwhile.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    pub(super) unsafe fn compute(&self, place: Place) {
        // SAFETY: as the caller promises.
        unsafe {
            match self.turned.div_ceil(LANES) {
                1 => self.of::<1>(place),
                2 => self.of::<2>(place),
                _ => self.of::<3>(place),
            }
        }
    }

    /// # Safety
    /// As for [`Tile::compute`], with `V` lines for each pair.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn of<const V: usize>(&self, Place { target, turned, add }: Place) {
        let mut sums = [[_mm512_setzero_ps(); V]; ROWS];
        let (mut lines, mut from) = (self.lines, self.from);
        for _ in 0..self.count {
            for pair in 0..self.pairs {
                // SAFETY: as the caller promises.
                unsafe {
                    let mut turned = [halves(_mm512_set1_epi32(0)); V];
                    for (vector, turned) in turned.iter_mut().enumerate() {
                        *turned = halves(lines.add(vector).cast::<__m512i>().read());
                    }
                    for (from, sums) in from.iter().zip(&mut sums) {
                        let pair = halves(_mm512_set1_epi32(from.add(pair).read_unaligned()));
                        for (sum, turned) in sums.iter_mut().zip(turned) {
                            *sum = _mm512_dpbf16_ps(*sum, pair, turned);
                        }
                    }
                    lines = lines.add(V);
                }
            }
            from = from.map(|from| from.cast::<bf16>().wrapping_add(self.step).cast());
        }
        for vector in 0..V {
            let (of_vector, first) = (sums.map(|row| row[vector]), LANES * vector);
            let high = self.turned.saturating_sub(first).min(LANES);
            // SAFETY: as the caller promises; what is beyond the rows of either factor is left out.
            unsafe {
                if turned {
                    let target = Target { start: target.at(first, 0), ..target };
                    put_turned(target, of_vector, high, self.lying, add);
                } else {
                    let rows = of_vector.into_iter().take(self.lying);
                    To::Singles(target.start).put(first as isize, target.stride, rows, lowest(high) as __mmask16, add);
                }
            }
        }
    }
}

/// Writes the first `wide` of eight columns of `high` numbers to a matrix, or adds them to what is there.
///
/// # Safety
/// The processor has the instructions, and these rows and columns lie in the target.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
#[inline]
pub(super) unsafe fn put_turned(target: Target, columns: [__m512; ROWS], high: usize, wide: usize, add: bool) {
    let mut made = [[0.0f32; ROWS]; LANES];
    let mask = lowest(wide) as u8;
    // SAFETY: there is room for 16 rows of eight; the mask leaves out what is beyond the columns.
    unsafe {
        turn(columns.map(|column| _mm512_castps_si512(column)), made.as_mut_ptr().cast(), ROWS, LANES);
        for (row, made) in made.iter().enumerate().take(high) {
            let (to, made) = (target.at(row, 0), _mm256_loadu_ps(made.as_ptr()));
            let sum = if add { _mm256_add_ps(_mm256_maskz_loadu_ps(mask, to), made) } else { made };
            _mm256_mask_storeu_ps(to, mask, sum);
        }
    }
}
