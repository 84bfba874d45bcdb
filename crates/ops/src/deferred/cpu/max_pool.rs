//! Max pooling of a map that is normalised while it is read ([`Reading`]). Neither the normalised map nor the positions of the maxima
//! are kept for the backward pass; it finds the maxima again.
//!
//! For each row of windows, the maximum of each column is computed first, and then the maximum of the columns of each window: of the
//! first column of all windows and the second, of these and the third, and so on. The loops are vectorised.

use std::ops::Range;

use rayon::prelude::*;

use super::normalisation::Gradients;
use super::reading::Reading;
use crate::cpu::gemm::Threads;
use crate::cpu::lanes::{deal, vectorised};
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

    /// Calls `visit` for each row of windows with its number and their maxima. As in PyTorch, the first of equal values is the maximum, and a
    /// NaN wins over all numbers. Without their places, zeros of either sign are equal and any of them is the maximum.
    fn maxima<T: Real, const PLACES: bool>(
        &self,
        plane: &[T],
        buffers: &mut Buffers<T>,
        mut visit: impl FnMut(usize, Maxima<'_, T>),
    ) {
        let Buffers { columns, apart, made } = buffers;
        for row in 0..self.out()[0] {
            let lines = self.span(row, self.height);
            columns.largest_of::<PLACES>(plane, self.width, lines.clone());
            self.along::<T, PLACES>(columns, apart, made);
            visit(row, Maxima { made, first: lines.start * self.width, width: self.width });
        }
    }

    /// The maxima of a row of windows, from those of their columns.
    fn along<T: Real, const PLACES: bool>(
        &self,
        columns: &Columns<T>,
        apart: &mut [Columns<T>; 2],
        made: &mut Made<T>,
    ) {
        let windows = self.out()[1];
        made.begin(windows);
        // Windows that lie inside the map as a whole.
        let begin = self.padding.div_ceil(self.stride).min(windows);
        let end = (self.width + self.padding).checked_sub(self.kernel).map_or(0, |last| last / self.stride + 1);
        let inside = match self.stride {
            1 | 2 => begin..end.clamp(begin, windows),
            _ => 0..0,
        };
        for window in (0..inside.start).chain(inside.end..windows) {
            made.take_largest(window, columns, self.span(window, self.width));
        }
        if inside.is_empty() {
            return;
        }
        if self.stride == 2 {
            let [even, odd] = apart;
            columns.deal::<PLACES>(even, odd);
        }
        for place in 0..self.kernel {
            let first = inside.start * self.stride + place - self.padding;
            let of_place = if self.stride == 2 { &apart[first % 2] } else { columns };
            made.compare::<PLACES>(inside.clone(), of_place, first / self.stride, place, self);
        }
    }
}

/// Buffers that a thread reuses from plane to plane.
#[derive(Default)]
struct Buffers<T> {
    columns: Columns<T>,
    /// Even and odd columns.
    apart: [Columns<T>; 2],
    made: Made<T>,
}

/// The maxima of a row of windows.
struct Maxima<'a, T> {
    made: &'a Made<T>,
    /// The index of the first pixel of the first line of the windows.
    first: usize,
    /// The width of the map.
    width: usize,
}

impl<T: Real> Maxima<'_, T> {
    fn values(&self) -> &[T] {
        &self.made.best
    }

    /// The indices of the maxima in the plane.
    fn places(&self) -> impl Iterator<Item = usize> + '_ {
        let Made { line, column, .. } = self.made;
        line.iter().zip(column).map(|(line, column)| self.first + *line as usize * self.width + *column as usize)
    }
}

/// The maximum of each of some columns of the map, and its line, counted from the first line of the windows.
#[derive(Default)]
struct Columns<T> {
    best: Vec<T>,
    line: Vec<u32>,
    /// What is to replace the former.
    apart: Vec<T>,
}

impl<T: Real> Columns<T> {
    fn largest_of<const PLACES: bool>(&mut self, plane: &[T], width: usize, lines: Range<usize>) {
        self.best.clear();
        self.best.extend_from_slice(&plane[lines.start * width..][..width]);
        if PLACES {
            self.line.clear();
        }
        self.line.resize(width, 0);
        for (number, line) in (1..).zip(lines.skip(1)) {
            let values = &plane[line * width..][..width];
            if !PLACES {
                replace_by_larger(&mut self.best, values, &mut self.apart);
                continue;
            }
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

    /// Distributes the columns to two in turn.
    fn deal<const PLACES: bool>(&self, even: &mut Self, odd: &mut Self) {
        let count = self.best.len();
        for (half, count) in [(&mut *even, count.div_ceil(2)), (&mut *odd, count / 2)] {
            half.best.resize(count, T::of(0.0));
            half.line.resize(count, 0);
        }
        deal(&self.best, &mut even.best, &mut odd.best);
        if PLACES {
            deal(&self.line, &mut even.line, &mut odd.line);
        }
    }
}

/// The maximum of each of some windows, its line, counted from their first, and its column in the map.
#[derive(Default)]
struct Made<T> {
    best: Vec<T>,
    line: Vec<u32>,
    column: Vec<u32>,
    /// As for [`Columns`].
    apart: Vec<T>,
}

impl<T: Real> Made<T> {
    fn begin(&mut self, windows: usize) {
        self.best.resize(windows, T::of(0.0));
        self.line.resize(windows, 0);
        self.column.resize(windows, 0);
    }

    /// Finds the maximum of a window that has these columns.
    fn take_largest(&mut self, window: usize, columns: &Columns<T>, across: Range<usize>) {
        let mut at = across.start;
        for next in across.skip(1) {
            if replaces(columns.best[next], columns.line[next], columns.best[at], columns.line[at]) {
                at = next;
            }
        }
        (self.best[window], self.line[window], self.column[window]) = (columns.best[at], columns.line[at], at as u32);
    }

    /// Compares the maxima of some windows with the columns at one of their places, from number `first` on, which belong to one window
    /// each. The first place begins the comparison.
    fn compare<const PLACES: bool>(
        &mut self,
        windows: Range<usize>,
        columns: &Columns<T>,
        first: usize,
        place: usize,
        of: &Windows,
    ) {
        let count = windows.len();
        let begin = (windows.start * of.stride + place - of.padding) as u32;
        let stride = of.stride as u32;
        let (values, lines) = (&columns.best[first..][..count], &columns.line[first..][..count]);
        let (best, line) = (&mut self.best[windows.clone()], &mut self.line[windows.clone()]);
        let column = &mut self.column[windows];
        if place == 0 {
            best.copy_from_slice(values);
            line.copy_from_slice(lines);
            column.iter_mut().zip(0u32..).for_each(|(column, at)| *column = begin + at * stride);
            return;
        }
        if !PLACES {
            return replace_by_larger(best, values, &mut self.apart);
        }
        vectorised(
            #[inline(always)]
            move || {
                let made = best.iter_mut().zip(line).zip(column);
                for ((((best, line), column), (value, of_value)), at) in made.zip(values.iter().zip(lines)).zip(0u32..)
                {
                    // Values, not places: the compiler would choose among the places, one window after the other.
                    let (old, of_old, at_old, value, of_value) = (*best, *line, *column, *value, *of_value);
                    let taken = replaces(value, of_value, old, of_old);
                    *best = if taken { value } else { old };
                    *line = if taken { of_value } else { of_old };
                    *column = if taken { begin + at * stride } else { at_old };
                }
            },
        );
    }
}

/// Whether the maximum of a column replaces that of the columns before it: of equal ones the one in an earlier line wins. Without branches,
/// so that many are compared at once.
#[inline(always)]
fn replaces<T: Real>(value: T, of_value: u32, best: T, line: u32) -> bool {
    let equal = (value == best) | (value.is_nan() & best.is_nan());
    larger(value, best) | (equal & (of_value < line))
}

/// Replaces the largest values so far by those that are larger. What is made lies apart from both: of numbers that may stay as they are a
/// compiler leaves out the stores, one number after the other.
fn replace_by_larger<T: Real>(best: &mut [T], values: &[T], apart: &mut Vec<T>) {
    apart.resize(best.len(), T::of(0.0));
    vectorised(
        #[inline(always)]
        || {
            for ((made, best), value) in apart.iter_mut().zip(&*best).zip(values) {
                *made = if larger(*value, *best) { *value } else { *best };
            }
        },
    );
    best.copy_from_slice(apart);
}

/// Whether a value replaces the largest so far.
#[inline(always)]
fn larger<T: Real>(value: T, best: T) -> bool {
    (value > best) | (value.is_nan() & !best.is_nan())
}

/// Computes the output, one plane after the other.
pub(crate) fn forward<T: Stored>(reading: &Reading<'_, T>, windows: &Windows) -> Elements<T> {
    let plane = reading.plane();
    let pixels = windows.out().iter().product::<usize>();
    let mut y = Making::like(reading.x, reading.x.len() / plane * pixels);
    y.parts(pixels).into_par_iter().enumerate().for_each_init(
        || (vec![T::of(0.0); plane], Buffers::default(), Vec::new()),
        |(read, buffers, made), (index, y)| {
            let mut y = y.begin(Threads::One);
            reading.fill(index, 0, read);
            let width = windows.out()[1];
            y.write(made, Before::Anything, Threads::One, |y| {
                windows.maxima::<T, false>(read, buffers, |row, maxima| {
                    y[row * width..][..width].copy_from_slice(maxima.values());
                });
            });
        },
    );
    y.made()
}

/// The gradients of the map's tensors, for the gradient `dy` of the output.
pub(crate) fn backward<T: Stored>(reading: &Reading<'_, T>, dy: Source<'_, T>, windows: &Windows) -> Gradients<T> {
    let pixels = windows.out().iter().product::<usize>();
    let dx = Making::like(reading.x, reading.x.len());
    let (gradients, _) = reading.by_channels(dx, Before::Zeros, 0, &|| {
        let (mut read, mut buffers, mut wide) = (vec![T::of(0.0); reading.plane()], Buffers::default(), Vec::new());
        Box::new(move |index, _, lend| {
            let dy = dy.chunk(index, pixels).read(&mut wide, Threads::One);
            reading.fill(index, 0, &mut read);
            let width = windows.out()[1];
            lend(0..read.len(), &mut |dx| {
                windows.maxima::<T, true>(&read, &mut buffers, |row, maxima| {
                    maxima.places().zip(&dy[row * width..]).for_each(|(to, dy)| dx[to] += *dy);
                });
            });
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
            windows.maxima::<f32, true>(&plane, &mut Buffers::default(), |row, maxima| {
                for (column, (value, from)) in maxima.values().iter().zip(maxima.places()).enumerate() {
                    assert_eq!(from, naive(&plane, &windows, row, column), "{windows:?}, window {row}, {column}");
                    assert_eq!(value.to_bits(), plane[from].to_bits());
                    met += 1;
                }
            });
            assert_eq!(met, windows.out().iter().product::<usize>());
            windows.maxima::<f32, false>(&plane, &mut Buffers::default(), |row, maxima| {
                for (column, value) in maxima.values().iter().enumerate() {
                    assert_eq!(value.to_bits(), plane[naive(&plane, &windows, row, column)].to_bits(), "{windows:?}");
                    met -= 1;
                }
            });
            assert_eq!(met, 0);
        }
    }
}
