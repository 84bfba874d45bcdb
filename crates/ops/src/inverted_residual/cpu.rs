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
use crate::cpu::factors::{self, Part, packed};
use crate::cpu::gemm::{Matrix, Mode, Threads, apart};
use crate::cpu::gemm_bf16::Left;
use crate::cpu::making::{self, Making};
use crate::cpu::panels;
use crate::cpu::real::Real;
use crate::cpu::reserve;
use crate::cpu::values::{Before, Elements, Source, Stored, computed_in, contiguous, dims, tensor, values};
use crate::deferred::cpu::normalisation::NormAct;
use crate::deferred::cpu::reading::normalise;

impl InvertedResiduals for Flex {
    fn expanded_depthwise(x: FlexTensor, expand: Layer<Self>, filters: FlexTensor, places: Places) -> FlexTensor {
        let shape = Shape::of(&x, &filters, places, 0);
        shape.reserve(x.dtype());
        computed_in!(T = x.dtype(); {
            let (x, of_expansion, filters) = (contiguous(&x), values(&expand.filters), values(&filters));
            let x = x.source();
            let expand = Some(Expansion::new(&of_expansion, expand.normed(), &shape, x));
            let y = Kernel::<T> { x, shape, expand, filters: &filters, project: None }.forward();
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
            let (x, filters, project) = (contiguous(&x), values(&depthwise.filters), values(&project));
            let x = x.source();
            let of_expansion = match &expand {
                MaybeExpanded::By(layer) => Some((layer, values(&layer.filters))),
                MaybeExpanded::No => None,
            };
            let expand =
                of_expansion.as_ref().map(|(layer, filters)| Expansion::new(filters, layer.normed(), &shape, x));
            let project = Some(Projection::new(&project, depthwise.normed(), &shape, x));
            let y = Kernel::<T> { x, shape, expand, filters: &filters, project }.forward();
            tensor(y, [batch, output, rows, columns])
        })
    }
}

impl Shape {
    fn of(x: &FlexTensor, filters: &FlexTensor, places: Places, output: usize) -> Self {
        let ([batch, input, height, width], [channels, ..]) = (dims(x), dims(filters));
        let depthwise = Geometry::of([batch, channels, height, width], filters, places);
        Self { input, depthwise, output, format: x.dtype() }
    }

    /// Reserves memory for the output and for what the threads hold.
    fn reserve(&self, dtype: DType) {
        let numbers = self.described().scratch(dtype) / size_of::<f32>() * rayon::current_num_threads();
        reserve(numbers, if dtype == DType::F64 { dtype } else { DType::F32 });
        reserve(self.depthwise.batch * self.made() * self.depthwise.out_plane(), dtype);
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

/// The filters of a 1x1 convolution, some of which are used at a time.
struct Filters<'a, T> {
    /// `[output, input]`.
    rows: &'a [T],
    input: usize,
    /// So many at a time.
    each: usize,
    /// The same, packed, where the map is multiplied as it is stored.
    packed: Vec<Left>,
}

impl<'a, T: Stored> Filters<'a, T> {
    fn new(rows: &'a [T], input: usize, each: usize, halved: bool) -> Self {
        let some = |rows: &[T]| packed(Matrix::of(rows, rows.len() / input, input));
        let packed = if halved { rows.chunks(each * input).map(some).collect() } else { Vec::new() };
        Self { rows, input, each, packed }
    }

    /// Those of some outputs, which begin where some of them do.
    fn part(&self, outputs: Range<usize>) -> factors::Filters<'_, T> {
        match self.packed.get(outputs.start / self.each) {
            Some(left) => factors::Filters::Packed(left),
            None => {
                let rows = &self.rows[outputs.start * self.input..];
                factors::Filters::Plain(Matrix::of(rows, outputs.len(), self.input))
            }
        }
    }
}

/// The filters of an expansion.
enum Expanding<'a, T> {
    Plain(Filters<'a, T>),
    /// For pixels in panels.
    Panels(panels::Filters),
}

/// What is before the depthwise convolution.
struct Expansion<'a, T> {
    filters: Expanding<'a, T>,
    then: Normed<T>,
}

impl<'a, T: Stored> Expansion<'a, T> {
    /// With filters `[channels, input]`.
    fn new(filters: &'a [T], then: Normed<T>, shape: &Shape, x: Source<'_, T>) -> Self {
        let filters = if shape.expands_in_panels() {
            Expanding::Panels(panels::Filters::new(Matrix::of(filters, shape.depthwise.channels, shape.input)))
        } else {
            Expanding::Plain(Filters::new(filters, shape.input, shape.channels_at_once(), x.multiplies_halves()))
        };
        Self { filters, then }
    }
}

/// What follows the depthwise convolution.
struct Projection<'a, T> {
    before: Normed<T>,
    filters: Filters<'a, T>,
}

impl<'a, T: Stored> Projection<'a, T> {
    /// With filters `[output, channels]`.
    fn new(filters: &'a [T], before: Normed<T>, shape: &Shape, x: Source<'_, T>) -> Self {
        let filters = Filters::new(filters, shape.depthwise.channels, shape.output, x.multiplies_halves());
        Self { before, filters }
    }
}

/// A block; see the module.
struct Kernel<'a, T> {
    x: Source<'a, T>,
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
    planes: Vec<making::Part<'a, T>>,
}

/// Buffers that a thread reuses for bands that follow each other.
#[derive(Default)]
struct Scratch<T> {
    /// The pixels that are expanded, where they are multiplied in panels.
    packed: panels::Pixels,
    /// Some channels of the expanded map.
    expanded: Vec<T>,
    /// One of them, normalised; or a channel of the input.
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
        let mut y = Making::like(self.x, batch * self.shape.made() * self.shape.depthwise.out_plane());
        let bands = bands(&self.shape, &mut y);
        // Buffers are filled with zeros when they are made, so they are to serve several bands.
        let several = bands.len().div_ceil(4 * rayon::current_num_threads());
        bands.into_par_iter().with_min_len(several).for_each_init(Scratch::default, |scratch, band| {
            match &self.project {
                Some(project) => self.projected(project, band, scratch),
                None => self.convolved(band, scratch),
            }
        });
        y.made()
    }

    /// Rounds what layers that are computed one by one would store in the format of the map.
    fn store(&self, made: &mut [T]) {
        if let Source::Halves(half, _) = self.x {
            T::nearest(half, made);
        }
    }

    /// Computes a band of the middle.
    fn convolved(&self, band: Band<'_, T>, scratch: &mut Scratch<T>) {
        let read = self.shape.read(&band.rows);
        let mut planes = band.planes.into_iter();
        self.each_channel(band.sample, band.channels, &read, scratch, |channel, x, buffer, convolved| {
            let Some(plane) = planes.next() else { return };
            write(plane, convolved, |plane| read.depthwise.forward(channel, x, self.filters, plane, buffer));
        });
    }

    /// Computes a band of the projection.
    fn projected(&self, project: &Projection<'_, T>, band: Band<'_, T>, scratch: &mut Scratch<T>) {
        let read = self.shape.read(&band.rows);
        let (channels, pixels) = (band.channels.len(), read.depthwise.out_plane());
        let (mut middle, mut product) = (std::mem::take(&mut scratch.middle), std::mem::take(&mut scratch.product));
        let stride = apart(pixels);
        middle.resize(channels * stride, T::of(0.0));
        self.each_channel(band.sample, band.channels, &read, scratch, |channel, x, buffer, convolved| {
            convolved.resize(pixels, T::of(0.0));
            read.depthwise.forward(channel, x, self.filters, convolved, buffer);
            self.store(convolved);
            project.before.apply(channel, convolved, &mut middle[channel * stride..][..pixels]);
        });
        product.resize(self.shape.output * pixels, T::of(0.0));
        let columns = Part::Wide(Matrix::of_rows(&middle, channels, pixels, stride));
        let filters = project.filters.part(0..self.shape.output);
        filters.multiply(&mut product, pixels, Mode::Replace, columns, Threads::One);
        for (plane, product) in band.planes.into_iter().zip(product.chunks_exact(pixels)) {
            write(plane, &mut scratch.convolved, |plane| plane.copy_from_slice(product));
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
        let x = self.x.chunk(sample, input * plane);
        let Scratch { packed, expanded, read: normalised, convolved, .. } = scratch;
        // The zeros around a plane are at other places in every band.
        let mut buffer = depthwise::Scratch::default();
        let Some(expand) = &self.expand else {
            return channels.for_each(|channel| {
                let first = channel * plane + read.first;
                work(channel, x.part(first..first + pixels).read(normalised, Threads::One), &mut buffer, convolved);
            });
        };
        let (at_once, stride) = (self.shape.channels_at_once().min(channels.len()), apart(pixels));
        expanded.resize(at_once * stride, T::of(0.0));
        normalised.resize(pixels, T::of(0.0));
        // No map with bands is widened before it is multiplied.
        let mut wide = Vec::new();
        let rows = x.factor(plane, read.first..read.first + pixels, &mut wide, Threads::One);
        if let (Expanding::Panels(_), Part::Wide(rows)) = (&expand.filters, rows) {
            packed.pack(rows);
        }
        for first in channels.clone().step_by(at_once) {
            let some = first..(first + at_once).min(channels.end);
            match &expand.filters {
                Expanding::Panels(filters) => panels::multiply(expanded, stride, (filters, some.clone()), packed),
                Expanding::Plain(filters) => {
                    filters.part(some.clone()).multiply(expanded, stride, Mode::Replace, rows, Threads::One);
                }
            }
            self.store(&mut expanded[..some.len() * stride]);
            for (index, channel) in some.enumerate() {
                expand.then.apply(channel, &expanded[index * stride..][..pixels], normalised);
                work(channel, normalised, &mut buffer, convolved);
            }
        }
    }
}

/// Lets `work` write a part of the output, in a buffer if it is rounded from there.
fn write<T: Stored>(part: making::Part<'_, T>, buffer: &mut Vec<T>, work: impl FnOnce(&mut [T])) {
    part.begin(Threads::One).write(buffer, Before::Anything, Threads::One, work);
}

/// Divides an output into bands, sample by sample. Those of a projection come from all channels, bands of the middle from some
/// ([`Shape::channels_of_band`]).
fn bands<'a, T: Stored>(shape: &Shape, y: &'a mut Making<T>) -> Vec<Band<'a, T>> {
    let Geometry { channels, out: [height, width], .. } = shape.depthwise;
    let threads = rayon::current_num_threads();
    let (each, of_band) = (shape.band_rows(threads), shape.channels_of_band(threads));
    let (from, planes) = if shape.output == 0 { (of_band, of_band) } else { (channels, shape.output) };
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
