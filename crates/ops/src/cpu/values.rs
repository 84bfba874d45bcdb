//! Elements of maps as slices of numbers, to read and to write.
//!
//! Operations compute in float32 whatever the format of a map, except for maps of float64 ([`super::real`]). A map of a half format
//! is widened a piece at a time where it is read ([`Source`]), into memory that stays in the cache, and results are rounded once, to
//! nearest even, where they are written ([`Target`]). So no float32 copy of a whole map is made, and a kernel sees slices of the number
//! type that it computes with. Only products take maps of bf16 as they are stored, where the processor has instructions for it
//! ([`super::factors`]).

use std::ops::Range;

use burn::tensor::{DType, bf16};
use half::slice::HalfBitsSliceExt;
use rayon::prelude::*;

pub(crate) use super::bits::Before;
use super::bits::{Bits, Lines};
use super::factors::{Filters, Part};
use super::gemm::{Matrix, Mode, Threads, apart, as_singles};
use super::gemm_bf16;
pub(crate) use super::halves::Stored;
use super::halves::{Half, PIECE, widen, with_buffer};
use super::parts::parts;
use super::room::Room;

/// Elements to read: of the type that they are computed in, or of a half format.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a, T> {
    Same(&'a [T]),
    Halves(Half, &'a [u16]),
}

/// What is done with pieces of two maps, and the number of elements before each.
type OfTwo<'w, T> = dyn FnMut(usize, &[T], &[T]) + 'w;

impl<'a, T: Stored> Source<'a, T> {
    pub(crate) fn len(self) -> usize {
        match self {
            Self::Same(values) => values.len(),
            Self::Halves(_, bits) => bits.len(),
        }
    }

    /// Whether elements are widened when they are read.
    pub(crate) fn widens(self) -> bool {
        matches!(self, Self::Halves(..))
    }

    /// The elements of a range.
    pub(crate) fn part(self, range: Range<usize>) -> Self {
        match self {
            Self::Same(values) => Self::Same(&values[range]),
            Self::Halves(half, bits) => Self::Halves(half, &bits[range]),
        }
    }

    /// Element `index` of those that have `size` elements each: a plane, or a sample.
    pub(crate) fn chunk(self, index: usize, size: usize) -> Self {
        self.part(index * size..(index + 1) * size)
    }

    /// All elements, in `buffer` if they are widened.
    pub(crate) fn read<'b>(self, buffer: &'b mut Vec<T>, threads: Threads) -> &'b [T]
    where
        'a: 'b,
    {
        match self {
            Self::Same(values) => values,
            Self::Halves(..) => {
                self.read_all(buffer, threads);
                buffer
            }
        }
    }

    pub(super) fn read_all(self, buffer: &mut Vec<T>, threads: Threads) {
        buffer.resize(self.len(), T::of(0.0));
        self.copy_to(buffer, threads);
    }

    /// Copies all elements to as many places.
    pub(crate) fn copy_to(self, to: &mut [T], threads: Threads) {
        match self {
            Self::Same(values) => to.copy_from_slice(values),
            Self::Halves(half, bits) => widen(half, bits, to, threads),
        }
    }

    /// A copy of all elements, as they are stored.
    pub(super) fn copied(self) -> Elements<T> {
        match self {
            Self::Same(values) => Elements::Same(values.to_vec()),
            Self::Halves(half, bits) => Elements::Halves(half, bits.to_vec()),
        }
    }

    /// The matrix of some columns of the one whose rows lie here, `stride` elements apart.
    pub(crate) fn columns<'b>(
        self,
        stride: usize,
        columns: Range<usize>,
        buffer: &'b mut Vec<T>,
        threads: Threads,
    ) -> Matrix<'b, T>
    where
        'a: 'b,
    {
        match self {
            Self::Same(values) => Matrix::of_rows(&values[columns.start..], self.len() / stride, columns.len(), stride),
            Self::Halves(..) => self.in_rows(stride, columns.clone(), columns.len(), buffer, threads),
        }
    }

    /// Copies some columns to rows that begin so many numbers apart.
    fn in_rows<'b>(
        self,
        stride: usize,
        columns: Range<usize>,
        distance: usize,
        buffer: &'b mut Vec<T>,
        threads: Threads,
    ) -> Matrix<'b, T> {
        let (rows, count) = (self.len() / stride, columns.len());
        buffer.resize(rows * distance, T::of(0.0));
        let copy = |(row, to): (usize, &mut [T])| {
            let first = row * stride + columns.start;
            self.part(first..first + count).copy_to(&mut to[..count], Threads::One);
        };
        match threads {
            Threads::One => buffer.chunks_exact_mut(distance).enumerate().for_each(copy),
            Threads::All => buffer.par_chunks_exact_mut(distance).enumerate().for_each(copy),
        }
        Matrix::of_rows(buffer, rows, count, distance)
    }

    /// Whether products of this map have factors of bf16.
    pub(crate) fn multiplies_halves(self) -> bool {
        self.halves().is_some()
    }

    /// The elements as they are stored, if products of this map have factors of bf16.
    pub(crate) fn halves(self) -> Option<&'a [bf16]> {
        match self {
            Self::Halves(Half::Bf16, bits) if gemm_bf16::pays() => Some(bits.reinterpret_cast()),
            _ => None,
        }
    }

    /// [`Source::columns`] as a factor: as they are stored if they may be ([`Source::multiplies_halves`]), otherwise widened.
    pub(crate) fn factor<'b>(
        self,
        stride: usize,
        columns: Range<usize>,
        buffer: &'b mut Vec<T>,
        threads: Threads,
    ) -> Part<'b, T>
    where
        'a: 'b,
    {
        match self.halves() {
            Some(halves) => {
                let (rows, count) = (halves.len() / stride, columns.len());
                Part::Halves(Matrix::of_rows(&halves[columns.start..], rows, count, stride))
            }
            None => Part::Wide(self.columns(stride, columns, buffer, threads)),
        }
    }

    /// The same for columns that several products read: unless they are taken as they are stored, they are copied to rows that do not compete
    /// for the same lines of the cache ([`apart`]).
    pub(crate) fn copied_factor<'b>(
        self,
        stride: usize,
        columns: Range<usize>,
        buffer: &'b mut Vec<T>,
        threads: Threads,
    ) -> Part<'b, T>
    where
        'a: 'b,
    {
        match self.multiplies_halves() {
            true => self.factor(stride, columns, buffer, threads),
            false => Part::Wide(self.in_rows(stride, columns.clone(), apart(columns.len()), buffer, threads)),
        }
    }

    /// Calls `work` for pieces of the elements, in order, with the number of elements before each. There is one piece if nothing has to
    /// be widened.
    pub(crate) fn in_pieces(self, mut work: impl FnMut(usize, &[T])) {
        self.pieces(&mut work);
    }

    /// Compiled once for all kinds of work.
    fn pieces(self, work: &mut dyn FnMut(usize, &[T])) {
        match self {
            Self::Same(values) => work(0, values),
            Self::Halves(half, bits) => with_buffer(PIECE.min(bits.len()), |buffer| {
                for (number, bits) in bits.chunks(PIECE).enumerate() {
                    let piece = &mut buffer[..bits.len()];
                    T::widen(half, bits, piece);
                    work(number * PIECE, piece);
                }
            }),
        }
    }

    /// [`Source::in_pieces`] for two maps of the same size.
    pub(crate) fn in_pieces_with(self, other: Self, mut work: impl FnMut(usize, &[T], &[T])) {
        self.pieces_with(other, &mut work);
    }

    fn pieces_with(self, other: Self, work: &mut OfTwo<'_, T>) {
        self.pieces(&mut |at, one| {
            let other = other.part(at..at + one.len());
            other.pieces(&mut |from, two| work(at + from, &one[from..from + two.len()], two));
        });
    }
}

/// Elements to write: of the type that they are computed in, or of a half format.
pub(crate) enum Target<'a, T> {
    Same(Room<'a, T>),
    Halves(Bits<'a>),
}

impl<'a, T: Stored> Target<'a, T> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Same(room) => room.len(),
            Self::Halves(bits) => bits.len(),
        }
    }

    /// Divides the elements into chunks of `size`.
    pub(crate) fn chunks(self, size: usize) -> Vec<Self> {
        match self {
            Self::Same(room) => room.chunks(size).into_iter().map(Self::Same).collect(),
            Self::Halves(bits) => bits.chunks(size).into_iter().map(Self::Halves).collect(),
        }
    }

    /// The same elements, for as long as they are borrowed.
    pub(crate) fn again(&mut self) -> Target<'_, T> {
        match self {
            Self::Same(room) => Target::Same(room.again()),
            Self::Halves(bits) => Target::Halves(bits.again()),
        }
    }

    /// Lets `work` write all elements: in place, or into `buffer`, from which they are rounded.
    pub(crate) fn write<R>(
        &mut self,
        buffer: &mut Vec<T>,
        before: Before,
        threads: Threads,
        work: impl FnOnce(&mut [T]) -> R,
    ) -> R {
        let made = work(self.open(buffer, before));
        self.close(buffer, threads);
        made
    }

    /// Copies as many elements of the same format, or rounds them to it.
    ///
    /// # Panics
    /// If there are more or fewer, or they are of a half format that these are not of.
    pub(crate) fn copy(&mut self, from: Source<'_, T>) {
        match (self, from) {
            (Self::Same(room), Source::Same(values)) => room.copy(values),
            (Self::Halves(bits), Source::Halves(half, from)) => bits.copy(half, from),
            (Self::Halves(bits), Source::Same(values)) => bits.round(values, Threads::One),
            _ => unreachable!("elements are copied to places of their format"),
        }
    }

    /// The elements as numbers that can be written to: themselves, or in `buffer`, from which [`Target::close`] rounds them.
    pub(crate) fn open<'b>(&'b mut self, buffer: &'b mut Vec<T>, before: Before) -> &'b mut [T] {
        match self {
            Self::Same(room) => room.numbers(),
            Self::Halves(bits) => {
                if before == Before::Zeros {
                    buffer.clear();
                }
                buffer.resize(bits.len(), T::of(0.0));
                if before == Before::Kept {
                    bits.widen(buffer, Threads::One);
                }
                buffer
            }
        }
    }

    /// Some of the elements as [`Target::open`] gives them, which follow those that were asked for before. The first begin with them all.
    pub(crate) fn next<'b>(&'b mut self, places: Range<usize>, buffer: &'b mut Vec<T>, before: Before) -> &'b mut [T] {
        match self {
            Self::Same(room) => room.next(places),
            Self::Halves(_) if places.start == 0 => &mut self.open(buffer, before)[places],
            Self::Halves(_) => &mut buffer[places],
        }
    }

    /// Ends what [`Target::open`] or [`Target::next`] began.
    pub(crate) fn close(&mut self, buffer: &[T], threads: Threads) {
        if let Self::Halves(bits) = self {
            bits.round(buffer, threads);
        }
    }

    /// Writes filters times a part of a map to some columns of the matrix whose rows lie here, `stride` elements apart: by way of `buffer`
    /// if what is written has to be rounded and is not rounded by the product itself.
    pub(crate) fn multiply_columns(
        &mut self,
        stride: usize,
        columns: Range<usize>,
        (filters, right): (Filters<'_, T>, Part<'_, T>),
        buffer: &mut Vec<T>,
        threads: Threads,
    ) {
        match (&mut *self, filters, right) {
            (Self::Halves(bits), Filters::Packed(left), Part::Halves(right)) if left.is_one_block() => {
                bits.multiply(stride, columns, left, right, threads);
            }
            (Self::Halves(bits), Filters::Packed(left), Part::Wide(right)) if left.is_one_block() => {
                bits.multiply(stride, columns, left, as_singles(right), threads);
            }
            (Self::Same(room), Filters::Plain(left), Part::Wide(right)) => {
                room.multiply(stride, columns, [left, right], threads);
            }
            (Self::Same(room), ..) => {
                filters.multiply(&mut room.numbers()[columns.start..], stride, Mode::Replace, right, threads);
            }
            (Self::Halves(bits), ..) => {
                let count = columns.len();
                buffer.resize(bits.len() / stride * count, T::of(0.0));
                filters.multiply(buffer, count, Mode::Replace, right, threads);
                bits.round_columns(stride, columns, &Lines::of_rows(buffer, count), threads);
            }
        }
    }

    /// The same, where `then` changes the product before it is rounded: it gets each row of these columns, its number, and what belongs to it
    /// in `each`.
    #[allow(clippy::too_many_arguments)] // those of the product, and two more
    pub(crate) fn multiply_columns_then<R: Send>(
        &mut self,
        stride: usize,
        columns: Range<usize>,
        product: (Filters<'_, T>, Part<'_, T>),
        buffer: &mut Vec<T>,
        threads: Threads,
        each: &mut [R],
        then: impl Fn(usize, &mut [T], &mut R) + Sync,
    ) {
        if let Self::Same(_) = self {
            self.multiply_columns(stride, columns.clone(), product, buffer, threads);
        }
        match self {
            Self::Same(room) => room.each_row(stride, columns, each, threads, then),
            Self::Halves(bits) => {
                let (count, (filters, right)) = (columns.len(), product);
                buffer.resize(bits.len() / stride * count, T::of(0.0));
                filters.multiply(buffer, count, Mode::Replace, right, threads);
                Room::written(buffer).each_row(count, 0..count, each, threads, then);
                bits.round_columns(stride, columns, &Lines::of_rows(buffer, count), threads);
            }
        }
    }

    /// Lets `work` write some columns of each row of the matrix whose rows lie here, `stride` elements apart: it gets the number of the row, and
    /// their places.
    ///
    /// # Panics
    /// If it leaves some out.
    pub(crate) fn write_rows(
        &mut self,
        stride: usize,
        columns: Range<usize>,
        threads: Threads,
        work: impl Fn(usize, Target<'_, T>) + Sync,
    ) {
        match self {
            Self::Same(room) => room.write_rows(stride, &columns, threads, |row, room| work(row, Target::Same(room))),
            Self::Halves(bits) => {
                bits.write_rows(stride, &columns, threads, |row, bits| work(row, Target::Halves(bits)));
            }
        }
    }

    /// Lets `work` write pieces of the elements, in order, with the number of elements before each. There is one piece if nothing has to
    /// be rounded and all have been written before; a piece is anything before it is written.
    pub(crate) fn in_pieces(self, mut work: impl FnMut(usize, &mut [T])) {
        self.pieces(Before::Anything, &mut work);
    }

    /// The same for pieces that are what they are before they are written.
    pub(crate) fn replace(self, mut work: impl FnMut(usize, &mut [T])) {
        self.pieces(Before::Kept, &mut work);
    }

    fn pieces(self, before: Before, work: &mut dyn FnMut(usize, &mut [T])) {
        match self {
            // A piece is filled with zeros and written while it is in the first-level cache.
            Self::Same(mut room) if room.is_blank() => {
                for places in parts(room.len(), PIECE) {
                    work(places.start, room.next(places));
                }
            }
            Self::Same(mut room) => work(0, room.numbers()),
            Self::Halves(bits) => bits.in_pieces(before, work),
        }
    }
}

/// The elements of a tensor that is being made.
pub(crate) enum Elements<T> {
    Same(Vec<T>),
    Halves(Half, Vec<u16>),
}

impl<T> From<Vec<T>> for Elements<T> {
    fn from(values: Vec<T>) -> Self {
        Self::Same(values)
    }
}

impl<T: Stored> Elements<T> {
    /// So many of those there are, and zeros for those that are missing.
    pub(crate) fn resize(&mut self, count: usize) {
        match self {
            Self::Same(values) => values.resize(count, T::of(0.0)),
            Self::Halves(_, bits) => bits.resize(count, 0),
        }
    }

    pub(crate) fn source(&self) -> Source<'_, T> {
        match self {
            Self::Same(values) => Source::Same(values),
            Self::Halves(half, bits) => Source::Halves(*half, bits),
        }
    }

    /// None yet, of the format of a map, with room for so many.
    pub(crate) fn like(map: Source<'_, T>, count: usize) -> Self {
        match map {
            Source::Same(_) => Self::Same(Vec::with_capacity(count)),
            Source::Halves(half, _) => Self::Halves(half, Vec::with_capacity(count)),
        }
    }

    /// Zeros for a tensor of a format that is computed in `T`.
    pub(crate) fn zeros(count: usize, dtype: DType) -> Self {
        match Half::of(dtype) {
            Some(half) => Self::Halves(half, vec![0; count]),
            None => Self::Same(vec![T::of(0.0); count]),
        }
    }

    pub(crate) fn target(&mut self) -> Target<'_, T> {
        match self {
            Self::Same(values) => Target::Same(Room::written(values)),
            Self::Halves(half, bits) => Target::Halves(Bits::new(*half, Room::written(bits))),
        }
    }
}
