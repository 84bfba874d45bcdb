//! Filters in transformed coordinates.

use rayon::prelude::*;

use super::form::Form;
use super::lines::Lines;
use super::{GAP, TAPS, each};
use crate::cpu::gemm::{Matrix, Threads};
use crate::cpu::real::Real;
use crate::cpu::values::Stored;

/// Transformed filters: for each output channel, a row of input channels for each value of a tile.
pub(crate) struct Filters<T> {
    values: Vec<T>,
    output: usize,
    input: usize,
    turned: bool,
    form: Form,
}

/// Elements of transformed filters.
pub(crate) fn size_of_filters(form: Form, output: usize, input: usize) -> usize {
    output * pitch_of_filters(form, input)
}

/// Elements from the transformed filters of one output channel to those of the next.
pub(super) fn pitch_of_filters(form: Form, input: usize) -> usize {
    form.values() * input + GAP
}

impl<T: Real> Filters<T> {
    /// Transforms filters `[output, input, 3, 3]`.
    pub(crate) fn new(form: Form, weight: &[T], output: usize, input: usize) -> Self {
        let mut values = vec![T::of(0.0); size_of_filters(form, output, input)];
        let of_outputs = values.par_chunks_exact_mut(pitch_of_filters(form, input));
        of_outputs.zip(weight.par_chunks_exact(TAPS * input)).for_each_init(Vec::new, |taps, (to, filters)| {
            taps.resize(TAPS * input, T::of(0.0));
            for (channel, filter) in filters.as_chunks::<TAPS>().0.iter().enumerate() {
                for (tap, value) in filter.iter().enumerate() {
                    taps[tap * input + channel] = *value;
                }
            }
            form.of_filter(taps, input, to);
        });
        Self { values, output, input, turned: false, form }
    }

    /// The filters of the convolution that computes the gradient of the input: input and output exchanged, each filter rotated by 180
    /// degrees. In transformed coordinates, the rotation exchanges lines and columns ([`Form::turned`]), so nothing is moved in memory.
    pub(crate) fn turned(self) -> Self {
        Self { turned: !self.turned, ..self }
    }

    /// The matrix of filters for one of the values of a tile, `[output, input]`.
    pub(super) fn of_value(&self, value: usize) -> Matrix<'_, T> {
        let (form, tile) = (self.form, self.form.tile());
        let value = match self.turned {
            true => form.turned(value / tile) * tile + form.turned(value % tile),
            false => value,
        };
        let (from, pitch) = (&self.values[value * self.input..], pitch_of_filters(form, self.input));
        let matrix = Matrix::of_rows(from, self.output, self.input, pitch);
        if self.turned { matrix.transposed() } else { matrix }
    }
}

/// Transforms the sums for each output channel back and adds them to the gradients of the taps.
pub(super) fn give_filters<T: Stored>(form: Form, sums: &[T], input: usize, threads: Threads, dw: &mut [T]) {
    let outputs = sums.chunks_exact(pitch_of_filters(form, input)).zip(dw.chunks_exact_mut(TAPS * input)).collect();
    each(threads, outputs, |lines: &mut Lines<T>, (sums, dw): (&[T], &mut [T])| {
        let (taps, ..) = lines.buffers(TAPS * input);
        form.to_filter(sums, input, taps);
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
    use crate::cpu::gemm::{Mode, multiply};

    /// Rotating a filter exchanges rows and columns of its transform.
    #[test]
    fn turned_filters_are_the_transform_of_filters_turned() {
        for form in [Form::Two, Form::Four] {
            let weight: Vec<f32> = (0..2 * 3 * TAPS).map(|at| (at * 37 % 19) as f32).collect();
            let turned = Filters::new(form, &weight, 2, 3).turned();
            // Output and input exchanged, each filter in reverse.
            let mut by_hand = vec![0.0; weight.len()];
            for (index, filter) in weight.chunks_exact(TAPS).enumerate() {
                let to = &mut by_hand[(index % 3 * 2 + index / 3) * TAPS..][..TAPS];
                to.iter_mut().rev().zip(filter).for_each(|(to, from)| *to = *from);
            }
            let by_hand = Filters::new(form, &by_hand, 3, 2);
            let one = [1.0, 0.0, 0.0, 1.0];
            for value in 0..form.values() {
                let (mut found, mut expected) = (vec![0.0f32; 6], vec![0.0; 6]);
                multiply(&mut found, 2, Mode::Replace, turned.of_value(value), Matrix::of(&one, 2, 2), Threads::One);
                multiply(
                    &mut expected,
                    2,
                    Mode::Replace,
                    by_hand.of_value(value),
                    Matrix::of(&one, 2, 2),
                    Threads::One,
                );
                let apart = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                assert!(apart < 1e-5, "{form:?}, value {value}: {found:?} and {expected:?}");
            }
        }
    }
}
