//! The scores of predicted numbers, without intervals and with.

use serde::{Deserialize, Serialize};

use super::errors::{Errors, NAMES};
use super::values::Values;
use crate::predictions::columns::Columns;
use crate::{Figure, FlowRow, Resampling, Subgroup, Subgroups};

/// The most points that are kept for plots.
const MOST_POINTS: usize = 2000;

/// How far numbers are off, without intervals: what a validation tells.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RegressionScore {
    /// Images scored.
    pub samples: usize,
    /// Mean absolute error, in the numbers' unit; NaN without samples.
    #[serde(with = "crate::number")]
    pub mae: f64,
    /// Root of the mean squared error, in the numbers' unit; NaN without samples.
    #[serde(with = "crate::number")]
    pub rmse: f64,
    /// Share of the truth's variance that is explained, at most 1; NaN where all truths are equal.
    #[serde(with = "crate::number")]
    pub r2: f64,
}

impl RegressionScore {
    /// Of the truth and the prediction of each sample.
    pub fn of(pairs: impl Iterator<Item = (f64, f64)>) -> Self {
        let pairs: Vec<(f64, f64)> = pairs.collect();
        let Errors { mae, rmse, r2, .. } = Errors::of(&pairs, &vec![1; pairs.len()]);
        Self { samples: pairs.len(), mae, rmse, r2 }
    }
}

/// All scores of the numbers of a split, with 95 % intervals by patient.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RegressionScores {
    /// `val`, `test` or what the caller calls it.
    pub split: String,
    /// What the number is: the name of its column.
    pub target: String,
    /// Images scored.
    pub images: usize,
    /// Their patients: what is drawn for the intervals.
    pub patients: usize,
    /// Resamples that the intervals come from; 0 where there are none.
    pub resamples: usize,
    /// Seed that the resamples were drawn with.
    pub seed: u64,
    /// `mae`, `rmse`, `r2`, `pearson`, and of the differences of prediction and truth `bias`, their mean, with the limits of agreement
    /// `limit_low` and `limit_high` (Bland and Altman 1986): 1.96 standard deviations on both sides.
    pub figures: Vec<Figure>,
    /// Truth and prediction of up to 2,000 images, evenly spaced among all.
    pub points: Vec<[f64; 2]>,
    /// Scores by a column, where one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subgroups: Option<Subgroups>,
    /// Images and patients of every split that is known.
    #[serde(default)]
    pub flow: Vec<FlowRow>,
}

impl RegressionScores {
    /// Scores predicted numbers. `split` names the samples (`val`, `test`), `target` the predicted quantity.
    pub fn of(split: &str, target: &str, values: &Values, resampling: Resampling) -> Self {
        let (figures, resamples) = figures(values, resampling);
        let apart = values.images().div_ceil(MOST_POINTS).max(1);
        Self {
            split: split.to_owned(),
            target: target.to_owned(),
            images: values.images(),
            patients: values.patients(),
            resamples,
            seed: resampling.seed,
            figures,
            points: values.pairs().iter().step_by(apart).map(|&(truth, said)| [truth, said]).collect(),
            subgroups: None,
            flow: Vec::new(),
        }
    }

    /// One of the scores; `None` if it is not among them.
    pub fn figure(&self, name: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.name == name)
    }
}

/// The scores with their intervals, and from how many resamples these come.
fn figures(values: &Values, resampling: Resampling) -> (Vec<Figure>, usize) {
    let row = |times: &[u32]| Errors::of(values.pairs(), times).row();
    let point = row(&vec![1; values.images()]);
    let rows = resampling.rows(values.whose(), row);
    (Columns::new(&point, &rows).figures(&NAMES), rows.len())
}

/// Scores by the values of a column: `of[i]` is that of image `i`. What is left out is said, as in [`Subgroups::of`].
pub fn value_subgroups(column: &str, of: &[Option<String>], values: &Values, resampling: Resampling) -> Subgroups {
    Subgroups::scored(column, of, values.images(), |images| {
        let some = values.only(images)?;
        Some(Subgroup {
            value: String::new(),
            images: some.images(),
            patients: some.patients(),
            figures: figures(&some, resampling).0,
        })
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Two images a patient; each prediction of a patient is off by the same.
    fn values() -> Values {
        let truth: Vec<f64> = (0..40).map(|at| f64::from(at) * 0.5).collect();
        let said = truth.iter().zip(0..).map(|(truth, at)| truth + f64::from(at / 2 % 5) - 1.5).collect();
        let groups = (0..40).map(|at| Some(format!("{}", at / 2))).collect();
        Values::new(truth, said, groups).unwrap()
    }

    #[test]
    fn intervals_are_by_patient_and_hold_the_scores() {
        let found = RegressionScores::of("test", "age", &values(), Resampling::default());
        assert_eq!((found.images, found.patients, found.resamples, found.points.len()), (40, 20, 2000, 40));
        for figure in &found.figures {
            let (low, high) = figure.interval.unwrap();
            assert!(low < figure.value && figure.value < high, "{figure:?}");
        }
        let alone = Values::new(
            values().pairs().iter().map(|pair| pair.0).collect(),
            values().pairs().iter().map(|pair| pair.1).collect(),
            vec![None; 40],
        );
        let alone = RegressionScores::of("test", "age", &alone.unwrap(), Resampling::default());
        let width = |of: &RegressionScores| of.figure("mae").unwrap().interval.map(|(low, high)| high - low).unwrap();
        assert!(width(&found) > 1.2 * width(&alone), "{} {}", width(&found), width(&alone));
    }

    #[test]
    fn of_many_images_some_are_kept_for_plots_from_all_over() {
        let truth: Vec<f64> = (0..5000).map(f64::from).collect();
        let values = Values::new(truth.clone(), truth, vec![None; 5000]).unwrap();
        let found = RegressionScores::of("test", "age", &values, Resampling { resamples: 0, seed: 0 });
        assert_eq!((found.points.len(), found.points[1], found.resamples), (1667, [3.0, 3.0], 0));
    }

    #[test]
    fn groups_of_a_column_are_scored_by_themselves() {
        let of: Vec<Option<String>> = (0..40).map(|at| Some(if at < 20 { "a" } else { "b" }.to_owned())).collect();
        let found = value_subgroups("side", &of, &values(), Resampling { resamples: 10, seed: 0 });
        let named: Vec<(&str, usize, usize)> =
            found.groups.iter().map(|group| (group.value.as_str(), group.images, group.patients)).collect();
        assert_eq!(named, [("a", 20, 10), ("b", 20, 10)]);
        assert_eq!(found.groups[0].figures[0].value, 1.3);
    }
}
