//! The filters of a dense convolution in the form that its matrix products need, prepared once for all samples.

use std::borrow::Cow;
use std::sync::Arc;

use rayon::prelude::*;

use super::shape::Dense;
use super::strips::Strips;
use super::winograd::{self, Form};
use crate::cpu::factors::{self, packed, taps};
use crate::cpu::filter_cache::packed_once;
use crate::cpu::gemm::Matrix;
use crate::cpu::gemm_bf16::{Left, Taps};
use crate::cpu::halves::SHARE;
use crate::cpu::real::Real;
use crate::cpu::reserve;
use crate::cpu::tensors::Values;

/// Prepared filters; see the module.
pub(crate) enum Filters<'a, T: Clone> {
    /// A matrix with a row for each output channel.
    Rows(Cow<'a, [T]>),
    /// The same, rounded to bf16 and packed.
    Packed(Arc<Left>),
    /// Rounded to bf16 and packed for [`super::strips`].
    Taps(Arc<Taps>),
    /// Transformed for [`winograd::forward`].
    Transformed(winograd::Filters<T>),
}

impl<'a, T: Real> Filters<'a, T> {
    /// Prepares `weight` `[output, input, k, k]` for the convolution `shape`, unless that was done before ([`packed_once`]). `halved` says
    /// whether its products have factors of bf16.
    pub(crate) fn new(shape: &Dense, weight: &'a Values<T>, halved: bool) -> Self {
        if halved {
            return Self::halved(shape, weight);
        }
        if !winograd::serves(shape, halved) {
            return Self::Rows((**weight).into());
        }
        reserve(size(shape, halved), T::DTYPE);
        Self::Transformed(winograd::Filters::new(Form::of(shape), weight, shape.output, shape.input))
    }

    /// Prepares the `weight` of a convolution for the one that computes the gradient of its input from that of its output, whose shape is
    /// `of_gradient`: input and output channels are exchanged, and the filters are rotated by 180 degrees.
    pub(crate) fn turned(shape: &Dense, of_gradient: &Dense, weight: &[T], halved: bool) -> Self {
        reserve(turned_size(of_gradient, halved), T::DTYPE);
        if winograd::serves(of_gradient, halved) {
            let form = Form::of(of_gradient);
            return Self::Transformed(winograd::Filters::new(form, weight, shape.output, shape.input).turned());
        }
        let turned = turn(weight, shape.output, shape.input, shape.kernel * shape.kernel);
        match halved {
            true => Self::halved(of_gradient, &Values::Made(turned)),
            false => Self::Rows(turned.into()),
        }
    }

    /// Prepares `weight` `[output, input, k, k]` for products with factors of bf16.
    fn halved(shape: &Dense, weight: &Values<T>) -> Self {
        let size = [shape.output, shape.input, shape.kernel * shape.kernel];
        match Strips::of(shape) {
            Some(_) => Self::Taps(packed_once(weight, size, |weight| taps(weight, size))),
            None => Self::Packed(packed_once(weight, size, |weight| packed(matrix(shape, weight)))),
        }
    }

    /// The left factor of products, with a row for each of so many output channels; `None` if the filters are prepared otherwise.
    pub(crate) fn factor(&self, shape: &Dense) -> Option<factors::Filters<'_, T>> {
        match self {
            Self::Rows(rows) => Some(factors::Filters::Plain(matrix(shape, rows))),
            Self::Packed(left) => Some(factors::Filters::Packed(left)),
            Self::Taps(_) | Self::Transformed(_) => None,
        }
    }
}

/// Filters as a matrix with a row for each output channel.
fn matrix<'a, T: Real>(shape: &Dense, weight: &'a [T]) -> Matrix<'a, T> {
    Matrix::of(weight, shape.output, shape.fan())
}

/// Bytes of filters that are rounded to bf16 and packed.
pub(crate) fn packed_size(shape: &Dense) -> usize {
    match Strips::of(shape) {
        Some(_) => Taps::bytes(shape.output, shape.input, shape.kernel * shape.kernel),
        None => Left::bytes(shape.output, shape.fan()),
    }
}

/// Elements that [`Filters::new`] allocates beside packed factors.
pub(crate) fn size(shape: &Dense, halved: bool) -> usize {
    match winograd::serves(shape, halved) {
        true => winograd::size_of_filters(Form::of(shape), shape.output, shape.input),
        false => 0,
    }
}

/// Elements that [`Filters::turned`] allocates beside packed factors for the convolution `of_gradient`.
pub(crate) fn turned_size(of_gradient: &Dense, halved: bool) -> usize {
    // As many transformed filters are `[output, input]` as `[input, output]`, but for the gaps between them.
    match winograd::serves(of_gradient, halved) {
        true => winograd::size_of_filters(Form::of(of_gradient), of_gradient.input, of_gradient.output),
        false => of_gradient.output * of_gradient.fan(),
    }
}

/// `[output, input, taps]` to `[input, output, taps]`, the taps of each filter in reverse.
fn turn<T: Real>(weight: &[T], output: usize, input: usize, taps: usize) -> Vec<T> {
    let mut turned = vec![T::of(0.0); weight.len()];
    let of_input = |(input_channel, turned): (usize, &mut [T])| {
        for (filter, turned) in turned.chunks_exact_mut(taps).enumerate() {
            let from = &weight[(filter * input + input_channel) * taps..][..taps];
            turned.iter_mut().rev().zip(from).for_each(|(to, from)| *to = *from);
        }
    };
    let rows = SHARE.div_ceil(output * taps);
    turned.par_chunks_exact_mut(output * taps).with_min_len(rows).enumerate().for_each(of_input);
    turned
}
