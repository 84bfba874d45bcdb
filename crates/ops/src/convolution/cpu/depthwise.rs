//! Depthwise convolution and its two gradients, one plane at a time.
//!
//! A plane is first copied into a buffer that has zeros around it and in which the columns of a row are grouped by their remainder
//! modulo the stride, into "phases". Output column `o` and kernel column `k` then meet at position `o + k / stride` of phase
//! `k % stride`. So the distance in memory from an output pixel to a tap is the same for all output pixels, at any stride, and
//! neighbouring outputs read neighbouring inputs: [`super::correlate`] needs no gathers.
//!
//! A plane with its buffer is often larger than a first-level cache. So a few rows are made, copied, convolved and given on, before the next
//! are ([`PIECE`]).

use std::ops::Range;

use burn_flex::FlexTensor;
use rayon::prelude::*;

use super::correlate::{ROWS, Rows, SLACK, SUMMED, Tap, add_products, correlate};
use super::surrounded::{Surrounded, whole_lines};
use crate::convolution::Places;
use crate::cpu::gemm::Threads;
use crate::cpu::lanes::{deal, interleave};
use crate::cpu::making::{Making, Part};
use crate::cpu::parts::parts;
use crate::cpu::real::Real;
use crate::cpu::values::{Before, Elements, Source, Stored};

/// Pixels of a plane that are made and convolved at a time, about: 8 KiB of float32.
const PIECE: usize = 2048;
/// The fewest pixels of a row that is widened into its place. Shorter ones are copied there, from rows that are widened together.
const WIDE: usize = 64;

/// A plane that is convolved.
pub(crate) trait Plane<T> {
    /// Writes some of its pixels to as many places.
    fn write(&self, pixels: Range<usize>, to: &mut [T]);

    /// Some of its pixels: where they are, or in a buffer.
    fn pixels<'b>(&'b self, pixels: Range<usize>, buffer: &'b mut Vec<T>) -> &'b [T];

    /// Writes whole rows of it to a buffer in which they are split.
    fn split(&self, pixels: Range<usize>, to: &mut [T], split: &Split, buffer: &mut Vec<T>)
    where
        T: Real,
    {
        split.copy(self.pixels(pixels, buffer), to);
    }
}

/// How rows of a plane lie in a buffer with more columns, in phases.
#[derive(Clone, Copy)]
pub(crate) struct Split {
    /// Pixels of a row.
    pub(crate) width: usize,
    pub(crate) stride: usize,
    /// The column that a row begins in.
    pub(crate) left: usize,
    /// The length of a phase. Columns beyond the phases are left out.
    pub(crate) phase: usize,
}

impl Split {
    /// From one row of the buffer to the next.
    pub(crate) fn pitch(&self) -> usize {
        self.stride * self.phase
    }

    /// Pixels of a row that have a place with a stride of 1.
    pub(crate) fn kept(&self) -> usize {
        self.width.min(self.phase.saturating_sub(self.left))
    }

    /// Where the pixels of a row go in turn with a stride of 2, as far as there is room.
    #[inline(always)]
    pub(crate) fn phases<'a, T>(&self, row: &'a mut [T]) -> [&'a mut [T]; 2] {
        let (even, odd) = row.split_at_mut(self.phase);
        let (even, odd) = (&mut even[self.left.div_ceil(2)..], &mut odd[self.left / 2..]);
        if self.left.is_multiple_of(2) { [even, odd] } else { [odd, even] }
    }

    /// Copies rows to rows of the buffer.
    pub(crate) fn copy<T: Real>(&self, rows: &[T], to: &mut [T]) {
        for (row, to) in rows.chunks_exact(self.width).zip(to.chunks_exact_mut(self.pitch())) {
            match self.stride {
                1 => to[self.left..self.left + self.kept()].copy_from_slice(&row[..self.kept()]),
                2 => {
                    let [first, second] = self.phases(to);
                    deal(row, first, second);
                }
                stride => {
                    for (column, value) in row.iter().enumerate().map(|(column, value)| (column + self.left, value)) {
                        if let Some(to) = to[column % stride * self.phase..][..self.phase].get_mut(column / stride) {
                            *to = *value;
                        }
                    }
                }
            }
        }
    }
}

/// Some pixels of a plane, written to a buffer.
pub(crate) fn written<'a, T: Real>(plane: &impl Plane<T>, pixels: Range<usize>, buffer: &'a mut Vec<T>) -> &'a [T] {
    buffer.resize(pixels.len(), T::of(0.0));
    plane.write(pixels, buffer);
    buffer
}

impl<T: Stored> Plane<T> for Source<'_, T> {
    fn write(&self, pixels: Range<usize>, to: &mut [T]) {
        self.part(pixels).copy_to(to, Threads::One);
    }

    fn pixels<'b>(&'b self, pixels: Range<usize>, buffer: &'b mut Vec<T>) -> &'b [T] {
        self.part(pixels).read(buffer, Threads::One)
    }

    fn split(&self, pixels: Range<usize>, to: &mut [T], split: &Split, buffer: &mut Vec<T>) {
        if split.stride > 1 || split.width < WIDE {
            return split.copy(self.pixels(pixels, buffer), to);
        }
        for (row, to) in pixels.step_by(split.width).zip(to.chunks_exact_mut(split.pitch())) {
            self.write(row..row + split.kept(), &mut to[split.left..split.left + split.kept()]);
        }
    }
}

/// Writes pixels of a plane of results.
pub(crate) type Write<'a, T> = dyn FnMut(&mut [T]) + 'a;

/// Lends some pixels of a plane of results, whatever they are, to be written.
pub(crate) type Lend<'a, T> = dyn FnMut(Range<usize>, &mut Write<'_, T>) + 'a;

/// The shapes of one convolution.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    pub(crate) batch: usize,
    pub(crate) channels: usize,
    pub(crate) height: usize,
    pub(crate) width: usize,
    pub(crate) kernel: usize,
    pub(crate) stride: usize,
    pub(crate) dilation: usize,
    /// Rows of zeros above and columns of zeros to the left.
    pub(crate) before: [usize; 2],
    /// Height and width of the output.
    pub(crate) out: [usize; 2],
}

impl Geometry {
    pub(crate) fn of([batch, channels, height, width]: [usize; 4], weight: &FlexTensor, places: Places) -> Self {
        let [.., kernel] = crate::cpu::tensors::dims(weight);
        let Places { stride, dilation, before, out } = places;
        Self { batch, channels, height, width, kernel, stride, dilation, before, out }
    }

    pub(crate) fn input(&self) -> [usize; 4] {
        [self.batch, self.channels, self.height, self.width]
    }

    pub(crate) fn output(&self) -> [usize; 4] {
        [self.batch, self.channels, self.out[0], self.out[1]]
    }

    pub(crate) fn in_plane(&self) -> usize {
        self.height * self.width
    }

    pub(crate) fn out_plane(&self) -> usize {
        self.out[0] * self.out[1]
    }

    pub(crate) fn taps(&self) -> usize {
        self.kernel * self.kernel
    }

    /// How far the kernel reaches within a phase.
    fn reach(&self) -> usize {
        (self.kernel - 1) * self.dilation / self.stride
    }

    /// The layout of the output's gradient with zeros around it, for the gradient of the input: as many zeros before it as the kernel
    /// reaches, and after it up to the last position that reaches an input pixel.
    fn padded_output(&self) -> Padded {
        let [.., out_height, out_width] = self.output();
        let positions = |size: usize, before: usize| (size - 1 + before) / self.stride + 1;
        let height = out_height.max(positions(self.height, self.before[0]));
        let width = out_width.max(positions(self.width, self.before[1]));
        Padded { before: self.reach(), rows: self.reach() + height, pitch: whole_lines(self.reach() + width) }
    }
}

/// The layout of a plane with zeros around it.
#[derive(Clone, Copy)]
struct Padded {
    /// Rows of zeros above and columns of zeros to the left.
    before: usize,
    rows: usize,
    pitch: usize,
}

/// Buffers that a thread reuses for all its planes of one convolution, and for all bands of these. The columns of zeros at the sides are
/// written once and stay.
pub(crate) struct Scratch<T> {
    /// Rows of a plane that are made.
    made: Vec<T>,
    /// An input plane in phases.
    phases: Surrounded<T>,
    /// An output plane with zeros around it.
    output: Surrounded<T>,
    /// The gradient of an input plane, phase by phase.
    apart: Vec<T>,
    /// The offsets of the taps in an input plane.
    offsets: Vec<usize>,
    /// The taps with the factors of a plane.
    taps: Vec<Tap<T>>,
    /// The taps of each phase in an output plane, with the factors of that plane.
    back: Vec<Back<T>>,
}

/// The taps through which outputs reach the input pixels of a phase.
struct Back<T> {
    taps: Vec<Tap<T>>,
    /// The place of each tap's factor in the filter.
    places: Vec<usize>,
}

impl<T: Real> Back<T> {
    /// Takes the factors of a filter.
    fn take(&mut self, filter: &[T]) {
        self.taps.iter_mut().zip(&self.places).for_each(|(tap, place)| tap.factor = filter[*place]);
    }
}

impl<T> Default for Scratch<T> {
    fn default() -> Self {
        Self {
            made: Vec::new(),
            phases: Surrounded::default(),
            output: Surrounded::default(),
            apart: Vec::new(),
            offsets: Vec::new(),
            taps: Vec::new(),
            back: Vec::new(),
        }
    }
}

/// The passes for one plane; `index` counts planes over samples and channels.
impl Geometry {
    /// Computes the output, some rows at a time.
    pub(crate) fn forward<T: Real>(
        &self,
        index: usize,
        x: &dyn Plane<T>,
        weight: &[T],
        scratch: &mut Scratch<T>,
        lend: &mut Lend<'_, T>,
    ) {
        let ([.., width], [pitch, _]) = (self.output(), self.pitch());
        if scratch.taps.is_empty() {
            scratch.taps.extend(self.places().map(|offset| Tap { offset, factor: T::of(0.0) }));
        }
        scratch.taps.iter_mut().zip(self.filter(weight, index)).for_each(|(tap, factor)| tap.factor = *factor);
        let mut split = 0;
        for rows in parts(self.out[0], self.rows_at_once(ROWS)) {
            split = self.split(x, split, rows.end, scratch);
            let source = Rows { first: rows.start * self.stride * pitch, pitch: self.stride * pitch };
            lend(rows.start * width..rows.end * width, &mut |y| {
                let target = Rows { first: 0, pitch: width };
                correlate(&scratch.taps, (scratch.phases.numbers(), source), (y, target), [rows.len(), width]);
            });
        }
    }

    /// Pixels of an output that are computed at a time.
    pub(crate) fn piece(&self) -> usize {
        self.rows_at_once(ROWS).min(self.out[0]).max(1) * self.out[1]
    }

    /// Rows of an output that are computed at a time, a multiple of so many.
    fn rows_at_once(&self, multiple: usize) -> usize {
        let most = PIECE / (self.stride * self.width.max(1));
        (most - most % multiple).max(multiple)
    }

    /// Computes the gradient of the input, some rows at a time: a correlation of the output's gradient with the reversed filter. With a
    /// stride, input pixels of different phases meet different taps, so each phase is a correlation with its own part of the filter.
    pub(crate) fn backward_input<T: Real>(
        &self,
        index: usize,
        dy: &dyn Plane<T>,
        weight: &[T],
        scratch: &mut Scratch<T>,
        lend: &mut Lend<'_, T>,
    ) {
        let (padded, filter) = (self.padded_output(), self.filter(weight, index));
        if scratch.back.is_empty() {
            scratch.back = self.back(&padded);
        }
        scratch.back.iter_mut().for_each(|back| back.take(filter));
        let mut surrounded = 0;
        for rows in parts(self.height, self.stride * self.rows_at_once(ROWS)) {
            // The first tap reaches as far down as there are rows of zeros above the map.
            let end = (rows.end - 1 + self.before[0]) / self.stride + 1;
            surrounded = self.surround(dy, surrounded, end, &padded, scratch);
            match self.stride {
                1 => self.backward_rows(rows, &padded, scratch, lend),
                _ => self.backward_phases(rows, &padded, scratch, lend),
            }
        }
    }

    /// Computes rows of the gradient of the input without a stride.
    fn backward_rows<T: Real>(
        &self,
        rows: Range<usize>,
        padded: &Padded,
        scratch: &Scratch<T>,
        lend: &mut Lend<'_, T>,
    ) {
        let [top, left] = self.before;
        let source = Rows { first: (rows.start + top) * padded.pitch + left, pitch: padded.pitch };
        lend(rows.start * self.width..rows.end * self.width, &mut |dx| {
            let target = Rows { first: 0, pitch: self.width };
            let taps = &scratch.back[0].taps;
            correlate(taps, (scratch.output.numbers(), source), (dx, target), [rows.len(), self.width]);
        });
    }

    /// The same with a stride: the phases one by one, whose columns are interleaved then.
    fn backward_phases<T: Real>(
        &self,
        rows: Range<usize>,
        padded: &Padded,
        scratch: &mut Scratch<T>,
        lend: &mut Lend<'_, T>,
    ) {
        let (Scratch { output, apart, back, .. }, [top, left]) = (scratch, self.before);
        let positions = (self.width - 1 + left) / self.stride + 1;
        let pitch = self.stride * positions;
        apart.resize(rows.len() * pitch, T::of(0.0));
        for (phase, Back { taps, .. }) in back.iter().enumerate() {
            let (phase, column) = (phase / self.stride, phase % self.stride);
            // The first of these rows that is in this phase, and how many are.
            let first = (phase + self.stride - (rows.start + top) % self.stride) % self.stride;
            let count = rows.len().saturating_sub(first).div_ceil(self.stride);
            let position = (rows.start + first + top) / self.stride;
            let source = Rows { first: position * padded.pitch, pitch: padded.pitch };
            let target = Rows { first: first * pitch + column * positions, pitch: self.stride * pitch };
            correlate(taps, (output.numbers(), source), (&mut *apart, target), [count, positions]);
        }
        lend(rows.start * self.width..rows.end * self.width, &mut |dx| {
            for (apart, row) in apart.chunks_exact(pitch).zip(dx.chunks_exact_mut(self.width)) {
                join(self.stride, left, apart, row);
            }
        });
    }

    /// Adds the gradient of the plane's filter to a sum for each tap, some rows of the output's gradient at a time.
    pub(crate) fn backward_weight<T: Real>(
        &self,
        x: &dyn Plane<T>,
        dy: &dyn Plane<T>,
        scratch: &mut Scratch<T>,
        sums: &mut [f64],
    ) {
        let ([.., width], [pitch, _]) = (self.output(), self.pitch());
        if scratch.offsets.is_empty() {
            scratch.offsets.extend(self.places());
        }
        let mut split = 0;
        for rows in parts(self.out[0], self.rows_at_once(SUMMED)) {
            split = self.split(x, split, rows.end, scratch);
            let dy = dy.pixels(rows.start * width..rows.end * width, &mut scratch.made);
            let source = Rows { first: rows.start * self.stride * pitch, pitch: self.stride * pitch };
            add_products(&scratch.offsets, (scratch.phases.numbers(), source), dy, [rows.len(), width], sums);
        }
    }

    /// The filter of a plane.
    fn filter<'a, T: Real>(&self, weight: &'a [T], index: usize) -> &'a [T] {
        &weight[(index % self.channels) * self.taps()..][..self.taps()]
    }

    /// The distance from one row of [`Geometry::split`] to the next, and the length of a phase.
    fn pitch(&self) -> [usize; 2] {
        let phase = whole_lines(self.output()[3] + self.reach());
        [self.stride * phase, phase]
    }

    /// The offset of each tap from an output pixel's first input, in the buffer that [`Geometry::split`] fills.
    fn places(&self) -> impl Iterator<Item = usize> + '_ {
        let [pitch, phase] = self.pitch();
        let across = move |column: usize| (column % self.stride) * phase + column / self.stride;
        let place = move |tap: usize| [tap / self.kernel, tap % self.kernel].map(|at| at * self.dilation);
        (0..self.taps()).map(place).map(move |[row, column]| row * pitch + across(column))
    }

    /// The taps through which outputs reach the input pixels of each phase, `[stride, stride]`, with the offset from a pixel's position to
    /// the output, and without factors.
    fn back<T: Real>(&self, padded: &Padded) -> Vec<Back<T>> {
        let part = |phase: usize| (0..self.kernel).filter(move |at| at * self.dilation % self.stride == phase);
        let back = |at: usize| padded.before - at * self.dilation / self.stride;
        let of_phase = |row: usize, column: usize| {
            let pairs = || part(row).flat_map(|down| part(column).map(move |across| (down, across)));
            let offsets = pairs().map(|(down, across)| back(down) * padded.pitch + back(across));
            Back {
                taps: offsets.map(|offset| Tap { offset, factor: T::of(0.0) }).collect(),
                places: pairs().map(|(down, across)| down * self.kernel + across).collect(),
            }
        };
        (0..self.stride)
            .flat_map(|row| (0..self.stride).map(move |column| (row, column)))
            .map(|(row, column)| of_phase(row, column))
            .collect()
    }

    /// Splits rows of an input plane into phases with zeros around it, `[rows, stride, phase]`: from row `done` on those that output rows
    /// before `end` reach, which are returned. With `done` 0 the plane begins.
    fn split<T: Real>(&self, plane: &dyn Plane<T>, done: usize, end: usize, scratch: &mut Scratch<T>) -> usize {
        let ([.., height, _], [pitch, phase], [top, left]) = (self.output(), self.pitch(), self.before);
        let reached = |height: usize| (height - 1) * self.stride + (self.kernel - 1) * self.dilation + 1;
        let (Scratch { made, phases, .. }, rows) = (scratch, reached(height));
        if done == 0 {
            phases.make_room(rows * pitch + SLACK, if self.stride == 1 { left } else { 0 });
            let phases = phases.numbers_mut();
            phases[..top.min(rows) * pitch].fill(T::of(0.0));
            phases[(top + self.height).min(rows) * pitch..].fill(T::of(0.0));
        }
        let until = reached(end).min(rows).saturating_sub(top).min(self.height);
        if until <= done {
            return done;
        }
        let split = Split { width: self.width, stride: self.stride, left, phase };
        let to = &mut phases.numbers_mut()[(top + done) * pitch..];
        plane.split(done * self.width..until * self.width, to, &split, made);
        until
    }

    /// Copies rows of an output plane, from row `done` to before `end`, into a buffer with zeros around it. Returns how many have been copied.
    fn surround<T: Real>(
        &self,
        plane: &dyn Plane<T>,
        done: usize,
        end: usize,
        padded: &Padded,
        scratch: &mut Scratch<T>,
    ) -> usize {
        let (Padded { before, rows, pitch }, [height, width]) = (*padded, self.out);
        let Scratch { made, output, .. } = scratch;
        if done == 0 {
            output.make_room(rows * pitch + SLACK, before);
        }
        let until = end.min(height);
        if until <= done {
            return done;
        }
        let split = Split { width, stride: 1, left: before, phase: pitch };
        let to = &mut output.numbers_mut()[(before + done) * pitch..];
        plane.split(done * width..until * width, to, &split, made);
        until
    }
}

/// Joins the phases of a row, leaving out its first `left` columns.
fn join<T: Real>(stride: usize, left: usize, apart: &[T], row: &mut [T]) {
    let phase = apart.len() / stride;
    if stride != 2 {
        for (column, to) in row.iter_mut().enumerate().map(|(column, to)| (column + left, to)) {
            *to = apart[column % stride * phase + column / stride];
        }
        return;
    }
    let (even, odd) = apart.split_at(phase);
    let (first, second, row) = match (left % 2, row) {
        (1, [single, rest @ ..]) => {
            *single = odd[left / 2];
            (&even[left / 2 + 1..], &odd[left / 2 + 1..], rest)
        }
        (_, row) => (&even[left / 2..], &odd[left / 2..], row),
    };
    interleave(first, second, row);
}

/// The output for a map `[batch, channels, height, width]` and weights `[channels, 1, kernel, kernel]`.
pub(crate) fn forward<T: Stored>(x: Source<'_, T>, weight: &[T], geometry: &Geometry) -> Elements<T> {
    let mut y = Making::like(x, geometry.batch * geometry.channels * geometry.out_plane());
    let planes = y.parts(geometry.out_plane()).into_par_iter().enumerate();
    planes.for_each_init(Buffers::default, |(scratch, made), (index, y)| {
        let x = x.chunk(index, geometry.in_plane());
        geometry.forward(index, &x, weight, scratch, &mut in_parts(y, geometry.piece(), made));
    });
    y.made()
}

/// Lends a part of a result piece by piece: in a buffer, where it is rounded from there.
pub(crate) fn in_parts<'a, T: Stored>(
    part: Part<'a, T>,
    piece: usize,
    made: &'a mut Vec<T>,
) -> impl FnMut(Range<usize>, &mut Write<'_, T>) + 'a {
    let mut pieces = part.parts(piece);
    move |_, work| {
        let Some(piece) = pieces.next() else { unreachable!("a result has as many pieces as are asked for") };
        piece.begin(Threads::One).write(made, Before::Anything, Threads::One, work);
    }
}

/// The gradient of the input for the gradient `dy` of the output.
pub(crate) fn backward_input<T: Stored>(dy: Source<'_, T>, weight: &[T], geometry: &Geometry) -> Elements<T> {
    let mut dx = Making::like(dy, geometry.batch * geometry.channels * geometry.in_plane());
    let planes = dx.parts(geometry.in_plane()).into_par_iter().enumerate();
    planes.for_each_init(Buffers::default, |(scratch, made), (index, dx)| {
        let (mut dx, dy) = (dx.begin(Threads::One), dy.chunk(index, geometry.out_plane()));
        dx.write(made, Before::Anything, Threads::One, |dx| {
            geometry.backward_input(index, &dy, weight, scratch, &mut |pixels, work| work(&mut dx[pixels]));
        });
    });
    dx.made()
}

/// The gradient of the weight for the gradient `dy` of the output: `[channels, 1, kernel, kernel]`.
pub(crate) fn backward_weight<T: Stored>(x: Source<'_, T>, dy: Source<'_, T>, geometry: &Geometry) -> Vec<T> {
    let mut of_planes = vec![0.0; geometry.batch * geometry.channels * geometry.taps()];
    let planes = of_planes.par_chunks_exact_mut(geometry.taps()).enumerate();
    planes.for_each_init(Scratch::default, |scratch, (index, sums)| {
        let (x, dy) = (x.chunk(index, geometry.in_plane()), dy.chunk(index, geometry.out_plane()));
        geometry.backward_weight(&x, &dy, scratch, sums);
    });
    in_order(&of_planes, geometry)
}

/// The scratch of a thread, and what is rounded from there.
type Buffers<T> = (Scratch<T>, Vec<T>);

/// Adds up the gradients of the filters of all planes in the order of the samples, whatever thread computed them.
pub(crate) fn in_order<T: Real>(of_planes: &[f64], geometry: &Geometry) -> Vec<T> {
    let mut sums = vec![0.0f64; geometry.channels * geometry.taps()];
    for of_sample in of_planes.chunks_exact(sums.len().max(1)) {
        for (sum, value) in sums.iter_mut().zip(of_sample) {
            *sum += value;
        }
    }
    sums.into_iter().map(T::of).collect()
}
