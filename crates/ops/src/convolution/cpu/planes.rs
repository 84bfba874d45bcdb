//! The planes of a sample's output, which are written some pixels of all of them at a time.

use std::ops::Range;

use crate::cpu::values::{Stored, Target};

/// Computes pixels of all planes into a target, of which it gets the places from one plane to the next, and that of the first pixel.
pub(crate) type Compute<'a, T> = dyn FnMut(&mut Target<'_, T>, usize, usize) + 'a;

/// See the module.
pub(crate) trait Planes<T> {
    /// Whether pixels are computed somewhere else first, so that there should be no more of them than stay in the cache.
    const ELSEWHERE: bool;

    /// Lets `compute` write pixels of planes that have so many.
    fn write(&mut self, plane: usize, pixels: Range<usize>, compute: &mut Compute<'_, T>);
}

impl<T: Stored> Planes<T> for Target<'_, T> {
    const ELSEWHERE: bool = false;

    fn write(&mut self, plane: usize, pixels: Range<usize>, compute: &mut Compute<'_, T>) {
        compute(self, plane, pixels.start);
    }
}
