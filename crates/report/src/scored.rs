//! Scores as people write them: their names, values and intervals, and what an interval is of.

use std::borrow::Cow;

use kindling_metrics::{Figure, Scores};
use kindling_runs::TaskScores;

use crate::words;

/// Names of scores: the key, and the words on pages.
const NAMES: [(&str, &str); 30] = [
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
    ("mean_dice", "Dice, mean of the classes"),
    ("mean_iou", "IoU, mean of the classes"),
    ("dice", "Dice"),
    ("iou", "IoU"),
    ("mae", "Mean absolute error"),
    ("rmse", "Root mean squared error"),
    ("r2", "R²"),
    ("pearson", "Correlation"),
    ("bias", "Bias"),
    ("limit_low", "Limit of agreement, lower"),
    ("limit_high", "Limit of agreement, upper"),
];

/// The words for a score by its key; `dice: CLASS` is that of a class.
pub(crate) fn name(key: &str) -> Cow<'_, str> {
    match key.strip_prefix("dice: ") {
        Some(class) => format!("Dice: {class}").into(),
        None => NAMES.iter().find(|(known, _)| *known == key).map_or(key, |(_, name)| name).into(),
    }
}

/// Whether a smaller value of a score is the better one.
pub(crate) fn less_is_better(key: &str) -> bool {
    ["brier", "nll", "ece", "mae", "rmse"].contains(&key)
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

/// The words for one sample and for several.
pub(crate) fn called(scores: &TaskScores) -> (&'static str, &'static str) {
    match scores {
        TaskScores::Classes(_) | TaskScores::Values(_) => ("image", "images"),
        TaskScores::Masks(_) => ("case", "cases"),
    }
}

/// `24 images of 8 patients`.
pub(crate) fn counted(scores: &TaskScores) -> String {
    let (one, many) = called(scores);
    let samples = words::plural(scores.samples() as u64, one, many);
    format!("{samples} of {}", words::plural(scores.patients() as u64, "patient", "patients"))
}

/// What the intervals are of.
pub(crate) fn basis(scores: &Scores) -> String {
    drawn(("image", "images"), scores.images, scores.patients, scores.resamples)
}

/// The same for so many things, called by their name alone and in numbers, of so many patients.
pub(crate) fn drawn((one, many): (&str, &str), count: usize, patients: usize, resamples: usize) -> String {
    let things = words::plural(count as u64, one, many);
    let of = words::plural(patients as u64, "patient", "patients");
    if resamples == 0 {
        return format!("{things} of {of}: too few for intervals.");
    }
    match patients < count {
        true => format!(
            "{things} of {of}. Intervals: {resamples} resamples of the patients, with all {many} of each (percentiles)."
        ),
        false => format!(
            "{things}, each taken for a patient of its own. Intervals: {resamples} resamples of the {many} (percentiles). Where patients \
             have several {many}, name them as groups: these intervals are too narrow then."
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
