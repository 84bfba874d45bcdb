//! A plane with zeros around it, in memory as registers read it.

use crate::cpu::real::Real;

/// Bytes of a line of the cache.
const LINE: usize = 64;

/// The length of a row of at least so many numbers that is whole lines of the cache, of float32 as of float64.
pub(super) fn whole_lines(numbers: usize) -> usize {
    numbers.next_multiple_of(LINE / size_of::<f32>())
}

/// A buffer for a plane with zeros around it. A column of it begins with a line of the cache, and rows are whole lines apart, because a
/// register of numbers in two lines takes twice as long to read.
pub(super) struct Surrounded<T> {
    numbers: Vec<T>,
    /// Numbers before the first of the plane.
    skipped: usize,
    /// Numbers of the plane.
    len: usize,
}

impl<T> Default for Surrounded<T> {
    fn default() -> Self {
        Self { numbers: Vec::new(), skipped: 0, len: 0 }
    }
}

impl<T: Real> Surrounded<T> {
    /// Makes room for so many numbers, where the one of this column begins with a line of the cache. What has been written stays if there
    /// was room already; otherwise all are zeros.
    pub(super) fn make_room(&mut self, numbers: usize, column: usize) {
        let longest = numbers + LINE / size_of::<T>();
        if self.numbers.len() < longest {
            self.numbers = vec![T::of(0.0); longest];
            // A number's size divides a line's, so that one of the first numbers has such an address. If not, slower reads are no harm.
            let first = self.numbers.as_ptr().wrapping_add(column).align_offset(LINE);
            self.skipped = first.min(longest - numbers);
        }
        self.len = numbers;
    }

    pub(super) fn numbers(&self) -> &[T] {
        &self.numbers[self.skipped..][..self.len]
    }

    pub(super) fn numbers_mut(&mut self) -> &mut [T] {
        &mut self.numbers[self.skipped..][..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a buffer for a plane of a size and then of others, and for float64.
    #[test]
    fn a_column_begins_with_a_line_of_the_cache_and_what_was_written_stays_while_there_is_room() {
        fn check<T: Real>() {
            let mut buffer = Surrounded::<T>::default();
            for (numbers, column) in [(100, 1), (70, 1), (3000, 2), (2999, 2), (64, 2)] {
                let before = buffer.numbers.len();
                buffer.make_room(numbers, column);
                let grown = buffer.numbers.len() > before;
                assert_eq!(buffer.numbers().len(), numbers);
                assert_eq!(buffer.numbers()[column..].as_ptr().addr() % LINE, 0, "{numbers}");
                let written = if grown { 0.0 } else { 3.0 };
                assert!(buffer.numbers().iter().all(|number| number.wide() == written), "{numbers}");
                buffer.numbers_mut().fill(T::of(3.0));
            }
        }
        check::<f32>();
        check::<f64>();
    }
}
