//! Numbers of a half format to write, as their bits, in memory that may not have been written yet ([`super::room`]).
//!
//! Rounded numbers come from buffers, so they can be written to memory as it is allocated.
//!
//! # Why the unsafe code is sound
//!
//! What is promised to [`Room`] is kept: [`Stored::round`] writes as many places as it gets numbers, which is asserted, and a product and a
//! convolution write all columns that they are asked for, in every row. Pieces are read when they have been written.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::ops::Range;

use rayon::prelude::*;

use super::gemm::{Matrix, Output, Pixels, Strip, Threads};
use super::gemm_bf16::{Factor, Left, Taps};
use super::halves::{Half, PIECE, SHARE, Stored, widen, with_buffer};
use super::room::Room;
use super::rounding::{round_of_two, round_over_own};

/// See the module.
pub(crate) struct Bits<'a> {
    half: Half,
    places: Room<'a, u16>,
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

impl<'a, T> Lines<'a, T> {
    /// Rows that follow each other, each one line.
    pub(crate) fn of_rows(values: &'a [T], width: usize) -> Self {
        Self { values, of_row: width, of_line: width, width }
    }
}

impl<'a> Bits<'a> {
    pub(crate) fn new(half: Half, places: Room<'a, u16>) -> Self {
        Self { half, places }
    }

    pub(crate) fn half(&self) -> Half {
        self.half
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// The same places, written.
    pub(crate) fn again(&mut self) -> Bits<'_> {
        Bits::new(self.half, self.places.again())
    }

    /// Divides the places into chunks of `size`.
    pub(crate) fn chunks(self, size: usize) -> Vec<Self> {
        self.places.chunks(size).into_iter().map(|places| Self::new(self.half, places)).collect()
    }

    /// Widens the numbers to as many places.
    pub(crate) fn widen<T: Stored>(&mut self, to: &mut [T], threads: Threads) {
        widen(self.half, self.places.numbers(), to, threads);
    }

    /// Rounds as many numbers as there are places.
    ///
    /// # Panics
    /// If there are more or fewer.
    pub(crate) fn round<T: Stored>(&mut self, values: &[T], threads: Threads) {
        assert_eq!(values.len(), self.places.len(), "a number for each place");
        let half = self.half;
        let round = |places: &mut [MaybeUninit<u16>]| match threads {
            Threads::One => T::round(half, values, places),
            Threads::All => {
                let shares = places.par_chunks_mut(SHARE).zip(values.par_chunks(SHARE));
                shares.for_each(|(places, values)| T::round(half, values, places));
            }
        };
        // SAFETY: each place gets a number.
        unsafe { self.places.write(round) }
    }

    /// Copies as many numbers of the same format as there are places.
    ///
    /// # Panics
    /// If there are more or fewer, or they are of another format.
    pub(crate) fn copy(&mut self, half: Half, from: &[u16]) {
        assert_eq!(self.half, half, "numbers are copied to places of their format");
        self.places.copy(from);
    }

    /// Writes a function of two numbers of bf16, as bf16, to each place.
    ///
    /// # Panics
    /// If these are not places of bf16, or there are fewer numbers.
    #[inline(always)]
    pub(crate) fn write_of_two(&mut self, numbers: [&[u16]; 2], function: impl Fn(f32, f32) -> f32 + Copy) {
        assert_eq!(self.half, Half::Bf16, "a function of numbers of bf16 is written as bf16");
        let count = self.places.len();
        assert!(numbers.iter().all(|numbers| numbers.len() == count), "two numbers for each place");
        // SAFETY: each place gets a number.
        unsafe { self.places.write(|places| round_of_two(numbers, places, function)) }
    }

    /// Replaces each number of bf16 by a function of it and of another one, rounded. Returns whether these are places of bf16; otherwise nothing
    /// is done.
    ///
    /// # Panics
    /// If there are fewer of the others.
    #[inline(always)]
    pub(crate) fn replace_bf16(&mut self, others: &[u16], function: impl Fn(f32, f32) -> f32 + Copy) -> bool {
        if self.half != Half::Bf16 {
            return false;
        }
        let places = self.places.numbers();
        assert!(others.len() >= places.len(), "another number for each place");
        round_over_own(others, places, function);
        true
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
        let (half, &Lines { values, of_row, of_line, width }) = (self.half, from);
        let row = |(row, places): (usize, &mut [MaybeUninit<u16>])| {
            for (line, places) in places[columns.clone()].chunks_mut(width).enumerate() {
                T::round(half, &values[row * of_row + line * of_line..][..places.len()], places);
            }
        };
        let round = |places: &mut [MaybeUninit<u16>]| match threads {
            Threads::One => places.chunks_exact_mut(stride).enumerate().for_each(row),
            Threads::All => places.par_chunks_exact_mut(stride).enumerate().for_each(row),
        };
        // SAFETY: each place of these columns gets a number.
        unsafe { self.places.write_columns(stride, &columns, round) }
    }

    /// Writes some pixels of all planes of a convolution, as bf16.
    ///
    /// # Panics
    /// If these are not places of bf16, or as [`Taps::convolve`].
    pub(crate) fn convolve(&mut self, taps: &Taps, strip: &Strip<'_>, pixels: Pixels, threads: Threads) {
        assert_eq!(self.half, Half::Bf16, "a convolution with factors of bf16 writes bf16");
        let columns = pixels.first..pixels.first + pixels.rows * pixels.width;
        let convolve = |places: &mut _| taps.convolve(strip, pixels, &mut Output::Halves(places), threads);
        // SAFETY: these pixels are written in all planes.
        unsafe { self.places.write_columns(pixels.plane, &columns, convolve) }
    }

    /// Lets `work` write some columns of the matrix whose rows lie here, `stride` places apart: it gets the number of a row, and the bits of its
    /// numbers, which are zeros before.
    pub(crate) fn fill_columns(
        &mut self,
        stride: usize,
        columns: Range<usize>,
        threads: Threads,
        work: impl Fn(usize, &mut [u16]) + Sync,
    ) {
        let row = |(row, places): (usize, &mut [MaybeUninit<u16>])| {
            let places = &mut places[columns.clone()];
            places.fill(MaybeUninit::new(0));
            // SAFETY: they have just been written.
            work(row, unsafe { places.assume_init_mut() });
        };
        let fill = |places: &mut [MaybeUninit<u16>]| match threads {
            Threads::One => places.chunks_exact_mut(stride).enumerate().for_each(row),
            Threads::All => places.par_chunks_exact_mut(stride).enumerate().for_each(row),
        };
        // SAFETY: each place of these columns gets a number.
        unsafe { self.places.write_columns(stride, &columns, fill) }
    }

    /// Lets `work` write some columns of each row of the matrix whose rows lie here, `stride` places apart: it gets the number of the row, and
    /// their places.
    ///
    /// # Panics
    /// If it leaves some out.
    pub(crate) fn write_rows(
        &mut self,
        stride: usize,
        columns: &Range<usize>,
        threads: Threads,
        work: impl Fn(usize, Bits<'_>) + Sync,
    ) {
        let half = self.half;
        self.places.write_rows(stride, columns, threads, |row, places| work(row, Bits::new(half, places)));
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
        assert_eq!(columns.len(), right.columns(), "as many columns as the product has");
        let multiply = |places: &mut _| left.write(&mut Output::Halves(places), stride, columns.start, right, threads);
        // SAFETY: the product has a number for each of these places.
        unsafe { self.places.write_columns(stride, &columns, multiply) }
    }

    /// Lets `work` write pieces of the numbers, in order, with the number of places before each.
    pub(crate) fn in_pieces<T: Stored>(mut self, before: Before, work: &mut dyn FnMut(usize, &mut [T])) {
        if before == Before::Kept {
            self.places.numbers();
        }
        let half = self.half;
        let write = |places: &mut [MaybeUninit<u16>]| {
            with_buffer(PIECE.min(places.len()), |buffer| {
                for (number, places) in places.chunks_mut(PIECE).enumerate() {
                    let piece = &mut buffer[..places.len()];
                    if before == Before::Kept {
                        // SAFETY: all places have been written.
                        T::widen(half, unsafe { places.assume_init_ref() }, piece);
                    }
                    work(number * PIECE, piece);
                    T::round(half, piece, places);
                }
            });
        };
        // SAFETY: each place gets a number.
        unsafe { self.places.write(write) }
    }
}

/// [`Stored::round`] over numbers.
pub(crate) fn round_over<T: Stored>(half: Half, from: &[T], to: &mut [u16], threads: Threads) {
    Bits::new(half, Room::written(to)).round(from, threads);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn blank<'a>(memory: &'a mut Vec<u16>, written: &'a AtomicUsize) -> Bits<'a> {
        let places = Room::blank(&mut memory.spare_capacity_mut()[..60], written, Threads::One);
        Bits::new(Half::Bf16, places)
    }

    /// What is written to blank places in every way, and how many are counted.
    #[test]
    fn blank_places_are_counted_when_all_have_been_written_and_not_before() {
        let numbers: Vec<f32> = (0..60).map(|number| number as f32).collect();
        let lines = |width: usize| Lines { values: &numbers, of_row: 20, of_line: width, width };
        for threads in [Threads::One, Threads::All] {
            let mut memory: Vec<u16> = Vec::with_capacity(60);
            let written = AtomicUsize::new(0);
            let count = || written.load(Ordering::Relaxed);
            let mut bits = blank(&mut memory, &written);
            // In order.
            bits.round_columns(20, 0..8, &lines(4), threads);
            assert_eq!(count(), 0);
            bits.round_columns(20, 8..20, &Lines { values: &numbers[8..], ..lines(6) }, threads);
            assert_eq!(count(), 60);
            let mut wide = vec![f32::NAN; 60];
            bits.widen(&mut wide, threads);
            assert_eq!(wide, numbers);
            // What was counted is not counted again.
            bits.round(&numbers, threads);
            bits.in_pieces(Before::Kept, &mut |at, piece: &mut [f32]| {
                assert_eq!(piece, &numbers[at..at + piece.len()]);
            });
            assert_eq!(count(), 60);
            // Out of order: zeros.
            let mut bits = blank(&mut memory, &written);
            bits.round_columns(20, 10..20, &Lines { values: &numbers[10..], ..lines(10) }, threads);
            assert_eq!(count(), 120);
            bits.widen(&mut wide, threads);
            assert!(
                wide.iter()
                    .zip(&numbers)
                    .enumerate()
                    .all(|(at, (found, number))| { *found == if at % 20 < 10 { 0.0 } else { *number } })
            );
            // In parts.
            let bits = blank(&mut memory, &written);
            for (part, mut bits) in bits.chunks(25).into_iter().enumerate() {
                assert_eq!(count(), 120 + 25 * part);
                bits.round(&numbers[..bits.len()], threads);
            }
            assert_eq!(count(), 180);
        }
    }

    #[test]
    #[should_panic(expected = "a number for each place")]
    fn fewer_numbers_than_places_are_refused() {
        Bits::new(Half::Bf16, Room::written(&mut [0; 3])).round(&[1.0f32, 2.0], Threads::One);
    }
}
