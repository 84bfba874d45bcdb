//! Flip, rotation, scale, translation and shear as one affine map, with an elastic deformation on top: every pixel is
//! fetched once, from where the inverse of the change puts it.

use super::elastic::Field;
use crate::decode::{Image, Mask};

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
    let (width, height) = (image.width, image.height);
    let mut shifts = elastic.map(|field| field.rows(width, height));
    let rows = warped.pixels.chunks_exact_mut((width * C).max(1));
    for (y, row) in rows.enumerate() {
        let (row, _) = row.as_chunks_mut::<C>();
        let line = affine.line(y);
        if let Some(shifts) = &mut shifts {
            for ((x, pixel), shift) in row.iter_mut().enumerate().zip(shifts.row(y)) {
                let [from_x, from_y] = line.at(x);
                bilinear(source, width, height, from_x + shift[0], from_y + shift[1], pixel);
            }
            continue;
        }
        // The pixels whose four neighbours all exist stand side by side: the rest of the row is done with care.
        let inside = line.inside(width, height);
        for x in (0..inside.start).chain(inside.end..width) {
            let [from_x, from_y] = line.at(x);
            bilinear(source, width, height, from_x, from_y, &mut row[x]);
        }
        for (x, pixel) in inside.clone().zip(&mut row[inside]) {
            let [from_x, from_y] = line.at(x);
            // Both are positive: cutting off is rounding down.
            let (left, top) = (from_x as u32, from_y as u32);
            let (fx, fy) = (from_x - left as f32, from_y - top as f32);
            let start = top as usize * width + left as usize;
            let (above, below) = (&source[start..start + 2], &source[start + width..start + width + 2]);
            let weights = [(1.0 - fx) * (1.0 - fy), fx * (1.0 - fy), (1.0 - fx) * fy, fx * fy];
            for channel in 0..C {
                let sum = weights[0] * above[0][channel] + weights[1] * above[1][channel];
                pixel[channel] = sum + weights[2] * below[0][channel] + weights[3] * below[1][channel];
            }
        }
    }
    warped
}

/// The changed mask: every pixel has the class of the one that the place lies in which it comes from. What comes in at the edges is
/// background.
pub(super) fn warp_mask(mask: &Mask, affine: &Affine, elastic: Option<&Field>) -> Mask {
    pulp::Arch::new().dispatch(
        #[inline(always)]
        || warp_classes(mask, affine, elastic),
    )
}

#[inline(always)]
fn warp_classes(mask: &Mask, affine: &Affine, elastic: Option<&Field>) -> Mask {
    let (width, height) = (mask.width, mask.height);
    let mut warped = Mask::filled(width, height, 0);
    let mut shifts = elastic.map(|field| field.rows(width, height));
    for (y, row) in warped.classes.chunks_exact_mut(width.max(1)).enumerate() {
        let line = affine.line(y);
        let shifts = shifts.as_mut().map(|shifts| shifts.row(y));
        for (x, class) in row.iter_mut().enumerate() {
            let [dx, dy] = shifts.map_or([0.0; 2], |shifts| shifts[x]);
            let [from_x, from_y] = line.at(x);
            // Pixels have whole numbers in their middle. What is left of the first one, or above it, is negative.
            let (from_x, from_y) = ((from_x + dx + 0.5).floor(), (from_y + dy + 0.5).floor());
            if from_x >= 0.0 && from_y >= 0.0 && from_x < width as f32 && from_y < height as f32 {
                *class = mask.classes[from_y as usize * width + from_x as usize];
            }
        }
    }
    warped
}

/// Where the pixels of one row of the result come from.
struct Line<'a> {
    affine: &'a Affine,
    /// What the row adds to x.
    x: f32,
    /// Where y begins.
    y: f32,
}

impl Affine {
    #[inline(always)]
    fn line(&self, y: usize) -> Line<'_> {
        let dy = y as f32 - self.offset[1];
        Line { affine: self, x: self.x[1] * dy, y: self.centre[1] + self.y[1] * dy }
    }
}

impl Line<'_> {
    #[inline(always)]
    fn at(&self, x: usize) -> [f32; 2] {
        let dx = x as f32 - self.affine.offset[0];
        [self.affine.centre[0] + (self.affine.x[0] * dx + self.x), self.y + self.affine.y[0] * dx]
    }

    /// The pixels that come from between four pixels of the image. Both coordinates rise or fall along the row, rounding
    /// included, so these are neighbours of each other.
    fn inside(&self, width: usize, height: usize) -> std::ops::Range<usize> {
        let within = |value: f32, side: usize| value >= 0.0 && value < side as f32 - 1.0;
        let is_inside = |x: usize| {
            let [from_x, from_y] = self.at(x);
            within(from_x, width) && within(from_y, height)
        };
        let Some(start) = (0..width).find(|&x| is_inside(x)) else { return 0..0 };
        let end = (start..width).rev().find(|&x| is_inside(x)).map_or(start, |last| last + 1);
        start..end
    }
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
