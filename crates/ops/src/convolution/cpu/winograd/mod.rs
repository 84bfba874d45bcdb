//! Convolution with 3x3 filters and stride 1 by Winograd's method, forward and the gradient of the filters.
//!
//! A square of 2x2 output pixels needs 36 multiplications for each pair of channels. After a change of coordinates ([`transform`]) it
//! needs 16, one for each value of the 4x4 tile of input under it; a square of 4x4 pixels needs 36, those of a 6x6 tile, instead of
//! 144. So a convolution becomes 16, or 36, matrix products of transformed filters `[output, input]` and transformed input
//! `[input, places]`, where a place is a square of the output. That is 2.25, or 4, times fewer multiplications than with columns, and a
//! third, or a quarter, of the numbers to gather. [`form`] says which is taken.
//!
//! Transformed values are stored in planes, one for each value of a tile and each channel. Rows of places are taken in blocks whose
//! planes stay in the second-level cache.

mod filters;
mod form;
mod lines;
mod places;
mod transform;

use rayon::prelude::*;

use super::shape::Dense;
use crate::cpu::gemm::{Mode, Threads, multiply};
use crate::cpu::real::Real;
use crate::cpu::values::{Source, Stored, Target};
use filters::{give_filters, pitch_of_filters};
use lines::Lines;
use places::{Block, Places};

pub(crate) use filters::{Filters, size_of_filters};
pub(crate) use form::Form;

/// Taps of a filter.
const TAPS: usize = 9;
/// Elements between planes, so that planes whose length is a power of two do not compete for the same lines of the cache.
const GAP: usize = 16;

/// Whether a convolution is computed by this module. `halved` says whether its products could have factors of bf16: then columns are
/// faster, since that saves as much as the transforms do, which would be float32.
pub(crate) fn serves(shape: &Dense, halved: bool) -> bool {
    let few = shape.input.min(shape.output) < Form::of(shape).fewest_channels();
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
    let places = Places::of(shape);
    let outputs = places.outputs_at_once();
    (shape.input + outputs) * places.of_channel() + outputs * pitch_of_filters(places.form, shape.input)
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
fn each<I: Send, T: Real>(threads: Threads, items: Vec<I>, work: impl Fn(&mut Lines<T>, I) + Send + Sync) {
    match threads {
        Threads::All => items.into_par_iter().for_each_init(Lines::default, work),
        Threads::One => {
            let mut lines = Lines::default();
            items.into_iter().for_each(|item| work(&mut lines, item));
        }
    }
}

/// Computes the output of one sample.
pub(crate) fn forward<T: Stored>(shape: &Dense, x: Source<'_, T>, filters: &Filters<T>, y: Target<'_, T>) {
    let places = Places::of(shape);
    let mut blocks: Vec<(Block, Vec<Target<'_, T>>)> = places.blocks().map(|block| (block, Vec::new())).collect();
    for plane in y.chunks(shape.out_plane()) {
        blocks
            .iter_mut()
            .zip(plane.chunks(places.lines_of_block()))
            .for_each(|((_, outputs), lines)| outputs.push(lines));
    }
    // Each thread takes blocks if there are enough of them; otherwise all threads work on one block.
    let outside = shape.threads() == Threads::All && blocks.len() >= rayon::current_num_threads();
    let inside = if outside { Threads::One } else { shape.threads() };
    let work = |scratch: &mut Scratch<T>, (block, outputs): (Block, Vec<Target<'_, T>>)| {
        places.take_input(x, block, inside, &mut scratch.input);
        scratch.output.resize(shape.output * places.of_channel(), T::of(0.0));
        for value in 0..places.form.values() {
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
    let (form, input) = (places.form, shape.input);
    let (pitch, at_once) = (pitch_of_filters(form, input), places.outputs_at_once());
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
            for value in 0..form.values() {
                let of_output = places.of_value(&scratch.output, value, outputs, block);
                let of_input = places.of_value(&scratch.input, value, input, block).transposed();
                multiply(&mut sums[value * input..], pitch, Mode::Add, of_output, of_input, threads);
            }
        }
        give_filters(form, &sums, input, threads, dw);
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt;

    use super::*;
    use crate::convolution::cpu::{dense, input_gradient};
    use crate::cpu::tensors::Values;
    use crate::cpu::values::Elements;

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

    /// `tests/operations.rs` has maps of either side of the limit.
    #[test]
    fn large_maps_are_computed_in_squares_of_four() {
        let of = |out| Form::of(&Dense { out, ..shape(16, 20, 3, 1) });
        assert_eq!([[28, 32], [17, 33], [70, 9]].map(of), [Form::Two; 3]);
        assert_eq!([[29, 32], [32, 32], [31, 35], [130, 30]].map(of), [Form::Four; 4]);
    }

    /// The shapes that `tests/operations.rs` compares with naive sums are computed by this module.
    #[test]
    fn only_3x3_filters_between_many_channels_or_of_large_maps_with_stride_1_are_transformed() {
        let large = |input, output| Dense { height: 32, width: 33, out: [32, 33], ..shape(input, output, 3, 1) };
        let served = [shape(16, 20, 3, 1), shape(70, 150, 3, 1), large(2, 16), large(16, 2)];
        assert!(served.iter().all(|shape| serves(shape, false) && !serves(shape, true)));
        let others = [
            shape(15, 20, 3, 1),
            shape(16, 8, 3, 1),
            shape(16, 20, 5, 1),
            shape(16, 20, 1, 1),
            shape(16, 20, 3, 2),
            large(1, 16),
        ];
        assert!(others.iter().all(|shape| !serves(shape, false)));
    }

    /// What the three passes make of the same numbers, in float32 or float64: output, gradient of the input, and of the filters.
    fn passes<T: Stored>(shape: &Dense, numbers: [&[f64]; 3]) -> [Vec<f64>; 3] {
        let [x, weight, dy] = numbers.map(|numbers| numbers.iter().map(|value| T::of(*value)).collect::<Vec<_>>());
        let map = |made: Elements<T>| match made {
            Elements::Same(values) => values,
            Elements::Halves(..) => panic!("maps of a whole format stay in it"),
        };
        let y = map(dense::forward(Source::Same(&x), &Values::Made(weight.clone()), shape));
        let dx = map(input_gradient::backward_input(Source::Same(&dy), &weight, shape));
        let dw = dense::backward_weight(Source::Same(&x), Source::Same(&dy), shape);
        [y, dx, dw].map(|values| values.into_iter().map(Real::wide).collect())
    }

    /// With columns the error is 3e-7. Points of which it would be 1.6e-6 fail ([`transform::four`]).
    #[test]
    fn float32_keeps_its_digits() {
        let mut rng = kindling_random::rng(7, kindling_random::Purpose::Display, 0, 0);
        let mut random =
            |count: usize| -> Vec<f64> { (0..count).map(|_| f64::from(rng.random::<f32>() - 0.5)).collect() };
        let (x, weight, dy) = (random(64 * 1024), random(64 * 64 * TAPS), random(64 * 1024));
        for side in [27, 32] {
            let shape = Dense { height: side, width: side, out: [side; 2], ..shape(64, 64, 3, 1) };
            let of_map = 64 * side * side;
            let numbers = [&x[..of_map], &weight[..], &dy[..of_map]];
            for (pass, (single, exact)) in
                passes::<f32>(&shape, numbers).iter().zip(passes::<f64>(&shape, numbers)).enumerate()
            {
                let squares = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>();
                let apart = squares(&mut single.iter().zip(&exact).map(|(a, b)| a - b));
                let error = (apart / squares(&mut exact.iter().copied())).sqrt();
                assert!(error < 1.2e-6, "{:?}, pass {pass}: {error:e}", Form::of(&shape));
            }
        }
    }
}
