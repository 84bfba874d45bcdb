//! How far predicted numbers are off, and how they agree with the truth.

/// The names of the numbers of [`Errors::row`], in order.
pub(super) const NAMES: [&str; 7] = ["mae", "rmse", "r2", "pearson", "bias", "limit_low", "limit_high"];

/// Half the width of the limits of agreement, in standard deviations (Bland and Altman 1986).
const LIMITS: f64 = 1.96;

/// Errors of predicted numbers, as scikit-learn and numpy define them; NaN where one is not defined.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Errors {
    /// Mean absolute error.
    pub(super) mae: f64,
    /// Root of the mean squared error.
    pub(super) rmse: f64,
    /// Share of the truth's variance that is explained; at most 1, negative where the mean is a better answer; NaN where all truths are
    /// equal.
    pub(super) r2: f64,
    /// Correlation of truth and prediction; NaN where one of them is always the same.
    pub(super) pearson: f64,
    /// Mean of prediction less truth.
    pub(super) bias: f64,
    /// Between these 95 % of the differences lie, if they are normal: bias less and plus 1.96 standard deviations (`n - 1`); NaN of one
    /// image.
    pub(super) limits: [f64; 2],
}

impl Errors {
    /// Where image `i`, with the truth and the prediction `pairs[i]`, counts `times[i]` times.
    pub(super) fn of(pairs: &[(f64, f64)], times: &[u32]) -> Self {
        let sum = |of: &dyn Fn(f64, f64) -> f64| {
            pairs.iter().zip(times).map(|(&(truth, said), times)| f64::from(*times) * of(truth, said)).sum::<f64>()
        };
        let count = sum(&|_, _| 1.0);
        // Means first: what is added up then is small beside it.
        let (truth_mean, said_mean) = (sum(&|truth, _| truth) / count, sum(&|_, said| said) / count);
        let bias = sum(&|truth, said| said - truth) / count;
        let squares = sum(&|truth, said| (said - truth).powi(2));
        let of_truth = sum(&|truth, _| (truth - truth_mean).powi(2));
        let of_said = sum(&|_, said| (said - said_mean).powi(2));
        let together = sum(&|truth, said| (truth - truth_mean) * (said - said_mean));
        let defined = |value: f64, is_defined: bool| if is_defined { value } else { f64::NAN };
        let deviation = (sum(&|truth, said| (said - truth - bias).powi(2)) / (count - 1.0)).sqrt();
        let half = defined(LIMITS * deviation, count > 1.0);
        Self {
            mae: sum(&|truth, said| (said - truth).abs()) / count,
            rmse: (squares / count).sqrt(),
            r2: defined(1.0 - squares / of_truth, of_truth > 0.0),
            pearson: defined(together / (of_truth.sqrt() * of_said.sqrt()), of_truth > 0.0 && of_said > 0.0),
            bias,
            limits: [bias - half, bias + half],
        }
    }

    /// All of them, in the order of [`NAMES`].
    pub(super) fn row(&self) -> Vec<f64> {
        let Self { mae, rmse, r2, pearson, bias, limits: [low, high] } = *self;
        vec![mae, rmse, r2, pearson, bias, low, high]
    }
}
