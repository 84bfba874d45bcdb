//! Two models on the same images: is the difference more than chance?

use serde::{Deserialize, Serialize};

use super::answers::{PredictionError, Predictions};
use super::bootstrap::Resampling;
use super::columns::{Columns, Figure};
use super::whole::Whole;

/// McNemar's exact test of two models' right answers (McNemar 1947; exact: a binomial test of the images that one alone has right).
/// It takes images for independent: where patients have several, the paired bootstrap is what counts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct McNemar {
    /// Images that the first alone has right.
    pub first_alone: usize,
    /// Images that the second alone has right.
    pub second_alone: usize,
    /// The two-sided probability of a difference this large or larger by chance, 0 to 1.
    pub p: f64,
}

/// The first model's scores less the second's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Paired {
    /// Images both have answered; cases, of models that segment.
    pub images: usize,
    /// Number of patients that these images are of.
    pub patients: usize,
    /// Differences of the scores of a whole split, with 95 % intervals of the paired bootstrap by patient: both models are scored on
    /// the same drawn patients.
    pub differences: Vec<Figure>,
    /// Which model is right more often; none of models that segment, whose answers are not right or wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcnemar: Option<McNemar>,
}

/// Compares two models' predictions of the same images in the same order.
///
/// # Errors
/// [`PredictionError::NotPaired`].
pub fn compare(first: &Predictions, second: &Predictions, resampling: Resampling) -> Result<Paired, PredictionError> {
    if !first.is_paired_with(second) {
        return Err(PredictionError::NotPaired);
    }
    let (a, b) = (Whole::new(first), Whole::new(second));
    let difference = |times: &[u32]| a.row(times).iter().zip(b.row(times)).map(|(a, b)| a - b).collect::<Vec<f64>>();
    let point = difference(&vec![1; first.images()]);
    let rows = resampling.rows(first.whose(), difference);
    let alone = |one: &Predictions, other: &Predictions| {
        (0..one.images()).filter(|image| one.is_right(*image) && !other.is_right(*image)).count()
    };
    let (first_alone, second_alone) = (alone(first, second), alone(second, first));
    Ok(Paired {
        images: first.images(),
        patients: first.patients(),
        differences: Columns::new(&point, &rows).figures(&a.names()),
        mcnemar: Some(McNemar { first_alone, second_alone, p: sign_test(first_alone, second_alone) }),
    })
}

/// The two-sided binomial test of `a` against `b` at one half.
fn sign_test(a: usize, b: usize) -> f64 {
    let total = a + b;
    // Logarithms, for powers of one half below 1e-308.
    let mut log = -(total as f64) * std::f64::consts::LN_2;
    let mut tail = log.exp();
    for k in 1..=a.min(b) {
        log += ((total - k + 1) as f64 / k as f64).ln();
        tail += log.exp();
    }
    (2.0 * tail).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mcnemars_test_is_scipys_binomial_test() {
        // scipy.stats.binomtest(a, a + b).pvalue, SciPy 1.17.1.
        let cases = [
            (1, 9, 0.021_484_375),
            (15, 5, 0.041_389_465_332_031_25),
            (4, 4, 1.0),
            (600, 500, 0.002_819_544_991_436_428_4),
        ];
        for (a, b, p) in cases {
            assert!((sign_test(a, b) - p).abs() < 1e-12, "{a} {b}: {}", sign_test(a, b));
        }
        assert_eq!(sign_test(0, 0), 1.0, "models that never differ");
    }

    #[test]
    fn predictions_of_other_images_are_not_compared() {
        let of = |truth: usize| Predictions::new(2, false, &[vec![truth]], &[vec![0.4, 0.6]], &[None]).unwrap();
        assert_eq!(compare(&of(0), &of(1), Resampling::default()).unwrap_err(), PredictionError::NotPaired);
    }
}
