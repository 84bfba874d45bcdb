//! Draws shapes with soft edges on a plane, each inside its bounding box.

use std::ops::Range;

use kindling_random::Rng;
use rand::RngExt;

use crate::SIZE;
use crate::field::Field;

/// A grey plane of [`SIZE`] x [`SIZE`], rows first.
pub(crate) struct Canvas {
    pub(crate) pixels: Vec<f32>,
}

/// An ellipse: centre, half axes and the direction of the first one.
#[derive(Clone, Copy)]
pub(crate) struct Ellipse {
    pub(crate) centre: [f32; 2],
    pub(crate) radii: [f32; 2],
    pub(crate) cos: f32,
    pub(crate) sin: f32,
}

/// A displacement of each pixel, which bends the shapes that are drawn through it.
pub(crate) struct Warp {
    x: Field,
    y: Field,
    reach: f32,
}

impl Warp {
    /// Bends by at most `reach` pixels.
    pub(crate) fn new(cells: usize, reach: f32, rng: &mut Rng) -> Self {
        Self { x: Field::new(cells, rng), y: Field::new(cells, rng), reach }
    }
}

impl Ellipse {
    pub(crate) fn new(centre: [f32; 2], radii: [f32; 2], angle: f32) -> Self {
        Self { centre, radii, cos: angle.cos(), sin: angle.sin() }
    }

    /// An ellipse whose centre and direction are given in the frame of another ellipse; `at` is in shares of the half axes.
    pub(crate) fn inside(outer: &Ellipse, at: [f32; 2], radii: [f32; 2], angle: f32) -> Self {
        let (cos, sin) = (angle.cos(), angle.sin());
        Self {
            centre: outer.point(at),
            radii,
            cos: outer.cos * cos - outer.sin * sin,
            sin: outer.sin * cos + outer.cos * sin,
        }
    }

    /// The pixel at `at`, in shares of the half axes.
    pub(crate) fn point(&self, at: [f32; 2]) -> [f32; 2] {
        let (u, v) = (at[0] * self.radii[0], at[1] * self.radii[1]);
        [self.centre[0] + self.cos * u - self.sin * v, self.centre[1] + self.sin * u + self.cos * v]
    }

    /// The same ellipse with both half axes changed by some pixels.
    pub(crate) fn grown(&self, pixels: f32) -> Self {
        Self { radii: self.radii.map(|radius| (radius + pixels).max(1.0)), ..*self }
    }

    /// 0 in the centre, 1 on the edge.
    #[inline(always)]
    pub(crate) fn radius_at(&self, x: f32, y: f32) -> f32 {
        let (dx, dy) = (x - self.centre[0], y - self.centre[1]);
        let u = (self.cos * dx + self.sin * dy) / self.radii[0];
        let v = (self.cos * dy - self.sin * dx) / self.radii[1];
        (u * u + v * v).sqrt()
    }

    /// The columns of row `y` that the ellipse may touch.
    pub(crate) fn chord(&self, y: usize) -> Range<usize> {
        // With u and v as in `radius_at`, u^2 + v^2 = 1 is a quadratic equation in dx.
        let dy = y as f32 - self.centre[1];
        let [p, q] = self.radii.map(|radius| 1.0 / (radius * radius));
        let a = self.cos * self.cos * p + self.sin * self.sin * q;
        let b = self.cos * self.sin * (p - q) * dy;
        let c = (self.sin * self.sin * p + self.cos * self.cos * q) * dy * dy - 1.0;
        let root = b * b - a * c;
        if root < 0.0 { 0..0 } else { around(self.centre[0] - b / a, root.sqrt() / a) }
    }

    /// How much of the pixel is covered, with an edge of `edge` pixels about the outline.
    #[inline(always)]
    fn cover(&self, x: f32, y: f32, edge: f32) -> f32 {
        let inside = (1.0 - self.radius_at(x, y)) * self.radii[0].min(self.radii[1]);
        smooth(inside / edge + 0.5)
    }
}

impl Canvas {
    pub(crate) fn new() -> Self {
        Self { pixels: vec![0.0; SIZE * SIZE] }
    }

    /// The rows from the top.
    pub(crate) fn rows_mut(&mut self) -> impl Iterator<Item = &mut [f32; SIZE]> {
        self.pixels.as_chunks_mut().0.iter_mut()
    }

    /// Paints an ellipse, bent by the warp, over the existing pixels.
    pub(crate) fn paint(&mut self, shape: &Ellipse, warp: &Warp, edge: f32, value: f32) {
        let reached = shape.grown(warp.reach * 1.5 + edge);
        let (mut bend_x, mut bend_y) = ([0.0; SIZE], [0.0; SIZE]);
        for y in around(shape.centre[1], reached.radii[0].max(reached.radii[1])) {
            let columns = reached.chord(y);
            warp.x.row(y, columns.clone(), &mut bend_x);
            warp.y.row(y, columns.clone(), &mut bend_y);
            let line = &mut self.pixels[y * SIZE..][columns.clone()];
            let bends = bend_x[columns.clone()].iter().zip(&bend_y[columns.clone()]);
            for ((x, pixel), (bend_x, bend_y)) in columns.clone().zip(line).zip(bends) {
                let at = [x as f32 + warp.reach * bend_x, y as f32 + warp.reach * bend_y];
                let cover = shape.cover(at[0], at[1], edge);
                *pixel += cover * (value - *pixel);
            }
        }
    }

    /// Adds an ellipse to the existing pixels.
    pub(crate) fn add(&mut self, shape: &Ellipse, edge: f32, value: f32) {
        let reach = shape.radii[0].max(shape.radii[1]) + edge;
        self.each(shape.centre, reach, |x, y, pixel| *pixel += value * shape.cover(x, y, edge));
    }

    /// Adds a disc that fades out from its centre.
    pub(crate) fn add_haze(&mut self, centre: [f32; 2], radius: f32, value: f32) {
        let shape = Ellipse::new(centre, [radius; 2], 0.0);
        self.each(centre, radius, |x, y, pixel| *pixel += value * smooth(1.0 - shape.radius_at(x, y)));
    }

    /// Raises the pixels along a line, which tapers from one width to another, to at least `value`.
    pub(crate) fn raise_line(&mut self, from: [f32; 2], to: [f32; 2], width: [f32; 2], value: f32) {
        let (dx, dy) = (to[0] - from[0], to[1] - from[1]);
        let squared = (dx * dx + dy * dy).max(1e-6);
        let centre = [(from[0] + to[0]) / 2.0, (from[1] + to[1]) / 2.0];
        let reach = squared.sqrt() / 2.0 + width[0].max(width[1]);
        self.each(centre, reach, |x, y, pixel| {
            let along = (((x - from[0]) * dx + (y - from[1]) * dy) / squared).clamp(0.0, 1.0);
            let (ax, ay) = (x - from[0] - along * dx, y - from[1] - along * dy);
            let half = (width[0] + along * (width[1] - width[0])) / 2.0;
            let cover = smooth(half - (ax * ax + ay * ay).sqrt() + 0.5);
            *pixel = pixel.max(value * cover);
        });
    }

    /// Moves the pixels of a box around a point towards `value`, by the share that the mask gives.
    pub(crate) fn paint_mask(&mut self, mask: &Canvas, centre: [f32; 2], reach: f32, value: f32) {
        let columns = around(centre[0], reach);
        for y in around(centre[1], reach) {
            let line = y * SIZE + columns.start..y * SIZE + columns.end;
            for (pixel, mask) in self.pixels[line.clone()].iter_mut().zip(&mask.pixels[line]) {
                *pixel += mask * (value - *pixel);
            }
        }
    }

    /// The mean of a box around a point.
    pub(crate) fn mean_about(&self, centre: [f32; 2], reach: f32) -> f32 {
        let (columns, rows) = (around(centre[0], reach), around(centre[1], reach));
        let line = |y: usize| &self.pixels[y * SIZE + columns.start..y * SIZE + columns.end];
        let sum: f32 = rows.clone().flat_map(line).sum();
        sum / (columns.len() * rows.len()).max(1) as f32
    }

    /// Calls a function for each pixel in a box with the coordinates of its centre.
    #[inline(always)]
    fn each(&mut self, centre: [f32; 2], reach: f32, mut work: impl FnMut(f32, f32, &mut f32)) {
        let columns = around(centre[0], reach);
        for y in around(centre[1], reach) {
            let line = &mut self.pixels[y * SIZE + columns.start..y * SIZE + columns.end];
            for (x, pixel) in columns.clone().zip(line) {
                work(x as f32, y as f32, pixel);
            }
        }
    }
}

/// The pixels within `reach` of a coordinate, inside the image.
fn around(centre: f32, reach: f32) -> Range<usize> {
    let limit = SIZE as f32;
    let start = (centre - reach).floor().clamp(0.0, limit) as usize;
    let end = (centre + reach + 1.0).ceil().clamp(0.0, limit) as usize;
    start..end.max(start)
}

/// 0 below 0, 1 above 1, and a smooth step between.
#[inline(always)]
pub(crate) fn smooth(t: f32) -> f32 {
    let t = t.clamp(0.0, 1.0);
    t * t * (3.0 - 2.0 * t)
}

/// Draws a uniform number.
pub(crate) fn draw(rng: &mut Rng, [low, high]: [f32; 2]) -> f32 {
    low + rng.random::<f32>() * (high - low)
}

/// Draws a uniform integer, including both ends.
pub(crate) fn count(rng: &mut Rng, [low, high]: [u32; 2]) -> u32 {
    // With floats, because another release of `rand` may draw integer ranges differently.
    let drawn = low + (rng.random::<f32>() * (high - low + 1) as f32) as u32;
    drawn.min(high)
}
