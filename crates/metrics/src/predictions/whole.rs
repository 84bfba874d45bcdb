//! The scores of a whole split, which subgroups and comparisons have as well.

use super::agreement::{Agreement, label_f1, mean};
use super::answers::Predictions;
use super::bootstrap::Resampling;
use super::calibration::{Calibration, Costs};
use super::columns::{Columns, Figure};
use super::ranking::Ranked;

/// Up to so many classes each is scored against the others.
const MOST_CLASSES: usize = 50;

/// The scores of the whole of some predictions: those of [`Scores::figures`](super::Scores), without classes and curves.
pub fn overall(predictions: &Predictions, resampling: Resampling) -> Vec<Figure> {
    let whole = Whole::new(predictions);
    let point = whole.row(&vec![1; predictions.images()]);
    let rows = resampling.rows(predictions.whose(), |times| whole.row(times));
    Columns::new(&point, &rows).figures(&whole.names())
}

/// What the scores of a whole need, prepared once for all resamples.
pub(super) struct Whole<'a> {
    pub(super) predictions: &'a Predictions,
    /// Truth and answer of each image.
    pairs: Vec<(u32, u32)>,
    /// Whether each image is right.
    right: Vec<bool>,
    pub(super) costs: Costs,
    /// Of each class; empty where there are too many.
    pub(super) ranked: Vec<Ranked>,
}

impl<'a> Whole<'a> {
    pub(super) fn new(predictions: &'a Predictions) -> Self {
        let images = 0..predictions.images();
        let ranked = if predictions.classes() <= MOST_CLASSES { predictions.classes() } else { 0 };
        Self {
            predictions,
            pairs: images.clone().map(|i| (predictions.truth(i) as u32, predictions.answer(i) as u32)).collect(),
            right: images.map(|image| predictions.is_right(image)).collect(),
            costs: Costs::new(predictions, |image, class| predictions.probability(image, class)),
            ranked: (0..ranked).map(|class| Ranked::new(predictions, class)).collect(),
        }
    }

    pub(super) fn names(&self) -> Vec<&'static str> {
        let mut names = match self.predictions.several() {
            true => vec!["accuracy", "macro_f1"],
            false => vec!["accuracy", "balanced_accuracy", "macro_f1", "quadratic_kappa", "mcc"],
        };
        if !self.ranked.is_empty() {
            names.extend(["macro_auroc", "macro_auprc"]);
        }
        names.extend(["brier", "nll", "ece"]);
        if self.predictions.is_in_order() {
            names.extend(["mae", "rmse"]);
        }
        names
    }

    /// The scores where image `i` counts `times[i]` times, in the order of [`Whole::names`].
    pub(super) fn row(&self, times: &[u32]) -> Vec<f64> {
        let areas: Vec<(f64, f64)> =
            self.ranked.iter().map(|ranked| ranked.areas(times)).map(|areas| (areas.auroc, areas.auprc)).collect();
        self.row_with(times, &areas, &self.costs.add_up(times))
    }

    /// Mean absolute error and root of the mean squared error of answers, in grades.
    fn grades_off(&self, times: &[u32]) -> [f64; 2] {
        let (mut count, mut sizes, mut squares) = (0.0, 0.0, 0.0);
        for (&(truth, answer), times) in self.pairs.iter().zip(times) {
            let (off, times) = (f64::from(truth.abs_diff(answer)), f64::from(*times));
            count += times;
            sizes += times * off;
            squares += times * off * off;
        }
        [sizes / count, (squares / count).sqrt()]
    }

    /// The same from what is known already: each class's AUROC and AUPRC, and the calibration.
    pub(super) fn row_with(&self, times: &[u32], areas: &[(f64, f64)], calibration: &Calibration) -> Vec<f64> {
        let mut row = Vec::with_capacity(10);
        if self.predictions.several() {
            let count = |wanted: bool| {
                let of = self.right.iter().zip(times).filter(|(right, _)| !wanted || **right);
                of.map(|(_, times)| f64::from(*times)).sum::<f64>()
            };
            row.extend([count(true) / count(false), label_f1(self.predictions, times)]);
        } else {
            let found = Agreement::of(self.predictions, &self.pairs, times);
            row.extend([found.accuracy, found.balanced_accuracy, found.macro_f1, found.quadratic_kappa, found.mcc]);
        }
        if !areas.is_empty() {
            row.extend([mean(areas.iter().map(|of| of.0)), mean(areas.iter().map(|of| of.1))]);
        }
        row.extend([calibration.brier, calibration.nll, calibration.ece]);
        if self.predictions.is_in_order() {
            row.extend(self.grades_off(times));
        }
        row
    }
}
