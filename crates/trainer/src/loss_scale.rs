//! The factor that keeps small gradients of half formats above zero.
//!
//! The rules of PyTorch's `torch.amp.GradScaler`: the factor begins at 65536, is doubled after 2000 good steps in a row and
//! halved when a gradient is not finite; that step's update is left out. The factor is part of a run's state: it moves
//! in the commit and is in the checkpoint.

use kindling_layers::Precision;
use serde::{Deserialize, Serialize};

const FIRST: f64 = 65536.0;
const GROWTH: f64 = 2.0;
const BACKOFF: f64 = 0.5;
const GOOD_STEPS: u32 = 2000;
/// Below this it is not the factor that makes gradients overflow.
const LEAST: f64 = 1.0 / 65536.0;

/// No factor gets this far: a loss times it is no float32.
const MOST: f64 = f32::MAX as f64;

/// The factor and its history.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LossScale {
    factor: f64,
    /// Good steps since it last changed.
    good: u32,
    /// Updates left out so far.
    skipped: u64,
    /// Whether it ever changes.
    moves: bool,
}

impl LossScale {
    /// The factor at the start of a run: 1 and fixed where the format has float32's range.
    pub(crate) fn new(precision: Precision) -> Self {
        let moves = precision.needs_loss_scale();
        Self { factor: if moves { FIRST } else { 1.0 }, good: 0, skipped: 0, moves }
    }

    /// Checks numbers that were read from a file, after so many steps.
    ///
    /// # Errors
    /// A sentence that names the number.
    pub(crate) fn check(self, step: u64) -> Result<(), String> {
        let Self { factor, good, skipped, moves } = self;
        let possible = if moves { (LEAST..=MOST).contains(&factor) } else { factor == 1.0 };
        if !possible {
            return Err(format!("the loss scale is {factor}, which it cannot be"));
        }
        if good >= GOOD_STEPS || skipped > step {
            return Err(format!("the loss scale was good {good} times and skipped {skipped} of {step} steps"));
        }
        Ok(())
    }

    /// What the loss is multiplied by.
    pub(crate) fn factor(self) -> f64 {
        self.factor
    }

    /// Updates left out so far.
    pub(crate) fn skipped(self) -> u64 {
        self.skipped
    }

    /// After a step whose gradients were finite.
    pub(crate) fn after_good(self) -> Self {
        match self {
            Self { moves: false, .. } => self,
            Self { good, factor, .. } if good + 1 == GOOD_STEPS => Self { good: 0, factor: factor * GROWTH, ..self },
            Self { good, .. } => Self { good: good + 1, ..self },
        }
    }

    /// After a step whose gradients were not finite: none if a smaller factor is no remedy.
    pub(crate) fn after_overflow(self) -> Option<Self> {
        let factor = self.factor * BACKOFF;
        let remedy = self.moves && factor >= LEAST;
        remedy.then(|| Self { factor, good: 0, skipped: self.skipped + 1, ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_factor_follows_pytorchs_rules() {
        let mut scale = LossScale::new(Precision::F16);
        assert_eq!(scale.factor(), 65536.0);
        for _ in 0..1999 {
            scale = scale.after_good();
        }
        assert_eq!(scale.factor(), 65536.0);
        scale = scale.after_good();
        assert_eq!(scale.factor(), 131_072.0);
        for _ in 0..1999 {
            scale = scale.after_good();
        }
        scale = scale.after_overflow().expect("half of it is enough");
        assert_eq!((scale.factor(), scale.skipped()), (65536.0, 1));
        // An overflow starts the count anew.
        assert_eq!(scale.after_good().factor(), 65536.0);
    }

    #[test]
    fn a_loss_that_never_becomes_finite_ends_the_run() {
        let mut scale = LossScale::new(Precision::F16);
        let mut halvings = 0;
        while let Some(next) = scale.after_overflow() {
            scale = next;
            halvings += 1;
        }
        assert_eq!((halvings, scale.factor()), (32, LEAST));
    }

    #[test]
    fn formats_with_float32s_range_are_left_alone() {
        for precision in [Precision::F32, Precision::Bf16] {
            let scale = LossScale::new(precision);
            assert_eq!((scale.factor(), scale.after_good()), (1.0, scale));
            assert_eq!(scale.after_overflow(), None);
        }
    }
}
