//! The elements of a result while it is made.
//!
//! Its memory is not filled when it is allocated: one thread would write all of a large map, for the others to read it into their caches
//! and write it again. Products and rounded numbers are written to it as it is; whoever else writes a part of it fills that part first,
//! while it comes into the cache anyway ([`super::room`]).
//!
//! # Why the unsafe code is sound
//!
//! Parts lie apart in the spare room of a vector that is borrowed exclusively. [`Room`] count theirs when they have been written.
//! [`Making::made`] asserts that all have been counted, each at most once because a part is given up when it begins, so every element has
//! been written when it sets the length. Numbers and bits have no destructors, so a part that is left out loses nothing.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::slice::ChunksMut;
use std::sync::atomic::AtomicUsize;

use super::bits::Bits;
use super::gemm::Threads;
use super::halves::Half;
use super::room::Room;
use super::values::{Elements, Source, Stored, Target};

/// So many elements, which are made in parts.
pub(crate) struct Making<T> {
    /// All elements, or an empty vector with room for them.
    elements: Elements<T>,
    are_there: bool,
    count: usize,
    filled: AtomicUsize,
}

impl<T: Stored> Making<T> {
    /// So many elements of the format of a map.
    pub(crate) fn like(map: Source<'_, T>, count: usize) -> Self {
        Self { elements: Elements::like(map, count), are_there: false, count, filled: AtomicUsize::new(0) }
    }

    /// So many elements of the type that they are computed in.
    pub(crate) fn wide(count: usize) -> Self {
        Self::like(Source::Same(&[]), count)
    }

    /// Divides the elements into parts of `size`; the last may have fewer.
    pub(crate) fn parts(&mut self, size: usize) -> Vec<Part<'_, T>> {
        let Self { elements, are_there, count, filled } = self;
        // What was counted of other parts does not count for these.
        *filled.get_mut() = 0;
        if *are_there {
            return elements.target().chunks(size).into_iter().map(Part::Made).collect();
        }
        match elements {
            Elements::Same(values) => {
                let parts = values.spare_capacity_mut()[..*count].chunks_mut(size);
                parts.map(|part| Part::Same(part, filled)).collect()
            }
            Elements::Halves(half, bits) => {
                let parts = bits.spare_capacity_mut()[..*count].chunks_mut(size);
                parts.map(|part| Part::Halves(*half, part, filled)).collect()
            }
        }
    }

    /// The elements.
    ///
    /// # Panics
    /// If a part has not been filled.
    pub(crate) fn made(self) -> Elements<T> {
        let Self { mut elements, are_there, count, filled } = self;
        if !are_there {
            assert_eq!(filled.into_inner(), count, "all parts of a result are filled");
            match &mut elements {
                // SAFETY: all of so many elements have been written; see the module.
                Elements::Same(values) => unsafe { values.set_len(count) },
                // SAFETY: as above.
                Elements::Halves(_, bits) => unsafe { bits.set_len(count) },
            }
        }
        elements
    }
}

/// Elements that are there and are replaced.
impl<T> From<Elements<T>> for Making<T> {
    fn from(elements: Elements<T>) -> Self {
        let count = match &elements {
            Elements::Same(values) => values.len(),
            Elements::Halves(_, bits) => bits.len(),
        };
        Self { elements, are_there: true, count, filled: AtomicUsize::new(0) }
    }
}

/// A part of the elements.
pub(crate) enum Part<'a, T> {
    Same(&'a mut [MaybeUninit<T>], &'a AtomicUsize),
    Halves(Half, &'a mut [MaybeUninit<u16>], &'a AtomicUsize),
    /// It is there already.
    Made(Target<'a, T>),
}

impl<'a, T: Stored> Part<'a, T> {
    /// Divides the part into parts of `size`; the last may have fewer elements.
    pub(crate) fn parts(self, size: usize) -> Parts<'a, T> {
        match self {
            Self::Same(part, filled) => Parts::Same(part.chunks_mut(size), filled),
            Self::Halves(half, part, filled) => Parts::Halves(half, part.chunks_mut(size), filled),
            Self::Made(target) => Parts::Made(target.chunks(size).into_iter()),
        }
    }

    /// The part to be written to by these threads: what was there already, or blank places, which are zeros for those who ask for numbers.
    pub(crate) fn begin(self, threads: Threads) -> Target<'a, T> {
        match self {
            Self::Same(part, filled) => Target::Same(Room::blank(part, filled, threads)),
            Self::Halves(half, part, filled) => Target::Halves(Bits::new(half, Room::blank(part, filled, threads))),
            Self::Made(target) => target,
        }
    }
}

/// Parts of a part. It takes no memory to divide one that is blank: that is done for every plane.
pub(crate) enum Parts<'a, T> {
    Same(ChunksMut<'a, MaybeUninit<T>>, &'a AtomicUsize),
    Halves(Half, ChunksMut<'a, MaybeUninit<u16>>, &'a AtomicUsize),
    Made(std::vec::IntoIter<Target<'a, T>>),
}

impl<'a, T> Iterator for Parts<'a, T> {
    type Item = Part<'a, T>;

    fn next(&mut self) -> Option<Part<'a, T>> {
        match self {
            Self::Same(parts, filled) => parts.next().map(|part| Part::Same(part, filled)),
            Self::Halves(half, parts, filled) => parts.next().map(|part| Part::Halves(*half, part, filled)),
            Self::Made(parts) => parts.next().map(Part::Made),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::values::Before;

    #[test]
    fn parts_hold_zeros_when_they_begin_and_what_was_written_at_the_end() {
        let bits = [0u16; 1];
        for (map, threads) in [(Source::Same(&[]), Threads::One), (Source::Halves(Half::Bf16, &bits), Threads::All)] {
            let mut making: Making<f32> = Making::like(map, 1000);
            for (number, part) in making.parts(300).into_iter().enumerate() {
                let mut target = part.begin(threads);
                let mut buffer = Vec::new();
                let values = target.open(&mut buffer, Before::Kept);
                assert_eq!(values.len(), [300, 300, 300, 100][number]);
                assert!(values.iter().all(|value| *value == 0.0));
                values.fill(number as f32);
                target.close(&buffer, Threads::One);
            }
            let elements = making.made();
            let mut again = Making::from(elements);
            let kept = again.parts(300).into_iter().map(|part| {
                let mut buffer = Vec::new();
                part.begin(threads).open(&mut buffer, Before::Kept).to_vec()
            });
            let kept = kept.collect::<Vec<_>>().concat();
            assert!(kept.iter().enumerate().all(|(at, value)| *value == (at / 300) as f32));
        }
    }

    #[test]
    #[should_panic(expected = "all parts of a result are filled")]
    fn a_result_with_a_part_left_out_is_none() {
        let mut making: Making<f32> = Making::wide(10);
        for part in making.parts(4).into_iter().skip(1) {
            part.begin(Threads::One).open(&mut Vec::new(), Before::Anything);
        }
        let _ = making.made();
    }

    #[test]
    fn a_result_may_have_no_elements() {
        let mut making: Making<f32> = Making::wide(0);
        assert!(making.parts(4).is_empty());
        assert!(matches!(making.made(), Elements::Same(values) if values.is_empty()));
    }
}
