//! Matrix products on slices that write, or add, straight into their target. Burn's products allocate a matrix, which then has to be
//! copied.

use std::any::TypeId;
use std::mem::MaybeUninit;

use gemm::Parallelism;

use super::gemm_bf16;
#[cfg(target_arch = "x86_64")]
use super::inner_product;
pub(crate) use super::matrix::{Matrix, Mode, Output, Pixels, Stretches, Strip, Threads, apart};
use super::real::Real;

/// The most products of a sum that `gemm` 0.19.0 adds up in one go, whatever the sides of the result. Longer sums are taken in parts, other
/// ones where both sides are 64 or less; results of one row or one column are computed in a way of their own.
pub(crate) const IN_ONE_GO: usize = 512;

/// Writes or adds `left * right` to the matrix whose rows begin `stride` elements apart in `target`. The order of the sum over the
/// inner dimension does not depend on the number of threads.
///
/// Products of float32 whose factors follow each other along a long inner dimension, as those of gradients of weights do, are made of
/// inner products where that is faster (`inner_product`). All others are computed by `gemm`.
///
/// # Panics
/// If the shapes do not match, or a matrix does not lie in its slice.
#[allow(unsafe_code)]
pub(crate) fn multiply<T: Real>(
    target: &mut [T],
    stride: usize,
    mode: Mode,
    left: Matrix<'_, T>,
    right: Matrix<'_, T>,
    threads: Threads,
) {
    if !check(target.len(), stride, left, right) {
        return;
    }
    #[cfg(target_arch = "x86_64")]
    if let Some((left, right)) = of_float32(left).zip(of_float32(right))
        && inner_product::serves(&left, &right)
    {
        return inner_product::multiply(bytemuck::cast_slice_mut(target), stride, mode, left, right, threads);
    }
    // SAFETY: the factors and the product have been checked, and the target is borrowed exclusively.
    unsafe { product(target.as_mut_ptr(), stride, mode, left, right, threads) }
}

/// Writes `left * right` to places that may be blank, as [`multiply`] with [`Mode::Replace`]. The factors are those of convolutions, whose
/// inner dimension is not the long one: they are multiplied by `gemm`.
///
/// # Panics
/// As [`multiply`].
#[allow(unsafe_code)]
pub(crate) fn write<T: Real>(
    target: &mut [MaybeUninit<T>],
    stride: usize,
    left: Matrix<'_, T>,
    right: Matrix<'_, T>,
    threads: Threads,
) {
    if check(target.len(), stride, left, right) {
        // SAFETY: as in [`multiply`]; what is replaced need not have been written.
        unsafe { product(target.as_mut_ptr().cast(), stride, Mode::Replace, left, right, threads) }
    }
}

/// Whether there is anything to multiply, for a target of so many places.
///
/// # Panics
/// If the shapes do not match, or a matrix does not lie in its slice.
fn check<T>(places: usize, stride: usize, left: Matrix<'_, T>, right: Matrix<'_, T>) -> bool {
    let ([rows, inner], [again, columns]) = (left.shape, right.shape);
    assert_eq!(inner, again, "the inner dimensions of a product agree");
    if rows == 0 || columns == 0 {
        return false;
    }
    assert!(columns <= stride && (rows - 1) * stride + columns <= places, "the product lies in its slice");
    for matrix in [left, right] {
        let [[rows, columns], [down, right]] = [matrix.shape, matrix.strides];
        let last = rows.saturating_sub(1) * down + columns.saturating_sub(1) * right;
        assert!(rows * columns == 0 || last < matrix.values.len(), "a factor lies in its slice");
    }
    true
}

/// Whether numbers are those of float32.
pub(super) fn is_single<T: Real>() -> bool {
    TypeId::of::<T>() == TypeId::of::<f32>()
}

/// A matrix as one of float32, if its numbers are.
#[cfg(target_arch = "x86_64")]
fn of_float32<T: Real>(matrix: Matrix<'_, T>) -> Option<Matrix<'_, f32>> {
    is_single::<T>().then(|| as_singles(matrix))
}

/// A matrix of float32 as what it is.
///
/// # Panics
/// If its numbers are not float32.
pub(super) fn as_singles<T: Real>(matrix: Matrix<'_, T>) -> Matrix<'_, f32> {
    let Matrix { values, shape, strides } = matrix;
    Matrix { values: numbers_as_singles(values), shape, strides }
}

/// [`as_singles`] of numbers alone.
///
/// # Panics
/// If they are not float32.
pub(crate) fn numbers_as_singles<T: Real>(numbers: &[T]) -> &[f32] {
    assert!(is_single::<T>(), "what is computed with numbers of bf16 is float32");
    bytemuck::cast_slice(numbers)
}

/// [`as_singles`] of what is written.
///
/// # Panics
/// If the numbers are not float32.
pub(crate) fn as_singles_mut<T: Real>(target: &mut [T]) -> &mut [f32] {
    assert!(is_single::<T>(), "products of numbers of bf16 are float32");
    bytemuck::cast_slice_mut(target)
}

/// Bytes of the buffers that each thread keeps to pack the factors of matrix products; `halves` says whether maps are of a half format.
/// That of `gemm` has the size of the second-level cache, according to the source of `gemm-common` 0.19.0.
pub fn packing_bytes(halves: bool) -> u64 {
    #[cfg(target_arch = "x86_64")]
    let own = inner_product::packing_bytes();
    #[cfg(not(target_arch = "x86_64"))]
    let own = 0;
    let of_halves = if halves && gemm_bf16::pays() { gemm_bf16::packing_bytes() } else { 0 };
    (gemm_common::cache::CACHE_INFO[1].cache_bytes + own + of_halves) as u64
}

/// The most multiply-adds of a product that runs on one thread even if it may use all.
pub fn small_product() -> u64 {
    gemm_common::gemm::get_threading_threshold() as u64
}

/// Writes or adds `left * right`.
///
/// # Safety
/// [`check`] has passed for the slice that begins at `target`, which is borrowed exclusively, and written unless it is replaced.
///
/// That is enough: `gemm` reads `left` and `right` at `row * strides[0] + column * strides[1]` for rows and columns of their shapes and
/// writes `target` at `row * stride + column`. [`check`] has asserted that the last of each lies in its slice, and
/// strides are not negative, so all do. `columns <= stride` keeps the rows of the target apart, the exclusive borrow keeps
/// it apart from the factors, and elements are plain numbers. `Replace` never reads what was in the target, so that it may be blank.
#[allow(unsafe_code)]
unsafe fn product<T: Real>(
    target: *mut T,
    stride: usize,
    mode: Mode,
    left: Matrix<'_, T>,
    right: Matrix<'_, T>,
    threads: Threads,
) {
    let ([rows, inner], [_, columns]) = (left.shape, right.shape);
    let parallelism = match threads {
        Threads::All => Parallelism::Rayon(0),
        Threads::One => Parallelism::None,
    };
    // SAFETY: above.
    unsafe {
        gemm::gemm(
            rows,
            columns,
            inner,
            target,
            1,
            stride as isize,
            mode == Mode::Add,
            left.values.as_ptr(),
            left.strides[1] as isize,
            left.strides[0] as isize,
            right.values.as_ptr(),
            right.strides[1] as isize,
            right.strides[0] as isize,
            T::of(1.0),
            T::of(1.0),
            false,
            false,
            false,
            parallelism,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::random;
    use super::*;

    /// Shapes around the sides of the kernels' tiles, with either factor transposed, gaps between rows, and both modes.
    #[test]
    fn products_equal_the_naive_sums_and_touch_nothing_else() {
        let sides = [1, 2, 3, 7, 16, 17, 33];
        for (case, ((rows, columns), inner)) in sides
            .iter()
            .flat_map(|&rows| sides.iter().map(move |&columns| (rows, columns)))
            .flat_map(|pair| [1, 2, 5, 64, 300].map(|inner| (pair, inner)))
            .enumerate()
        {
            let (a, b) = (random(case as u64, rows * inner), random(case as u64 + 5000, inner * columns));
            let stride = columns + case % 3;
            let before = random(case as u64 + 9000, rows * stride);
            let left = match case % 2 {
                0 => Matrix::of(&a, rows, inner),
                _ => Matrix::of(&a, inner, rows).transposed(),
            };
            let right = match case % 5 {
                0 => Matrix::of(&b, columns, inner).transposed(),
                _ => Matrix::of(&b, inner, columns),
            };
            for (mode, threads) in [(Mode::Replace, Threads::One), (Mode::Add, Threads::All)] {
                let mut target = before.clone();
                multiply(&mut target, stride, mode, left, right, threads);
                for (index, (found, before)) in target.iter().zip(&before).enumerate() {
                    let (row, column) = (index / stride, index % stride);
                    let mut expected = if mode == Mode::Add { f64::from(*before) } else { 0.0 };
                    if column >= columns {
                        expected = f64::from(*before);
                    } else {
                        let at = |matrix: Matrix<'_, f32>, row: usize, column: usize| {
                            f64::from(matrix.values[row * matrix.strides[0] + column * matrix.strides[1]])
                        };
                        expected += (0..inner).map(|k| at(left, row, k) * at(right, k, column)).sum::<f64>();
                    }
                    assert!((f64::from(*found) - expected).abs() < 1e-4, "{rows}x{inner}x{columns} {mode:?} {index}");
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "a factor lies in its slice")]
    fn a_factor_beyond_its_slice_is_refused() {
        let (a, b, mut target) = ([0.0; 5], [0.0; 6], [0.0; 4]);
        multiply(&mut target, 2, Mode::Replace, Matrix::of(&a, 2, 3), Matrix::of(&b, 3, 2), Threads::One);
    }

    #[test]
    #[should_panic(expected = "the product lies in its slice")]
    fn a_product_beyond_its_slice_is_refused() {
        let (a, b, mut target) = ([0.0; 6], [0.0; 6], [0.0; 3]);
        multiply(&mut target, 2, Mode::Replace, Matrix::of(&a, 2, 3), Matrix::of(&b, 3, 2), Threads::One);
    }

    #[test]
    fn products_do_not_depend_on_the_number_of_threads() {
        let (a, b) = (random(1, 96 * 700), random(2, 700 * 1030));
        let run = |threads: Threads, pool: usize| {
            let mut target = vec![0.0; 96 * 1030];
            let pool = rayon::ThreadPoolBuilder::new().num_threads(pool).build().expect("a thread pool");
            let (left, right) = (Matrix::of(&a, 96, 700), Matrix::of(&b, 700, 1030));
            pool.install(|| multiply(&mut target, 1030, Mode::Replace, left, right, threads));
            target
        };
        let one = run(Threads::One, 1);
        for pool in [1, 2, 3, 8] {
            assert!(run(Threads::All, pool) == one, "{pool} threads");
        }
    }

    /// Products of float32 are made of inner products where that is faster, and those of float64 are not rounded to float32.
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn narrow_products_along_a_long_inner_dimension_are_made_of_inner_products_if_they_are_of_float32() {
        let [rows, inner, columns] = [24, 500, 96];
        let (a, b) = (random(1, rows * inner), random(2, columns * inner));
        let (left, right) = (Matrix::of(&a, rows, inner), Matrix::of(&b, columns, inner).transposed());
        let before = random(3, rows * columns);
        if inner_product::available() {
            assert!(inner_product::serves(&left, &right));
            let (mut target, mut own) = (before.clone(), before.clone());
            multiply(&mut target, columns, Mode::Add, left, right, Threads::One);
            inner_product::multiply(&mut own, columns, Mode::Add, left, right, Threads::One);
            assert!(target == own);
        }
        let [a, b, mut wide] =
            [&a, &b, &before].map(|values| values.iter().copied().map(f64::from).collect::<Vec<_>>());
        let (left, right) = (Matrix::of(&a, rows, inner), Matrix::of(&b, columns, inner).transposed());
        multiply(&mut wide, columns, Mode::Add, left, right, Threads::One);
        for (place, (found, before)) in wide.iter().zip(before).enumerate() {
            let (row, column) = (&a[place / columns * inner..][..inner], &b[place % columns * inner..][..inner]);
            let exact = f64::from(before) + row.iter().zip(column).map(|(a, b)| a * b).sum::<f64>();
            assert!((found - exact).abs() < 1e-12, "{place}");
        }
    }
}
