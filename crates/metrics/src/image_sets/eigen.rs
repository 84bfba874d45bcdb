//! Eigenvalues of symmetric matrices.

use nalgebra::DMatrix;

/// The eigenvalues of a symmetric matrix `[size, size]`, in ascending order. They are accurate to the rounding of the largest one, which
/// is sufficient for square roots of covariances.
pub(crate) fn eigenvalues(matrix: Vec<f64>, size: usize) -> Vec<f64> {
    let mut values = DMatrix::from_vec(size, size, matrix).symmetric_eigenvalues().as_slice().to_vec();
    values.sort_by(f64::total_cmp);
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eigenvalues_are_those_of_known_matrices() {
        // The second difference: 2 - 2 cos(k pi / (n + 1)).
        let size = 9;
        let mut matrix = vec![0.0; size * size];
        for index in 0..size {
            matrix[index * size + index] = 2.0;
            if index > 0 {
                matrix[index * size + index - 1] = -1.0;
                matrix[(index - 1) * size + index] = -1.0;
            }
        }
        for (index, value) in eigenvalues(matrix, size).into_iter().enumerate() {
            let angle = (index + 1) as f64 * std::f64::consts::PI / (size + 1) as f64;
            assert!((value - (2.0 - 2.0 * angle.cos())).abs() < 1e-13);
        }
        // All ones: one eigenvalue, the size, and zeros.
        let values = eigenvalues(vec![1.0; 25], 5);
        assert!((values[4] - 5.0).abs() < 1e-13 && values[..4].iter().all(|value| value.abs() < 1e-13));
        assert_eq!(eigenvalues(vec![3.0], 1), [3.0]);
        assert_eq!(eigenvalues(vec![0.0; 4], 2), [0.0; 2]);
    }

    /// For the product of a matrix with its transpose, the sum of the eigenvalues is the sum of squares of the matrix, and the sum of their
    /// squares is the sum of squares of the product.
    #[test]
    fn sums_of_powers_are_those_of_a_full_matrix() {
        let size = 40;
        let value = |row: usize, column: usize| ((row * 37 + column * 101 + row * column) % 23) as f64 / 11.0 - 1.0;
        let mut matrix = vec![0.0; size * size];
        for row in 0..size {
            for column in 0..size {
                matrix[row * size + column] = value(row, column) + value(column, row);
            }
        }
        let trace: f64 = (0..size).map(|index| matrix[index * size + index]).sum();
        let squares: f64 = matrix.iter().map(|value| value * value).sum();
        let values = eigenvalues(matrix, size);
        assert!((values.iter().sum::<f64>() - trace).abs() < 1e-11);
        assert!((values.iter().map(|value| value * value).sum::<f64>() - squares).abs() < 1e-9 * squares);
    }

    /// A matrix with overflowed values has no eigenvalues, and the search for them must end nevertheless.
    #[test]
    fn what_is_not_finite_ends_too() {
        for strange in [f64::NAN, f64::INFINITY, f64::MAX] {
            for size in [1, 2, 3, 17] {
                let mut matrix = vec![1.0; size * size];
                matrix[size * size - 1] = strange;
                assert_eq!(eigenvalues(matrix, size).len(), size);
                assert_eq!(eigenvalues(vec![strange; size * size], size).len(), size);
            }
        }
    }
}
