//! Kernels for resizing and its gradient.
//!
//! A unit computes `N` neighbouring channels of `each` pixels, which are `CUBE_DIM_Y` apart ([`crate::cube::layout::Spread`]):
//! `CUBE_POS_Z` is the sample, `CUBE_POS_X` and `UNIT_POS_X` choose the channels, `CUBE_POS_Y` a block of pixels. Places are computed in
//! 32-bit integers, and sums in float32. The gradient of a pixel is a sum over the rows and columns of the output that were computed
//! from it, in order, so nothing is added atomically.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// The places of an axis ([`super::Axis`]).
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(crate) struct Places {
    scale: u32,
    ahead: u32,
    behind: u32,
    whole: u32,
    input: u32,
    output: u32,
}

/// Where a pixel of the output lies ([`super::Place`]).
#[derive(CubeType, Clone, Copy)]
struct Place {
    at: u32,
    next: u32,
    share: f32,
}

/// Where pixel `pixel` of the output lies.
#[cube]
fn place(places: &Places, pixel: u32) -> Place {
    // No smaller than zero.
    let numerator = max(places.scale * pixel + places.ahead, places.behind) - places.behind;
    let at = numerator / places.whole;
    Place {
        at,
        next: min(at + 1, places.input - 1),
        share: f32::cast_from(numerator % places.whole) / f32::cast_from(places.whole),
    }
}

/// The first pixel of the output that lies at or after pixel `at` of the input; if there is none, the number of pixels.
#[cube]
fn first(places: &Places, at: u32) -> u32 {
    let mut pixel = 0u32;
    if at > 0 {
        pixel = places.output;
        if places.scale > 0 {
            let numerator = max(at * places.whole + places.behind, places.ahead) - places.ahead;
            pixel = min(numerator.div_ceil(places.scale), places.output);
        }
    }
    pixel
}

/// The share of a pixel of the output that lies at a place, in the gradient of pixel `pixel` of the input.
#[cube]
fn share(place: &Place, pixel: u32) -> f32 {
    let mut share = 0.0f32;
    if place.at == pixel {
        share += 1.0f32 - place.share;
    }
    if place.next == pixel {
        share += place.share;
    }
    share
}

/// Computes the output.
#[cube(launch, address_type = "dynamic")]
pub(crate) fn forward<F: Float, N: Size>(
    x: &Tensor<Vector<F, N>>,
    y: &mut Tensor<Vector<F, N>>,
    rows: &Places,
    columns: &Places,
    each: u32,
    #[comptime] nearest: bool,
    #[define(F)] _element: ElemType,
) {
    let channel = (CUBE_POS_X * CUBE_DIM_X + UNIT_POS_X) as usize * N::value();
    let sample = CUBE_POS_Z as usize;
    if channel < x.shape(1) {
        let from = sample * x.stride(0) + channel * x.stride(1);
        let to = sample * y.stride(0) + channel * y.stride(1);
        let mut pixel = CUBE_POS_Y * CUBE_DIM_Y * each + UNIT_POS_Y;
        for _ in 0..each {
            if pixel < rows.output * columns.output {
                let (row, column) = (pixel / columns.output, pixel % columns.output);
                let (down, across) = (place(rows, row), place(columns, column));
                let above = from + down.at as usize * x.stride(2);
                let left = across.at as usize * x.stride(3);
                let at = to + row as usize * y.stride(2) + column as usize * y.stride(3);
                if comptime!(nearest) {
                    y[at / N::value()] = x[(above + left) / N::value()];
                } else {
                    let below = from + down.next as usize * x.stride(2);
                    let right = across.next as usize * x.stride(3);
                    let (of_left, of_right) = (Vector::<f32, N>::new(1.0 - across.share), Vector::new(across.share));
                    let upper = of_left * Vector::cast_from(x[(above + left) / N::value()])
                        + of_right * Vector::cast_from(x[(above + right) / N::value()]);
                    let lower = of_left * Vector::cast_from(x[(below + left) / N::value()])
                        + of_right * Vector::cast_from(x[(below + right) / N::value()]);
                    let mixed = Vector::new(1.0 - down.share) * upper + Vector::new(down.share) * lower;
                    y[at / N::value()] = Vector::cast_from(mixed);
                }
            }
            pixel += CUBE_DIM_Y;
        }
    }
}

/// Computes the gradient of the input.
#[cube(launch, address_type = "dynamic")]
pub(crate) fn backward<F: Float, N: Size>(
    dy: &Tensor<Vector<F, N>>,
    dx: &mut Tensor<Vector<F, N>>,
    rows: &Places,
    columns: &Places,
    each: u32,
    #[comptime] nearest: bool,
    #[define(F)] _element: ElemType,
) {
    let channel = (CUBE_POS_X * CUBE_DIM_X + UNIT_POS_X) as usize * N::value();
    let sample = CUBE_POS_Z as usize;
    if channel < dy.shape(1) {
        let from = sample * dy.stride(0) + channel * dy.stride(1);
        let to = sample * dx.stride(0) + channel * dx.stride(1);
        let mut pixel = CUBE_POS_Y * CUBE_DIM_Y * each + UNIT_POS_Y;
        for _ in 0..each {
            if pixel < rows.input * columns.input {
                let (row, column) = (pixel / columns.input, pixel % columns.input);
                // The pixels of the output that lie between the pixel before and the pixel after this one.
                let (mut above, mut left) = (row, column);
                if comptime!(!nearest) {
                    above = max(row, 1u32) - 1;
                    left = max(column, 1u32) - 1;
                }
                let (top, bottom) = (first(rows, above), first(rows, row + 1));
                let (start, end) = (first(columns, left), first(columns, column + 1));
                let mut sum = Vector::<f32, N>::new(0.0);
                for down in top..bottom {
                    let mut of_row = Vector::<f32, N>::new(0.0);
                    for across in start..end {
                        let at = from + down as usize * dy.stride(2) + across as usize * dy.stride(3);
                        let gradient = Vector::<f32, N>::cast_from(dy[at / N::value()]);
                        if comptime!(nearest) {
                            of_row += gradient;
                        } else {
                            of_row += Vector::new(share(&place(columns, across), column)) * gradient;
                        }
                    }
                    if comptime!(nearest) {
                        sum += of_row;
                    } else {
                        sum += Vector::new(share(&place(rows, down), row)) * of_row;
                    }
                }
                let at = to + row as usize * dx.stride(2) + column as usize * dx.stride(3);
                dx[at / N::value()] = Vector::cast_from(sum);
            }
            pixel += CUBE_DIM_Y;
        }
    }
}
