//! The factors of the products that dense convolutions are made of: filters, and parts of maps.
//!
//! Maps of bf16 are multiplied as they are stored where the processor has instructions for it ([`super::gemm_bf16`]). Filters, and
//! values that are normalised while they are read, are rounded to bf16 for that, as they are on GPUs. All other products are those of
//! [`gemm`], in the number type that is computed in.

use burn::tensor::DType;
use half::bf16;

use super::gemm::{self, Matrix, Mode, Threads, as_singles, as_singles_mut};
use super::gemm_bf16;
use super::real::Real;
use crate::reserve;

/// Whether maps of a format are multiplied as they are stored.
pub(crate) fn multiplies_as_stored(format: DType) -> bool {
    format == DType::BF16 && gemm_bf16::pays()
}

/// The left factor of products of filters.
#[derive(Clone, Copy)]
pub(crate) enum Filters<'a, T> {
    /// As they are.
    Plain(Matrix<'a, T>),
    /// Rounded to bf16, for maps that are float32 or bf16.
    Packed(&'a gemm_bf16::Left),
}

/// Rounds filters to bf16 and packs them, with memory reserved for that.
///
/// # Panics
/// If they are not float32, neither their rows nor their columns are contiguous, or the keeper of memory refuses.
pub(crate) fn packed<T: Real>(filters: Matrix<'_, T>) -> gemm_bf16::Left {
    let [rows, inner] = filters.shape;
    reserve::bytes(gemm_bf16::Left::bytes(rows, inner));
    gemm_bf16::Left::new(as_singles(filters))
}

/// The same for filters `[filters, channels, taps]` that strips of a map are multiplied with.
///
/// # Panics
/// If they are not float32, or the keeper of memory refuses.
pub(crate) fn taps<T: Real>(weight: &[T], shape: [usize; 3]) -> gemm_bf16::Taps {
    let [filters, channels, taps] = shape;
    reserve::bytes(gemm_bf16::Taps::bytes(filters, channels, taps));
    gemm_bf16::Taps::new(as_singles(Matrix::of(weight, filters, channels * taps)).values, shape)
}

/// A part of a map, as a factor.
#[derive(Clone, Copy)]
pub(crate) enum Part<'a, T> {
    /// In the type that is computed in.
    Wide(Matrix<'a, T>),
    /// As it is stored. What it is multiplied with is rounded to bf16.
    Halves(Matrix<'a, bf16>),
}

impl<T: Real> Filters<'_, T> {
    /// Writes or adds these filters times `right` to the matrix whose rows begin `stride` elements apart in `target`.
    ///
    /// # Panics
    /// If the shapes do not match, a matrix does not lie in its slice, or `right` is as it is stored and the filters are not packed.
    pub(crate) fn multiply(self, target: &mut [T], stride: usize, mode: Mode, right: Part<'_, T>, threads: Threads) {
        match (self, right) {
            (Self::Plain(left), Part::Wide(right)) => gemm::multiply(target, stride, mode, left, right, threads),
            (Self::Packed(left), Part::Wide(right)) => {
                left.multiply(as_singles_mut(target), stride, mode, as_singles(right), threads);
            }
            (Self::Packed(left), Part::Halves(right)) => {
                left.multiply(as_singles_mut(target), stride, mode, right, threads);
            }
            (Self::Plain(_), Part::Halves(_)) => unreachable!("a map is taken as it is stored if filters are packed"),
        }
    }
}

impl<T: Real> Part<'_, T> {
    pub(crate) fn columns(&self) -> usize {
        match self {
            Self::Wide(matrix) => matrix.columns(),
            Self::Halves(matrix) => matrix.columns(),
        }
    }

    /// Columns become rows.
    pub(crate) fn transposed(self) -> Self {
        match self {
            Self::Wide(matrix) => Self::Wide(matrix.transposed()),
            Self::Halves(matrix) => Self::Halves(matrix.transposed()),
        }
    }

    /// Adds this part times another to the matrix whose rows begin `stride` elements apart in `target`. If one of them is as it is stored,
    /// the other is rounded to bf16.
    ///
    /// # Panics
    /// If the shapes do not match, or a matrix does not lie in its slice.
    pub(crate) fn add_product(self, target: &mut [T], stride: usize, right: Self, threads: Threads) {
        let mode = Mode::Add;
        match (self, right) {
            (Self::Wide(left), Self::Wide(right)) => gemm::multiply(target, stride, mode, left, right, threads),
            (Self::Halves(left), Self::Halves(right)) => {
                gemm_bf16::multiply(as_singles_mut(target), stride, mode, left, right, threads);
            }
            (Self::Halves(left), Self::Wide(right)) => {
                gemm_bf16::multiply(as_singles_mut(target), stride, mode, left, as_singles(right), threads);
            }
            (Self::Wide(left), Self::Halves(right)) => {
                gemm_bf16::multiply(as_singles_mut(target), stride, mode, as_singles(left), right, threads);
            }
        }
    }
}
