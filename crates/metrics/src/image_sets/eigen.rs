//! Eigenvalues of symmetric matrices.
//!
//! Written here because the libraries for it would change the features of crates that Burn uses, and Burn would be built
//! twice. Householder's reduction to three diagonals, then bisection with Sturm's sequences (Golub and Van Loan, "Matrix
//! Computations", 8.3 and 8.4): eigenvalues are found to rounding of the largest one, which is what square roots of
//! covariances need, and it cannot fail to converge.

use rayon::prelude::*;

use super::features::dot;

/// The eigenvalues of a symmetric matrix, `[size, size]`, ascending.
pub(crate) fn eigenvalues(matrix: Vec<f64>, size: usize) -> Vec<f64> {
    let (diagonal, beside) = tridiagonal(matrix, size);
    let reach = |index: usize| {
        let before = if index > 0 { beside[index - 1].abs() } else { 0.0 };
        diagonal[index].abs() + before + beside.get(index).map_or(0.0, |value| value.abs())
    };
    // Gershgorin: every eigenvalue lies within.
    let bound = (0..size).map(reach).fold(0.0, f64::max);
    (0..size).into_par_iter().map(|index| bisect(&diagonal, &beside, index, bound)).collect()
}

/// The diagonal, and the one beside it.
fn tridiagonal(mut matrix: Vec<f64>, size: usize) -> (Vec<f64>, Vec<f64>) {
    let mut beside = vec![0.0; size.saturating_sub(1)];
    for column in 0..size.saturating_sub(2) {
        let first = column + 1;
        let mut v: Vec<f64> = (first..size).map(|row| matrix[row * size + column]).collect();
        let norm = dot(&v, &v).sqrt();
        let alpha = if v[0] > 0.0 { -norm } else { norm };
        beside[column] = alpha;
        v[0] -= alpha;
        let length = dot(&v, &v);
        if length == 0.0 {
            continue;
        }
        let scale = 2.0 / length;
        let rest: Vec<f64> =
            matrix[first * size..].par_chunks_exact(size).map(|row| scale * dot(&row[first..], &v)).collect();
        let along = scale / 2.0 * dot(&v, &rest);
        let w: Vec<f64> = rest.iter().zip(&v).map(|(rest, v)| rest - along * v).collect();
        matrix[first * size..].par_chunks_exact_mut(size).enumerate().for_each(|(index, row)| {
            let (of_v, of_w) = (v[index], w[index]);
            row[first..].iter_mut().zip(v.iter().zip(&w)).for_each(|(value, (v, w))| *value -= of_v * w + of_w * v);
        });
    }
    if size > 1 {
        beside[size - 2] = matrix[(size - 1) * size + size - 2];
    }
    ((0..size).map(|index| matrix[index * size + index]).collect(), beside)
}

/// How many eigenvalues lie below `at`: the negative members of Sturm's sequence.
fn below(diagonal: &[f64], beside: &[f64], at: f64) -> usize {
    let mut count = 0;
    let mut last = 1.0;
    for (index, value) in diagonal.iter().enumerate() {
        let off = if index > 0 { beside[index - 1] } else { 0.0 };
        last = value - at - off * off / last;
        if last == 0.0 {
            last = f64::EPSILON * (off.abs() + f64::MIN_POSITIVE);
        }
        count += usize::from(last < 0.0);
    }
    count
}

/// Eigenvalue number `index`, which lies within `bound` of zero.
fn bisect(diagonal: &[f64], beside: &[f64], index: usize, bound: f64) -> f64 {
    let (mut low, mut high) = (-bound, bound);
    // Each halves the interval: more of them than a float has bits change nothing.
    for _ in 0..64 {
        let middle = (low + high) / 2.0;
        if below(diagonal, beside, middle) > index { high = middle } else { low = middle }
    }
    (low + high) / 2.0
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

    /// Of a product with its transpose the sum of eigenvalues is the sum of squares, and their squares' that of the
    /// product's squares.
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
}
