//! The transforms of Winograd's F(2x2, 3x3), for many tiles at once: each lane of a register holds a tile of its own.
//!
//! A transform is a small matrix `t` that is applied to the columns of a tile and then to its rows, `t * tile * t^T`. Tiles are stored
//! in planes, one for each value of a tile, in which the values of neighbouring tiles are neighbours. The matrices are those of
//! Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2016), section 4.1, and their transposes.

use std::marker::PhantomData;

use pulp::{Arch, Simd, WithSimd};

use crate::cpu::real::Real;

/// A constant matrix of `M` rows and `N` columns, written out as additions.
pub(crate) trait Matrix<const N: usize, const M: usize> {
    /// The product of the matrix and a vector.
    fn times<S: Simd, T: Real>(simd: S, values: [T::Register<S>; N]) -> [T::Register<S>; M];
}

/// Transforms four lines of input for the products.
pub(crate) struct OfInput;

impl Matrix<4, 4> for OfInput {
    #[inline(always)]
    fn times<S: Simd, T: Real>(simd: S, [a, b, c, d]: [T::Register<S>; 4]) -> [T::Register<S>; 4] {
        [T::difference(simd, a, c), T::sum(simd, b, c), T::difference(simd, c, b), T::difference(simd, b, d)]
    }
}

/// Transforms three taps of a filter for the products.
pub(crate) struct OfFilter;

impl Matrix<3, 4> for OfFilter {
    #[inline(always)]
    fn times<S: Simd, T: Real>(simd: S, [a, b, c]: [T::Register<S>; 3]) -> [T::Register<S>; 4] {
        let half = T::of(0.5).splat(simd);
        let (ends, middle) = (T::product(simd, half, T::sum(simd, a, c)), T::product(simd, half, b));
        [a, T::sum(simd, ends, middle), T::difference(simd, ends, middle), c]
    }
}

/// Transforms products into two lines of output.
pub(crate) struct ToOutput;

impl Matrix<4, 2> for ToOutput {
    #[inline(always)]
    fn times<S: Simd, T: Real>(simd: S, [a, b, c, d]: [T::Register<S>; 4]) -> [T::Register<S>; 2] {
        [T::sum(simd, T::sum(simd, a, b), c), T::difference(simd, T::difference(simd, b, c), d)]
    }
}

/// Transforms two lines of the output's gradient for the products: [`ToOutput`] transposed.
pub(crate) struct OfGradient;

impl Matrix<2, 4> for OfGradient {
    #[inline(always)]
    fn times<S: Simd, T: Real>(simd: S, [a, b]: [T::Register<S>; 2]) -> [T::Register<S>; 4] {
        [a, T::sum(simd, a, b), T::difference(simd, a, b), T::negative(simd, b)]
    }
}

/// Transforms sums of products into the gradient of three taps: [`OfFilter`] transposed.
pub(crate) struct ToFilter;

impl Matrix<4, 3> for ToFilter {
    #[inline(always)]
    fn times<S: Simd, T: Real>(simd: S, [a, b, c, d]: [T::Register<S>; 4]) -> [T::Register<S>; 3] {
        let half = T::of(0.5).splat(simd);
        let (sum, difference) =
            (T::product(simd, half, T::sum(simd, b, c)), T::product(simd, half, T::difference(simd, b, c)));
        [T::sum(simd, a, sum), difference, T::sum(simd, sum, d)]
    }
}

/// `count` tiles of `N` by `N` values: `begin` says where the plane of each value begins in `values`.
pub(crate) struct Tiles<'a, T, const N: usize> {
    pub(crate) values: &'a [T],
    pub(crate) begin: [[usize; N]; N],
    pub(crate) count: usize,
}

/// Applies the matrix to the tiles and writes the results to planes that begin `pitch` apart in `to`.
///
/// # Panics
/// If a plane does not lie in its slice.
pub(crate) fn transform<A: Matrix<N, M>, T: Real, const N: usize, const M: usize>(
    _: A,
    tiles: &Tiles<'_, T, N>,
    to: &mut [T],
    pitch: usize,
) {
    Arch::new().dispatch(Transform { tiles, to, pitch, matrix: PhantomData::<A> });
}

struct Transform<'a, A, T, const N: usize, const M: usize> {
    tiles: &'a Tiles<'a, T, N>,
    to: &'a mut [T],
    pitch: usize,
    matrix: PhantomData<A>,
}

impl<A: Matrix<N, M>, T: Real, const N: usize, const M: usize> WithSimd for Transform<'_, A, T, N, M> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { tiles: &Tiles { values, ref begin, count }, to, pitch, .. } = self;
        let whole = count - count % T::lanes::<S>();
        for at in (0..whole).step_by(T::lanes::<S>()) {
            piece::<S, A, T, N, M>(
                simd,
                #[inline(always)]
                |row, column| T::load(simd, &values[begin[row][column] + at..]),
                #[inline(always)]
                |plane, made| T::store(simd, &mut to[plane * pitch + at..][..T::lanes::<S>()], made),
            );
        }
        let rest = count - whole;
        if rest > 0 {
            piece::<S, A, T, N, M>(
                simd,
                #[inline(always)]
                |row, column| T::load_part(simd, &values[begin[row][column] + whole..][..rest]),
                #[inline(always)]
                |plane, made| T::store(simd, &mut to[plane * pitch + whole..][..rest], made),
            );
        }
    }
}

/// Transforms one register of tiles.
#[inline(always)]
fn piece<S: Simd, A: Matrix<N, M>, T: Real, const N: usize, const M: usize>(
    simd: S,
    load: impl Fn(usize, usize) -> T::Register<S>,
    mut store: impl FnMut(usize, T::Register<S>),
) {
    // Loops instead of `array::map`, which is not always inlined; then the values would leave the registers.
    let zero = T::of(0.0).splat(simd);
    let mut columns = [[zero; M]; N];
    for (column, made) in columns.iter_mut().enumerate() {
        let mut values = [zero; N];
        for (row, value) in values.iter_mut().enumerate() {
            *value = load(row, column);
        }
        *made = A::times::<S, T>(simd, values);
    }
    for row in 0..M {
        let mut values = [zero; N];
        for (value, made) in values.iter_mut().zip(&columns) {
            *value = made[row];
        }
        for (column, made) in A::times::<S, T>(simd, values).into_iter().enumerate() {
            store(row * M + column, made);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The matrix, column by column: what it makes of unit vectors in the upper left corner of a tile.
    fn matrix<T: Matrix<N, M>, const N: usize, const M: usize>(of: T) -> Vec<Vec<f32>> {
        let mut to = vec![0.0; N * M * M];
        // The tile of place `column` is 1 in row 0 and its column: made is the first column of the matrix times `t e`.
        let mut values = vec![0.0; N * N * N];
        let mut begin = [[0; N]; N];
        for (index, begin) in begin.as_flattened_mut().iter_mut().enumerate() {
            *begin = index * N;
            if index < N {
                values[index * N + index] = 1.0;
            }
        }
        transform(of, &Tiles { values: &values, begin, count: N }, &mut to, N);
        (0..M).map(|row| (0..N).map(|column| to[row * N + column]).collect()).collect()
    }

    /// Section 4.1 of the paper; the first row of each matrix's first column is 1.
    #[test]
    fn the_matrices_are_those_of_the_paper() {
        let of_input = [[1.0, 0.0, -1.0, 0.0], [0.0, 1.0, 1.0, 0.0], [0.0, -1.0, 1.0, 0.0], [0.0, 1.0, 0.0, -1.0]];
        let of_filter = [[1.0, 0.0, 0.0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0.0, 0.0, 1.0]];
        let to_output = [[1.0, 1.0, 1.0, 0.0], [0.0, 1.0, -1.0, -1.0]];
        assert_eq!(matrix(OfInput), of_input.map(Vec::from));
        assert_eq!(matrix(OfFilter), of_filter.map(Vec::from));
        assert_eq!(matrix(ToOutput), to_output.map(Vec::from));
        let transposed = |rows: Vec<Vec<f32>>| -> Vec<Vec<f32>> {
            (0..rows[0].len()).map(|column| rows.iter().map(|row| row[column]).collect()).collect()
        };
        assert_eq!(matrix(OfGradient), transposed(matrix(ToOutput)));
        assert_eq!(matrix(ToFilter), transposed(matrix(OfFilter)));
    }
}
