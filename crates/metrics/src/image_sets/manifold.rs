//! Precision and recall of generated images ("Improved Precision and Recall Metric for Assessing Generative Models", Kynkaanniemi et al.
//! 2019).

use super::error::MetricError;
use super::features::Features;

/// Precision says how many of the fake images look real, and recall how much of the variety of real images the fake ones cover.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PrecisionRecall {
    /// Share of fake images that are within reach of a real one.
    pub precision: f64,
    /// Share of real images that are within reach of a fake one.
    pub recall: f64,
}

/// Computes both. The reach of an image is the distance to the `neighbours`-th nearest other image of its set; the paper uses 3.
///
/// # Errors
/// [`MetricError::TooFew`] for less than `neighbours` + 1 images, [`MetricError::Widths`].
pub fn precision_recall(real: &Features, fake: &Features, neighbours: usize) -> Result<PrecisionRecall, MetricError> {
    real.comparable(fake, neighbours + 1)?;
    Ok(PrecisionRecall { precision: within(fake, real, neighbours), recall: within(real, fake, neighbours) })
}

/// The share of `these` that are within reach of any of `those`.
fn within(these: &Features, those: &Features, neighbours: usize) -> f64 {
    let count = those.count();
    let reach: Vec<f64> = those
        .squared_distances(those)
        .chunks_exact(count)
        .map(|line| {
            let mut line = line.to_vec();
            // The nearest of all is the image itself.
            *line.select_nth_unstable_by(neighbours, f64::total_cmp).1
        })
        .collect();
    let distances = these.squared_distances(those);
    let reached = distances.chunks_exact(count).filter(|line| line.iter().zip(&reach).any(|(far, reach)| far <= reach));
    reached.count() as f64 / these.count().max(1) as f64
}
