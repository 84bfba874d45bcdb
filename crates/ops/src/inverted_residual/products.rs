//! The products of a block: its filters, and the middle of a band, as they are multiplied.

use std::sync::Arc;

use burn::tensor::DType;

use super::bands::How;
use crate::cpu::factors::{Filters, packed};
use crate::cpu::filter_cache::packed_once;
use crate::cpu::gemm::{Matrix, Threads, apart};
use crate::cpu::gemm_bf16::Left;
use crate::cpu::panels;
use crate::cpu::tensors::Values;
use crate::cpu::values::{Elements, Source, Stored};
use crate::normed_convolution::Normed;

/// Filters, prepared for the way they are multiplied.
pub(super) enum Prepared<'a, T> {
    Plain(Matrix<'a, T>),
    /// For pixels in panels.
    Panels(panels::Filters),
    /// For pixels of bf16.
    Halves(Arc<Left>),
}

impl<'a, T: Stored> Prepared<'a, T> {
    /// Of a matrix with so many rows and columns.
    pub(super) fn new(filters: &'a Values<T>, [rows, columns]: [usize; 2], how: How) -> Self {
        match how {
            How::Plain => Self::Plain(Matrix::of(filters, rows, columns)),
            How::Panels => Self::Panels(panels::Filters::new(Matrix::of(filters, rows, columns))),
            How::Halves => Self::Halves(packed_once(filters, [rows, columns, 1], |filters| {
                packed(Matrix::of(filters, rows, columns))
            })),
        }
    }

    /// All of them, as the factor of a product that packs its pixels itself.
    pub(super) fn factor(&self) -> Filters<'_, T> {
        match self {
            Self::Plain(matrix) => Filters::Plain(*matrix),
            Self::Halves(left) => Filters::Packed(left),
            Self::Panels(_) => unreachable!("pixels are in panels if filters are"),
        }
    }
}

/// A buffer for numbers between the products of a block whose map is `x`, of this format: as they are stored if they are multiplied so,
/// otherwise in the type that is computed in.
pub(super) fn kept<T: Stored>(x: Source<'_, T>, format: DType) -> Elements<T> {
    if x.multiplies_halves() { Elements::zeros(0, format) } else { Vec::new().into() }
}

/// All channels of the middle of a band, normalised, as the projection multiplies them.
pub(super) enum Middle<T> {
    /// A row for each channel, and how far apart they begin.
    Rows(Elements<T>, usize),
    /// Panels, and room for what is to be put in them.
    Panels(panels::Pixels, Vec<T>),
}

impl<T: Stored> Middle<T> {
    /// For a block whose map is `x`, of this format.
    pub(super) fn new(x: Source<'_, T>, format: DType, how: How) -> Self {
        match how {
            How::Panels => Self::Panels(panels::Pixels::default(), Vec::new()),
            How::Halves | How::Plain => Self::Rows(kept(x, format), 0),
        }
    }

    /// Makes room for so many channels of so many pixels.
    pub(super) fn begin(&mut self, channels: usize, pixels: usize) {
        match self {
            Self::Rows(rows, stride) => {
                *stride = apart(pixels);
                rows.resize(channels * *stride);
            }
            Self::Panels(panels, _) => panels.begin(channels, pixels),
        }
    }

    /// Normalises pixels of a channel, from one on, into their place, as they are where the layer before has stored them: `store` makes them
    /// that.
    pub(super) fn put(
        &mut self,
        normed: &Normed<T>,
        channel: usize,
        first: usize,
        made: &mut [T],
        store: impl FnOnce(&mut [T]),
    ) {
        let place = |stride: usize| channel * stride + first..channel * stride + first + made.len();
        match self {
            Self::Rows(Elements::Halves(_, bits), stride) => {
                normed.apply_stored(channel, made, &mut bits[place(*stride)]);
            }
            Self::Rows(Elements::Same(values), stride) => {
                let values = &mut values[place(*stride)];
                store(made);
                normed.apply(channel, Source::Same(made), values);
            }
            Self::Panels(panels, normalised) => {
                normalised.resize(made.len(), T::of(0.0));
                store(made);
                normed.apply(channel, Source::Same(made), normalised);
                panels.put(channel, first, normalised);
            }
        }
    }

    /// Writes so many filters times so many pixels.
    pub(super) fn multiply(
        &self,
        filters: &Prepared<'_, T>,
        [output, pixels]: [usize; 2],
        product: &mut Elements<T>,
        wide: &mut Vec<T>,
    ) {
        product.resize(output * pixels);
        match (filters, self, product) {
            (Prepared::Panels(filters), Self::Panels(panels, _), Elements::Same(values)) => {
                panels::multiply(values, pixels, (filters, 0..output), panels);
            }
            (filters, Self::Rows(rows, stride), product) => {
                // Nothing is widened: the rows are of the type that is computed in, or multiplied as they are.
                let mut none = Vec::new();
                let columns = rows.source().factor(*stride, 0..pixels, &mut none, Threads::One);
                let (mut target, factors) = (product.target(), (filters.factor(), columns));
                target.multiply_columns(pixels, 0..pixels, factors, wide, Threads::One);
            }
            _ => unreachable!("filters and the middle are prepared for the same products"),
        }
    }
}
