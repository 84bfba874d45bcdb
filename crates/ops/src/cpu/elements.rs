//! Numbers as loops over elements read and write them.

use super::bits::{Before, Bits};
use super::halves::{Half, Stored};
use super::real::Real;
use super::room::Room;
use super::rounding::wide_bf16;

/// A number as loops over elements read it: of the type that they compute in, or of bf16, as its bits.
pub(crate) trait AsStored<T>: Copy {
    fn widened(self) -> T;
    /// Two numbers that follow each other. Those that are narrower are read as one, so that vectors of them need not be sorted.
    fn widened_pair(pair: [Self; 2]) -> [T; 2];
    /// Numbers as what they are, if they are stored in the type that is computed in.
    fn same(_: &[Self]) -> Option<&[T]> {
        None
    }
}

impl<T: Real> AsStored<T> for T {
    #[inline(always)]
    fn widened(self) -> T {
        self
    }

    #[inline(always)]
    fn widened_pair(pair: [T; 2]) -> [T; 2] {
        pair
    }

    fn same(numbers: &[T]) -> Option<&[T]> {
        Some(numbers)
    }
}

/// Maps of bf16 are computed in float32, where the conversion to float64 is none.
impl<T: Real> AsStored<T> for u16 {
    #[inline(always)]
    fn widened(self) -> T {
        T::of(f64::from(wide_bf16(self)))
    }

    #[inline(always)]
    fn widened_pair(pair: [u16; 2]) -> [T; 2] {
        let bits: u32 = bytemuck::cast(if cfg!(target_endian = "big") { [pair[1], pair[0]] } else { pair });
        [T::of(f32::from_bits(bits << 16).into()), T::of(f32::from_bits(bits & 0xFFFF_0000).into())]
    }
}

/// A number as loops over elements write it: of the type that they compute in, or rounded to bf16, as its bits.
pub(crate) trait Filled<T>: Sized {
    /// The places, if they are for bits of bf16.
    fn bits(_: &mut [Self]) -> Option<&mut [u16]> {
        None
    }
    /// Lets `work` write pieces of the numbers, in order, with the number of places before each.
    fn in_pieces(to: &mut [Self], work: impl FnMut(usize, &mut [T]));
}

impl<T: Real> Filled<T> for T {
    fn in_pieces(to: &mut [T], mut work: impl FnMut(usize, &mut [T])) {
        work(0, to);
    }
}

impl<T: Stored> Filled<T> for u16 {
    fn bits(to: &mut [u16]) -> Option<&mut [u16]> {
        Some(to)
    }

    fn in_pieces(to: &mut [u16], mut work: impl FnMut(usize, &mut [T])) {
        Bits::new(Half::Bf16, Room::written(to)).in_pieces(Before::Anything, &mut work);
    }
}
