//! Places for numbers, in memory that may not have been written yet.
//!
//! A large result that is filled with zeros first goes through main memory twice. What writes all of its places, as matrix products and
//! roundings do, can write them as they are allocated; they are filled for everything else, when it asks for them as numbers.
//!
//! # Why the unsafe code is sound
//!
//! [`Room`] lends its places as numbers only when they have been written: memory of a slice has been, and blank memory is filled with zeros
//! first ([`Room::fill`], [`Room::next`]), or has been written by a callee of [`Room::write`] or [`Room::write_columns`], who promises that,
//! or of [`Room::write_rows`], which counts. Places are counted once, when all of them have been written: at once, or column by column of one
//! matrix, each beginning where the one before ended. What was counted is blank no more. Only initialised values are written, so memory of a
//! slice stays what it is.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use super::gemm::{self, Matrix, Threads};
use super::halves::SHARE;
use super::real::Real;

/// See the module.
pub(crate) struct Room<'a, E> {
    all: &'a mut [MaybeUninit<E>],
    blank: Option<Blank<'a>>,
}

/// What is known of places that have not all been written.
struct Blank<'a> {
    /// Counts places of a whole when they have been written.
    written: &'a AtomicUsize,
    /// The threads that fill them.
    threads: Threads,
    /// Columns that have been written, of the matrix whose rows lie in these places `stride` apart.
    columns: usize,
    stride: usize,
}

impl<'a> Blank<'a> {
    fn new(written: &'a AtomicUsize, threads: Threads) -> Self {
        Self { written, threads, columns: 0, stride: 0 }
    }

    /// Whether so many columns of the matrix with this stride have been written.
    fn holds(&self, columns: usize, stride: usize) -> bool {
        columns == 0 || (columns <= self.columns && stride == self.stride)
    }
}

impl<'a, E: Copy + Default + Send + Sync> Room<'a, E> {
    /// Places that have been written.
    pub(crate) fn written(numbers: &'a mut [E]) -> Self {
        // SAFETY: the types have the same layout, and only initialised values are written.
        let all = unsafe { &mut *(std::ptr::from_mut(numbers) as *mut [MaybeUninit<E>]) };
        Self { all, blank: None }
    }

    /// Places that have not. `written` counts them when they have.
    pub(crate) fn blank(all: &'a mut [MaybeUninit<E>], written: &'a AtomicUsize, threads: Threads) -> Self {
        Self { all, blank: Some(Blank::new(written, threads)) }
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether some of them have not been written.
    pub(crate) fn is_blank(&self) -> bool {
        self.blank.is_some()
    }

    /// The same places, written.
    pub(crate) fn again(&mut self) -> Room<'_, E> {
        Room { all: self.fill(), blank: None }
    }

    /// Divides the places into chunks of `size`.
    pub(crate) fn chunks(mut self, size: usize) -> Vec<Self> {
        if self.blank.as_ref().is_some_and(|blank| blank.columns > 0) {
            self.fill();
        }
        let Self { all, blank } = self;
        let known = blank.map(|blank| (blank.written, blank.threads));
        let blank = || known.map(|(written, threads)| Blank::new(written, threads));
        all.chunks_mut(size).map(|all| Self { all, blank: blank() }).collect()
    }

    /// The numbers in these places: zeros in those that were blank.
    pub(crate) fn numbers(&mut self) -> &mut [E] {
        let all = self.fill();
        // SAFETY: all places have been written.
        unsafe { all.assume_init_mut() }
    }

    /// The numbers in some of these places: zeros in those that were blank, which are filled while they are in the cache if places are asked
    /// for in their order.
    pub(crate) fn next(&mut self, places: Range<usize>) -> &mut [E] {
        if self.is_blank() {
            let zeros = |all: &mut [MaybeUninit<E>]| all[places.clone()].fill(MaybeUninit::new(E::default()));
            // SAFETY: each of these places gets a zero. They are columns of a matrix of one row.
            unsafe { self.write_columns(self.len(), &places, zeros) }
        }
        // SAFETY: these places have been written, just now or all before.
        unsafe { self.all[places].assume_init_mut() }
    }

    /// The same, for as long as the places are there.
    pub(crate) fn into_numbers(mut self) -> &'a mut [E] {
        self.fill();
        // SAFETY: all places have been written.
        unsafe { self.all.assume_init_mut() }
    }

    /// Fills blank places with zeros.
    fn fill(&mut self) -> &mut [MaybeUninit<E>] {
        if let Some(blank) = &self.blank {
            let zeros = |share: &mut [MaybeUninit<E>]| share.fill(MaybeUninit::new(E::default()));
            match blank.threads {
                Threads::One => zeros(self.all),
                Threads::All => self.all.par_chunks_mut(SHARE).for_each(zeros),
            }
            self.count();
        }
        self.all
    }

    /// Says that all places have been written.
    fn count(&mut self) {
        if let Some(blank) = self.blank.take() {
            blank.written.fetch_add(self.all.len(), Ordering::Relaxed);
        }
    }

    /// Copies as many numbers as there are places.
    ///
    /// # Panics
    /// If there are more or fewer.
    pub(crate) fn copy(&mut self, from: &[E]) {
        assert_eq!(from.len(), self.len(), "a number for each place");
        // SAFETY: each place gets a number.
        unsafe {
            self.write(|all| {
                all.write_copy_of_slice(from);
            })
        }
    }

    /// Lets `work` write all places.
    ///
    /// # Safety
    /// It writes an initialised value to each of them, and nothing else.
    pub(super) unsafe fn write(&mut self, work: impl FnOnce(&mut [MaybeUninit<E>])) {
        work(self.all);
        self.count();
    }

    /// Lets `work` write some columns of the matrix whose rows lie here, `stride` places apart.
    ///
    /// # Safety
    /// It writes an initialised value to each place of these columns, in every row, and nothing else.
    pub(super) unsafe fn write_columns(
        &mut self,
        stride: usize,
        columns: &Range<usize>,
        work: impl FnOnce(&mut [MaybeUninit<E>]),
    ) {
        // Columns that come out of order, or of another matrix, or of one that is not whole, are written after zeros.
        let whole = self.len().is_multiple_of(stride);
        let follow = |blank: &Blank<'_>| blank.columns == columns.start && blank.holds(columns.start, stride);
        if self.blank.as_ref().is_some_and(|blank| !(follow(blank) && whole)) {
            self.fill();
        }
        work(self.all);
        match &mut self.blank {
            Some(_) if columns.end == stride => self.count(),
            Some(blank) => (blank.columns, blank.stride) = (columns.end, stride),
            None => {}
        }
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
        work: impl Fn(usize, Room<'_, E>) + Sync,
    ) {
        let (written, count) = (AtomicUsize::new(0), self.len() / stride * columns.len());
        let row = |(row, places): (usize, &mut [MaybeUninit<E>])| {
            work(row, Room::blank(&mut places[columns.clone()], &written, Threads::One));
        };
        let rows = |all: &mut [MaybeUninit<E>]| {
            match threads {
                Threads::One => all.chunks_exact_mut(stride).enumerate().for_each(row),
                Threads::All => all.par_chunks_exact_mut(stride).enumerate().for_each(row),
            }
            assert_eq!(written.load(Ordering::Relaxed), count, "all places of these columns are written");
        };
        // SAFETY: all of them have been counted, and each at most once, since a row's are given up to `work`.
        unsafe { self.write_columns(stride, columns, rows) }
    }

    /// Calls `work` with each row of some columns, which have been written, its number, and what belongs to it in `each`.
    ///
    /// # Panics
    /// If they have not been written.
    pub(crate) fn each_row<R: Send>(
        &mut self,
        stride: usize,
        columns: Range<usize>,
        each: &mut [R],
        threads: Threads,
        work: impl Fn(usize, &mut [E], &mut R) + Sync,
    ) {
        let written = self.blank.as_ref().is_none_or(|blank| blank.holds(columns.end, stride));
        assert!(written, "these columns have been written");
        let row = |(row, (places, each)): (usize, (&mut [MaybeUninit<E>], &mut R))| {
            // SAFETY: they have been written, in every row.
            work(row, unsafe { places[columns.clone()].assume_init_mut() }, each);
        };
        match threads {
            Threads::One => self.all.chunks_exact_mut(stride).zip(each).enumerate().for_each(row),
            Threads::All => self.all.par_chunks_exact_mut(stride).zip(each).enumerate().for_each(row),
        }
    }
}

impl<T: Real> Room<'_, T> {
    /// Writes `left * right` to some columns of the matrix whose rows lie here, `stride` places apart.
    ///
    /// # Panics
    /// If the shapes do not match, or a matrix does not lie in its slice.
    pub(crate) fn multiply(
        &mut self,
        stride: usize,
        columns: Range<usize>,
        [left, right]: [Matrix<'_, T>; 2],
        threads: Threads,
    ) {
        assert_eq!(
            [left.rows() * stride, right.columns()],
            [self.len(), columns.len()],
            "the product has these columns"
        );
        // SAFETY: the product has a number for each of these places.
        unsafe {
            self.write_columns(stride, &columns, |all| {
                gemm::write(&mut all[columns.start..], stride, left, right, threads);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Products in blank places, column by column and out of order, and how many places are counted.
    #[test]
    fn blank_places_are_counted_when_products_have_filled_all_and_not_before() {
        let (left, right): (Vec<f32>, Vec<f32>) =
            ((1..=6).map(|n| n as f32).collect(), (1..=40).map(|n| n as f32).collect());
        let factors = |columns: &Range<usize>| {
            [Matrix::of(&left, 3, 2), Matrix::of_rows(&right[columns.start..], 2, columns.len(), 20)]
        };
        let element =
            |row: usize, column: usize| left[2 * row] * right[column] + left[2 * row + 1] * right[20 + column];
        for threads in [Threads::One, Threads::All] {
            let mut memory: Vec<f32> = Vec::with_capacity(60);
            let written = AtomicUsize::new(0);
            let count = || written.load(Ordering::Relaxed);
            let mut blank = Room::blank(&mut memory.spare_capacity_mut()[..60], &written, threads);
            for columns in [0..8, 8..20] {
                assert_eq!(count(), 0);
                blank.multiply(20, columns.clone(), factors(&columns), threads);
                let mut equal = [false; 3];
                blank.each_row(20, columns.clone(), &mut equal, threads, |row, numbers, equal| {
                    *equal =
                        numbers.iter().zip(columns.clone()).all(|(number, column)| *number == element(row, column));
                });
                assert_eq!(equal, [true; 3]);
            }
            assert_eq!(count(), 60);
            assert!(blank.numbers().iter().enumerate().all(|(at, number)| *number == element(at / 20, at % 20)));
            // Out of order: zeros, which are counted at once.
            let mut blank = Room::blank(&mut memory.spare_capacity_mut()[..60], &written, threads);
            blank.multiply(20, 10..20, factors(&(10..20)), threads);
            assert_eq!(count(), 120);
            let expected = |at: usize| if at % 20 < 10 { 0.0 } else { element(at / 20, at % 20) };
            assert!(blank.numbers().iter().enumerate().all(|(at, number)| *number == expected(at)));
        }
    }

    /// In order, in order up to some, and columns of two matrices.
    #[test]
    fn places_that_are_asked_for_one_after_the_other_are_zeros_and_are_counted_at_the_end() {
        let mut memory: Vec<f32> = vec![7.0; 60];
        memory.clear();
        let written = AtomicUsize::new(0);
        let count = || written.load(Ordering::Relaxed);
        let mut blank = Room::blank(&mut memory.spare_capacity_mut()[..60], &written, Threads::One);
        for places in [0..13, 13..40, 40..60] {
            assert_eq!(count(), 0);
            let numbers = blank.next(places.clone());
            assert!(numbers.iter().all(|number| *number == 0.0) && numbers.len() == places.len());
            numbers.fill(places.start as f32);
        }
        assert_eq!(count(), 60);
        assert_eq!(blank.next(12..14), [0.0, 13.0]);
        assert_eq!([blank.numbers()[39], blank.numbers()[59]], [13.0, 40.0]);

        let mut blank = Room::blank(&mut memory.spare_capacity_mut()[..60], &written, Threads::One);
        blank.next(0..2);
        let factors = [Matrix::of(&[1.0f32; 6], 6, 1), Matrix::of(&[2.0f32; 8], 1, 8)];
        // Two columns of six rows are left out. Two places have been written, but nobody is lent what was in the others.
        blank.multiply(10, 2..10, factors, Threads::One);
        assert_eq!(count(), 120);
        assert!(blank.numbers().iter().enumerate().all(|(at, number)| *number == if at % 10 < 2 { 0.0 } else { 2.0 }));
    }

    #[test]
    #[should_panic(expected = "these columns have been written")]
    fn columns_that_have_not_been_written_are_not_lent() {
        let written = AtomicUsize::new(0);
        let mut memory: Vec<f32> = Vec::with_capacity(6);
        let mut blank = Room::blank(&mut memory.spare_capacity_mut()[..6], &written, Threads::One);
        blank.each_row(3, 0..1, &mut [(); 2], Threads::One, |_, _, ()| {});
    }

    #[test]
    #[should_panic(expected = "the product has these columns")]
    fn a_product_with_fewer_rows_than_places_is_refused() {
        let numbers = [1.0f32; 4];
        let mut places = [0.0; 6];
        let factor = Matrix::of(&numbers, 2, 2);
        Room::written(&mut places).multiply(2, 0..2, [factor; 2], Threads::One);
    }
}
