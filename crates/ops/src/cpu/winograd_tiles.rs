//! The transforms of Winograd's F(2x2, 3x3): tiles of many places at once, one in each lane of a register.
//!
//! Each is a small matrix `t`, applied to the columns of a tile and then to the rows, `t * tile * t^T`. A tile lies in planes,
//! one for each of its values, with the values of neighbouring places side by side. The matrices are those of
//! Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2016), section 4.1, and their transposes.

use std::marker::PhantomData;

use pulp::{Arch, Simd, WithSimd};

/// A matrix of `M` rows and `N` columns, as what it does to a vector.
pub(super) trait Matrix<const N: usize, const M: usize> {
    /// The product.
    fn times<S: Simd>(simd: S, values: [S::f32s; N]) -> [S::f32s; M];
}

/// Four lines of input to what is multiplied.
pub(super) struct OfInput;

impl Matrix<4, 4> for OfInput {
    #[inline(always)]
    fn times<S: Simd>(simd: S, [a, b, c, d]: [S::f32s; 4]) -> [S::f32s; 4] {
        [simd.sub_f32s(a, c), simd.add_f32s(b, c), simd.sub_f32s(c, b), simd.sub_f32s(b, d)]
    }
}

/// Three taps of a filter to what is multiplied.
pub(super) struct OfFilter;

impl Matrix<3, 4> for OfFilter {
    #[inline(always)]
    fn times<S: Simd>(simd: S, [a, b, c]: [S::f32s; 3]) -> [S::f32s; 4] {
        let half = simd.splat_f32s(0.5);
        let (ends, middle) = (simd.mul_f32s(half, simd.add_f32s(a, c)), simd.mul_f32s(half, b));
        [a, simd.add_f32s(ends, middle), simd.sub_f32s(ends, middle), c]
    }
}

/// Products to two lines of output.
pub(super) struct ToOutput;

impl Matrix<4, 2> for ToOutput {
    #[inline(always)]
    fn times<S: Simd>(simd: S, [a, b, c, d]: [S::f32s; 4]) -> [S::f32s; 2] {
        [simd.add_f32s(simd.add_f32s(a, b), c), simd.sub_f32s(simd.sub_f32s(b, c), d)]
    }
}

/// Two lines of the output's gradient to what is multiplied: [`ToOutput`] transposed.
pub(super) struct OfGradient;

impl Matrix<2, 4> for OfGradient {
    #[inline(always)]
    fn times<S: Simd>(simd: S, [a, b]: [S::f32s; 2]) -> [S::f32s; 4] {
        [a, simd.add_f32s(a, b), simd.sub_f32s(a, b), simd.neg_f32s(b)]
    }
}

/// Sums of products to the gradient of three taps: [`OfFilter`] transposed.
pub(super) struct ToFilter;

impl Matrix<4, 3> for ToFilter {
    #[inline(always)]
    fn times<S: Simd>(simd: S, [a, b, c, d]: [S::f32s; 4]) -> [S::f32s; 3] {
        let half = simd.splat_f32s(0.5);
        let (sum, difference) = (simd.mul_f32s(half, simd.add_f32s(b, c)), simd.mul_f32s(half, simd.sub_f32s(b, c)));
        [simd.add_f32s(a, sum), difference, simd.add_f32s(sum, d)]
    }
}

/// `count` tiles: where the planes of each of their values begin in a slice.
pub(super) struct Tiles<'a, const N: usize> {
    pub(super) values: &'a [f32],
    pub(super) begin: [[usize; N]; N],
    pub(super) count: usize,
}

/// Writes what the matrix makes of the tiles to planes that begin `pitch` apart in `to`.
///
/// # Panics
/// If a plane does not lie in its slice.
pub(super) fn transform<T: Matrix<N, M>, const N: usize, const M: usize>(
    _: T,
    tiles: &Tiles<'_, N>,
    to: &mut [f32],
    pitch: usize,
) {
    Arch::new().dispatch(Transform { tiles, to, pitch, matrix: PhantomData::<T> });
}

struct Transform<'a, T, const N: usize, const M: usize> {
    tiles: &'a Tiles<'a, N>,
    to: &'a mut [f32],
    pitch: usize,
    matrix: PhantomData<T>,
}

impl<T: Matrix<N, M>, const N: usize, const M: usize> WithSimd for Transform<'_, T, N, M> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { tiles: &Tiles { values, ref begin, count }, to, pitch, .. } = self;
        let whole = count - count % S::F32_LANES;
        for at in (0..whole).step_by(S::F32_LANES) {
            piece::<S, T, N, M>(
                simd,
                #[inline(always)]
                |row, column| S::as_simd_f32s(&values[begin[row][column] + at..][..S::F32_LANES]).0[0],
                #[inline(always)]
                |plane, made| S::as_mut_simd_f32s(&mut to[plane * pitch + at..][..S::F32_LANES]).0[0] = made,
            );
        }
        let rest = count - whole;
        if rest > 0 {
            piece::<S, T, N, M>(
                simd,
                #[inline(always)]
                |row, column| simd.partial_load_f32s(&values[begin[row][column] + whole..][..rest]),
                #[inline(always)]
                |plane, made| simd.partial_store_f32s(&mut to[plane * pitch + whole..][..rest], made),
            );
        }
    }
}

/// A register of tiles.
#[inline(always)]
fn piece<S: Simd, T: Matrix<N, M>, const N: usize, const M: usize>(
    simd: S,
    load: impl Fn(usize, usize) -> S::f32s,
    mut store: impl FnMut(usize, S::f32s),
) {
    // Loops instead of `array::map`, which is not always inlined and would lose the registers.
    let zero = simd.splat_f32s(0.0);
    let mut columns = [[zero; M]; N];
    for (column, made) in columns.iter_mut().enumerate() {
        let mut values = [zero; N];
        for (row, value) in values.iter_mut().enumerate() {
            *value = load(row, column);
        }
        *made = T::times(simd, values);
    }
    for row in 0..M {
        let mut values = [zero; N];
        for (value, made) in values.iter_mut().zip(&columns) {
            *value = made[row];
        }
        for (column, made) in T::times(simd, values).into_iter().enumerate() {
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
