//! Scores with their intervals, taken from the columns of resamples.

use serde::{Deserialize, Serialize};

use super::bootstrap::interval;
use super::ranking::STEPS;

/// One score with its 95 % interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// `accuracy`, `macro_auroc` and so on.
    pub name: String,
    /// The score; NaN where it is not defined.
    #[serde(with = "crate::number")]
    pub value: f64,
    /// The ends of the interval; none where there are no resamples, or it is defined in fewer than 95 % of them.
    pub interval: Option<(f64, f64)>,
}

/// A point of a curve with its 95 % band.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Share of false alarms of a ROC curve, sensitivity of a precision-recall curve.
    pub x: f64,
    /// Sensitivity, or precision.
    pub y: f64,
    /// The band at `x`.
    pub band: Option<(f64, f64)>,
}

/// A curve over a grid from 0 to 1.
pub type Curve = Vec<CurvePoint>;

/// The columns of a table of resamples, from left to right.
pub(crate) struct Columns<'a> {
    point: &'a [f64],
    rows: &'a [Vec<f64>],
    next: usize,
}

impl<'a> Columns<'a> {
    /// `point` is the row of the predictions themselves, `rows` those of the resamples.
    pub(crate) fn new(point: &'a [f64], rows: &'a [Vec<f64>]) -> Self {
        Self { point, rows, next: 0 }
    }

    fn take(&mut self) -> (f64, Option<(f64, f64)>) {
        let column = self.next;
        self.next += 1;
        let value = self.point[column];
        (value, interval(self.rows, column).filter(|_| value.is_finite()))
    }

    pub(crate) fn figure(&mut self, name: &str) -> Figure {
        let (value, interval) = self.take();
        Figure { name: name.to_owned(), value, interval }
    }

    pub(crate) fn figures(&mut self, names: &[&str]) -> Vec<Figure> {
        names.iter().map(|name| self.figure(name)).collect()
    }

    /// The next columns as a curve over the grid; empty where it is not defined.
    pub(super) fn curve(&mut self) -> Curve {
        let mut point = |step: usize| {
            let (y, band) = self.take();
            CurvePoint { x: step as f64 / STEPS as f64, y, band }
        };
        let curve: Curve = (0..=STEPS).map(&mut point).collect();
        if curve.iter().all(|point| point.y.is_finite()) { curve } else { Curve::new() }
    }
}
