//! Inverted residual blocks on the CPU, band by band.
//!
//! A thread takes a band of output rows of a sample ([`super::bands`]). It expands the input rows under them, a few channels at a time,
//! and convolves each channel as soon as it is normalised. Without a projection the result is the output. With one it is normalised
//! into a buffer of all channels of the band, and the projection is one matrix product.

use std::ops::Range;

use burn::backend::Flex;
use burn::tensor::DType;
use burn_flex::FlexTensor;
use rayon::prelude::*;

use super::bands::{Read, Shape};
use super::{InvertedResiduals, Layer, MaybeExpanded};
use crate::activation::Activation;
use crate::convolution::Places;
use crate::convolution::cpu::depthwise::{self, Geometry};
use crate::cpu::gemm::{Matrix, Mode, Threads, multiply};
use crate::cpu::making::{Making, Part};
use crate::cpu::real::Real;
use crate::cpu::reserve;
use crate::cpu::values::{Before, Elements, Stored, computed_in, dims, tensor, values};
use crate::deferred::cpu::normalisation::NormAct;
use crate::deferred::cpu::reading::normalise;

impl InvertedResiduals for Flex {
    fn expanded_depthwise(x: FlexTensor, expand: Layer<Self>, filters: FlexTensor, places: Places) -> FlexTensor {
        let shape = Shape::of(&x, &filters, places, 0);
        shape.reserve(x.dtype());
        computed_in!(T = x.dtype(); {
            let (x, of_expansion, filters) = (values(&x), values(&expand.filters), values(&filters));
            let expand = Some(Expansion { filters: &of_expansion, then: expand.normed() });
            let y = Kernel::<T> { x: &x, shape, expand, filters: &filters, project: None }.forward();
            tensor(y, shape.depthwise.output())
        })
    }

    fn inverted_residual(
        x: FlexTensor,
        expand: MaybeExpanded<Self>,
        depthwise: Layer<Self>,
        places: Places,
        project: FlexTensor,
    ) -> FlexTensor {
        let [output, ..] = dims(&project);
        let shape = Shape::of(&x, &depthwise.filters, places, output);
        let [batch, _, rows, columns] = shape.depthwise.output();
        shape.reserve(x.dtype());
        computed_in!(T = x.dtype(); {
            let (x, filters, project) = (values(&x), values(&depthwise.filters), values(&project));
            let of_expansion = match &expand {
                MaybeExpanded::By(layer) => Some((layer, values(&layer.filters))),
                MaybeExpanded::No => None,
            };
            let expand = of_expansion.as_ref().map(|(layer, filters)| Expansion { filters, then: layer.normed() });
            let project = Some(Projection { before: depthwise.normed(), filters: &project });
            let y = Kernel::<T> { x: &x, shape, expand, filters: &filters, project }.forward();
            tensor(y, [batch, output, rows, columns])
        })
    }
}

impl Shape {
    fn of(x: &FlexTensor, filters: &FlexTensor, places: Places, output: usize) -> Self {
        let ([batch, input, height, width], [channels, ..]) = (dims(x), dims(filters));
        Self { input, depthwise: Geometry::of([batch, channels, height, width], filters, places), output }
    }

    /// Reserves memory for the output and for what the threads hold.
    fn reserve(&self, dtype: DType) {
        let held = self.described().scratch() / size_of::<f32>() * rayon::current_num_threads();
        reserve(self.depthwise.batch * self.made() * self.depthwise.out_plane() + held, dtype);
    }

    /// Channels of the output.
    fn made(&self) -> usize {
        if self.output > 0 { self.output } else { self.depthwise.channels }
    }
}

impl Layer<Flex> {
    fn normed<T: Stored>(&self) -> Normed<T> {
        let [channels, ..] = dims(&self.filters);
        let (weight, bias, statistics) = (values(&self.weight), values(&self.bias), values(&self.statistics));
        // One set of statistics for all samples, whatever their size.
        let norm = NormAct::new([1, channels, 1, 1], &weight, &bias, &statistics, &[1], self.epsilon);
        Normed { norm, activation: self.activation }
    }
}

/// Normalisation and activation.
struct Normed<T> {
    norm: NormAct<T>,
    activation: Activation,
}

impl<T: Real> Normed<T> {
    fn apply(&self, channel: usize, x: &[T], out: &mut [T]) {
        normalise(self.activation, self.norm.of_plane(channel), x, out);
    }
}

/// What is before the depthwise convolution.
struct Expansion<'a, T> {
    /// `[channels, input]`.
    filters: &'a [T],
    then: Normed<T>,
}

/// What follows the depthwise convolution.
struct Projection<'a, T> {
    before: Normed<T>,
    /// `[output, channels]`.
    filters: &'a [T],
}

/// A block; see the module.
struct Kernel<'a, T> {
    x: &'a [T],
    shape: Shape,
    expand: Option<Expansion<'a, T>>,
    /// The depthwise convolution's.
    filters: &'a [T],
    project: Option<Projection<'a, T>>,
}

/// A part of a sample's output: some rows of some of its planes, or of all planes of a projection.
struct Band<'a, T> {
    sample: usize,
    rows: Range<usize>,
    /// The channels of the middle that it is computed from.
    channels: Range<usize>,
    planes: Vec<Part<'a, T>>,
}

/// Buffers that a thread reuses for all its bands.
#[derive(Default)]
struct Scratch<T> {
    /// Some channels of the expanded map.
    expanded: Vec<T>,
    /// One of them, normalised.
    read: Vec<T>,
    /// A channel of the middle.
    convolved: Vec<T>,
    /// All of them, normalised.
    middle: Vec<T>,
    /// The band of the output.
    product: Vec<T>,
}

impl<T: Stored> Kernel<'_, T> {
    fn forward(&self) -> Elements<T> {
        let Geometry { batch, .. } = self.shape.depthwise;
        let mut y = Making::wide(batch * self.shape.made() * self.shape.depthwise.out_plane());
        bands(&self.shape, &mut y).into_par_iter().for_each_init(Scratch::default, |scratch, band| {
            match &self.project {
                Some(project) => self.projected(project, band, scratch),
                None => self.convolved(band, scratch),
            }
        });
        y.made()
    }

    /// Computes a band of the middle.
    fn convolved(&self, band: Band<'_, T>, scratch: &mut Scratch<T>) {
        let read = self.shape.read(&band.rows);
        let mut planes = band.planes.into_iter();
        self.each_channel(band.sample, band.channels, &read, scratch, |channel, x, buffer, _| {
            let Some(plane) = planes.next() else { return };
            write(plane, |plane| read.depthwise.forward(channel, x, self.filters, plane, buffer));
        });
    }

    /// Computes a band of the projection.
    fn projected(&self, project: &Projection<'_, T>, band: Band<'_, T>, scratch: &mut Scratch<T>) {
        let read = self.shape.read(&band.rows);
        let (channels, pixels) = (band.channels.len(), read.depthwise.out_plane());
        let (mut middle, mut product) = (std::mem::take(&mut scratch.middle), std::mem::take(&mut scratch.product));
        middle.resize(channels * pixels, T::of(0.0));
        self.each_channel(band.sample, band.channels, &read, scratch, |channel, x, buffer, convolved| {
            convolved.resize(pixels, T::of(0.0));
            read.depthwise.forward(channel, x, self.filters, convolved, buffer);
            project.before.apply(channel, convolved, &mut middle[channel * pixels..][..pixels]);
        });
        product.resize(self.shape.output * pixels, T::of(0.0));
        let filters = Matrix::of(project.filters, self.shape.output, channels);
        let columns = Matrix::of(&middle, channels, pixels);
        multiply(&mut product, pixels, Mode::Replace, filters, columns, Threads::One);
        for (plane, product) in band.planes.into_iter().zip(product.chunks_exact(pixels)) {
            write(plane, |plane| plane.copy_from_slice(product));
        }
        (scratch.middle, scratch.product) = (middle, product);
    }

    /// Calls `work` for each channel with its number, the rows that the band reads of it, a buffer for the depthwise convolution and one
    /// for its result.
    fn each_channel(
        &self,
        sample: usize,
        channels: Range<usize>,
        read: &Read,
        scratch: &mut Scratch<T>,
        mut work: impl FnMut(usize, &[T], &mut depthwise::Scratch<T>, &mut Vec<T>),
    ) {
        let (input, plane, pixels) = (self.shape.input, self.shape.depthwise.in_plane(), read.depthwise.in_plane());
        let x = &self.x[sample * input * plane..][..input * plane];
        let Scratch { expanded, read: normalised, convolved, .. } = scratch;
        // The zeros around a plane are at other places in every band.
        let mut buffer = depthwise::Scratch::default();
        let Some(expand) = &self.expand else {
            return channels.for_each(|channel| {
                work(channel, &x[channel * plane + read.first..][..pixels], &mut buffer, convolved);
            });
        };
        let at_once = self.shape.channels_at_once().min(channels.len());
        expanded.resize(at_once * pixels, T::of(0.0));
        normalised.resize(pixels, T::of(0.0));
        let rows = Matrix::of_rows(&x[read.first..], input, pixels, plane);
        for first in channels.clone().step_by(at_once) {
            let some = first..(first + at_once).min(channels.end);
            let filters = Matrix::of(&expand.filters[first * input..], some.len(), input);
            multiply(expanded, pixels, Mode::Replace, filters, rows, Threads::One);
            for (index, channel) in some.enumerate() {
                expand.then.apply(channel, &expanded[index * pixels..][..pixels], normalised);
                work(channel, normalised, &mut buffer, convolved);
            }
        }
    }
}

/// Lets `work` write a part of the output.
fn write<T: Stored>(part: Part<'_, T>, work: impl FnOnce(&mut [T])) {
    part.begin(Threads::One).write(&mut Vec::new(), Before::Anything, Threads::One, work);
}

/// Divides an output into bands, sample by sample. Bands of the middle are of as many channels as are expanded at a time, those of a
/// projection come from all channels.
fn bands<'a, T: Stored>(shape: &Shape, y: &'a mut Making<T>) -> Vec<Band<'a, T>> {
    let Geometry { channels, out: [height, width], .. } = shape.depthwise;
    let each = shape.band_rows(rayon::current_num_threads());
    let (from, planes) = match shape.output {
        0 => (shape.channels_at_once(), shape.channels_at_once()),
        output => (channels, output),
    };
    let mut all = Vec::new();
    for (sample, y) in y.parts((shape.made() * height * width).max(1)).into_iter().enumerate() {
        let first = all.len();
        for start in (0..height).step_by(each) {
            let rows = start..(start + each).min(height);
            let groups = (0..channels).step_by(from).map(|start| start..(start + from).min(channels));
            all.extend(groups.map(|channels| Band { sample, rows: rows.clone(), channels, planes: Vec::new() }));
        }
        for (number, plane) in y.parts(height * width).into_iter().enumerate() {
            let of_group = all[first + number / planes..].iter_mut().step_by(channels.div_ceil(from));
            of_group.zip(plane.parts(each * width)).for_each(|(band, rows)| band.planes.push(rows));
        }
    }
    all
}
