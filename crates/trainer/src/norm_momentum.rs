//! How fast running statistics follow in runs of any length.
//!
//! PyTorch's conventions were chosen for runs of a hundred thousand steps. With MobileNetV3's momentum of 0.01 a run of
//! three hundred steps ends with statistics that still remember the zeros and ones they began with, and evaluates at
//! chance however well it has learned.

use crate::schedule::Length;

/// The least weight of a step's statistics in the running ones; a layer's own momentum applies where it is larger.
#[derive(Clone, Debug, PartialEq)]
pub enum NormMomentum {
    /// The same in every step.
    Fixed(f64),
    /// Enough to forget: the first step replaces the initial statistics, early ones are averaged evenly (weight
    /// `1 / step`), and later ones over at most a twentieth of the run.
    Forgetting {
        /// Steps of the run.
        length: Length,
    },
}

/// Running statistics average over at most this share of a run.
const MEMORY: f64 = 0.05;
/// PyTorch's default; past its beginning, no run has to exceed it.
const USUAL: f64 = 0.1;

impl NormMomentum {
    /// A momentum that is given, or else enough for a run of this length to forget.
    pub fn new(fixed: Option<f64>, length: impl Into<Length>) -> Self {
        fixed.map_or_else(|| Self::Forgetting { length: length.into() }, Self::Fixed)
    }

    /// The least weight in a step, counted from 1.
    pub fn at(&self, step: u64) -> f64 {
        match self {
            Self::Fixed(weight) => *weight,
            Self::Forgetting { length } => {
                let of_run = (1.0 / (MEMORY * length.planned_at(step).max(1) as f64)).min(USUAL);
                of_run.max(1.0 / step.max(1) as f64)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_step_replaces_the_initial_statistics_and_long_runs_keep_the_models_own_momentum() {
        let of = |total_steps, step| NormMomentum::new(None, total_steps).at(step);
        assert_eq!(of(300, 1), 1.0);
        assert_eq!(of(300, 4), 0.25);
        assert!((of(300, 300) - 1.0 / 15.0).abs() < 1e-12);
        assert!(of(100_000, 50_000) < 0.01);
        assert_eq!(of(10, 10), 0.1);
        assert_eq!(NormMomentum::new(Some(0.02), 300).at(1), 0.02);
    }
}
