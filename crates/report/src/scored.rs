//! Scores as people write them: their names, values and intervals, and what an interval is of.

use kindling_metrics::{Figure, Scores};

use crate::words;

/// What scores are called.
const NAMES: [(&str, &str); 19] = [
    ("accuracy", "Accuracy"),
    ("balanced_accuracy", "Balanced accuracy"),
    ("macro_f1", "F1, mean of the classes"),
    ("quadratic_kappa", "Kappa, quadratic weights"),
    ("mcc", "Matthews correlation"),
    ("macro_auroc", "AUROC, mean of the classes"),
    ("macro_auprc", "AUPRC, mean of the classes"),
    ("brier", "Brier score"),
    ("nll", "Negative log-likelihood"),
    ("ece", "Expected calibration error"),
    ("auroc", "AUROC"),
    ("auprc", "AUPRC"),
    ("sensitivity", "Sensitivity"),
    ("specificity", "Specificity"),
    ("ppv", "PPV"),
    ("npv", "NPV"),
    ("calibration_slope", "Calibration slope"),
    ("calibration_intercept", "Calibration intercept"),
    ("right", "Right"),
];

/// What a score is called.
pub(crate) fn name(key: &str) -> &str {
    NAMES.iter().find(|(known, _)| *known == key).map_or(key, |(_, name)| name)
}

/// Whether a smaller value of a score is the better one.
pub(crate) fn less_is_better(key: &str) -> bool {
    ["brier", "nll", "ece"].contains(&key)
}

/// `0.938`.
pub(crate) fn number(value: f64) -> String {
    if value.is_finite() { format!("{value:.3}") } else { "–".to_owned() }
}

/// `0.901 to 0.962`.
pub(crate) fn interval(figure: &Figure) -> String {
    figure.interval.map_or_else(|| "–".to_owned(), |(low, high)| format!("{low:.3}\u{a0}to\u{a0}{high:.3}"))
}

/// A difference, with its sign: `+0.031`, `−0.004`, `+3e-5`. What rounding alone may make is none.
pub(crate) fn difference(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let size = value.abs();
    let digits = match size {
        0.0..=1e-9 => return "0.000".to_owned(),
        0.0..0.0005 => format!("{size:.0e}"),
        _ => format!("{size:.3}"),
    };
    if value < 0.0 { format!("−{digits}") } else { format!("+{digits}") }
}

/// What the intervals are of.
pub(crate) fn basis(scores: &Scores) -> String {
    let images = words::plural(scores.images as u64, "image", "images");
    let patients = words::plural(scores.patients as u64, "patient", "patients");
    let drawn = match scores.resamples {
        0 => return format!("{images} of {patients}: too few for intervals."),
        count => format!("{count} resamples"),
    };
    match scores.patients < scores.images {
        true => format!(
            "{images} of {patients}. Intervals: {drawn} of the patients, with all images of each (percentiles)."
        ),
        false => format!(
            "{images}, each taken for a patient of its own. Intervals: {drawn} of the images (percentiles). Where patients have \
             several images, name them as groups: these intervals are too narrow then."
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_have_a_sign_unless_they_are_none() {
        let cases = [
            (0.0312, "+0.031"),
            (-0.0049, "−0.005"),
            (-0.0001, "−1e-4"),
            (1e-12, "0.000"),
            (0.0, "0.000"),
            (f64::NAN, "–"),
        ];
        for (value, text) in cases {
            assert_eq!(difference(value), text);
        }
    }
}
