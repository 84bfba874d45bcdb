//! Smooth random deformation: free-form deformation by cubic B-splines (Rueckert et al. 1999).

use kindling_random::Rng;
use rand::RngExt;

use super::{Elastic, within};

/// A drawn deformation: shifts of the points of a coarse grid, as shares of the side.
pub(super) struct Field {
    cells: usize,
    /// `(cells + 3)` squared points, row by row, each a shift in x and y.
    points: Vec<[f32; 2]>,
}

impl Elastic {
    /// A deformation, or none.
    pub(super) fn draw(&self, rng: &mut Rng) -> Option<Field> {
        if rng.random::<f32>() >= self.probability {
            return None;
        }
        let points = (self.cells + 3) * (self.cells + 3);
        let points = (0..points).map(|_| [within(rng, self.strength), within(rng, self.strength)]).collect();
        Some(Field { cells: self.cells, points })
    }
}

impl Field {
    /// Shifts in pixels of an image, a row at a time.
    pub(super) fn rows(&self, width: usize, height: usize) -> Rows<'_> {
        let columns = (0..width).map(|x| place(x, width, self.cells)).collect();
        Rows { field: self, width, height, columns, points: Vec::new(), row: Vec::with_capacity(width) }
    }
}

/// The shifts of one row after the other.
pub(super) struct Rows<'a> {
    field: &'a Field,
    width: usize,
    height: usize,
    columns: Vec<(usize, [f32; 4])>,
    /// The grid's columns at this row.
    points: Vec<[f32; 2]>,
    row: Vec<[f32; 2]>,
}

impl Rows<'_> {
    /// One shift a pixel.
    pub(super) fn row(&mut self, y: usize) -> &[[f32; 2]] {
        let side = self.field.cells + 3;
        let (cell, weights) = place(y, self.height, self.field.cells);
        let size = [self.width as f32, self.height as f32];
        let along = |column: usize, axis: usize| {
            let points = (0..4).map(|line| weights[line] * self.field.points[(cell + line) * side + column][axis]);
            size[axis] * points.sum::<f32>()
        };
        self.points.clear();
        self.points.extend((0..side).map(|column| [along(column, 0), along(column, 1)]));
        self.row.clear();
        let points = &self.points;
        self.row.extend(self.columns.iter().map(|&(cell, weights)| {
            let mut shift = [0.0; 2];
            for (weight, point) in weights.iter().zip(&points[cell..cell + 4]) {
                shift[0] += weight * point[0];
                shift[1] += weight * point[1];
            }
            shift
        }));
        &self.row
    }
}

/// The cell of a pixel, and the weights of the four points around it.
fn place(pixel: usize, side: usize, cells: usize) -> (usize, [f32; 4]) {
    let at = (pixel as f32 + 0.5) / side as f32 * cells as f32;
    let cell = (at as usize).min(cells - 1);
    let t = at - cell as f32;
    let (t2, t3) = (t * t, t * t * t);
    let weights = [
        (1.0 - 3.0 * t + 3.0 * t2 - t3) / 6.0,
        (4.0 - 6.0 * t2 + 3.0 * t3) / 6.0,
        (1.0 + 3.0 * t + 3.0 * t2 - 3.0 * t3) / 6.0,
        t3 / 6.0,
    ];
    (cell, weights)
}
