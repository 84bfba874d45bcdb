//! Places: the squares of output pixels that one tile of input makes, in blocks of rows.

use super::form::Form;
use super::lines::{Under, collect};
use super::{GAP, each};
use crate::convolution::cpu::shape::Dense;
use crate::cpu::gemm::{Matrix, Threads};
use crate::cpu::real::Real;
use crate::cpu::values::{Before, Source, Stored, Target};

/// Bytes of the transformed input and output of a block.
const BLOCK: usize = 1 << 20;
/// The least number of places of a block, and the multiple it has if possible: what the kernel of the product takes at a time.
const PLACES: usize = 64;
/// Output channels whose filter gradients are added up at a time where one block holds all places.
const OUTPUTS: usize = 64;

/// How the places of a sample are divided into blocks.
#[derive(Clone, Copy)]
pub(super) struct Places {
    shape: Dense,
    pub(super) form: Form,
    /// Rows of places.
    down: usize,
    /// Places in a row.
    across: usize,
    /// Rows of places in a block.
    rows: usize,
}

/// Consecutive rows of places.
#[derive(Clone, Copy)]
pub(super) struct Block {
    first: usize,
    rows: usize,
}

impl Places {
    pub(super) fn of(shape: &Dense) -> Self {
        let form = Form::of(shape);
        let [down, across] = shape.out.map(|size| size.div_ceil(form.side()).max(1));
        let fitting = (BLOCK / size_of::<f32>() / (form.values() * (shape.input + shape.output))).max(PLACES);
        let least = fitting.div_ceil(across);
        let whole = (least..least + 4).find(|rows| (rows * across).is_multiple_of(PLACES));
        Self { shape: *shape, form, down, across, rows: whole.unwrap_or(least).min(down) }
    }

    pub(super) fn blocks(&self) -> impl Iterator<Item = Block> + '_ {
        (0..self.down).step_by(self.rows).map(|first| Block { first, rows: self.rows.min(self.down - first) })
    }

    /// Elements of the output's lines in a block.
    pub(super) fn lines_of_block(&self) -> usize {
        self.form.side() * self.rows * self.shape.out[1]
    }

    /// Output channels whose filter gradients are added up at a time. Where one block holds all places, the map is small and has many
    /// filters, so they are taken in parts.
    pub(super) fn outputs_at_once(&self) -> usize {
        let all = self.shape.output;
        if self.rows == self.down { OUTPUTS.min(all) } else { all }
    }

    /// Elements from one plane of transformed values to the next.
    pub(super) fn pitch(&self) -> usize {
        self.rows * self.across + GAP
    }

    /// Elements of all planes of a channel.
    pub(super) fn of_channel(&self) -> usize {
        self.form.values() * self.pitch()
    }

    /// The matrix of one of the values of all tiles in a block, `[channels, places]`.
    pub(super) fn of_value<'a, T: Real>(
        &self,
        values: &'a [T],
        value: usize,
        channels: usize,
        block: Block,
    ) -> Matrix<'a, T> {
        Matrix::of_rows(&values[value * self.pitch()..], channels, block.rows * self.across, self.of_channel())
    }

    /// Transforms the input under a block.
    pub(super) fn take_input<T: Stored>(&self, x: Source<'_, T>, block: Block, threads: Threads, to: &mut Vec<T>) {
        let Dense { input, height, width, before, .. } = self.shape;
        let (form, side) = (self.form, self.form.side());
        let (first, count) = (side * block.first, side * block.rows + 2);
        let under = Under { size: [height, width], before, first, count, pitch: self.across + 1 };
        to.resize(input * self.of_channel(), T::of(0.0));
        let planes = to.chunks_exact_mut(self.of_channel()).enumerate().collect();
        each(threads, planes, |lines, (channel, to)| {
            lines.take(x.chunk(channel, height * width), side, under);
            for row in 0..block.rows {
                form.of_input(lines, side * row, self.across, &mut to[row * self.across..], self.pitch());
            }
        });
    }

    /// Transforms the gradient of the output in a block, for the channels in `dy`.
    pub(super) fn take_gradient<T: Stored>(&self, dy: Source<'_, T>, block: Block, threads: Threads, to: &mut Vec<T>) {
        let [height, width] = self.shape.out;
        let (form, side) = (self.form, self.form.side());
        let (first, count) = (side * block.first, side * block.rows);
        let under = Under { size: [height, width], before: [0; 2], first, count, pitch: self.across };
        to.resize(dy.len() / (height * width) * self.of_channel(), T::of(0.0));
        let planes = to.chunks_exact_mut(self.of_channel()).enumerate().collect();
        each(threads, planes, |lines, (channel, to)| {
            lines.take(dy.chunk(channel, height * width), side, under);
            for row in 0..block.rows {
                form.of_gradient(lines, side * row, self.across, &mut to[row * self.across..], self.pitch());
            }
        });
    }

    /// Transforms the products of a block back and writes them to the block's rows of each output channel.
    pub(super) fn give_output<T: Stored>(
        &self,
        made: &[T],
        block: Block,
        threads: Threads,
        outputs: Vec<Target<'_, T>>,
    ) {
        let (width, across) = (self.shape.out[1], self.across);
        let (form, side) = (self.form, self.form.side());
        let planes = made.chunks_exact(self.of_channel()).zip(outputs).collect();
        each(threads, planes, |lines, (made, output): (&[T], Target<'_, T>)| {
            // For each line of output, a part for each of its columns in a place.
            let (parts, wide, half) = lines.buffers(side * side * across);
            for (row, mut output) in (0..block.rows).zip(output.chunks(side * width)) {
                form.to_output(made, row * across, self.pitch(), across, parts);
                output.write(wide, Before::Anything, Threads::One, |output| {
                    for (parts, line) in parts.chunks_exact(side * across).zip(output.chunks_exact_mut(width)) {
                        collect(parts, side, line, half);
                    }
                });
            }
        });
    }
}
