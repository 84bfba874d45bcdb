//! How much a score differs between runs that differ in nothing but chance.

use serde::{Deserialize, Serialize};

/// Mean, standard deviation and range of a score over runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Runs that have the score, 1 or more.
    pub runs: usize,
    /// Mean of the score over these runs.
    pub mean: f64,
    /// The standard deviation of one run, with Bessel's correction; `None` of a single run.
    pub deviation: Option<f64>,
    /// Lowest score of a run.
    pub least: f64,
    /// Highest score of a run.
    pub most: f64,
}

impl Spread {
    /// The spread of the finite values; `None` if there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        if values.is_empty() {
            return None;
        }
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Some(Self {
            runs: values.len(),
            mean,
            deviation: (values.len() > 1).then(|| (squares / (count - 1.0)).sqrt()),
            least: values.iter().copied().fold(f64::INFINITY, f64::min),
            most: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_that_of_numpy() {
        // numpy.mean and numpy.std(ddof=1) of [0.91, 0.88, 0.95, 0.9], NumPy 2.
        let found = Spread::of([0.91, 0.88, f64::NAN, 0.95, 0.9]).expect("four finite values");
        assert_eq!((found.runs, found.least, found.most), (4, 0.88, 0.95));
        assert!((found.mean - 0.91).abs() < 1e-15);
        assert!((found.deviation.expect("more than one") - 0.029_439_202_887_759_475).abs() < 1e-15);
    }

    #[test]
    fn one_run_has_no_deviation_and_none_has_no_spread() {
        assert_eq!(Spread::of([0.5]).and_then(|spread| spread.deviation), None);
        assert_eq!(Spread::of([0.5]).map(|spread| spread.runs), Some(1));
        assert_eq!(Spread::of([f64::INFINITY]), None);
    }
}
