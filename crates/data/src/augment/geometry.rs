//! Flip, rotation, scale, translation and shear as one affine map, with an elastic deformation on top: every pixel is
//! fetched once, from where the inverse of the change puts it.

use super::elastic::Field;
use crate::Image;

/// The inverse of a change: from a pixel of the result to a place in the image.
pub(super) struct Affine {
    /// The image's centre.
    centre: [f32; 2],
    /// The centre of the result: the image's, shifted.
    offset: [f32; 2],
    /// Rows of the matrix.
    x: [f32; 2],
    y: [f32; 2],
}

impl Affine {
    /// Flips, then shears, scales and turns about the centre, then shifts. `translate` is a share of width and height,
    /// angles are in radians.
    pub(super) fn new(
        image: &Image,
        flip: bool,
        flip_down: bool,
        translate: [f32; 2],
        angle: f32,
        scale: f32,
        shear: f32,
    ) -> Self {
        let (width, height) = (image.width as f32, image.height as f32);
        let centre = [(width - 1.0) / 2.0, (height - 1.0) / 2.0];
        let offset = [centre[0] + translate[0] * width, centre[1] + translate[1] * height];
        let (sin, cos) = (angle.sin() / scale, angle.cos() / scale);
        let (mut x, mut y) = ([cos, sin], [-sin, cos]);
        if shear != 0.0 {
            let tan = shear.tan();
            x = [x[0] - tan * y[0], x[1] - tan * y[1]];
        }
        if flip {
            x = x.map(|value| -value);
        }
        if flip_down {
            y = y.map(|value| -value);
        }
        Self { centre, offset, x, y }
    }
}

/// The changed image. What comes in at the edges is zero.
pub(super) fn warp(image: &Image, affine: &Affine, elastic: Option<&Field>) -> Image {
    match image.channels {
        1 => warp_channels::<1>(image, affine, elastic),
        _ => warp_channels::<3>(image, affine, elastic),
    }
}

/// Compiled for the processor's own instruction set, which has a `floor`; results are the same on every one.
fn warp_channels<const C: usize>(image: &Image, affine: &Affine, elastic: Option<&Field>) -> Image {
    pulp::Arch::new().dispatch(
        #[inline(always)]
        || warp_rows::<C>(image, affine, elastic),
    )
}

#[inline(always)]
fn warp_rows<const C: usize>(image: &Image, affine: &Affine, elastic: Option<&Field>) -> Image {
    let mut warped = Image::filled(image.width, image.height, image.channels, 0.0);
    let (source, _) = image.pixels.as_chunks::<C>();
    let mut shifts = elastic.map(|field| field.rows(image.width, image.height));
    let rows = warped.pixels.chunks_exact_mut((image.width * C).max(1));
    for (y, row) in rows.enumerate() {
        let dy = y as f32 - affine.offset[1];
        let line = shifts.as_mut().map(|shifts| shifts.row(y));
        for (x, pixel) in row.as_chunks_mut::<C>().0.iter_mut().enumerate() {
            let dx = x as f32 - affine.offset[0];
            let mut from_x = affine.centre[0] + (affine.x[0] * dx + affine.x[1] * dy);
            let mut from_y = affine.centre[1] + affine.y[1] * dy + affine.y[0] * dx;
            if let Some(shift) = line.as_ref().and_then(|line| line.get(x)) {
                from_x += shift[0];
                from_y += shift[1];
            }
            bilinear(source, image.width, image.height, from_x, from_y, pixel);
        }
    }
    warped
}

/// The image between its pixels; outside it is zero.
#[inline(always)]
fn bilinear<const C: usize>(source: &[[f32; C]], width: usize, height: usize, x: f32, y: f32, pixel: &mut [f32; C]) {
    let (left, top) = (x.floor(), y.floor());
    let (fx, fy) = (x - left, y - top);
    let (left, top) = (left as isize, top as isize);
    let (columns, lines) = (width as isize, height as isize);
    let weights = [(1.0 - fx) * (1.0 - fy), fx * (1.0 - fy), (1.0 - fx) * fy, fx * fy];
    // Inside, where nearly all pixels are, two pairs of neighbours are there without asking for each.
    if left >= 0 && top >= 0 && left + 1 < columns && top + 1 < lines {
        let start = top as usize * width + left as usize;
        if let (Some([a, b]), Some([c, d])) =
            (source.get(start..start + 2), source.get(start + width..start + width + 2))
        {
            for channel in 0..C {
                let above = weights[0] * a[channel] + weights[1] * b[channel];
                pixel[channel] = above + weights[2] * c[channel] + weights[3] * d[channel];
            }
        }
        return;
    }
    if left < -1 || top < -1 || left >= columns || top >= lines {
        return;
    }
    for ((dx, dy), weight) in [(0, 0), (1, 0), (0, 1), (1, 1)].into_iter().zip(weights) {
        let (x, y) = (left + dx, top + dy);
        if (0..columns).contains(&x) && (0..lines).contains(&y) {
            let from = &source[(y * columns + x) as usize];
            for channel in 0..C {
                pixel[channel] += weight * from[channel];
            }
        }
    }
}
