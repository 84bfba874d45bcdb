//! Where a unit works, in kernels that divide a map by [`Spread`](super::layout::Spread).

use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// The channels and the first pixel of a unit.
#[derive(CubeType, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) sample: usize,
    /// Which vector of neighbouring channels.
    pub(crate) vector: usize,
    /// The first of its pixels. The next ones are `CUBE_DIM_Y` apart.
    pub(crate) pixel: usize,
}

/// The place of this unit, if every unit takes `each` pixels.
#[cube]
pub(crate) fn place_of_unit(each: u32) -> Place {
    Place {
        sample: CUBE_POS_Z as usize,
        vector: (CUBE_POS_X * CUBE_DIM_X + UNIT_POS_X) as usize,
        pixel: (CUBE_POS_Y * CUBE_DIM_Y * each + UNIT_POS_Y) as usize,
    }
}

/// Where a map `[samples, channels, pixels]` has the unit's channels at a pixel: the number of a vector.
#[cube]
pub(crate) fn at<F: Float, N: Size>(map: &Tensor<Vector<F, N>>, place: &Place, pixel: usize) -> usize {
    number_of::<N>(place, pixel, map.stride(0), map.stride(1), map.stride(2))
}

/// Writes the unit's channels at a pixel of a map `[samples, channels, pixels]`.
#[cube]
pub(crate) fn put<F: Float, N: Size>(map: &mut Tensor<Vector<F, N>>, place: &Place, pixel: usize, value: Vector<F, N>) {
    let to = number_of::<N>(place, pixel, map.stride(0), map.stride(1), map.stride(2));
    map[to] = value;
}

#[cube]
fn number_of<N: Size>(place: &Place, pixel: usize, sample: usize, channel: usize, along: usize) -> usize {
    (place.sample * sample + place.vector * N::value() * channel + pixel * along) / N::value()
}
