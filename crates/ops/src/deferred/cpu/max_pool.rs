//! Max pooling of a map that is normalised while it is read ([`Reading`]). Neither the normalised map nor the positions of the maxima
//! are kept for the backward pass; it finds the maxima again.
//!
//! For each row of windows, the maximum of each column is computed first, in a loop that is vectorised, and then the maximum of the
//! columns of each window.

use std::ops::Range;

use rayon::prelude::*;

use super::normalisation::Gradients;
use super::reading::Reading;
use crate::cpu::gemm::Threads;
use crate::cpu::lanes::vectorised;
use crate::cpu::making::Making;
use crate::cpu::real::Real;
use crate::cpu::values::{Before, Elements, Source, Stored};

/// The shapes of a pooling.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Windows {
    pub(crate) height: usize,
    pub(crate) width: usize,
    pub(crate) kernel: usize,
    pub(crate) stride: usize,
    /// Rows and columns of padding on each side, which no maximum comes from.
    pub(crate) padding: usize,
}

impl Windows {
    /// Rows and columns of the output.
    pub(crate) fn out(&self) -> [usize; 2] {
        [self.height, self.width].map(|size| (size + 2 * self.padding - self.kernel) / self.stride + 1)
    }

    fn span(&self, at: usize, size: usize) -> Range<usize> {
        let start = at * self.stride;
        start.saturating_sub(self.padding)..(start + self.kernel - self.padding).min(size)
    }

    /// Calls `visit` for each pixel of the output with its index, the maximum, and the index of the maximum in `plane`. As in PyTorch,
    /// the first of equal values is the maximum, and a NaN wins over all numbers.
    fn maxima<T: Real>(&self, plane: &[T], columns: &mut Columns<T>, mut visit: impl FnMut(usize, T, usize)) {
        let [rows, width] = self.out();
        for row in 0..rows {
            let lines = self.span(row, self.height);
            columns.largest_of(plane, self.width, lines.clone());
            for column in 0..width {
                let across = self.span(column, self.width);
                let mut at = across.start;
                let (mut best, mut line) = (columns.best[at], columns.line[at]);
                for next in across.skip(1) {
                    let (value, of_line) = (columns.best[next], columns.line[next]);
                    let equal = value == best || value.is_nan() && best.is_nan();
                    if larger(value, best) || equal && of_line < line {
                        (at, best, line) = (next, value, of_line);
                    }
                }
                visit(row * width + column, best, (lines.start + line as usize) * self.width + at);
            }
        }
    }
}

/// For a row of windows, the maximum of each column of the map, and its line, counted from the first line of the windows.
#[derive(Default)]
struct Columns<T> {
    best: Vec<T>,
    line: Vec<u32>,
}

impl<T: Real> Columns<T> {
    fn largest_of(&mut self, plane: &[T], width: usize, lines: Range<usize>) {
        self.best.clear();
        self.best.extend_from_slice(&plane[lines.start * width..][..width]);
        self.line.clear();
        self.line.resize(width, 0);
        for (number, line) in (1..).zip(lines.skip(1)) {
            let values = &plane[line * width..][..width];
            vectorised(
                #[inline(always)]
                || {
                    for ((best, line), value) in self.best.iter_mut().zip(&mut self.line).zip(values) {
                        let larger = larger(*value, *best);
                        *best = if larger { *value } else { *best };
                        *line = if larger { number } else { *line };
                    }
                },
            );
        }
    }
}

/// Whether a value replaces the largest so far.
#[inline(always)]
fn larger<T: Real>(value: T, best: T) -> bool {
    value > best || value.is_nan() && !best.is_nan()
}

/// Computes the output, one plane after the other.
pub(crate) fn forward<T: Stored>(reading: &Reading<'_, T>, windows: &Windows) -> Elements<T> {
    let plane = reading.plane();
    let pixels = windows.out().iter().product::<usize>();
    let mut y = Making::like(reading.x, reading.x.len() / plane * pixels);
    y.parts(pixels).into_par_iter().enumerate().for_each_init(
        || (vec![T::of(0.0); plane], Columns::default(), Vec::new()),
        |(read, columns, made), (index, y)| {
            let mut y = y.begin(Threads::One);
            reading.fill(index, 0, read);
            y.write(made, Before::Anything, Threads::One, |y| {
                windows.maxima(read, columns, |to, value, _| y[to] = value);
            });
        },
    );
    y.made()
}

/// The gradients of the map's tensors, for the gradient `dy` of the output.
pub(crate) fn backward<T: Stored>(reading: &Reading<'_, T>, dy: Source<'_, T>, windows: &Windows) -> Gradients<T> {
    let pixels = windows.out().iter().product::<usize>();
    let dx = Making::like(reading.x, reading.x.len());
    let (gradients, _) = reading.by_channels(dx, Before::Zeros, &|| {
        let (mut read, mut columns, mut wide) = (vec![T::of(0.0); reading.plane()], Columns::default(), Vec::new());
        Box::new(move |index, dx| {
            let dy = dy.chunk(index, pixels).read(&mut wide, Threads::One);
            reading.fill(index, 0, &mut read);
            windows.maxima(&read, &mut columns, |from, _, to| dx[to] += dy[from]);
            Vec::new()
        })
    });
    gradients
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::RngExt;

    /// The index of the first maximum of a window, row by row, where NaN counts as larger than all numbers.
    fn naive(plane: &[f32], windows: &Windows, row: usize, column: usize) -> usize {
        let places = windows.span(row, windows.height);
        let places =
            places.flat_map(|line| windows.span(column, windows.width).map(move |at| line * windows.width + at));
        places.reduce(|best, at| if larger(plane[at], plane[best]) { at } else { best }).expect("no window is empty")
    }

    #[test]
    fn the_first_of_equals_is_the_maximum_and_what_is_no_number_wins() {
        let mut rng = kindling_random::rng(3, kindling_random::Purpose::Display, 0, 0);
        for case in 0..300 {
            let kernel = 2 + case % 4;
            let windows = Windows {
                height: kernel + rng.random_range(0..20),
                width: kernel + rng.random_range(0..20),
                kernel,
                stride: 1 + case % 3,
                padding: case % 2 * (kernel / 2),
            };
            let mut value = || match rng.random_range(0..12) {
                0 if case % 5 == 0 => f32::NAN,
                draw => (draw % 3) as f32,
            };
            let plane: Vec<f32> = (0..windows.height * windows.width).map(|_| value()).collect();
            let mut met = 0;
            windows.maxima(&plane, &mut Columns::default(), |to, value, from| {
                let width = windows.out()[1];
                assert_eq!(from, naive(&plane, &windows, to / width, to % width), "{windows:?}, pixel {to}");
                assert_eq!(value.to_bits(), plane[from].to_bits());
                met += 1;
            });
            assert_eq!(met, windows.out().iter().product::<usize>());
        }
    }
}
