//! The features of a set of images: a row for each image.

use rayon::prelude::*;

use super::error::MetricError;

/// Features of some images, `[count, width]`, finite.
#[derive(Clone, Debug, PartialEq)]
pub struct Features {
    values: Vec<f64>,
    width: usize,
}

impl Features {
    /// Rows of `width` numbers, one after the other.
    ///
    /// # Errors
    /// [`MetricError::NoRows`] or [`MetricError::NotFinite`].
    pub fn new(values: Vec<f64>, width: usize) -> Result<Self, MetricError> {
        if width == 0 || !values.len().is_multiple_of(width) {
            return Err(MetricError::NoRows { numbers: values.len(), width });
        }
        match values.iter().all(|value| value.is_finite()) {
            true => Ok(Self { values, width }),
            false => Err(MetricError::NotFinite),
        }
    }

    /// The number of images.
    pub fn count(&self) -> usize {
        self.values.len() / self.width
    }

    /// Numbers in the features of an image.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The features of one image.
    ///
    /// # Panics
    /// If there is no such image.
    pub fn row(&self, index: usize) -> &[f64] {
        &self.values[index * self.width..(index + 1) * self.width]
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = &[f64]> {
        self.values.chunks_exact(self.width)
    }

    /// The mean of each number over all images.
    pub(crate) fn mean(&self) -> Vec<f64> {
        let mut mean = vec![0.0; self.width];
        for row in self.rows() {
            mean.iter_mut().zip(row).for_each(|(mean, value)| *mean += value);
        }
        mean.iter_mut().for_each(|mean| *mean /= self.count().max(1) as f64);
        mean
    }

    /// The rows minus a vector, times a factor.
    pub(crate) fn less(&self, vector: &[f64], factor: f64) -> Self {
        let values = self.rows().flat_map(|row| row.iter().zip(vector).map(|(value, less)| factor * (value - less)));
        Self { values: values.collect(), width: self.width }
    }

    /// Products of all rows with all rows of another set, `[count, other count]`.
    pub(crate) fn products(&self, other: &Self) -> Vec<f64> {
        let mut products = vec![0.0; self.count() * other.count()];
        let lines = products.par_chunks_mut(other.count().max(1)).enumerate();
        lines.for_each(|(index, line)| {
            let row = self.row(index);
            line.iter_mut().zip(other.rows()).for_each(|(product, other)| *product = dot(row, other));
        });
        products
    }

    /// Squared distances of all rows from all rows of another set, `[count, other count]`.
    pub(crate) fn squared_distances(&self, other: &Self) -> Vec<f64> {
        let mut distances = vec![0.0; self.count() * other.count()];
        let lines = distances.par_chunks_mut(other.count().max(1)).enumerate();
        lines.for_each(|(index, line)| {
            let row = self.row(index);
            line.iter_mut().zip(other.rows()).for_each(|(distance, other)| *distance = squared_distance(row, other));
        });
        distances
    }

    /// Checks that two sets can be compared and hold at least `needed` images each.
    pub(crate) fn comparable(&self, other: &Self, needed: usize) -> Result<(), MetricError> {
        if self.width != other.width {
            return Err(MetricError::Widths(self.width, other.width));
        }
        match self.count().min(other.count()) {
            found if found < needed => Err(MetricError::TooFew { found, needed }),
            _ => Ok(()),
        }
    }
}

/// A sum of products in four partial sums, which the compiler vectorises.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    lanes(a, b, |a, b| a * b)
}

pub(crate) fn squared_distance(a: &[f64], b: &[f64]) -> f64 {
    lanes(a, b, |a, b| (a - b) * (a - b))
}

fn lanes(a: &[f64], b: &[f64], term: impl Fn(f64, f64) -> f64) -> f64 {
    const LANES: usize = 8;
    let mut sums = [0.0; LANES];
    let (a_chunks, b_chunks) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest: f64 = a_chunks.remainder().iter().zip(b_chunks.remainder()).map(|(a, b)| term(*a, *b)).sum();
    for (a, b) in a_chunks.zip(b_chunks) {
        for lane in 0..LANES {
            sums[lane] += term(a[lane], b[lane]);
        }
    }
    sums.iter().sum::<f64>() + rest
}
