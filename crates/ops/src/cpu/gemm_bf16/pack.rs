//! Factors rounded to bf16 and laid out as the kernels read them.
//!
//! Numbers that follow each other along the inner dimension are stored as pairs of 32 bits, the first in the lower half. If the inner
//! dimension is odd, its last number is paired with a zero, in both factors, so that the pair adds nothing. Rows and columns that
//! exist only to fill a register hold anything, since what they make is never written to a target.

#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m512bh, __m512i, __mmask16, __mmask32, _mm_storeu_si128, _mm256_maskz_loadu_epi16, _mm256_storeu_si256,
    _mm512_castsi256_si512, _mm512_castsi512_si256, _mm512_cvtne2ps_pbh, _mm512_extracti32x4_epi32,
    _mm512_extracti64x4_epi64, _mm512_inserti64x4, _mm512_loadu_si512, _mm512_maskz_loadu_epi16, _mm512_maskz_loadu_ps,
    _mm512_permutex2var_epi16, _mm512_permutexvar_epi16, _mm512_unpackhi_epi32, _mm512_unpackhi_epi64,
    _mm512_unpacklo_epi32, _mm512_unpacklo_epi64,
};

use half::bf16;

use super::super::matrix::Matrix;

/// 32 numbers of bf16, as pairs: a register, and a line of the cache.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Line([u32; PAIRS]);

impl Line {
    pub(super) const ZERO: Self = Self([0; PAIRS]);
}

/// Pairs that a [`Line`] holds.
pub(super) const PAIRS: usize = 16;

/// The places of a register of 32 halves that brings together the two numbers of each pair: the first ones are in the lower half of
/// the register, the second ones in the upper.
const PAIRING: [u16; 32] = {
    let mut places = [0; 32];
    let mut pair = 0;
    while pair < PAIRS {
        places[2 * pair] = pair as u16;
        places[2 * pair + 1] = (pair + PAIRS) as u16;
        pair += 1;
    }
    places
};

/// The same of two registers, the first numbers in one and the second ones in the other: of the lower halves of both, and of the upper.
const PAIRING_OF_TWO: [[u16; 32]; 2] = {
    let mut places = [[0; 32]; 2];
    let mut pair = 0;
    while pair < 2 * PAIRS {
        places[pair / PAIRS][2 * (pair % PAIRS)] = pair as u16;
        places[pair / PAIRS][2 * (pair % PAIRS) + 1] = (pair + 2 * PAIRS) as u16;
        pair += 1;
    }
    places
};

/// A format that factors are stored in: float32, rounded to the nearest bf16 when packed (ties to even; numbers too small for a normal
/// bf16 become zeros of their sign, and every NaN stays one), or bf16.
pub(crate) trait Factor: Copy + Send + Sync {
    /// Whether this is bf16.
    const HALF: bool;

    /// Pairs of 16 numbers from `first` with 16 from `second`. Numbers whose bit in the mask is not set are zeros.
    ///
    /// # Safety
    /// The processor has the instructions of [`super::available`], and numbers whose bit is set may be read.
    unsafe fn pairs(first: *const Self, of_first: __mmask16, second: *const Self, of_second: __mmask16) -> __m512i;

    /// Three lines of pairs: of 48 numbers from `first` with as many from `second`.
    ///
    /// # Safety
    /// The processor has the instructions, and these numbers may be read.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    unsafe fn lines(first: *const Self, second: *const Self) -> [__m512i; 3] {
        // SAFETY: as the caller promises.
        unsafe {
            [
                Self::pairs(first, !0, second, !0),
                Self::pairs(first.add(PAIRS), !0, second.add(PAIRS), !0),
                Self::pairs(first.add(2 * PAIRS), !0, second.add(2 * PAIRS), !0),
            ]
        }
    }

    /// Pairs of 32 numbers that follow each other. Numbers whose bit in the mask is not set are zeros.
    ///
    /// # Safety
    /// As for [`Factor::pairs`].
    unsafe fn along(from: *const Self, mask: __mmask32) -> __m512i;
}

impl Factor for f32 {
    const HALF: bool = false;

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    unsafe fn pairs(first: *const Self, of_first: __mmask16, second: *const Self, of_second: __mmask16) -> __m512i {
        // SAFETY: what a mask leaves out is not read, and the rest may be, as the caller promises.
        let (first, second) =
            unsafe { (_mm512_maskz_loadu_ps(of_first, first), _mm512_maskz_loadu_ps(of_second, second)) };
        paired(bits(_mm512_cvtne2ps_pbh(second, first)))
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    unsafe fn along(from: *const Self, mask: __mmask32) -> __m512i {
        // SAFETY: as above; the second address is used only where the mask says that numbers are there.
        let (low, high) = unsafe {
            (
                _mm512_maskz_loadu_ps(mask as __mmask16, from),
                _mm512_maskz_loadu_ps((mask >> 16) as __mmask16, from.wrapping_add(16)),
            )
        };
        bits(_mm512_cvtne2ps_pbh(high, low))
    }
}

impl Factor for bf16 {
    const HALF: bool = true;

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    unsafe fn pairs(first: *const Self, of_first: __mmask16, second: *const Self, of_second: __mmask16) -> __m512i {
        // SAFETY: what a mask leaves out is not read, and the rest may be, as the caller promises. `bf16` is a `u16` by its
        // `repr(transparent)`.
        let (first, second) = unsafe {
            (_mm256_maskz_loadu_epi16(of_first, first.cast()), _mm256_maskz_loadu_epi16(of_second, second.cast()))
        };
        paired(_mm512_inserti64x4::<1>(_mm512_castsi256_si512(first), second))
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    unsafe fn lines(first: *const Self, second: *const Self) -> [__m512i; 3] {
        // SAFETY: as the caller promises; the constants have the size of a register.
        unsafe {
            let low = _mm512_loadu_si512(PAIRING_OF_TWO[0].as_ptr().cast());
            let high = _mm512_loadu_si512(PAIRING_OF_TWO[1].as_ptr().cast());
            let (of_first, of_second) = (_mm512_loadu_si512(first.cast()), _mm512_loadu_si512(second.cast()));
            [
                _mm512_permutex2var_epi16(of_first, low, of_second),
                _mm512_permutex2var_epi16(of_first, high, of_second),
                Self::pairs(first.add(2 * PAIRS), !0, second.add(2 * PAIRS), !0),
            ]
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    unsafe fn along(from: *const Self, mask: __mmask32) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_maskz_loadu_epi16(mask, from.cast()) }
    }
}

#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn paired(apart: __m512i) -> __m512i {
    // SAFETY: the constant has the size of a register.
    let places = unsafe { _mm512_loadu_si512(PAIRING.as_ptr().cast()) };
    _mm512_permutexvar_epi16(places, apart)
}

/// A register as the instruction takes it.
#[target_feature(enable = "avx512f,avx512bf16")]
#[inline]
pub(super) fn halves(bits: __m512i) -> __m512bh {
    // SAFETY: both are 64 bytes without a meaning of their own.
    unsafe { std::mem::transmute(bits) }
}

#[target_feature(enable = "avx512f,avx512bf16")]
#[inline]
fn bits(halves: __m512bh) -> __m512i {
    // SAFETY: both are 64 bytes without a meaning of their own.
    unsafe { std::mem::transmute(halves) }
}

/// A factor as it is in memory, seen from the product: number `inner` of outer place `outer` (a row of the left factor, a column of the
/// right one) lies `inner` steps of `along` behind the place of `outer` across.
#[derive(Clone, Copy)]
pub(super) struct Source<'a, T> {
    values: &'a [T],
    across: usize,
    along: usize,
}

/// A rectangle of a [`Source`].
#[derive(Clone, Copy)]
pub(super) struct Part {
    /// The first outer place, and how many there are.
    pub(super) outer: usize,
    pub(super) outers: usize,
    /// The first number of the inner dimension, and how many there are.
    pub(super) inner: usize,
    pub(super) inners: usize,
}

impl<'a, T> Source<'a, T> {
    /// The left factor of a product, whose rows are outer places.
    ///
    /// # Panics
    /// If the matrix does not lie in its slice, or neither its rows nor its columns are contiguous.
    pub(super) fn of_left(matrix: Matrix<'a, T>) -> Self {
        let Matrix { values, shape: [rows, columns], strides: [down, right] } = matrix;
        let down_to = rows.saturating_sub(1).saturating_mul(down);
        let last = columns.saturating_sub(1).saturating_mul(right).saturating_add(down_to);
        assert!(rows == 0 || columns == 0 || last < values.len(), "a factor lies in its slice");
        assert!(down == 1 || right == 1, "the rows or the columns of a factor are contiguous");
        Self { values, across: down, along: right }
    }

    /// The right factor of a product, whose columns are outer places.
    ///
    /// # Panics
    /// As for [`Source::of_left`].
    pub(super) fn of_right(matrix: Matrix<'a, T>) -> Self {
        Self::of_left(matrix.transposed())
    }

    /// Whether outer places follow each other in memory.
    pub(super) fn is_contiguous_across(&self) -> bool {
        self.across == 1
    }

    /// The address of a number, if it is one of the source.
    #[inline]
    pub(super) fn at(&self, outer: usize, inner: usize) -> *const T {
        self.values.as_ptr().wrapping_add(self.across * outer + self.along * inner)
    }
}

impl<T: Factor> Source<'_, T> {
    /// Writes up to 16 outer places as two groups of eight. Pair `p` of a group goes to eight consecutive places of 32 bits, `step *
    /// p` places behind the group's start.
    ///
    /// # Safety
    /// The processor has the instructions, the part lies in the source, and there is room behind both starts; with at most eight outer
    /// places, the second group is not written.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    pub(super) unsafe fn sixteen(&self, part: Part, groups: [*mut u32; 2], step: usize) {
        if self.is_contiguous_across() {
            for pair in 0..part.inners.div_ceil(2) {
                // SAFETY: the line is of the part, and each half of it has eight places.
                unsafe {
                    let line = self.line(Part { inner: part.inner + 2 * pair, inners: part.inners - 2 * pair, ..part });
                    let halves = [_mm512_castsi512_si256(line), _mm512_extracti64x4_epi64::<1>(line)];
                    for (half, start) in halves.into_iter().zip(groups).take(part.outers.div_ceil(8)) {
                        _mm256_storeu_si256(start.add(step * pair).cast(), half);
                    }
                }
            }
        } else {
            for (group, start) in groups.into_iter().enumerate().take(part.outers.div_ceil(8)) {
                let (outer, outers) = (part.outer + 8 * group, (part.outers - 8 * group).min(8));
                // SAFETY: a group is a part of the part.
                unsafe { self.eight_along(Part { outer, outers, ..part }, start, step) };
            }
        }
    }

    /// Writes up to 16 outer places of two numbers of the inner dimension, or of one and zeros, to a line.
    ///
    /// # Safety
    /// The processor has the instructions, outer places follow each other in memory, and the part lies in the source.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    pub(super) unsafe fn line(&self, part: Part) -> __m512i {
        let mask = lowest(part.outers) as __mmask16;
        let (first, second) = (self.at(part.outer, part.inner), self.at(part.outer, part.inner + 1));
        // SAFETY: the masks leave out what is not in the part.
        unsafe { T::pairs(first, mask, second, if part.inners > 1 { mask } else { 0 }) }
    }

    /// One group of [`Source::sixteen`] of a source whose numbers follow each other along the inner dimension.
    ///
    /// # Safety
    /// As there.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    unsafe fn eight_along(&self, part: Part, start: *mut u32, step: usize) {
        for done in (0..part.inners).step_by(2 * PAIRS) {
            let mask = lowest(part.inners - done);
            let row = |row: usize| {
                let mask = if row < part.outers { mask } else { 0 };
                // SAFETY: the mask leaves out what is not in the part.
                unsafe { T::along(self.at(part.outer + row, part.inner + done), mask) }
            };
            let rows = [row(0), row(1), row(2), row(3), row(4), row(5), row(6), row(7)];
            let pairs = (part.inners - done).div_ceil(2).min(PAIRS);
            // SAFETY: there is room for all pairs of the part.
            unsafe { turn(rows, start.add(step * done / 2), step, pairs) };
        }
    }

    /// Writes the numbers of an outer place, as they follow each other.
    ///
    /// # Safety
    /// The processor has the instructions, the part, which has one outer place, lies in the source, whose numbers follow each other along
    /// the inner dimension, and there is room for a line for every 32 numbers begun.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    pub(super) unsafe fn row(&self, part: Part, to: *mut Line) {
        for (step, done) in (0..part.inners).step_by(2 * PAIRS).enumerate() {
            // SAFETY: the mask leaves out what is not in the part.
            unsafe {
                let line = T::along(self.at(part.outer, part.inner + done), lowest(part.inners - done));
                to.add(step).cast::<__m512i>().write(line);
            }
        }
    }
}

/// A mask with the lowest bits set, `count` of them or all.
pub(super) fn lowest(count: usize) -> __mmask32 {
    if count >= 32 { !0 } else { (1 << count) - 1 }
}

/// Writes the pairs of eight rows column by column: the eight pairs of column `p` at `step * p`, for the first `pairs` columns.
///
/// # Safety
/// The processor has the instructions, and eight places of 32 bits behind each of these may be written.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
#[inline]
pub(super) unsafe fn turn(rows: [__m512i; 8], to: *mut u32, step: usize, pairs: usize) {
    // Of each quarter of a register, the four pairs of rows 0 to 3 (and 4 to 7) of column 4 * quarter + place.
    let quads = |a: __m512i, b: __m512i, c: __m512i, d: __m512i| {
        let (ab_low, ab_high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
        let (cd_low, cd_high) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
        [
            _mm512_unpacklo_epi64(ab_low, cd_low),
            _mm512_unpackhi_epi64(ab_low, cd_low),
            _mm512_unpacklo_epi64(ab_high, cd_high),
            _mm512_unpackhi_epi64(ab_high, cd_high),
        ]
    };
    let upper = quads(rows[0], rows[1], rows[2], rows[3]);
    let lower = quads(rows[4], rows[5], rows[6], rows[7]);
    macro_rules! quarter {
        ($quarter:literal) => {
            for place in 0..4 {
                let pair = 4 * $quarter + place;
                if pair < pairs {
                    // SAFETY: the caller promises room for this pair.
                    unsafe {
                        let to = to.add(step * pair);
                        _mm_storeu_si128(to.cast(), _mm512_extracti32x4_epi32::<$quarter>(upper[place]));
                        _mm_storeu_si128(to.add(4).cast(), _mm512_extracti32x4_epi32::<$quarter>(lower[place]));
                    }
                }
            }
        };
    }
    quarter!(0);
    quarter!(1);
    quarter!(2);
    quarter!(3);
}
