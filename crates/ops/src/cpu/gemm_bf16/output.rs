//! Where products are written: as float32, or rounded to bf16.

#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m256i, __m512, __m512bh, __m512i, __mmask16, __mmask32, _mm256_mask_storeu_epi16, _mm256_storeu_si256,
    _mm512_add_ps, _mm512_cvtne2ps_pbh, _mm512_cvtneps_pbh, _mm512_mask_storeu_epi16, _mm512_mask_storeu_ps,
    _mm512_maskz_loadu_ps, _mm512_storeu_ps, _mm512_storeu_si512,
};
use std::iter::once;
use std::mem::transmute;

use super::super::matrix::Output;
use super::super::tiles::Target;

impl Output<'_> {
    pub(super) fn len(&self) -> usize {
        match self {
            Output::Singles(values) => values.len(),
            Output::Halves(places) => places.len(),
        }
    }

    /// The address of a place.
    pub(super) fn from(&mut self, first: usize) -> To {
        match self {
            Output::Singles(values) => To::Singles(values.as_mut_ptr().wrapping_add(first)),
            Output::Halves(places) => To::Halves(places.as_mut_ptr().cast::<u16>().wrapping_add(first)),
        }
    }
}

/// Where a tile is written.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// Its first row and column.
    pub(super) target: Target,
    /// Whether rows of the turned factor are rows of the target; otherwise they are its columns.
    pub(super) turned: bool,
    /// Whether it is added to what is there.
    pub(super) add: bool,
}

/// The address of a number of an output.
#[derive(Clone, Copy)]
pub(super) enum To {
    Singles(*mut f32),
    Halves(*mut u16),
}

// SAFETY: an address. What may be written there is argued by those who write.
unsafe impl Send for To {}
// SAFETY: as above.
unsafe impl Sync for To {}

impl To {
    /// So many places further.
    pub(super) fn after(self, places: usize) -> Self {
        match self {
            Self::Singles(to) => Self::Singles(to.wrapping_add(places)),
            Self::Halves(to) => Self::Halves(to.wrapping_add(places)),
        }
    }

    /// Writes those numbers of each register that the mask names, `place` places from here, those of the next register `stride` further;
    /// or adds them to what is there, where that is float32. Sums of the instruction are never subnormal, so they are rounded to bf16 as any
    /// others.
    ///
    /// # Safety
    /// The processor has the instructions, these numbers may be written, and read if they are added to, which numbers of bf16 are not.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    pub(super) unsafe fn put(
        self,
        place: isize,
        stride: usize,
        sums: impl Iterator<Item = __m512>,
        mask: __mmask16,
        add: bool,
    ) {
        if mask == 0 {
            return;
        }
        let all = mask == __mmask16::MAX;
        // SAFETY: as the caller promises; a mask leaves out what is not to be written, or read.
        unsafe {
            match self {
                Self::Singles(to) => {
                    let mut to = to.wrapping_offset(place);
                    for sums in sums {
                        let sums = if add { _mm512_add_ps(_mm512_maskz_loadu_ps(mask, to), sums) } else { sums };
                        if all {
                            _mm512_storeu_ps(to, sums)
                        } else {
                            _mm512_mask_storeu_ps(to, mask, sums)
                        }
                        to = to.wrapping_add(stride);
                    }
                }
                Self::Halves(to) => {
                    let mut to = to.wrapping_offset(place);
                    for sums in sums {
                        match all {
                            true => _mm256_storeu_si256(to.cast(), rounded(sums)),
                            false => _mm256_mask_storeu_epi16(to.cast(), mask, rounded(sums)),
                        }
                        to = to.wrapping_add(stride);
                    }
                }
            }
        }
    }

    /// [`To::put`] for two registers a row that lie side by side. A line of the cache that both lie in is then written at once.
    ///
    /// # Safety
    /// As there.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    pub(super) unsafe fn put_both(
        self,
        place: isize,
        stride: usize,
        sums: impl Iterator<Item = [__m512; 2]>,
        mask: __mmask32,
        add: bool,
    ) {
        // SAFETY: as the caller promises; a mask leaves out what is not to be written.
        unsafe {
            match self {
                Self::Singles(_) => {
                    for (row, [first, second]) in sums.enumerate() {
                        let to = self.after(row * stride);
                        to.put(place, stride, once(first), mask as __mmask16, add);
                        to.put(place + 16, stride, once(second), (mask >> 16) as __mmask16, add);
                    }
                }
                Self::Halves(to) => {
                    let mut to = to.wrapping_offset(place);
                    for [first, second] in sums {
                        let line = transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(second, first));
                        match mask {
                            __mmask32::MAX => _mm512_storeu_si512(to.cast(), line),
                            _ => _mm512_mask_storeu_epi16(to.cast(), mask, line),
                        }
                        to = to.wrapping_add(stride);
                    }
                }
            }
        }
    }
}

/// The first `rows` of registers that lie side by side, for [`To::put_both`].
pub(super) fn abreast<const R: usize>(
    [first, second]: [[__m512; R]; 2],
    rows: usize,
) -> impl Iterator<Item = [__m512; 2]> {
    first.into_iter().zip(second).take(rows).map(|(first, second)| [first, second])
}

/// The nearest numbers of bf16.
#[target_feature(enable = "avx512f,avx512vl,avx512bf16")]
#[inline]
fn rounded(sums: __m512) -> __m256i {
    // SAFETY: both are 32 bytes without a meaning of their own.
    unsafe { transmute(_mm512_cvtneps_pbh(sums)) }
}
