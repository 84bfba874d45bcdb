//! DeLong's variance of the area under the ROC curve (DeLong, DeLong and Clarke-Pearson 1988), in the time of a sort (Sun and Xu
//! 2014).

use super::answers::{PredictionError, Predictions};

/// The half width of a 95 % interval, in standard errors.
const Z: f64 = 1.959_963_984_540_054;

/// An area under the ROC curve with DeLong's interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeLong {
    /// The area, 0 to 1.
    pub auroc: f64,
    /// Standard error of this estimate.
    pub standard_error: f64,
    /// The ends of the 95 % interval, cut at 0 and 1.
    pub interval: (f64, f64),
}

impl DeLong {
    /// Of one class against the others. There must be at least two images of either kind.
    ///
    /// # Errors
    /// [`PredictionError::SeveralImagesAPatient`] where images are not independent, [`PredictionError::OneSided`].
    pub fn of(predictions: &Predictions, class: usize) -> Result<Self, PredictionError> {
        let (images, patients) = (predictions.images(), predictions.patients());
        if images > patients {
            return Err(PredictionError::SeveralImagesAPatient { images, patients });
        }
        let of = |wanted: bool| -> Vec<f64> {
            let kind = (0..images).filter(|image| predictions.has(*image, class) == wanted);
            kind.map(|image| predictions.probability(image, class)).collect()
        };
        let (with, without) = (of(true), of(false));
        if with.len() < 2 || without.len() < 2 {
            return Err(PredictionError::OneSided);
        }
        let above = placements(&with, &without);
        let below: Vec<f64> = placements(&without, &with).into_iter().map(|share| 1.0 - share).collect();
        let auroc = above.iter().sum::<f64>() / above.len() as f64;
        let standard_error = (variance(&above) / above.len() as f64 + variance(&below) / below.len() as f64).sqrt();
        let interval = ((auroc - Z * standard_error).max(0.0), (auroc + Z * standard_error).min(1.0));
        Ok(Self { auroc, standard_error, interval })
    }
}

/// Of each value, the share of the others that it exceeds; equal ones count half.
fn placements(values: &[f64], others: &[f64]) -> Vec<f64> {
    let mut sorted = others.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = |value: &f64| {
        let (less, not_more) = (sorted.partition_point(|o| o < value), sorted.partition_point(|o| o <= value));
        (less + not_more) as f64 / (2 * sorted.len()) as f64
    };
    values.iter().map(place).collect()
}

/// The unbiased variance of two or more values.
fn variance(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64
}
