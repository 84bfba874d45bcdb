//! The bootstrap by patient (Efron 1979; Field and Welsh 2007 for clusters): patients are drawn with replacement, and all images of
//! one come with it.
//!
//! Images of a patient resemble each other. Drawing images as if they were independent gives intervals that are too narrow: with 8
//! images a patient and an intraclass correlation of one half, 95 % intervals hold the truth in 67 % of all cases.

use kindling_random::{Purpose, rng};
use rand::RngExt;
use rayon::prelude::*;

use super::patients::Patients;

/// The most resamples that are drawn.
pub const MOST_RESAMPLES: usize = 100_000;
/// Of an interval, what lies below its ends.
const LOW: f64 = 0.025;
const HIGH: f64 = 0.975;
/// The least share of resamples in which a score must be defined for its interval to be given.
const LEAST_DEFINED: f64 = 0.95;

/// How intervals are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resampling {
    /// Resamples of the patients, 0 to [`MOST_RESAMPLES`]; 0 gives no intervals.
    pub resamples: usize,
    /// What resample `i` is drawn with, beside `i`.
    pub seed: u64,
}

impl Default for Resampling {
    fn default() -> Self {
        Self { resamples: 2000, seed: 0 }
    }
}

impl Resampling {
    /// Values in every resample: a row a resample, in order, whatever the number of threads. `of` gets how often each image was
    /// drawn. There are none where all images are of one patient, who says nothing about others.
    pub(crate) fn rows(self, whose: &Patients, of: impl Fn(&[u32]) -> Vec<f64> + Sync) -> Vec<Vec<f64>> {
        let patients = whose.count();
        let resamples = if patients < 2 { 0 } else { self.resamples.min(MOST_RESAMPLES) };
        let row = |resample: usize| {
            let mut rng = rng(self.seed, Purpose::Resample, 0, resample as u64);
            let mut drawn = vec![0_u32; patients];
            (0..patients).for_each(|_| drawn[rng.random_range(0..patients)] += 1);
            let times: Vec<u32> = (0..whose.images()).map(|image| drawn[whose.of(image)]).collect();
            of(&times)
        };
        (0..resamples).into_par_iter().map(row).collect()
    }
}

/// The 95 % percentile interval of one column of rows, with the linear interpolation of [`Quartiles`](crate::Quartiles); `None` where
/// it is defined in fewer than 95 % of the resamples.
pub(super) fn interval(rows: &[Vec<f64>], column: usize) -> Option<(f64, f64)> {
    let mut values: Vec<f64> = rows.iter().map(|row| row[column]).filter(|value| value.is_finite()).collect();
    if values.is_empty() || (values.len() as f64) < LEAST_DEFINED * rows.len() as f64 {
        return None;
    }
    values.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| {
        let place = share * (values.len() - 1) as f64;
        let (below, above) = (place.floor() as usize, place.ceil() as usize);
        values[below] + (place - place.floor()) * (values[above] - values[below])
    };
    Some((at(LOW), at(HIGH)))
}
