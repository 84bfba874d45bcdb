//! The largest of each window of a map that is only read ([`Reading`]): neither that map nor the places of the maxima are
//! kept for backward.

use std::ops::Range;

use rayon::prelude::*;

use super::norm_act::Gradients;
use super::reading::{Reading, Sums};

/// The shapes of one pooling.
#[derive(Clone, Copy, Debug)]
pub(super) struct Windows {
    pub(super) height: usize,
    pub(super) width: usize,
    pub(super) kernel: usize,
    pub(super) stride: usize,
    /// Rows and columns around the map that no maximum comes from.
    pub(super) padding: usize,
}

impl Windows {
    /// Rows and columns of the output.
    pub(super) fn out(&self) -> [usize; 2] {
        [self.height, self.width].map(|size| (size + 2 * self.padding - self.kernel) / self.stride + 1)
    }

    fn span(&self, at: usize, size: usize) -> Range<usize> {
        let start = at * self.stride;
        start.saturating_sub(self.padding)..(start + self.kernel - self.padding).min(size)
    }

    /// Calls `visit` with each pixel of the output and where in `plane` its maximum is: the first of equals, as PyTorch has it.
    fn maxima(&self, plane: &[f32], mut visit: impl FnMut(usize, usize)) {
        let [rows, columns] = self.out();
        for row in 0..rows {
            for column in 0..columns {
                let (down, across) = (self.span(row, self.height), self.span(column, self.width));
                let mut best = down.start * self.width + across.start;
                for line in down {
                    for at in line * self.width + across.start..line * self.width + across.end {
                        // Once a value is not a number, so is the maximum.
                        if plane[at] > plane[best] || plane[at].is_nan() && !plane[best].is_nan() {
                            best = at;
                        }
                    }
                }
                visit(row * columns + column, best);
            }
        }
    }
}

/// The output, planes one after the other.
pub(super) fn forward(reading: &Reading<'_>, windows: &Windows) -> Vec<f32> {
    let plane = reading.plane();
    let pixels = windows.out().iter().product::<usize>();
    let mut y = vec![0.0; reading.x.len() / plane * pixels];
    y.par_chunks_exact_mut(pixels).enumerate().for_each_init(
        || vec![0.0; plane],
        |read, (index, y)| {
            reading.fill(index, 0, read);
            windows.maxima(read, |to, from| y[to] = read[from]);
        },
    );
    y
}

/// The gradients of what was read, for the gradient `dy` of the output.
pub(super) fn backward(reading: &Reading<'_>, dy: &[f32], windows: &Windows) -> Gradients {
    let plane = reading.plane();
    let pixels = windows.out().iter().product::<usize>();
    let mut dx = vec![0.0; reading.x.len()];
    let planes = dx.par_chunks_exact_mut(plane).zip(dy.par_chunks_exact(pixels)).enumerate();
    let sums: Vec<Sums> = planes
        .map_init(
            || vec![0.0; plane],
            |read, (index, (dx, dy))| {
                reading.fill(index, 0, read);
                windows.maxima(read, |from, to| dx[to] += dy[from]);
                reading.absorb(index, 0, dx)
            },
        )
        .collect();
    reading.finish(dx, &sums)
}
