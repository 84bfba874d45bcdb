//! Smooth random fields: uniform cubic B-splines over a coarse grid of random values, evaluated row by row.

use std::ops::Range;

use kindling_random::Rng;
use rand::RngExt;

use crate::SIZE;

/// A smooth field over the image, in about `[-1, 1]` and mostly well inside.
pub(crate) struct Field {
    /// Grid cells a side.
    cells: usize,
    /// `(cells + 3)` squared control values.
    control: Vec<f32>,
    /// The four weights of each pixel of a cell, one list a weight.
    weights: [Vec<f32>; 4],
}

impl Field {
    /// `cells` must divide [`SIZE`]; features are about `SIZE / cells` pixels wide.
    pub(crate) fn new(cells: usize, rng: &mut Rng) -> Self {
        let control = (0..(cells + 3) * (cells + 3)).map(|_| rng.random::<f32>() * 2.0 - 1.0).collect();
        let step = SIZE / cells;
        let weight = |k: usize| (0..step).map(|pixel| spline(pixel as f32 / step as f32)[k]).collect();
        Self { cells, control, weights: [weight(0), weight(1), weight(2), weight(3)] }
    }

    /// Writes the columns of row `y` of the field, and a few to either side.
    pub(crate) fn row(&self, y: usize, columns: Range<usize>, row: &mut [f32; SIZE]) {
        if columns.is_empty() {
            return;
        }
        let [w0, w1, w2, w3] = &self.weights;
        let (step, stride) = (w0.len(), self.cells + 3);
        let cells = columns.start / step..columns.end.div_ceil(step);
        let line = |k: usize| &self.control[(y / step + k) * stride..][..stride];
        let down = self.weights.each_ref().map(|weights| weights[y % step]);
        let (l0, l1, l2, l3) = (line(0), line(1), line(2), line(3));
        let at = |x: usize| down[0] * l0[x] + down[1] * l1[x] + down[2] * l2[x] + down[3] * l3[x];

        let mut near = [0.0, at(cells.start), at(cells.start + 1), at(cells.start + 2)];
        for cell in cells {
            near = [near[1], near[2], near[3], at(cell + 3)];
            let pixels = &mut row[cell * step..(cell + 1) * step];
            let weights = w0.iter().zip(w1).zip(w2.iter().zip(w3));
            for (value, ((a, b), (c, d))) in pixels.iter_mut().zip(weights) {
                *value = a * near[0] + b * near[1] + c * near[2] + d * near[3];
            }
        }
    }
}

/// The weights of the four nearest control values at `t` in `[0, 1)` of a cell.
fn spline(t: f32) -> [f32; 4] {
    let (t2, t3, u) = (t * t, t * t * t, 1.0 - t);
    [u * u * u, 3.0 * t3 - 6.0 * t2 + 4.0, -3.0 * t3 + 3.0 * t2 + 3.0 * t + 1.0, t3].map(|w| w / 6.0)
}
