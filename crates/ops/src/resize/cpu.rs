//! Resizing on the CPU: one thread computes a plane.
//!
//! Rows first, then columns: the two rows of the input that an output row lies between are mixed in a loop that is vectorised, and the
//! mixed row is then read at the places of the columns. The backward pass does the same in reverse. Each pixel of a gradient is a sum
//! in the order of the output's pixels, row by row. When every pixel becomes a square of four, rows are written and read in pairs of
//! pixels, with the same sums in the same order.

use burn::backend::Flex;
use burn_flex::FlexTensor;
use rayon::prelude::*;

use super::{Axis, Interpolation, Place, Resize, ResizeGradient};
use crate::cpu::gemm::Threads;
use crate::cpu::lanes::{interleave, vectorised};
use crate::cpu::making::Making;
use crate::cpu::real::Real;
use crate::cpu::reserve;
use crate::cpu::tensors::{computed_in, contiguous, dims, tensor};
use crate::cpu::values::{Before, Elements, Source, Stored};

impl Resize for Flex {
    fn resize(x: FlexTensor, size: [usize; 2], interpolation: Interpolation) -> FlexTensor {
        let [batch, channels, height, width] = dims(&x);
        let places = Places::new([height, width], size, interpolation);
        computed_in!(T = x.dtype(); {
            let y = forward::<T>(contiguous(&x).source(), &places);
            tensor(y, [batch, channels, size[0], size[1]])
        })
    }
}

impl ResizeGradient for Flex {
    fn resize_backward(dy: FlexTensor, size: [usize; 2], interpolation: Interpolation) -> FlexTensor {
        let [batch, channels, height, width] = dims(&dy);
        let places = Places::new(size, [height, width], interpolation);
        reserve(batch * channels * size[0] * size[1], dy.dtype());
        computed_in!(T = dy.dtype(); {
            let dx = backward::<T>(contiguous(&dy).source(), &places);
            tensor(dx, [batch, channels, size[0], size[1]])
        })
    }
}

/// The places of every row and column of the output.
struct Places {
    rows: Vec<Place>,
    columns: Vec<Place>,
    /// Rows and columns of the input.
    input: [usize; 2],
    nearest: bool,
}

impl Places {
    fn new(input: [usize; 2], output: [usize; 2], interpolation: Interpolation) -> Self {
        let [rows, columns] = Axis::both(input, output, interpolation).map(|axis| axis.places().collect());
        Self { rows, columns, input, nearest: interpolation == Interpolation::Nearest }
    }

    /// Whether every column becomes two equal ones.
    fn doubles_columns(&self) -> bool {
        self.nearest && self.columns.len() == 2 * self.input[1]
    }
}

/// Computes the output, one plane after the other.
fn forward<T: Stored>(x: Source<'_, T>, places: &Places) -> Elements<T> {
    let [height, width] = places.input;
    let pixels = places.rows.len() * places.columns.len();
    let mut y = Making::like(x, x.len() / (height * width) * pixels);
    y.parts(pixels).into_par_iter().enumerate().for_each_init(
        || (vec![T::of(0.0); width], Vec::new(), Vec::new()),
        |(mixed, wide, made), (index, y)| {
            let mut y = y.begin(Threads::One);
            let x = x.chunk(index, height * width).read(wide, Threads::One);
            y.write(made, Before::Anything, Threads::One, |y| forward_plane(x, places, mixed, y));
        },
    );
    y.made()
}

fn forward_plane<T: Real>(x: &[T], places: &Places, mixed: &mut [T], y: &mut [T]) {
    let (width, across) = (places.input[1], places.columns.len());
    let mut written: Option<(usize, usize)> = None;
    for (number, place) in places.rows.iter().enumerate() {
        match written {
            // Rows that lie on the same row of the input are equal.
            Some((row, before)) if places.nearest && row == place.at => {
                y.copy_within(before * across..(before + 1) * across, number * across);
            }
            _ => {
                mix(x, width, *place, places.nearest, mixed);
                spread(mixed, places, &mut y[number * across..][..across]);
            }
        }
        written = Some((place.at, number));
    }
}

/// The row of the input at a place.
fn mix<T: Real>(x: &[T], width: usize, place: Place, nearest: bool, mixed: &mut [T]) {
    let [at, next] = [place.at, place.next].map(|row| &x[row * width..][..width]);
    if nearest {
        mixed.copy_from_slice(at);
        return;
    }
    let [of_at, of_next] = weights::<T>(place);
    vectorised(
        #[inline(always)]
        || {
            for ((mixed, at), next) in mixed.iter_mut().zip(at).zip(next) {
                *mixed = of_at * *at + of_next * *next;
            }
        },
    );
}

/// The pixels of a row at the places of the columns.
fn spread<T: Real>(row: &[T], places: &Places, y: &mut [T]) {
    if places.doubles_columns() {
        interleave(row, row, y);
    } else if places.nearest {
        for (y, place) in y.iter_mut().zip(&places.columns) {
            *y = row[place.at];
        }
    } else {
        for (y, place) in y.iter_mut().zip(&places.columns) {
            let [of_at, of_next] = weights::<T>(*place);
            *y = of_at * row[place.at] + of_next * row[place.next];
        }
    }
}

/// Computes the gradient of the input, one plane after the other.
fn backward<T: Stored>(dy: Source<'_, T>, places: &Places) -> Elements<T> {
    let [height, width] = places.input;
    let pixels = places.rows.len() * places.columns.len();
    let mut dx = Making::like(dy, dy.len() / pixels * (height * width));
    dx.parts(height * width).into_par_iter().enumerate().for_each_init(
        || (vec![T::of(0.0); width], Vec::new(), Vec::new()),
        |(gathered, wide, made), (index, dx)| {
            let mut dx = dx.begin(Threads::One);
            let dy = dy.chunk(index, pixels).read(wide, Threads::One);
            dx.write(made, Before::Zeros, Threads::One, |dx| backward_plane(dy, places, gathered, dx));
        },
    );
    dx.made()
}

/// Adds the gradients of a plane to `dx`.
fn backward_plane<T: Real>(dy: &[T], places: &Places, gathered: &mut [T], dx: &mut [T]) {
    let (width, across) = (places.input[1], places.columns.len());
    for (place, dy) in places.rows.iter().zip(dy.chunks_exact(across)) {
        if places.nearest {
            gather(dy, places, &mut dx[place.at * width..][..width]);
        } else {
            gathered.fill(T::of(0.0));
            gather(dy, places, gathered);
            let [of_at, of_next] = weights::<T>(*place);
            add(gathered, of_at, &mut dx[place.at * width..][..width]);
            add(gathered, of_next, &mut dx[place.next * width..][..width]);
        }
    }
}

/// Adds the gradients of a row of the output to the pixels that it was computed from.
fn gather<T: Real>(dy: &[T], places: &Places, row: &mut [T]) {
    if places.doubles_columns() {
        vectorised(
            #[inline(always)]
            || {
                let (pairs, _) = dy.as_chunks::<2>();
                for (sum, [left, right]) in row.iter_mut().zip(pairs) {
                    *sum = *sum + *left + *right;
                }
            },
        );
    } else if places.nearest {
        for (dy, place) in dy.iter().zip(&places.columns) {
            row[place.at] += *dy;
        }
    } else {
        for (dy, place) in dy.iter().zip(&places.columns) {
            let [of_at, of_next] = weights::<T>(*place);
            row[place.at] += of_at * *dy;
            row[place.next] += of_next * *dy;
        }
    }
}

/// Adds a row times a number to another.
fn add<T: Real>(row: &[T], factor: T, sum: &mut [T]) {
    vectorised(
        #[inline(always)]
        || {
            for (sum, value) in sum.iter_mut().zip(row) {
                *sum += factor * *value;
            }
        },
    );
}

/// The weights of the pixels at and after a place.
fn weights<T: Real>(place: Place) -> [T; 2] {
    [T::of(1.0 - place.share), T::of(place.share)]
}
