//! The matrices of F(2x2, 3x3): those of Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2016), section 4.1, and
//! their transposes.

use pulp::Simd;

use super::Matrix;
use crate::cpu::real::Real;

/// Transforms four lines of input for the products.
pub(in super::super) struct OfInput;

impl Matrix<4, 4> for OfInput {
    #[inline(always)]
    fn times<S: Simd, T: Real>(simd: S, [a, b, c, d]: [T::Register<S>; 4]) -> [T::Register<S>; 4] {
        [T::difference(simd, a, c), T::sum(simd, b, c), T::difference(simd, c, b), T::difference(simd, b, d)]
    }
}

/// Transforms three taps of a filter for the products.
pub(in super::super) struct OfFilter;

impl Matrix<3, 4> for OfFilter {
    #[inline(always)]
    fn times<S: Simd, T: Real>(simd: S, [a, b, c]: [T::Register<S>; 3]) -> [T::Register<S>; 4] {
        let half = T::of(0.5).splat(simd);
        let (ends, middle) = (T::product(simd, half, T::sum(simd, a, c)), T::product(simd, half, b));
        [a, T::sum(simd, ends, middle), T::difference(simd, ends, middle), c]
    }
}

/// Transforms products into two lines of output.
pub(in super::super) struct ToOutput;

impl Matrix<4, 2> for ToOutput {
    #[inline(always)]
    fn times<S: Simd, T: Real>(simd: S, [a, b, c, d]: [T::Register<S>; 4]) -> [T::Register<S>; 2] {
        [T::sum(simd, T::sum(simd, a, b), c), T::difference(simd, T::difference(simd, b, c), d)]
    }
}

/// Transforms two lines of the output's gradient for the products: [`ToOutput`] transposed.
pub(in super::super) struct OfGradient;

impl Matrix<2, 4> for OfGradient {
    #[inline(always)]
    fn times<S: Simd, T: Real>(simd: S, [a, b]: [T::Register<S>; 2]) -> [T::Register<S>; 4] {
        [a, T::sum(simd, a, b), T::difference(simd, a, b), T::negative(simd, b)]
    }
}

/// Transforms sums of products into the gradient of three taps: [`OfFilter`] transposed.
pub(in super::super) struct ToFilter;

impl Matrix<4, 3> for ToFilter {
    #[inline(always)]
    fn times<S: Simd, T: Real>(simd: S, [a, b, c, d]: [T::Register<S>; 4]) -> [T::Register<S>; 3] {
        let half = T::of(0.5).splat(simd);
        let (sum, difference) =
            (T::product(simd, half, T::sum(simd, b, c)), T::product(simd, half, T::difference(simd, b, c)));
        [T::sum(simd, a, sum), difference, T::sum(simd, sum, d)]
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{matrix, transposed};
    use super::*;

    #[test]
    fn the_matrices_are_those_of_the_paper() {
        let of_input = [[1.0, 0.0, -1.0, 0.0], [0.0, 1.0, 1.0, 0.0], [0.0, -1.0, 1.0, 0.0], [0.0, 1.0, 0.0, -1.0]];
        let of_filter = [[1.0, 0.0, 0.0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0.0, 0.0, 1.0]];
        let to_output = [[1.0, 1.0, 1.0, 0.0], [0.0, 1.0, -1.0, -1.0]];
        assert_eq!(matrix(OfInput), of_input.map(Vec::from));
        assert_eq!(matrix(OfFilter), of_filter.map(Vec::from));
        assert_eq!(matrix(ToOutput), to_output.map(Vec::from));
        assert_eq!(matrix(OfGradient), transposed(&matrix(ToOutput)));
        assert_eq!(matrix(ToFilter), transposed(&matrix(OfFilter)));
    }
}
