//! The units of a cube: how many there are, and the sum over all of them.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// Units of a cube.
pub(crate) const UNITS: u32 = 256;

/// The sum of one number of each of the [`UNITS`] of a cube: the number of partial sums in shared memory is halved until one is left,
/// always in the same order. All units of the cube must call this, since it synchronises.
#[cube]
pub(crate) fn sum_of_cube(mine: f32) -> f32 {
    let mut sums = Shared::<[f32]>::new_slice(comptime!(UNITS as usize));
    let at = UNIT_POS_X as usize;
    sums[at] = mine;
    sync_cube();
    let mut left = CUBE_DIM_X;
    while left > 1 {
        left /= 2;
        if UNIT_POS_X < left {
            let other = sums[at + left as usize];
            sums[at] += other;
        }
        sync_cube();
    }
    sums[0]
}
