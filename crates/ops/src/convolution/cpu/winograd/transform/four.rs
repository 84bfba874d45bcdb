//! The matrices of F(4x4, 3x3), by the method of Toom and Cook (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks"
//! (2016), section 4): a filter and a line of output are polynomials, and what is multiplied are their values at 0, infinity and four
//! other points.
//!
//! Those points are `A`, `-A`, `B` and `-B` with `A = 1 / sqrt(2)` and `B = sqrt(2)`. With 1 and 2, which are usual, rounding errors are
//! twice as large, and the worst of them four times, because powers are up to 8. As `A` is `1 / B`, turning a filter exchanges the
//! two, apart from a factor. The rows of [`OfFilter`] are chosen such that it is 1, and [`OfInput`] makes up for that: a third of the powers
//! of `B` from the first on, and a third of 2, sqrt(2) and 1, which are those of `A`, doubled.

use std::f64::consts::{FRAC_1_SQRT_2 as A, SQRT_2 as B};

use pulp::Simd;

use super::Matrix;
use crate::cpu::real::Real;

/// A constant times `a`.
#[inline(always)]
fn scaled<S: Simd, T: Real>(simd: S, factor: f64, a: T::Register<S>) -> T::Register<S> {
    T::product(simd, T::of(factor).splat(simd), a)
}

/// A constant times `a`, plus `b`.
#[inline(always)]
fn scaled_plus<S: Simd, T: Real>(simd: S, factor: f64, a: T::Register<S>, b: T::Register<S>) -> T::Register<S> {
    T::mul_add(simd, T::of(factor).splat(simd), a, b)
}

/// Transforms six lines of input for the products.
pub(in super::super) struct OfInput;

impl Matrix<6, 6> for OfInput {
    #[inline(always)]
    fn times<S: Simd, T: Real>(simd: S, [a, b, c, d, e, f]: [T::Register<S>; 6]) -> [T::Register<S>; 6] {
        let first = (
            scaled_plus::<S, T>(simd, 2.0, c, T::negative(simd, e)),
            scaled::<S, T>(simd, A, scaled_plus::<S, T>(simd, 2.0, b, T::negative(simd, d))),
        );
        let second = (
            scaled::<S, T>(simd, 0.25, scaled_plus::<S, T>(simd, 2.0, e, T::negative(simd, c))),
            scaled::<S, T>(simd, B / 4.0, scaled_plus::<S, T>(simd, 2.0, d, T::negative(simd, b))),
        );
        [
            T::sum(simd, scaled_plus::<S, T>(simd, -2.5, c, a), e),
            T::sum(simd, first.0, first.1),
            T::difference(simd, first.0, first.1),
            T::sum(simd, second.0, second.1),
            T::difference(simd, second.0, second.1),
            T::sum(simd, scaled_plus::<S, T>(simd, -2.5, d, b), f),
        ]
    }
}

/// Transforms three taps of a filter for the products.
pub(in super::super) struct OfFilter;

impl Matrix<3, 6> for OfFilter {
    #[inline(always)]
    fn times<S: Simd, T: Real>(simd: S, [a, b, c]: [T::Register<S>; 3]) -> [T::Register<S>; 6] {
        let odd = scaled::<S, T>(simd, B / 3.0, b);
        let first = scaled::<S, T>(simd, 1.0 / 3.0, scaled_plus::<S, T>(simd, 2.0, a, c));
        let second = scaled::<S, T>(simd, 1.0 / 3.0, scaled_plus::<S, T>(simd, 2.0, c, a));
        [
            a,
            T::sum(simd, first, odd),
            T::difference(simd, first, odd),
            T::sum(simd, second, odd),
            T::difference(simd, second, odd),
            c,
        ]
    }
}

/// Transforms products into four lines of output.
pub(in super::super) struct ToOutput;

impl Matrix<6, 4> for ToOutput {
    #[inline(always)]
    fn times<S: Simd, T: Real>(simd: S, [a, b, c, d, e, f]: [T::Register<S>; 6]) -> [T::Register<S>; 4] {
        let (first, second) = (T::sum(simd, b, c), T::sum(simd, d, e));
        let (odd_first, odd_second) = (T::difference(simd, b, c), T::difference(simd, d, e));
        [
            T::sum(simd, a, T::sum(simd, first, second)),
            scaled::<S, T>(simd, A, scaled_plus::<S, T>(simd, 2.0, odd_second, odd_first)),
            scaled_plus::<S, T>(simd, 0.5, first, scaled::<S, T>(simd, 2.0, second)),
            scaled_plus::<S, T>(simd, A / 2.0, odd_first, scaled_plus::<S, T>(simd, 2.0 * B, odd_second, f)),
        ]
    }
}

/// Transforms four lines of the output's gradient for the products: [`ToOutput`] transposed.
pub(in super::super) struct OfGradient;

impl Matrix<4, 6> for OfGradient {
    #[inline(always)]
    fn times<S: Simd, T: Real>(simd: S, [a, b, c, d]: [T::Register<S>; 4]) -> [T::Register<S>; 6] {
        let (first, second) = (scaled_plus::<S, T>(simd, 0.5, c, a), scaled_plus::<S, T>(simd, 2.0, c, a));
        let (odd_first, odd_second) = (
            scaled::<S, T>(simd, A, scaled_plus::<S, T>(simd, 0.5, d, b)),
            scaled::<S, T>(simd, B, scaled_plus::<S, T>(simd, 2.0, d, b)),
        );
        [
            a,
            T::sum(simd, first, odd_first),
            T::difference(simd, first, odd_first),
            T::sum(simd, second, odd_second),
            T::difference(simd, second, odd_second),
            d,
        ]
    }
}

/// Transforms sums of products into the gradient of three taps: [`OfFilter`] transposed.
pub(in super::super) struct ToFilter;

impl Matrix<6, 3> for ToFilter {
    #[inline(always)]
    fn times<S: Simd, T: Real>(simd: S, [a, b, c, d, e, f]: [T::Register<S>; 6]) -> [T::Register<S>; 3] {
        let (first, second) = (T::sum(simd, b, c), T::sum(simd, d, e));
        let odd = T::sum(simd, T::difference(simd, b, c), T::difference(simd, d, e));
        [
            scaled_plus::<S, T>(simd, 1.0 / 3.0, scaled_plus::<S, T>(simd, 2.0, first, second), a),
            scaled::<S, T>(simd, B / 3.0, odd),
            scaled_plus::<S, T>(simd, 1.0 / 3.0, scaled_plus::<S, T>(simd, 2.0, second, first), f),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{matrix, transposed};
    use super::*;

    /// The output of a line of six numbers under three taps, by the matrices and by the definition.
    #[test]
    fn the_matrices_compute_convolutions() {
        let [of_input, of_filter, to_output] = [matrix(OfInput), matrix(OfFilter), matrix(ToOutput)];
        let (of_columns, of_taps) = (transposed(&of_input), transposed(&of_filter));
        for (column, input) in of_columns.iter().enumerate() {
            for (tap, filter) in of_taps.iter().enumerate() {
                for (at, output) in to_output.iter().enumerate() {
                    let made: f64 = output.iter().zip(filter).zip(input).map(|((a, b), c)| a * b * c).sum();
                    let expected = f64::from(column == at + tap);
                    assert!((made - expected).abs() < 1e-14, "input {column}, tap {tap}, output {at}: {made}");
                }
            }
        }
    }

    #[test]
    fn gradients_are_transformed_by_the_transposed_matrices() {
        let same = |a: Vec<Vec<f64>>, b: Vec<Vec<f64>>| {
            a.len() == b.len() && a.iter().flatten().zip(b.iter().flatten()).all(|(a, b)| (a - b).abs() < 1e-15)
        };
        assert!(same(matrix(OfGradient), transposed(&matrix(ToOutput))));
        assert!(same(matrix(ToFilter), transposed(&matrix(OfFilter))));
    }
}
