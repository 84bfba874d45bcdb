//! Convolutions and the global average pool of maps that are normalised while they are read ([`Reading`]).
//!
//! The normalised map never exists as a whole. A depthwise convolution normalises one plane at a time. A 1x1 convolution normalises a
//! piece of all channels of a sample, multiplies it while it is in the cache, and goes on to the next piece. Other dense convolutions
//! normalise one sample at a time. The backward passes do the same again, and turn the gradient of each piece into that of the
//! normalised values while it is still in the cache.

use rayon::prelude::*;

use super::normalisation::Gradients;
use super::reading::Reading;
use super::sums::Sums;
use crate::convolution::cpu::Shape;
use crate::convolution::cpu::dense;
use crate::convolution::cpu::depthwise::{self, Geometry, Scratch};
use crate::convolution::cpu::filters::Filters;
use crate::convolution::cpu::input_gradient::InputGradient;
use crate::convolution::cpu::shape::Dense;
use crate::cpu::gemm::{Matrix, Mode, Threads, multiply};
use crate::cpu::lanes::{sum, vectorised};
use crate::cpu::real::Real;

/// Computes the output.
pub(crate) fn forward<T: Real>(reading: &Reading<'_, T>, weight: &[T], shape: &Shape) -> Vec<T> {
    match shape {
        Shape::Depthwise(geometry) => depthwise_forward(reading, weight, geometry),
        Shape::Dense(dense) => dense_forward(reading, weight, dense),
    }
}

/// The gradients of the map's tensors, and of the weight.
pub(crate) fn backward<T: Real>(
    reading: &Reading<'_, T>,
    weight: &[T],
    dy: &[T],
    shape: &Shape,
) -> (Gradients<T>, Vec<T>) {
    match shape {
        Shape::Depthwise(geometry) => depthwise_backward(reading, weight, dy, geometry),
        Shape::Dense(dense) => dense_backward(reading, weight, dy, dense),
    }
}

fn depthwise_forward<T: Real>(reading: &Reading<'_, T>, weight: &[T], geometry: &Geometry) -> Vec<T> {
    let mut y = vec![T::of(0.0); geometry.batch * geometry.channels * geometry.out_plane()];
    let planes = y.par_chunks_mut(geometry.out_plane()).enumerate();
    planes.for_each_init(
        || (vec![T::of(0.0); geometry.in_plane()], Scratch::default()),
        |(read, scratch), (index, y)| {
            reading.fill(index, 0, read);
            geometry.forward(index, read, weight, y, scratch);
        },
    );
    y
}

fn depthwise_backward<T: Real>(
    reading: &Reading<'_, T>,
    weight: &[T],
    dy: &[T],
    geometry: &Geometry,
) -> (Gradients<T>, Vec<T>) {
    let mut dx = vec![T::of(0.0); reading.x.len()];
    let planes = dx.par_chunks_mut(geometry.in_plane()).zip(dy.par_chunks(geometry.out_plane())).enumerate();
    let (of_filters, sums): (Vec<Vec<f64>>, Vec<Sums>) = planes
        .map_init(Scratch::default, |scratch, (index, (dx, dy))| {
            let mut read = std::mem::take(&mut scratch.read);
            read.resize(geometry.in_plane(), T::of(0.0));
            reading.fill(index, 0, &mut read);
            let of_filter = geometry.backward_weight(&read, dy, scratch);
            scratch.read = read;
            geometry.backward_input(index, dy, weight, dx, scratch);
            (of_filter, reading.absorb(index, 0, dx))
        })
        .unzip();
    (reading.finish(dx, &sums), depthwise::in_order(of_filters.iter(), geometry))
}

fn dense_forward<T: Real>(reading: &Reading<'_, T>, weight: &[T], shape: &Dense) -> Vec<T> {
    let of_sample = shape.output * shape.out_plane();
    let mut y = vec![T::of(0.0); shape.batch * of_sample];
    let threads = shape.threads();
    let prepared = Filters::new(shape, weight);
    dense::over_samples(threads, y.chunks_exact_mut(of_sample).enumerate().collect(), |(sample, y)| {
        let mut read = Vec::new();
        if !shape.pointwise() {
            read_piece(reading, sample, shape, 0..reading.plane(), threads, &mut read);
            return shape.forward(&read, &prepared, y);
        }
        let filters = Matrix::of(weight, shape.output, shape.input);
        for pixels in pieces(shape) {
            read_piece(reading, sample, shape, pixels.clone(), threads, &mut read);
            let columns = Matrix::of(&read, shape.input, pixels.len());
            multiply(&mut y[pixels.start..], reading.plane(), Mode::Replace, filters, columns, threads);
        }
    });
    y
}

fn dense_backward<T: Real>(reading: &Reading<'_, T>, weight: &[T], dy: &[T], shape: &Dense) -> (Gradients<T>, Vec<T>) {
    let threads = shape.threads();
    let mut dx = vec![T::of(0.0); reading.x.len()];
    let mut sums = vec![Sums::default(); shape.batch * shape.input];
    let samples = dx
        .chunks_exact_mut(shape.in_sample())
        .zip(sums.chunks_exact_mut(shape.input))
        .zip(dy.chunks_exact(shape.output * shape.out_plane()))
        .enumerate()
        .collect();
    let size = shape.output * shape.fan();
    let to_input = InputGradient::new(shape, weight);
    let dw = dense::sum_over_samples(threads, size, samples, |(sample, ((dx, sums), dy)), dw| {
        let mut read = Vec::new();
        if !shape.pointwise() {
            let all = 0..reading.plane();
            read_piece(reading, sample, shape, all.clone(), threads, &mut read);
            shape.backward_weight(&read, dy, dw);
            to_input.of_sample(dy, dx);
            return absorb_piece(reading, sample, shape, all, threads, dx, sums);
        }
        let filters = Matrix::of(weight, shape.output, shape.input).transposed();
        for pixels in pieces(shape) {
            read_piece(reading, sample, shape, pixels.clone(), threads, &mut read);
            let of_output = Matrix::of_rows(&dy[pixels.start..], shape.output, pixels.len(), reading.plane());
            let columns = Matrix::of(&read, shape.input, pixels.len()).transposed();
            multiply(dw, shape.input, Mode::Add, of_output, columns, threads);
            multiply(&mut dx[pixels.start..], reading.plane(), Mode::Replace, filters, of_output, threads);
            absorb_piece(reading, sample, shape, pixels, threads, dx, sums);
        }
    });
    (reading.finish(dx, &sums), dw)
}

fn pieces(shape: &Dense) -> impl Iterator<Item = std::ops::Range<usize>> {
    let (plane, each) = (shape.out_plane(), shape.piece());
    (0..plane).step_by(each.max(1)).map(move |start| start..(start + each).min(plane))
}

/// Normalises a range of pixels of all channels of a sample into `read`, `[channels, pixels]`.
fn read_piece<T: Real>(
    reading: &Reading<'_, T>,
    sample: usize,
    shape: &Dense,
    pixels: std::ops::Range<usize>,
    threads: Threads,
    read: &mut Vec<T>,
) {
    read.resize(shape.input * pixels.len(), T::of(0.0));
    let fill = |(channel, out): (usize, &mut [T])| {
        reading.fill(sample * shape.input + channel, pixels.start, out);
    };
    match threads {
        Threads::All => read.par_chunks_exact_mut(pixels.len()).enumerate().for_each(fill),
        Threads::One => read.chunks_exact_mut(pixels.len()).enumerate().for_each(fill),
    }
}

/// [`Reading::absorb`] for a range of pixels of all channels of a sample, adding to the sums of each channel.
fn absorb_piece<T: Real>(
    reading: &Reading<'_, T>,
    sample: usize,
    shape: &Dense,
    pixels: std::ops::Range<usize>,
    threads: Threads,
    dx: &mut [T],
    sums: &mut [Sums],
) {
    let plane = reading.plane();
    let absorb = |(channel, (dx, sums)): (usize, (&mut [T], &mut Sums))| {
        *sums += reading.absorb(sample * shape.input + channel, pixels.start, &mut dx[pixels.clone()]);
    };
    match threads {
        Threads::All => dx.par_chunks_exact_mut(plane).zip(sums).enumerate().for_each(absorb),
        Threads::One => dx.chunks_exact_mut(plane).zip(sums).enumerate().for_each(absorb),
    }
}

/// The mean of each plane.
pub(crate) fn global_average_pool<T: Real>(reading: &Reading<'_, T>) -> Vec<T> {
    let plane = reading.plane();
    (0..reading.x.len() / plane)
        .into_par_iter()
        .map_init(
            || vec![T::of(0.0); plane],
            |read, index| {
                reading.fill(index, 0, read);
                let total = vectorised(
                    #[inline(always)]
                    || sum(read, |value| value),
                );
                T::of(total / plane as f64)
            },
        )
        .collect()
}

/// The gradients of the map's tensors, for the gradient of the mean of each plane.
pub(crate) fn backward_global_average_pool<T: Real>(reading: &Reading<'_, T>, dy: &[T]) -> Gradients<T> {
    let plane = reading.plane();
    let mut dx = vec![T::of(0.0); reading.x.len()];
    let planes = dx.par_chunks_exact_mut(plane).zip(dy).enumerate();
    let sums: Vec<Sums> = planes
        .map(|(index, (dx, dy))| {
            dx.fill(*dy / T::of(plane as f64));
            reading.absorb(index, 0, dx)
        })
        .collect();
    reading.finish(dx, &sums)
}
