//! Winograd's transforms, for many tiles at once: each lane of a register holds a tile of its own.
//!
//! A transform is a small matrix `t` that is applied to the columns of a tile and then to its rows, `t * tile * t^T`. Tiles are stored
//! in planes, one for each value of a tile, in which the values of neighbouring tiles are neighbours.

pub(super) mod four;
pub(super) mod two;

use std::marker::PhantomData;

use pulp::{Arch, Simd, WithSimd};

use crate::cpu::real::Real;

/// A constant matrix of `M` rows and `N` columns, written out as additions.
pub(super) trait Matrix<const N: usize, const M: usize> {
    /// The product of the matrix and a vector.
    fn times<S: Simd, T: Real>(simd: S, values: [T::Register<S>; N]) -> [T::Register<S>; M];
}

/// `count` tiles of `N` by `N` values: `begin` says where the plane of each value begins in `values`.
pub(super) struct Tiles<'a, T, const N: usize> {
    pub(super) values: &'a [T],
    pub(super) begin: [[usize; N]; N],
    pub(super) count: usize,
}

impl<'a, T, const N: usize> Tiles<'a, T, N> {
    /// Of planes that begin `pitch` apart, from the `begin`th of their elements on.
    pub(super) fn of_planes(values: &'a [T], begin: usize, pitch: usize, count: usize) -> Self {
        let of_value = |row: usize, column: usize| (row * N + column) * pitch + begin;
        let begin = std::array::from_fn(|row| std::array::from_fn(|column| of_value(row, column)));
        Self { values, begin, count }
    }
}

/// Applies the matrix to the tiles and writes the results to planes that begin `pitch` apart in `to`.
///
/// # Panics
/// If a plane does not lie in its slice.
pub(super) fn transform<A: Matrix<N, M>, T: Real, const N: usize, const M: usize>(
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

    /// The matrix, column by column: what it makes of unit vectors in the upper left corner of a tile, divided by what it makes of the
    /// first of them, in its first line, the root of which is the matrix's first value.
    pub(super) fn matrix<T: Matrix<N, M>, const N: usize, const M: usize>(of: T) -> Vec<Vec<f64>> {
        let mut to = vec![0.0; N * M * M];
        // The tile of place `column` is 1 in row 0 and its column: made is the first column of the matrix times `t e`.
        let mut values = vec![0.0; N * N * N];
        for index in 0..N {
            values[index * N + index] = 1.0;
        }
        transform(of, &Tiles::of_planes(&values, 0, N, N), &mut to, N);
        let first: f64 = to[0];
        (0..M).map(|row| (0..N).map(|column| to[row * N + column] / first.sqrt()).collect()).collect()
    }

    pub(super) fn transposed(rows: &[Vec<f64>]) -> Vec<Vec<f64>> {
        (0..rows[0].len()).map(|column| rows.iter().map(|row| row[column]).collect()).collect()
    }
}
