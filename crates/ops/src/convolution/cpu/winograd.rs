//! Convolution with 3x3 filters and stride 1 by Winograd's F(2x2, 3x3), forward and the gradient of the filters.
//!
//! A 2x2 block of output pixels needs 36 multiplications for each pair of channels. After a change of coordinates
//! ([`super::winograd_tiles`]) it needs 16, one for each value of the 4x4 tile of input under it. So a convolution becomes 16 matrix
//! products of transformed filters `[output, input]` and transformed input `[input, places]`, where a place is a 2x2 block of the
//! output. That is 2.25 times fewer multiplications than with columns, and a third of the numbers to gather. The transforms consist
//! of additions, and of factors of one half on the side of the filters, so little is lost by rounding.
//!
//! Transformed values are stored in planes, one for each of the 16 values of a tile and each channel. Rows of places are taken in
//! blocks whose planes stay in the second-level cache.

use rayon::prelude::*;

use super::shape::Dense;
use super::winograd_tiles::{OfFilter, OfGradient, OfInput, Tiles, ToFilter, ToOutput, transform};
use crate::cpu::gemm::{Matrix, Mode, Threads, multiply};
use crate::cpu::lanes::{deal, interleave};
use crate::cpu::real::Real;
use crate::cpu::values::{Before, Source, Stored, Target};

/// Values of a tile.
const VALUES: usize = 16;
/// Taps of a filter.
const TAPS: usize = 9;
/// Bytes of the transformed input and output of a block.
const BLOCK: usize = 1 << 20;
/// The least number of places of a block, and the multiple it has if possible: what the kernel of the product takes at a time.
const PLACES: usize = 64;
/// Elements between planes, so that planes whose length is a power of two do not compete for the same lines of the cache.
const GAP: usize = 16;
/// With fewer input or output channels, the transforms cost more than the products save.
const CHANNELS: usize = 16;
/// Output channels whose filter gradients are added up at a time where one block holds all places.
const OUTPUTS: usize = 64;

/// Whether a convolution is computed by this module. `halved` says whether its products could have factors of bf16: then columns are
/// faster, since that saves as much as the transforms do, which would be float32.
pub(crate) fn serves(shape: &Dense, halved: bool) -> bool {
    let few = shape.input.min(shape.output) < CHANNELS;
    !halved
        && shape.kernel == 3
        && shape.stride == 1
        && shape.dilation == 1
        && !few
        && shape.before.iter().all(|before| *before < 3)
}

/// Elements that [`forward`] holds for `at_once` samples on `threads` threads.
pub(crate) fn forward_scratch(shape: &Dense, at_once: usize, threads: usize) -> usize {
    let places = Places::of(shape);
    let blocks = if places.blocks().count() >= threads { threads } else { at_once };
    blocks.max(at_once) * (shape.input + shape.output) * places.of_channel()
}

/// Elements that [`backward_weight`] holds, without the gradient that it adds to.
pub(crate) fn weight_scratch(shape: &Dense) -> usize {
    let (places, outputs) = (Places::of(shape), Places::of(shape).outputs_at_once());
    (shape.input + outputs) * places.of_channel() + outputs * pitch_of_filters(shape.input)
}

/// Transformed filters: for each output channel, 16 rows of input channels.
pub(crate) struct Filters<T> {
    values: Vec<T>,
    output: usize,
    input: usize,
    turned: bool,
}

/// Elements of transformed filters.
pub(crate) fn size_of_filters(output: usize, input: usize) -> usize {
    output * pitch_of_filters(input)
}

/// Elements from the transformed filters of one output channel to those of the next.
fn pitch_of_filters(input: usize) -> usize {
    VALUES * input + GAP
}

impl<T: Real> Filters<T> {
    /// Transforms filters `[output, input, 3, 3]`.
    pub(crate) fn new(weight: &[T], output: usize, input: usize) -> Self {
        let pitch = pitch_of_filters(input);
        let mut values = vec![T::of(0.0); size_of_filters(output, input)];
        let of_outputs = values.par_chunks_exact_mut(pitch).zip(weight.par_chunks_exact(TAPS * input));
        of_outputs.for_each_init(Vec::new, |taps, (to, filters)| {
            taps.resize(TAPS * input, T::of(0.0));
            for (channel, filter) in filters.as_chunks::<TAPS>().0.iter().enumerate() {
                for (tap, value) in filter.iter().enumerate() {
                    taps[tap * input + channel] = *value;
                }
            }
            let begin = [0, 1, 2].map(|row| [0, 1, 2].map(|column| (row * 3 + column) * input));
            transform(OfFilter, &Tiles { values: taps, begin, count: input }, to, input);
        });
        Self { values, output, input, turned: false }
    }

    /// The filters of the convolution that computes the gradient of the input: input and output exchanged, each filter rotated by 180
    /// degrees. In transformed coordinates, the rotation exchanges the first and the last row, and the first and the last column, so
    /// nothing is moved in memory.
    pub(crate) fn turned(self) -> Self {
        Self { turned: !self.turned, ..self }
    }

    /// The matrix of filters for one of the 16 values of a tile, `[output, input]`.
    fn of_value(&self, value: usize) -> Matrix<'_, T> {
        let exchanged = [3, 1, 2, 0];
        let (row, column) = (value / 4, value % 4);
        let value = if self.turned { exchanged[row] * 4 + exchanged[column] } else { value };
        let (from, pitch) = (&self.values[value * self.input..], pitch_of_filters(self.input));
        let matrix = Matrix::of_rows(from, self.output, self.input, pitch);
        if self.turned { matrix.transposed() } else { matrix }
    }
}

/// How the places of a sample are divided into blocks.
#[derive(Clone, Copy)]
struct Places {
    shape: Dense,
    /// Rows of places.
    down: usize,
    /// Places in a row.
    across: usize,
    /// Rows of places in a block.
    rows: usize,
}

/// Consecutive rows of places.
#[derive(Clone, Copy)]
struct Block {
    first: usize,
    rows: usize,
}

impl Places {
    fn of(shape: &Dense) -> Self {
        let [down, across] = shape.out.map(|size| size.div_ceil(2).max(1));
        let fitting = (BLOCK / size_of::<f32>() / (VALUES * (shape.input + shape.output))).max(PLACES);
        let least = fitting.div_ceil(across);
        let whole = (least..least + 4).find(|rows| (rows * across).is_multiple_of(PLACES));
        Self { shape: *shape, down, across, rows: whole.unwrap_or(least).min(down) }
    }

    fn blocks(&self) -> impl Iterator<Item = Block> + '_ {
        (0..self.down).step_by(self.rows).map(|first| Block { first, rows: self.rows.min(self.down - first) })
    }

    /// Output channels whose filter gradients are added up at a time. Where one block holds all places, the map is small and has many
    /// filters, so they are taken in parts.
    fn outputs_at_once(&self) -> usize {
        let all = self.shape.output;
        if self.rows == self.down { OUTPUTS.min(all) } else { all }
    }

    /// Elements from one plane of transformed values to the next.
    fn pitch(&self) -> usize {
        self.rows * self.across + GAP
    }

    /// Elements of all planes of a channel.
    fn of_channel(&self) -> usize {
        VALUES * self.pitch()
    }

    /// The matrix of one of the 16 values of all tiles in a block, `[channels, places]`.
    fn of_value<'a, T: Real>(&self, values: &'a [T], value: usize, channels: usize, block: Block) -> Matrix<'a, T> {
        Matrix::of_rows(&values[value * self.pitch()..], channels, block.rows * self.across, self.of_channel())
    }

    /// Transforms the input under a block.
    fn take_input<T: Stored>(&self, x: Source<'_, T>, block: Block, threads: Threads, to: &mut Vec<T>) {
        let Dense { input, height, width, before, .. } = self.shape;
        to.resize(input * self.of_channel(), T::of(0.0));
        let planes = to.chunks_exact_mut(self.of_channel()).enumerate().collect();
        each(threads, planes, |lines, (channel, to)| {
            let plane = x.chunk(channel, height * width);
            lines.split(plane, [height, width], 2 * block.first, 2 * block.rows + 2, before, 2 * self.across + 2);
            for row in 0..block.rows {
                let tiles = lines.tiles(2 * row, self.across);
                transform(OfInput, &tiles, &mut to[row * self.across..], self.pitch());
            }
        });
    }

    /// Transforms the gradient of the output in a block, for the channels in `dy`.
    fn take_gradient<T: Stored>(&self, dy: Source<'_, T>, block: Block, threads: Threads, to: &mut Vec<T>) {
        let [height, width] = self.shape.out;
        to.resize(dy.len() / (height * width) * self.of_channel(), T::of(0.0));
        let planes = to.chunks_exact_mut(self.of_channel()).enumerate().collect();
        each(threads, planes, |lines, (channel, to)| {
            let plane = dy.chunk(channel, height * width);
            lines.split(plane, [height, width], 2 * block.first, 2 * block.rows, [0; 2], 2 * self.across);
            for row in 0..block.rows {
                let tiles = lines.tiles(2 * row, self.across);
                transform(OfGradient, &tiles, &mut to[row * self.across..], self.pitch());
            }
        });
    }

    /// Transforms the products of a block back and writes them to the block's rows of each output channel.
    fn give_output<T: Stored>(&self, made: &[T], block: Block, threads: Threads, outputs: Vec<Target<'_, T>>) {
        let (width, across) = (self.shape.out[1], self.across);
        let planes = made.chunks_exact(self.of_channel()).zip(outputs).collect();
        each(threads, planes, |lines, (made, output): (&[T], Target<'_, T>)| {
            let begin = |row: usize| {
                std::array::from_fn(|i| std::array::from_fn(|j| (i * 4 + j) * self.pitch() + row * across))
            };
            let Lines { values: halves, padded: wide, .. } = lines;
            // The even and the odd columns of two lines.
            halves.resize(4 * across, T::of(0.0));
            for (row, mut output) in (0..block.rows).zip(output.chunks(2 * width)) {
                let tiles = Tiles { values: made, begin: begin(row), count: across };
                transform(ToOutput, &tiles, halves, across);
                output.write(wide, Before::Anything, Threads::One, |output| {
                    for (halves, line) in halves.chunks_exact(2 * across).zip(output.chunks_exact_mut(width)) {
                        let (even, odd) = halves.split_at(across);
                        interleave(even, odd, line);
                    }
                });
            }
        });
    }
}

/// Buffers that a thread reuses from block to block.
#[derive(Default)]
struct Scratch<T> {
    /// Transformed input.
    input: Vec<T>,
    /// Transformed output, or the transformed gradient of the output.
    output: Vec<T>,
}

/// Runs `work` for each item, on all threads or on this one. Each thread has its own buffer of lines.
fn each<I: Send, T: Stored>(threads: Threads, items: Vec<I>, work: impl Fn(&mut Lines<T>, I) + Send + Sync) {
    match threads {
        Threads::All => items.into_par_iter().for_each_init(Lines::default, work),
        Threads::One => {
            let mut lines = Lines::default();
            items.into_iter().for_each(|item| work(&mut lines, item));
        }
    }
}

/// Lines of a plane, each split into its even and its odd columns, so that neighbouring tiles, which are two columns apart, are
/// neighbours in memory and fill a register.
#[derive(Default)]
struct Lines<T> {
    values: Vec<T>,
    padded: Vec<T>,
    pitch: usize,
}

impl<T: Stored> Lines<T> {
    /// Takes `count` lines of `length` columns, beginning `before` rows above line `first` and `before` columns to the left, with zeros
    /// outside the plane.
    fn split(
        &mut self,
        plane: Source<'_, T>,
        [height, width]: [usize; 2],
        first: usize,
        count: usize,
        before: [usize; 2],
        length: usize,
    ) {
        self.pitch = length / 2;
        self.values.resize(count * length, T::of(0.0));
        self.padded.clear();
        self.padded.resize(length, T::of(0.0));
        let taken = width.min(length - before[1]);
        for (index, halves) in self.values.chunks_exact_mut(length).enumerate() {
            match (first + index).checked_sub(before[0]).filter(|line| *line < height) {
                None => halves.fill(T::of(0.0)),
                Some(line) => {
                    let line = plane.part(line * width..line * width + taken);
                    line.copy_to(&mut self.padded[before[1]..][..taken], Threads::One);
                    let (even, odd) = halves.split_at_mut(length / 2);
                    deal(&self.padded, even, odd);
                }
            }
        }
    }

    /// The tiles of `N` lines and columns whose first line is `first`; they begin two columns apart.
    fn tiles<const N: usize>(&self, first: usize, count: usize) -> Tiles<'_, T, N> {
        let begin = |row, column: usize| (2 * (first + row) + column % 2) * self.pitch + column / 2;
        let begin = std::array::from_fn(|row| std::array::from_fn(|column| begin(row, column)));
        Tiles { values: &self.values, begin, count }
    }
}

/// Computes the output of one sample.
pub(crate) fn forward<T: Stored>(shape: &Dense, x: Source<'_, T>, filters: &Filters<T>, y: Target<'_, T>) {
    let places = Places::of(shape);
    let lines = 2 * places.rows * shape.out[1];
    let mut blocks: Vec<(Block, Vec<Target<'_, T>>)> = places.blocks().map(|block| (block, Vec::new())).collect();
    for plane in y.chunks(shape.out_plane()) {
        blocks.iter_mut().zip(plane.chunks(lines)).for_each(|((_, outputs), lines)| outputs.push(lines));
    }
    // Each thread takes blocks if there are enough of them; otherwise all threads work on one block.
    let outside = shape.threads() == Threads::All && blocks.len() >= rayon::current_num_threads();
    let inside = if outside { Threads::One } else { shape.threads() };
    let work = |scratch: &mut Scratch<T>, (block, outputs): (Block, Vec<Target<'_, T>>)| {
        places.take_input(x, block, inside, &mut scratch.input);
        scratch.output.resize(shape.output * places.of_channel(), T::of(0.0));
        for value in 0..VALUES {
            let made = &mut scratch.output[value * places.pitch()..];
            let input = places.of_value(&scratch.input, value, shape.input, block);
            multiply(made, places.of_channel(), Mode::Replace, filters.of_value(value), input, inside);
        }
        places.give_output(&scratch.output, block, inside, outputs);
    };
    if outside {
        blocks.into_par_iter().for_each_init(Scratch::default, work);
    } else {
        let mut scratch = Scratch::default();
        blocks.into_iter().for_each(|block| work(&mut scratch, block));
    }
}

/// Adds the gradient of the filters from one sample to `dw`.
pub(crate) fn backward_weight<T: Stored>(shape: &Dense, x: Source<'_, T>, dy: Source<'_, T>, dw: &mut [T]) {
    let (places, threads) = (Places::of(shape), shape.threads());
    let input = shape.input;
    let (pitch, at_once) = (pitch_of_filters(input), places.outputs_at_once());
    let mut scratch = Scratch::default();
    let mut sums = Vec::new();
    for (part, dw) in dw.chunks_mut(at_once * shape.fan()).enumerate() {
        let outputs = dw.len() / shape.fan();
        let first = part * at_once;
        let dy = dy.part(first * shape.out_plane()..(first + outputs) * shape.out_plane());
        sums.clear();
        sums.resize(outputs * pitch, T::of(0.0));
        for block in places.blocks() {
            if part == 0 {
                places.take_input(x, block, threads, &mut scratch.input);
            }
            places.take_gradient(dy, block, threads, &mut scratch.output);
            for value in 0..VALUES {
                let of_output = places.of_value(&scratch.output, value, outputs, block);
                let of_input = places.of_value(&scratch.input, value, input, block).transposed();
                multiply(&mut sums[value * input..], pitch, Mode::Add, of_output, of_input, threads);
            }
        }
        give_filters(&sums, input, threads, dw);
    }
}

/// Transforms the sums for each output channel back and adds them to the gradients of the taps.
fn give_filters<T: Stored>(sums: &[T], input: usize, threads: Threads, dw: &mut [T]) {
    let pitch = pitch_of_filters(input);
    let begin = std::array::from_fn(|row| std::array::from_fn(|column| (row * 4 + column) * input));
    let outputs = sums.chunks_exact(pitch).zip(dw.chunks_exact_mut(TAPS * input)).collect();
    each(threads, outputs, |lines, (sums, dw): (&[T], &mut [T])| {
        let taps = &mut lines.values;
        taps.resize(TAPS * input, T::of(0.0));
        transform(ToFilter, &Tiles { values: sums, begin, count: input }, taps, input);
        for (channel, filter) in dw.as_chunks_mut::<TAPS>().0.iter_mut().enumerate() {
            for (tap, value) in filter.iter_mut().enumerate() {
                *value += taps[tap * input + channel];
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(input: usize, output: usize, kernel: usize, stride: usize) -> Dense {
        Dense {
            batch: 1,
            input,
            output,
            height: 9,
            width: 9,
            kernel,
            stride,
            dilation: 1,
            before: [1; 2],
            out: [9 / stride; 2],
        }
    }

    /// The shapes that `tests/operations.rs` compares with naive sums are computed by this module.
    #[test]
    fn only_3x3_filters_between_many_channels_with_stride_1_are_transformed() {
        assert!(serves(&shape(16, 20, 3, 1), false) && serves(&shape(70, 150, 3, 1), false));
        assert!(!serves(&shape(70, 150, 3, 1), true));
        let others =
            [shape(15, 20, 3, 1), shape(16, 8, 3, 1), shape(16, 20, 5, 1), shape(16, 20, 1, 1), shape(16, 20, 3, 2)];
        assert!(others.iter().all(|shape| !serves(shape, false)));
    }

    /// Rotating a filter exchanges rows and columns of its transform.
    #[test]
    fn turned_filters_are_the_transform_of_filters_turned() {
        let weight: Vec<f32> = (0..2 * 3 * TAPS).map(|at| (at * 37 % 19) as f32).collect();
        let turned = Filters::new(&weight, 2, 3).turned();
        // Output and input exchanged, each filter in reverse.
        let mut by_hand = vec![0.0; weight.len()];
        for (index, filter) in weight.chunks_exact(TAPS).enumerate() {
            let to = &mut by_hand[(index % 3 * 2 + index / 3) * TAPS..][..TAPS];
            to.iter_mut().rev().zip(filter).for_each(|(to, from)| *to = *from);
        }
        let by_hand = Filters::new(&by_hand, 3, 2);
        let one = [1.0, 0.0, 0.0, 1.0];
        for value in 0..VALUES {
            let (mut found, mut expected) = (vec![0.0; 6], vec![0.0; 6]);
            multiply(&mut found, 2, Mode::Replace, turned.of_value(value), Matrix::of(&one, 2, 2), Threads::One);
            multiply(&mut expected, 2, Mode::Replace, by_hand.of_value(value), Matrix::of(&one, 2, 2), Threads::One);
            assert_eq!(found, expected, "value {value}");
        }
    }
}
