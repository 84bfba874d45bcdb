//! Numbers of a half format to write, as their bits, in memory that may not have been written yet.
//!
//! A large result that is filled with zeros first goes through main memory twice. Rounded numbers come from buffers, so they can be
//! written to memory as it is allocated.
//!
//! # Why the unsafe code is sound
//!
//! [`Bits`] lends its places as numbers only when they have been written: memory of a slice has been, and blank memory is filled with zeros
//! first ([`Bits::fill`]), or has been rounded into. Blank places are counted once, when all of them have been written: by
//! [`Stored::round`], which writes as many as it gets numbers, which is asserted; or column by column, each beginning where
//! the one before ended; a product and a convolution write all of them, in every row, as they promise. What was counted is blank no more. Only
//! initialised values are written to places, so memory of a slice stays what it is.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use super::gemm::{Matrix, Output, Pixels, Strip, Threads};
use super::gemm_bf16::{Factor, Left, Taps};
use super::halves::{Half, PIECE, SHARE, Stored, widen, with_buffer};

/// See the module.
pub(crate) struct Bits<'a> {
    half: Half,
    places: &'a mut [MaybeUninit<u16>],
    blank: Option<Blank<'a>>,
}

/// Places that have not all been written.
struct Blank<'a> {
    /// Counts places of a whole when they have been written.
    written: &'a AtomicUsize,
    /// Columns that have been, of the matrix whose rows lie in these places.
    columns: usize,
}

/// What elements must be before they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    /// Anything: each of them is replaced.
    Anything,
    /// Zeros, as which they were made: something is added to some of them.
    Zeros,
    /// What they are.
    Kept,
}

/// Numbers in rows that begin so many places apart, each in lines of `width` numbers that begin so many apart.
pub(crate) struct Lines<'a, T> {
    pub(crate) values: &'a [T],
    pub(crate) of_row: usize,
    pub(crate) of_line: usize,
    pub(crate) width: usize,
}

impl<'a> Bits<'a> {
    /// Places that have been written.
    pub(crate) fn written(half: Half, bits: &'a mut [u16]) -> Self {
        // SAFETY: the types have the same layout, and only initialised values are written.
        let places = unsafe { &mut *(std::ptr::from_mut(bits) as *mut [MaybeUninit<u16>]) };
        Self { half, places, blank: None }
    }

    /// Places that have not. `written` counts them when they have.
    pub(crate) fn blank(half: Half, places: &'a mut [MaybeUninit<u16>], written: &'a AtomicUsize) -> Self {
        Self { half, places, blank: Some(Blank { written, columns: 0 }) }
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// The same places, written.
    pub(crate) fn again(&mut self) -> Bits<'_> {
        self.fill();
        Bits { half: self.half, places: self.places, blank: None }
    }

    /// Divides the places into chunks of `size`.
    pub(crate) fn chunks(mut self, size: usize) -> Vec<Self> {
        if self.blank.as_ref().is_some_and(|blank| blank.columns > 0) {
            self.fill();
        }
        let Self { half, places, blank } = self;
        let written = blank.map(|blank| blank.written);
        let blank = || written.map(|written| Blank { written, columns: 0 });
        places.chunks_mut(size).map(|places| Self { half, places, blank: blank() }).collect()
    }

    /// Fills blank places with zeros.
    fn fill(&mut self) {
        if self.blank.is_some() {
            self.places.fill(MaybeUninit::new(0));
            self.count();
        }
    }

    /// Says that all places have been written.
    fn count(&mut self) {
        if let Some(blank) = self.blank.take() {
            blank.written.fetch_add(self.places.len(), Ordering::Relaxed);
        }
    }

    /// Widens the numbers to as many places.
    pub(crate) fn widen<T: Stored>(&mut self, to: &mut [T], threads: Threads) {
        self.fill();
        // SAFETY: all places have been written.
        widen(self.half, unsafe { self.places.assume_init_ref() }, to, threads);
    }

    /// Rounds as many numbers as there are places.
    ///
    /// # Panics
    /// If there are more or fewer.
    pub(crate) fn round<T: Stored>(&mut self, values: &[T], threads: Threads) {
        assert_eq!(values.len(), self.places.len(), "a number for each place");
        let half = self.half;
        match threads {
            Threads::One => T::round(half, values, self.places),
            Threads::All => {
                let shares = self.places.par_chunks_mut(SHARE).zip(values.par_chunks(SHARE));
                shares.for_each(|(places, values)| T::round(half, values, places));
            }
        }
        self.count();
    }

    /// Rounds some columns of the matrix whose rows lie here, `stride` places apart.
    ///
    /// # Panics
    /// If a number is missing.
    pub(crate) fn round_columns<T: Stored>(
        &mut self,
        stride: usize,
        columns: Range<usize>,
        from: &Lines<'_, T>,
        threads: Threads,
    ) {
        self.begin_columns(stride, &columns);
        let (half, &Lines { values, of_row, of_line, width }) = (self.half, from);
        let row = |(row, places): (usize, &mut [MaybeUninit<u16>])| {
            for (line, places) in places[columns.clone()].chunks_mut(width).enumerate() {
                T::round(half, &values[row * of_row + line * of_line..][..places.len()], places);
            }
        };
        match threads {
            Threads::One => self.places.chunks_exact_mut(stride).enumerate().for_each(row),
            Threads::All => self.places.par_chunks_exact_mut(stride).enumerate().for_each(row),
        }
        self.end_columns(stride, &columns);
    }

    /// Writes some pixels of all planes of a convolution, as bf16.
    ///
    /// # Panics
    /// If these are not places of bf16, or as [`Taps::convolve`].
    pub(crate) fn convolve(&mut self, taps: &Taps, strip: &Strip<'_>, pixels: Pixels, threads: Threads) {
        assert_eq!(self.half, Half::Bf16, "a convolution with factors of bf16 writes bf16");
        let columns = pixels.first..pixels.first + pixels.rows * pixels.width;
        self.begin_columns(pixels.plane, &columns);
        taps.convolve(strip, pixels, &mut Output::Halves(self.places), threads);
        self.end_columns(pixels.plane, &columns);
    }

    /// Writes some columns of a product, as bf16, to the matrix whose rows lie here, `stride` places apart.
    ///
    /// # Panics
    /// If these are not places of bf16, or as [`Left::write`].
    pub(crate) fn multiply<F: Factor>(
        &mut self,
        stride: usize,
        columns: Range<usize>,
        left: &Left,
        right: Matrix<'_, F>,
        threads: Threads,
    ) {
        assert_eq!(self.half, Half::Bf16, "a product of factors of bf16 is written as bf16");
        assert_eq!(columns.len(), right.shape[1], "as many columns as the product has");
        self.begin_columns(stride, &columns);
        left.write(&mut Output::Halves(self.places), stride, columns.start, right, threads);
        self.end_columns(stride, &columns);
    }

    /// Columns that come out of order, or of a matrix that is not whole, are written after zeros.
    fn begin_columns(&mut self, stride: usize, columns: &Range<usize>) {
        let whole = self.len().is_multiple_of(stride);
        if self.blank.as_ref().is_some_and(|blank| blank.columns != columns.start || !whole) {
            self.fill();
        }
    }

    /// Says that these columns have been written.
    fn end_columns(&mut self, stride: usize, columns: &Range<usize>) {
        match &mut self.blank {
            Some(_) if columns.end == stride => self.count(),
            Some(blank) => blank.columns = columns.end,
            None => {}
        }
    }

    /// Lets `work` write pieces of the numbers, in order, with the number of places before each.
    pub(crate) fn in_pieces<T: Stored>(mut self, before: Before, work: &mut dyn FnMut(usize, &mut [T])) {
        if before == Before::Kept {
            self.fill();
        }
        let half = self.half;
        with_buffer(PIECE.min(self.len()), |buffer| {
            for (number, places) in self.places.chunks_mut(PIECE).enumerate() {
                let piece = &mut buffer[..places.len()];
                if before == Before::Kept {
                    // SAFETY: all places have been written.
                    T::widen(half, unsafe { places.assume_init_ref() }, piece);
                }
                work(number * PIECE, piece);
                T::round(half, piece, places);
            }
        });
        self.count();
    }
}

/// [`Stored::round`] over numbers.
pub(crate) fn round_over<T: Stored>(half: Half, from: &[T], to: &mut [u16], threads: Threads) {
    Bits::written(half, to).round(from, threads);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is written to blank places in every way, and how many are counted.
    #[test]
    fn blank_places_are_counted_when_all_have_been_written_and_not_before() {
        let numbers: Vec<f32> = (0..60).map(|number| number as f32).collect();
        let lines = |width: usize| Lines { values: &numbers, of_row: 20, of_line: width, width };
        for threads in [Threads::One, Threads::All] {
            let mut memory: Vec<u16> = Vec::with_capacity(60);
            let written = AtomicUsize::new(0);
            let count = || written.load(Ordering::Relaxed);
            let mut blank = Bits::blank(Half::Bf16, &mut memory.spare_capacity_mut()[..60], &written);
            // In order.
            blank.round_columns(20, 0..8, &lines(4), threads);
            assert_eq!(count(), 0);
            blank.round_columns(20, 8..20, &Lines { values: &numbers[8..], ..lines(6) }, threads);
            assert_eq!(count(), 60);
            let mut wide = vec![f32::NAN; 60];
            blank.widen(&mut wide, threads);
            assert_eq!(wide, numbers);
            // What was counted is not counted again.
            blank.round(&numbers, threads);
            blank.in_pieces(Before::Kept, &mut |at, piece: &mut [f32]| {
                assert_eq!(piece, &numbers[at..at + piece.len()]);
            });
            assert_eq!(count(), 60);
            // Out of order: zeros.
            let mut blank = Bits::blank(Half::Bf16, &mut memory.spare_capacity_mut()[..60], &written);
            blank.round_columns(20, 10..20, &Lines { values: &numbers[10..], ..lines(10) }, threads);
            assert_eq!(count(), 120);
            blank.widen(&mut wide, threads);
            assert!(
                wide.iter()
                    .zip(&numbers)
                    .enumerate()
                    .all(|(at, (found, number))| { *found == if at % 20 < 10 { 0.0 } else { *number } })
            );
            // In parts.
            let blank = Bits::blank(Half::Bf16, &mut memory.spare_capacity_mut()[..60], &written);
            for (part, mut bits) in blank.chunks(25).into_iter().enumerate() {
                assert_eq!(count(), 120 + 25 * part);
                bits.round(&numbers[..bits.len()], threads);
            }
            assert_eq!(count(), 180);
        }
    }

    #[test]
    #[should_panic(expected = "a number for each place")]
    fn fewer_numbers_than_places_are_refused() {
        Bits::written(Half::Bf16, &mut [0; 3]).round(&[1.0f32, 2.0], Threads::One);
    }
}
