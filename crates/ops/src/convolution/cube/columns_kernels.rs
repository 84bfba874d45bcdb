//! The kernel of [`super::columns`]: what the taps of a kernel see, written as rows of a matrix.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// From where, and how far, a kernel sees.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(crate) struct Reach {
    /// Taps along an axis.
    kernel: u32,
    stride: u32,
    dilation: u32,
    /// Rows of padding above the input, and columns to its left.
    above: u32,
    left: u32,
    /// Height and width of the map whose pixels see.
    height: u32,
    width: u32,
    /// The first of these pixels, over all samples.
    first: usize,
    /// Pixels times taps.
    entries: u32,
}

/// Where a tap lies along an axis, if it lies in the map.
#[derive(CubeType, Clone, Copy)]
struct Tap {
    at: u32,
    inside: bool,
}

/// Tap number `tap` of the kernel at pixel `pixel`, along an axis of `length` pixels with so many zeros before it. Forward, the pixel is
/// one of the output and sees the input; turned, it is one of the input and sees the output.
#[cube]
fn tap(pixel: u32, tap: u32, reach: &Reach, before: u32, length: u32, #[comptime] turned: bool) -> Tap {
    let shift = tap * reach.dilation;
    if comptime!(turned) {
        // Numbers are not negative, so the place is compared before it is subtracted.
        let place = pixel + before;
        let distance = max(place, shift) - shift;
        let at = distance / reach.stride;
        Tap { at, inside: place >= shift && at * reach.stride == distance && at < length }
    } else {
        let place = pixel * reach.stride + shift;
        let at = max(place, before) - before;
        Tap { at, inside: place >= before && at < length }
    }
}

/// Writes `matrix` `[1, channels, pixels * taps, 1]`: for each pixel, and each tap of the kernel, the channels of the pixel of `map` that
/// lies there, or zeros.
#[cube(launch, address_type = "dynamic")]
pub(crate) fn columns<F: Float, N: Size>(
    map: &Tensor<Vector<F, N>>,
    matrix: &mut Tensor<Vector<F, N>>,
    reach: &Reach,
    each: u32,
    #[comptime] turned: bool,
    #[define(F)] _element: ElemType,
) {
    let channel = (CUBE_POS_X * CUBE_DIM_X + UNIT_POS_X) as usize * N::value();
    if channel < map.shape(1) {
        let taps = reach.kernel * reach.kernel;
        let mut entry = CUBE_POS_Y * CUBE_DIM_Y * each + UNIT_POS_Y;
        for _ in 0..each {
            if entry < reach.entries {
                let plane = (reach.height * reach.width) as usize;
                let pixel = reach.first + (entry / taps) as usize;
                let (sample, place) = (pixel / plane, (pixel % plane) as u32);
                let of_kernel = entry % taps;
                let (row, column) = (place / reach.width, place % reach.width);
                let (down, across) = (of_kernel / reach.kernel, of_kernel % reach.kernel);
                let y = tap(row, down, reach, reach.above, map.shape(2) as u32, turned);
                let x = tap(column, across, reach, reach.left, map.shape(3) as u32, turned);
                let mut value = Vector::<F, N>::new(F::new(0.0));
                if y.inside && x.inside {
                    let from = sample * map.stride(0) + channel * map.stride(1);
                    let at = from + y.at as usize * map.stride(2) + x.at as usize * map.stride(3);
                    value = map[at / N::value()];
                }
                let to = entry as usize * matrix.stride(2) + channel;
                matrix[to / N::value()] = value;
            }
            entry += CUBE_DIM_Y;
        }
    }
}
