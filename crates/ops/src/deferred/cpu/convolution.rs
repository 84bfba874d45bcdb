//! Convolutions and the global average pool of maps that are normalised while they are read ([`Reading`]).
//!
//! The normalised map never exists as a whole. A depthwise convolution normalises a few rows of a plane at a time. A 1x1 convolution normalises a
//! piece of all channels of a sample, multiplies it while it is in the cache, and goes on to the next piece. Other dense convolutions
//! normalise one sample at a time, or, where maps of bf16 are multiplied as they are stored, the rows of a strip of it. The backward passes do the same again, and turn the gradient of each piece into that of the
//! normalised values while it is still in the cache.

use std::ops::Range;

use half::slice::HalfBitsSliceExt;
use rayon::prelude::*;

use super::backward::Worker;
use super::epilogue::Epilogue;
use super::normalisation::Gradients;
use super::reading::Reading;
use super::sums::Sums;
use crate::convolution::cpu::Shape;
use crate::convolution::cpu::depthwise::{self, Geometry, Plane, Scratch, Split, in_parts, written};
use crate::convolution::cpu::filters::Filters;
use crate::convolution::cpu::input_gradient::InputGradient;
use crate::convolution::cpu::planes::{Compute, Planes};
use crate::convolution::cpu::samples;
use crate::convolution::cpu::shape::Dense;
use crate::convolution::cpu::strips::Channels;
use crate::cpu::factors::Part;
use crate::cpu::gemm::{Matrix, Threads, apart};
use crate::cpu::halves::PIECE;
use crate::cpu::lanes::{ROWS_SUMMED, mean_of_rows, sums_of_rows};
use crate::cpu::making::Making;
use crate::cpu::parts::parts;
use crate::cpu::reserve;
use crate::cpu::tensors::Values;
use crate::cpu::values::{Before, Elements, Source, Stored, Target};

/// Computes the output.
pub(crate) fn forward<T: Stored>(reading: &Reading<'_, T>, weight: &Values<T>, shape: &Shape) -> Elements<T> {
    match shape {
        Shape::Depthwise(geometry) => depthwise_forward(reading, weight, geometry),
        Shape::Dense(dense) => {
            dense_forward(reading, &Filters::new(dense, weight, reading.x.multiplies_halves()), dense)
        }
    }
}

/// Computes the output, and what ends the block, of which pixels are written when the convolution has made them in the cache.
pub(crate) fn forward_to_end<T: Stored>(
    reading: &Reading<'_, T>,
    weight: &Values<T>,
    shape: &Dense,
    epilogue: &Epilogue<'_, T>,
) -> Elements<T> {
    let prepared = Filters::new(shape, weight, reading.x.multiplies_halves());
    if !(shape.pointwise() || shape.is_in_strips(&prepared)) {
        let made = dense_forward(reading, &prepared, shape);
        // They may be larger than the map.
        drop(prepared);
        return epilogue.of_whole(made);
    }
    each_sample(reading, shape, |sample, y| {
        let (first, channels) = (sample * shape.output, shape.output);
        let made = Elements::like(reading.x, 0);
        let mut y = ToEnd { y, epilogue, first, channels, made, threads: shape.threads() };
        forward_in_pieces(reading, sample, &prepared, shape, &mut y);
    })
}

/// Lets `work` compute the output of each sample.
fn each_sample<T: Stored>(
    reading: &Reading<'_, T>,
    shape: &Dense,
    work: impl Fn(usize, Target<'_, T>) + Send + Sync,
) -> Elements<T> {
    let of_sample = shape.output * shape.out_plane();
    let (mut y, threads) = (Making::like(reading.x, shape.batch * of_sample), shape.threads());
    let samples = y.parts(of_sample).into_iter().enumerate().collect();
    samples::over_samples(threads, samples, |(sample, y)| work(sample, y.begin(threads)));
    y.made()
}

/// The gradients of the map's tensors, and of the weight.
pub(crate) fn backward<T: Stored>(
    reading: &Reading<'_, T>,
    weight: &[T],
    dy: Source<'_, T>,
    shape: &Shape,
) -> (Gradients<T>, Vec<T>) {
    match shape {
        Shape::Depthwise(geometry) => depthwise_backward(reading, weight, dy, geometry),
        Shape::Dense(dense) => dense_backward(reading, weight, dy, dense),
    }
}

/// A plane that is normalised while it is read.
struct OfPlane<'a, T> {
    reading: &'a Reading<'a, T>,
    index: usize,
}

impl<T: Stored> Plane<T> for OfPlane<'_, T> {
    fn write(&self, pixels: Range<usize>, to: &mut [T]) {
        self.reading.fill(self.index, pixels.start, to);
    }

    fn split(&self, pixels: Range<usize>, to: &mut [T], split: &Split, buffer: &mut Vec<T>) {
        self.reading.split(self.index, pixels, to, split, buffer);
    }

    fn pixels<'b>(&'b self, pixels: Range<usize>, buffer: &'b mut Vec<T>) -> &'b [T] {
        written(self, pixels, buffer)
    }
}

fn depthwise_forward<T: Stored>(reading: &Reading<'_, T>, weight: &[T], geometry: &Geometry) -> Elements<T> {
    let mut y = Making::like(reading.x, geometry.batch * geometry.channels * geometry.out_plane());
    y.parts(geometry.out_plane()).into_par_iter().enumerate().for_each_init(
        || (Scratch::default(), Vec::new()),
        |(scratch, made), (index, y)| {
            let y = &mut in_parts(y, geometry.piece(), made);
            geometry.forward(index, &OfPlane { reading, index }, weight, scratch, y);
        },
    );
    y.made()
}

fn depthwise_backward<T: Stored>(
    reading: &Reading<'_, T>,
    weight: &[T],
    dy: Source<'_, T>,
    geometry: &Geometry,
) -> (Gradients<T>, Vec<T>) {
    let dx = Making::like(reading.x, reading.x.len());
    let (gradients, of_filters) = reading.by_channels(dx, Before::Anything, geometry.taps(), &|| {
        let mut scratch = Scratch::default();
        Box::new(move |index, of_filter, lend| {
            let (x, dy) = (OfPlane { reading, index }, dy.chunk(index, geometry.out_plane()));
            geometry.backward_weight(&x, &dy, &mut scratch, of_filter);
            geometry.backward_input(index, &dy, weight, &mut scratch, lend);
        })
    });
    (gradients, depthwise::in_order(&of_filters, geometry))
}

fn dense_forward<T: Stored>(reading: &Reading<'_, T>, prepared: &Filters<'_, T>, shape: &Dense) -> Elements<T> {
    each_sample(reading, shape, |sample, mut y| {
        if !forward_in_pieces(reading, sample, prepared, shape, &mut y) {
            let mut read = Piece::default();
            shape.forward(Source::Same(read.whole(reading, sample, shape.threads())), prepared, y);
        }
    })
}

/// Computes the output of a sample some pixels at a time, from strips, or where the filters are 1x1. Returns whether it is computed so.
fn forward_in_pieces<T: Stored, P: Planes<T>>(
    reading: &Reading<'_, T>,
    sample: usize,
    prepared: &Filters<'_, T>,
    shape: &Dense,
    y: &mut P,
) -> bool {
    if shape.forward_in_strips(&OfSample { reading, first: sample * shape.input }, prepared, y) {
        return true;
    }
    let Some(filters) = prepared.factor(shape).filter(|_| shape.pointwise()) else { return false };
    let (mut read, mut made, threads) = (Piece::default(), Vec::new(), shape.threads());
    let multiplied = |pixels: Range<usize>| {
        let columns = read.factor(reading, sample, pixels.clone(), threads);
        y.write(reading.plane(), pixels.clone(), &mut |y, plane, first| {
            y.multiply_columns(plane, first..first + pixels.len(), (filters, columns), &mut made, threads);
        });
    };
    if reading.x.widens() || P::ELSEWHERE {
        shape.pieces_of_both(shape.piece()).for_each(multiplied);
    } else {
        shape.pieces(shape.piece()).for_each(multiplied);
    }
    true
}

/// The planes of a sample, of which pixels are written when they have been computed, normalised and added to a shortcut.
struct ToEnd<'a, 'b, T> {
    y: Target<'a, T>,
    epilogue: &'a Epilogue<'b, T>,
    /// The number of its first plane, and how many there are.
    first: usize,
    channels: usize,
    /// What the convolution has made of some pixels.
    made: Elements<T>,
    threads: Threads,
}

impl<T: Stored> Planes<T> for ToEnd<'_, '_, T> {
    const ELSEWHERE: bool = true;

    fn write(&mut self, plane: usize, pixels: Range<usize>, compute: &mut Compute<'_, T>) {
        let count = pixels.len();
        // Whole lines of the cache in either format.
        let stride = 2 * apart(count.div_ceil(2));
        self.made.resize(self.channels * stride);
        compute(&mut self.made.target(), stride, 0);
        let made = self.made.source();
        self.y.write_rows(plane, pixels.clone(), self.threads, |channel, y| {
            let made = made.part(channel * stride..channel * stride + count);
            self.epilogue.write(self.first + channel, pixels.start, made, y);
        });
    }
}

/// What follows the gradient of the normalised values needs sums over all samples, so it waits for them as a whole: in the format of the map
/// where that is multiplied as it is stored, otherwise in float32.
fn dense_backward<T: Stored>(
    reading: &Reading<'_, T>,
    weight: &[T],
    dy: Source<'_, T>,
    shape: &Dense,
) -> (Gradients<T>, Vec<T>) {
    let threads = shape.threads();
    let mut dx = match dy.multiplies_halves() {
        true => Making::like(reading.x, reading.x.len()),
        false => {
            if reading.x.widens() {
                reserve(reading.x.len(), T::DTYPE);
            }
            Making::wide(reading.x.len())
        }
    };
    let mut sums = vec![Sums::default(); shape.batch * shape.input];
    let samples = dx.parts(shape.in_sample()).into_iter().zip(sums.chunks_exact_mut(shape.input)).enumerate().collect();
    let size = shape.output * shape.fan();
    let to_input = InputGradient::new(shape, weight, dy.multiplies_halves());
    let dw = samples::sum_over_samples(threads, size, samples, |(sample, (dx, sums)), dw| {
        let (mut read, mut wide, mut made) = (Piece::default(), Vec::new(), Vec::new());
        let mut dx = dx.begin(threads);
        let dy = dy.chunk(sample, shape.output * shape.out_plane());
        let Some(filters) = to_input.factor().filter(|_| shape.pointwise()) else {
            let normalised = OfSample { reading, first: sample * shape.input };
            if !(dy.multiplies_halves() && shape.backward_weight_in_strips(&normalised, dy, dw)) {
                shape.backward_weight(Source::Same(read.whole(reading, sample, threads)), dy, dw);
            }
            if !to_input.in_strips(dy, &mut dx) {
                to_input.of_sample(dy, dx.again());
            }
            return absorb_planes(reading, sample, dx, threads, sums);
        };
        for pixels in shape.pieces(shape.piece()) {
            let columns = read.factor(reading, sample, pixels.clone(), threads);
            let of_output = dy.copied_factor(reading.plane(), pixels.clone(), &mut wide, threads);
            of_output.add_product(dw, shape.input, columns.transposed(), threads);
            let product = (filters, of_output);
            let absorb = |channel: usize, dx: &mut [T], sums: &mut Sums| {
                *sums = reading.absorb(sample * shape.input + channel, pixels.start, dx, *sums);
            };
            dx.multiply_columns_then(reading.plane(), pixels.clone(), product, &mut made, threads, sums, absorb);
        }
    });
    (reading.finish(dx.made(), &sums), dw)
}

/// A sample whose channels are normalised while they are read. Its first plane has this number.
struct OfSample<'a, T> {
    reading: &'a Reading<'a, T>,
    first: usize,
}

impl<T: Stored> Channels for OfSample<'_, T> {
    fn bits<'b>(&'b self, channel: usize, pixels: Range<usize>, buffer: &'b mut Vec<u16>) -> &'b [u16] {
        buffer.resize(pixels.len(), 0);
        self.reading.fill(self.first + channel, pixels.start, buffer);
        buffer
    }
}

/// Normalised pixels of all channels of a sample, `[channels, pixels]`.
struct Piece<T> {
    wide: Vec<T>,
    halves: Vec<u16>,
}

impl<T> Default for Piece<T> {
    fn default() -> Self {
        Self { wide: Vec::new(), halves: Vec::new() }
    }
}

impl<T: Stored> Piece<T> {
    /// Normalises all pixels.
    fn whole(&mut self, reading: &Reading<'_, T>, sample: usize, threads: Threads) -> &[T] {
        let (channels, plane) = (reading.norm.channels, reading.plane());
        self.wide.resize(channels * plane, T::of(0.0));
        each_channel(&mut self.wide, plane, threads, |channel, out| {
            reading.fill(sample * channels + channel, 0, out);
        });
        &self.wide
    }

    /// Normalises a range of pixels, as a factor: rounded to bf16 if products of the map have such factors.
    fn factor(
        &mut self,
        reading: &Reading<'_, T>,
        sample: usize,
        pixels: Range<usize>,
        threads: Threads,
    ) -> Part<'_, T> {
        let (channels, count) = (reading.norm.channels, pixels.len());
        if !reading.x.multiplies_halves() {
            let stride = apart(count);
            self.wide.resize(channels * stride, T::of(0.0));
            each_channel(&mut self.wide, stride, threads, |channel, out| {
                reading.fill(sample * channels + channel, pixels.start, &mut out[..count]);
            });
            return Part::Wide(Matrix::of_rows(&self.wide, channels, count, stride));
        }
        self.halves.resize(channels * count, 0);
        each_channel(&mut self.halves, count, threads, |channel, out| {
            reading.fill(sample * channels + channel, pixels.start, out);
        });
        Part::Halves(Matrix::of(self.halves.reinterpret_cast(), channels, count))
    }
}

/// Does something with `count` numbers of each channel.
fn each_channel<E: Send>(of: &mut [E], count: usize, threads: Threads, work: impl Fn(usize, &mut [E]) + Send + Sync) {
    let work = |(channel, out)| work(channel, out);
    match threads {
        Threads::All => of.par_chunks_exact_mut(count).enumerate().for_each(work),
        Threads::One => of.chunks_exact_mut(count).enumerate().for_each(work),
    }
}

/// [`Reading::absorb`] for all pixels of a sample, whose gradients these are, adding to the sums of each channel.
fn absorb_planes<T: Stored>(
    reading: &Reading<'_, T>,
    sample: usize,
    dx: Target<'_, T>,
    threads: Threads,
    sums: &mut [Sums],
) {
    let first = sample * sums.len();
    let absorb = |(channel, (dx, sums)): (usize, (Target<'_, T>, &mut Sums))| {
        dx.replace(|at, dx| *sums = reading.absorb(first + channel, at, dx, *sums));
    };
    let planes = dx.chunks(reading.plane());
    match threads {
        Threads::All => planes.into_par_iter().zip(sums).enumerate().for_each(absorb),
        Threads::One => planes.into_iter().zip(sums).enumerate().for_each(absorb),
    }
}

/// The mean of each plane.
pub(crate) fn global_average_pool<T: Stored>(reading: &Reading<'_, T>) -> Vec<T> {
    let (plane, width) = (reading.plane(), reading.norm.width);
    (0..reading.x.len() / plane)
        .into_par_iter()
        .map_init(
            || (vec![T::of(0.0); plane], vec![0.0; (plane / width).div_ceil(ROWS_SUMMED)]),
            |(read, sums), index| {
                reading.fill(index, 0, read);
                sums_of_rows(
                    read,
                    width,
                    sums,
                    #[inline(always)]
                    |number| number,
                );
                mean_of_rows(sums, plane)
            },
        )
        .collect()
}

/// The gradients of the map's tensors, for the gradient of the mean of each plane.
pub(crate) fn backward_global_average_pool<T: Stored>(reading: &Reading<'_, T>, dy: &[T]) -> Gradients<T> {
    let (dx, pixels_of_plane) = (Making::like(reading.x, reading.x.len()), T::of(reading.plane() as f64));
    let worker = || -> Worker<'_, T> {
        Box::new(|index, _, lend| {
            for pixels in parts(reading.plane(), PIECE) {
                lend(pixels, &mut |dx| dx.fill(dy[index] / pixels_of_plane));
            }
        })
    };
    reading.by_channels(dx, Before::Anything, 0, &worker).0
}
