//! Inverted residual blocks on the CPU, band by band.
//!
//! A thread takes a band of output rows of a sample ([`super::bands`]). It expands the input rows under them, a few channels at a time,
//! and normalises and convolves each of these, a few rows at a time. The result is normalised. Without a projection it is the output, and the
//! rows of its planes are added up; with one, a buffer holds all channels of the band, and the projection is one matrix product, which is
//! normalised, and the shortcut added, where it is written. Where maps of bf16 are multiplied as they are
//! stored, both of these buffers are bf16, too: products round what they write, and normalising rounds what the projection would.

use std::ops::Range;

use burn::backend::Flex;
use burn::tensor::DType;
use burn_flex::FlexTensor;
use rayon::prelude::*;

use super::bands::{Read, Shape};
use super::products::{Middle, Prepared, kept};
use super::{InvertedResiduals, MaybeExpanded};
use crate::convolution::Places;
use crate::convolution::cpu::depthwise::{self, Geometry, Plane, Split, written};
use crate::cpu::elements::AsStored;
use crate::cpu::factors::{Filters, Part};
use crate::cpu::gemm::{Threads, apart};
use crate::cpu::gemm_bf16::Right;
use crate::cpu::lanes::{ROWS_SUMMED, mean_of_rows, sums_of_rows};
use crate::cpu::making::{self, Making};
use crate::cpu::panels;
use crate::cpu::parts::{parts, parts_of};
use crate::cpu::pool::Pool;
use crate::cpu::reserve;
use crate::cpu::tensors::{Contiguous, Values, computed_in, contiguous, dims, tensor, values};
use crate::cpu::values::{Elements, Source, Stored};
use crate::deferred::cpu::epilogue::Epilogue;
use crate::normed_convolution::{Layer, Normed, Shortcut};

impl InvertedResiduals for Flex {
    fn expanded_depthwise(
        x: FlexTensor,
        expand: Layer<Self>,
        depthwise: Layer<Self>,
        places: Places,
    ) -> (FlexTensor, FlexTensor) {
        let shape = Shape::of(&x, &depthwise.filters, places, 0);
        shape.reserve(x.dtype());
        computed_in!(T = x.dtype(); {
            let (x, of_expansion, filters) = (contiguous(&x), values(&expand.filters), values(&depthwise.filters));
            let x = x.source();
            let expand = Some(Expansion::new(&of_expansion, expand.normed(shape.format), &shape));
            let then = Then::Squeeze(depthwise.normed(shape.format));
            let (y, sums) = Kernel::<T> { x, shape, expand, filters: &filters, then }.forward();
            let means = sums.chunks(shape.sums()).map(|sums| mean_of_rows(sums, shape.depthwise.out_plane()));
            let [batch, channels, ..] = shape.depthwise.output();
            (tensor(y, shape.depthwise.output()), tensor(means.collect::<Vec<T>>(), [batch, channels]))
        })
    }

    fn inverted_residual(
        x: FlexTensor,
        expand: MaybeExpanded<Self>,
        depthwise: Layer<Self>,
        places: Places,
        project: Layer<Self>,
        shortcut: Shortcut<Self>,
    ) -> FlexTensor {
        let [output, ..] = dims(&project.filters);
        let shortcut = shortcut.contiguous();
        let shape = Shape::of(&x, &depthwise.filters, places, output);
        let [batch, _, rows, columns] = shape.depthwise.output();
        shape.reserve(x.dtype());
        computed_in!(T = x.dtype(); {
            let (x, filters, of_projection) = (contiguous(&x), values(&depthwise.filters), values(&project.filters));
            let x = x.source();
            let of_expansion = match &expand {
                MaybeExpanded::By(layer) => Some((layer, values(&layer.filters))),
                MaybeExpanded::No => None,
            };
            let expand =
                of_expansion.as_ref().map(|(layer, filters)| Expansion::new(filters, layer.normed(shape.format), &shape));
            let made = [batch, output, rows, columns];
            let after = project.epilogue(made, shape.format, shortcut.as_ref().map(Contiguous::source));
            let then = Then::Project(Projection::new(&of_projection, depthwise.normed(shape.format), after, &shape));
            let (y, _) = Kernel::<T> { x, shape, expand, filters: &filters, then }.forward();
            tensor(y, made)
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
        reserve(self.depthwise.batch * self.depthwise.channels * self.sums(), DType::F64);
    }

    /// Sums of rows of a plane of the output that there are without a projection.
    fn sums(&self) -> usize {
        if self.output > 0 { 0 } else { self.depthwise.out[0].div_ceil(ROWS_SUMMED) }
    }

    /// Channels of the output.
    fn made(&self) -> usize {
        if self.output > 0 { self.output } else { self.depthwise.channels }
    }
}

/// What is before the depthwise convolution.
struct Expansion<'a, T> {
    /// `[channels, input]`.
    filters: Prepared<'a, T>,
    then: Normed<T>,
}

impl<'a, T: Stored> Expansion<'a, T> {
    fn new(filters: &'a Values<T>, then: Normed<T>, shape: &Shape) -> Self {
        let size = [shape.depthwise.channels, shape.input];
        Self { filters: Prepared::new(filters, size, shape.expansion()), then }
    }
}

/// What follows the depthwise convolution.
struct Projection<'a, T> {
    before: Normed<T>,
    /// `[output, channels]`.
    filters: Prepared<'a, T>,
    after: Epilogue<'a, T>,
}

impl<'a, T: Stored> Projection<'a, T> {
    fn new(filters: &'a Values<T>, before: Normed<T>, after: Epilogue<'a, T>, shape: &Shape) -> Self {
        let size = [shape.output, shape.depthwise.channels];
        Self { before, filters: Prepared::new(filters, size, shape.projection()), after }
    }
}

/// What becomes of the depthwise convolution's output.
enum Then<'a, T> {
    /// Normalised, it is the output, and its planes are added up.
    Squeeze(Normed<T>),
    Project(Projection<'a, T>),
}

/// A block; see the module.
struct Kernel<'a, T> {
    x: Source<'a, T>,
    shape: Shape,
    expand: Option<Expansion<'a, T>>,
    /// The depthwise convolution's.
    filters: &'a [T],
    then: Then<'a, T>,
}

/// A part of a sample's output: some rows of some of its planes, or of all planes of a projection.
struct Band<'a, T> {
    sample: usize,
    rows: Range<usize>,
    /// The channels of the middle that it is computed from.
    channels: Range<usize>,
    planes: Vec<making::Part<'a, T>>,
    /// Of each of these planes, if there are any.
    sums: Vec<&'a mut [f64]>,
}

/// A channel of a band, as the depthwise convolution reads it.
enum Channel<'a, T> {
    /// Of the input.
    There(Source<'a, T>),
    /// Of the expanded map, which is normalised while it is read.
    Expanded(Source<'a, T>, &'a Normed<T>, usize),
}

impl<T: Stored> Plane<T> for Channel<'_, T> {
    fn write(&self, pixels: Range<usize>, to: &mut [T]) {
        match self {
            Self::There(x) => x.write(pixels, to),
            Self::Expanded(x, then, channel) => then.apply(*channel, x.part(pixels), to),
        }
    }

    fn pixels<'b>(&'b self, pixels: Range<usize>, buffer: &'b mut Vec<T>) -> &'b [T] {
        match self {
            Self::There(x) => x.pixels(pixels, buffer),
            Self::Expanded(..) => written(self, pixels, buffer),
        }
    }

    fn split(&self, pixels: Range<usize>, to: &mut [T], split: &Split, buffer: &mut Vec<T>) {
        match self {
            Self::There(x) => x.split(pixels, to, split, buffer),
            Self::Expanded(x, then, channel) => then.split(*channel, x.part(pixels), to, split, buffer),
        }
    }
}

/// Buffers of a band.
struct Scratch<T> {
    /// The pixels that are expanded, where they are packed.
    panels: panels::Pixels,
    halves: Right,
    /// Some channels of the expanded map, as the layers would store it.
    expanded: Elements<T>,
    depthwise: depthwise::Scratch<T>,
    /// Rows of a channel of the middle, and what they are after the normalisation: numbers, or as they are stored.
    convolved: Vec<T>,
    normalised: Vec<T>,
    bits: Vec<u16>,
    /// All channels of it, before a projection.
    middle: Option<Middle<T>>,
    /// The band of the output.
    product: Elements<T>,
    /// Numbers that are to be rounded, or were widened.
    wide: Vec<T>,
}

impl<T: Stored> Scratch<T> {
    /// For a block whose map is `x`.
    fn new(x: Source<'_, T>, shape: &Shape) -> Self {
        Self {
            panels: panels::Pixels::default(),
            halves: Right::default(),
            expanded: kept(x, shape.format),
            depthwise: depthwise::Scratch::default(),
            convolved: Vec::new(),
            normalised: Vec::new(),
            bits: Vec::new(),
            middle: (shape.output > 0).then(|| Middle::new(x, shape.format, shape.projection())),
            product: kept(x, shape.format),
            wide: Vec::new(),
        }
    }

    /// Packs some pixels of each plane into panels.
    fn pack(&mut self, x: Source<'_, T>, plane: usize, pixels: Range<usize>) {
        let planes = x.len() / plane;
        self.panels.begin(planes, pixels.len());
        for row in 0..planes {
            let of_row = x.part(row * plane + pixels.start..row * plane + pixels.end);
            self.panels.put(row, 0, of_row.read(&mut self.wide, Threads::One));
        }
    }
}

impl<T: Stored> Kernel<'_, T> {
    /// The output, and the sums of rows of its planes ([`Shape::sums`]).
    fn forward(&self) -> (Elements<T>, Vec<f64>) {
        let Geometry { batch, channels, .. } = self.shape.depthwise;
        let mut y = Making::like(self.x, batch * self.shape.made() * self.shape.depthwise.out_plane());
        let mut sums = vec![0.0; batch * channels * self.shape.sums()];
        let bands = bands(&self.shape, &mut y, &mut sums);
        let scratch = Pool::default();
        bands.into_par_iter().for_each(|band| {
            let work = |scratch: &mut Scratch<T>| match &self.then {
                Then::Project(project) => self.projected(project, band, scratch),
                Then::Squeeze(normed) => self.squeezed(normed, band, scratch),
            };
            scratch.lend(|| Scratch::new(self.x, &self.shape), work);
        });
        (y.made(), sums)
    }

    /// Rounds what layers that are computed one by one would store in the format of the map.
    fn store(&self, made: &mut [T]) {
        if let Source::Halves(half, _) = self.x {
            T::nearest(half, made);
        }
    }

    /// Computes a band of the middle, and the sums of its rows as they are stored.
    fn squeezed(&self, normed: &Normed<T>, band: Band<'_, T>, scratch: &mut Scratch<T>) {
        let read = self.shape.read(&band.rows);
        let (piece, [_, width]) = (read.depthwise.piece(), read.depthwise.out);
        let mut planes = band.planes.into_iter().zip(band.sums);
        let mut normalised = std::mem::take(&mut scratch.normalised);
        let mut bits = std::mem::take(&mut scratch.bits);
        self.each_channel(band.sample, band.channels, &read, scratch, |channel, x, buffer, convolved| {
            let Some((plane, sums)) = planes.next() else { return };
            let mut pieces = plane.parts(piece);
            read.depthwise.forward(channel, x, self.filters, buffer, &mut |pixels, work| {
                let Some(piece) = pieces.next() else { return };
                convolved.resize(pixels.len(), T::of(0.0));
                work(convolved);
                let (sums, mut piece) = (&mut sums[pixels.start / width / ROWS_SUMMED..], piece.begin(Threads::One));
                match self.x {
                    Source::Halves(half, _) if self.x.multiplies_halves() => {
                        bits.resize(pixels.len(), 0);
                        normed.apply_stored(channel, convolved, &mut bits);
                        sums_of_rows(&bits, width, sums, AsStored::<T>::widened);
                        piece.copy(Source::Halves(half, &bits));
                    }
                    _ => {
                        normalised.resize(pixels.len(), T::of(0.0));
                        self.store(convolved);
                        normed.apply(channel, Source::Same(convolved), &mut normalised);
                        self.store(&mut normalised);
                        sums_of_rows(
                            &normalised,
                            width,
                            sums,
                            #[inline(always)]
                            |number| number,
                        );
                        piece.copy(Source::Same(&normalised));
                    }
                }
            });
        });
        (scratch.normalised, scratch.bits) = (normalised, bits);
    }

    /// Computes a band of the projection.
    fn projected(&self, project: &Projection<'_, T>, band: Band<'_, T>, scratch: &mut Scratch<T>) {
        let read = self.shape.read(&band.rows);
        let pixels = read.depthwise.out_plane();
        let Some(mut middle) = scratch.middle.take() else { return };
        middle.begin(band.channels.len(), pixels);
        self.each_channel(band.sample, band.channels, &read, scratch, |channel, x, buffer, convolved| {
            read.depthwise.forward(channel, x, self.filters, buffer, &mut |pixels, work| {
                convolved.resize(pixels.len(), T::of(0.0));
                work(convolved);
                middle.put(&project.before, channel, pixels.start, convolved, |made| self.store(made));
            });
        });
        let Scratch { product, wide, .. } = &mut *scratch;
        middle.multiply(&project.filters, [self.shape.output, pixels], product, wide);
        for (number, plane) in band.planes.into_iter().enumerate() {
            let (index, first) = (band.sample * self.shape.output + number, band.rows.start * read.depthwise.out[1]);
            project.after.write(index, first, product.source().chunk(number, pixels), plane.begin(Threads::One));
        }
        scratch.middle = Some(middle);
    }

    /// Calls `work` for each channel with its number, its rows that the band reads, buffers of the depthwise convolution and one for its
    /// result.
    fn each_channel(
        &self,
        sample: usize,
        channels: Range<usize>,
        read: &Read,
        scratch: &mut Scratch<T>,
        mut work: impl FnMut(usize, &Channel<'_, T>, &mut depthwise::Scratch<T>, &mut Vec<T>),
    ) {
        let (input, plane, pixels) = (self.shape.input, self.shape.depthwise.in_plane(), read.depthwise.in_plane());
        let x = self.x.chunk(sample, input * plane);
        let Some(expand) = &self.expand else {
            return channels.for_each(|channel| {
                let first = channel * plane + read.first;
                let channel_of_x = Channel::There(x.part(first..first + pixels));
                work(channel, &channel_of_x, &mut scratch.depthwise, &mut scratch.convolved);
            });
        };
        let stride = apart(pixels);
        let mut none = Vec::new();
        let of_band = read.first..read.first + pixels;
        let rows = match &expand.filters {
            Prepared::Panels(_) => {
                scratch.pack(x, plane, of_band);
                None
            }
            // Nothing is widened: the map is of the type that is computed in, or multiplied as it is.
            Prepared::Halves(_) | Prepared::Plain(_) => Some(x.factor(plane, of_band, &mut none, Threads::One)),
        };
        if let Some(Part::Halves(rows)) = rows {
            scratch.halves.pack(rows);
        }
        let at_once = self.shape.channels_at_once().min(channels.len());
        for some in parts_of(channels, at_once) {
            self.expand(expand, some.clone(), rows, stride, scratch);
            let Scratch { expanded, depthwise, convolved, .. } = &mut *scratch;
            for (index, channel) in some.enumerate() {
                let x = expanded.source().part(index * stride..index * stride + pixels);
                work(channel, &Channel::Expanded(x, &expand.then, channel), depthwise, convolved);
            }
        }
    }

    /// Expands some channels of a band: into rows that begin so many numbers apart.
    fn expand(
        &self,
        expand: &Expansion<'_, T>,
        channels: Range<usize>,
        rows: Option<Part<'_, T>>,
        stride: usize,
        scratch: &mut Scratch<T>,
    ) {
        let Scratch { panels, halves, expanded, wide, .. } = scratch;
        expanded.resize(channels.len() * stride);
        match (&expand.filters, &mut *expanded, rows) {
            (Prepared::Halves(filters), Elements::Halves(_, bits), _) => {
                filters.write_rows(channels, halves, bits, stride);
            }
            (Prepared::Panels(filters), Elements::Same(values), _) => {
                panels::multiply(values, stride, (filters, channels), panels);
                self.store(values);
            }
            (Prepared::Plain(filters), expanded, Some(rows)) => {
                let (mut target, columns) = (expanded.target(), 0..rows.columns());
                let factors = (Filters::Plain(filters.some_rows(channels)), rows);
                target.multiply_columns(stride, columns, factors, wide, Threads::One);
            }
            _ => unreachable!("filters are prepared for the format of the map"),
        }
    }
}

/// Divides an output into bands, sample by sample. Those of a projection come from all channels, bands of the middle from some
/// ([`Shape::channels_of_band`]).
fn bands<'a, T: Stored>(shape: &Shape, y: &'a mut Making<T>, sums: &'a mut [f64]) -> Vec<Band<'a, T>> {
    let Geometry { channels, out: [height, width], .. } = shape.depthwise;
    let threads = rayon::current_num_threads();
    let (each, of_band) = (shape.band_rows(threads), shape.channels_of_band(threads));
    let (from, planes) = if shape.output == 0 { (of_band, of_band) } else { (channels, shape.output) };
    let (mut all, mut sums) = (Vec::new(), sums.chunks_mut(shape.sums().max(1)));
    for (sample, y) in y.parts((shape.made() * height * width).max(1)).into_iter().enumerate() {
        let first = all.len();
        for rows in parts(height, each) {
            all.extend(parts(channels, from).map(|channels| Band {
                sample,
                rows: rows.clone(),
                channels,
                planes: Vec::new(),
                sums: Vec::new(),
            }));
        }
        for (number, plane) in y.parts(height * width).enumerate() {
            let of_group = all[first + number / planes..].iter_mut().step_by(channels.div_ceil(from));
            let mut sums = sums.next().unwrap_or_default().chunks_mut(each.div_ceil(ROWS_SUMMED));
            of_group.zip(plane.parts(each * width)).for_each(|(band, rows)| {
                band.planes.push(rows);
                band.sums.extend(sums.next());
            });
        }
    }
    all
}
