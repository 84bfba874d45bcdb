//! The Frechet distance between two normal distributions with the means and covariances of two sets ("GANs Trained by a Two
//! Time-Scale Update Rule Converge to a Local Nash Equilibrium", Heusel et al. 2017, formula 6). With Inception's features it is called
//! FID; with other features it is a different number.

use super::eigen::eigenvalues;
use super::error::MetricError;
use super::features::Features;

/// `|m1 - m2|^2 + tr(C1 + C2 - 2 (C1 C2)^(1/2))`, covariances with `n - 1`.
///
/// The trace of the square root is the sum of the singular values of `A1 A2'`, where `C = A' A`. For few images, `A` consists of their
/// centred features, so that no covariance matrix is computed.
///
/// # Errors
/// [`MetricError::TooFew`] for less than two images, [`MetricError::Widths`].
pub fn frechet_distance(first: &Features, second: &Features) -> Result<f64, MetricError> {
    first.comparable(second, 2)?;
    let (first_mean, second_mean) = (first.mean(), second.mean());
    let means: f64 = first_mean.iter().zip(&second_mean).map(|(a, b)| (a - b) * (a - b)).sum();
    let (first, second) = (factor(first, &first_mean), factor(second, &second_mean));
    let trace = |factor: &Features| factor.rows().flatten().map(|value| value * value).sum::<f64>();
    let (small, large) = if first.count() <= second.count() { (&first, &second) } else { (&second, &first) };
    let size = small.count();
    let products = Features::new(small.products(large), large.count())?;
    let gram = products.products(&products);
    let values = eigenvalues(gram, size);
    // An eigenvalue below the rounding of the largest one counts as zero; its square root would be far from zero.
    let noise = values.last().copied().unwrap_or(0.0) * f64::EPSILON * size as f64;
    let roots: f64 = values.iter().filter(|value| **value > noise).map(|value| value.sqrt()).sum();
    // For equal sets, rounding may give a small negative number.
    Ok((means + trace(&first) + trace(&second) - 2.0 * roots).max(0.0))
}

/// A matrix `A` for which `A' A` is the covariance, with as many rows as there are images or numbers, whichever is less.
fn factor(features: &Features, mean: &[f64]) -> Features {
    let (count, width) = (features.count(), features.width());
    let centred = features.less(mean, 1.0 / ((count - 1) as f64).sqrt());
    if count <= width { centred } else { cholesky(covariance(&centred), width) }
}

/// `A' A`, `[width, width]`.
fn covariance(centred: &Features) -> Vec<f64> {
    let columns: Vec<f64> =
        (0..centred.width()).flat_map(|column| centred.rows().map(move |row| row[column])).collect();
    let columns = Features::new(columns, centred.count()).unwrap_or_else(|_| centred.clone());
    columns.products(&columns)
}

/// A matrix `R` for which `R' R` is a positive semidefinite matrix: the pivoted Cholesky decomposition, which takes the largest remaining
/// diagonal element first and stops when only rounding is left.
fn cholesky(mut matrix: Vec<f64>, size: usize) -> Features {
    let largest = |matrix: &[f64]| {
        let diagonal = (0..size).map(|index| (index, matrix[index * size + index]));
        diagonal.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0, 0.0))
    };
    let noise = largest(&matrix).1 * f64::EPSILON * size as f64;
    let mut rows = Vec::new();
    for _ in 0..size {
        let (pivot, value) = largest(&matrix);
        if value <= noise {
            break;
        }
        let root = value.sqrt();
        let row: Vec<f64> = matrix[pivot * size..(pivot + 1) * size].iter().map(|entry| entry / root).collect();
        for (index, line) in matrix.chunks_exact_mut(size).enumerate() {
            let factor = row[index];
            line.iter_mut().zip(&row).for_each(|(entry, row)| *entry -= factor * row);
        }
        rows.extend(row);
    }
    if rows.is_empty() {
        rows = vec![0.0; size];
    }
    Features::new(rows, size).unwrap_or_else(|_| unreachable!("rows of finite numbers"))
}
