//! Focal losses of segmentation: cross-entropy in which a pixel counts the less, the surer the network is of it.
//!
//! There are two. That of MONAI 1.6.1 asks which class a pixel is, with a softmax; that of `segmentation_models_pytorch` 0.5.0 asks of each
//! class whether a pixel is of it, with a sigmoid, and adds up the answers.

use std::ops::RangeInclusive;

use burn::tensor::{Tensor, activation};
use kindling_given::within;
use kindling_ops::sum;
use serde::{Deserialize, Serialize};

use super::overlap::{numbers, over_pixels};

const GAMMAS: RangeInclusive<f64> = 1.0..=10.0;
const ALPHAS: RangeInclusive<f64> = 0.0..=1.0;
const THRESHOLDS: RangeInclusive<f64> = 1e-3..=1.0;

/// How focal losses weigh pixels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FocalConfig {
    /// The power of one minus the probability of the truth, 1 to 10.
    pub gamma: f64,
    /// The weight of what is there, 0 to 1, where one minus it is that of the rest: of every class but the background for
    /// [`PixelTerm::Focal`](super::PixelTerm::Focal), and in the question after each class for
    /// [`PixelTerm::BinaryFocal`](super::PixelTerm::BinaryFocal). If absent, all weigh 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alpha: Option<f64>,
    /// The probability of the truth, 0.001 to 1, below which an answer counts in full: the reduced focal loss (Sergievskiy and Ponamarev
    /// 2019), of [`PixelTerm::BinaryFocal`](super::PixelTerm::BinaryFocal) alone. If absent, none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
}

impl Default for FocalConfig {
    /// Both libraries'.
    fn default() -> Self {
        Self { gamma: 2.0, alpha: None, threshold: None }
    }
}

impl FocalConfig {
    /// Checks the ranges of the numbers.
    ///
    /// # Errors
    /// A sentence with what is wrong.
    pub(crate) fn check(&self) -> Result<(), String> {
        within("gamma of the focal loss", self.gamma, GAMMAS)?;
        within("alpha of the focal loss", self.alpha.unwrap_or(0.0), ALPHAS)?;
        within("threshold of the focal loss", self.threshold.unwrap_or(1.0), THRESHOLDS)
    }

    /// `rest`, one minus a probability, to the power of gamma.
    fn power(&self, rest: Tensor<4>) -> Tensor<4> {
        if self.gamma == 2.0 {
            return rest.clone() * rest;
        }
        // A probability that was rounded up to more than one has no power.
        rest.clamp_min(0.0).powf_scalar(self.gamma)
    }

    /// The mean over so many pixels and all classes. `log_p` are logarithms of probabilities, `p` probabilities, and `truth` is one for the
    /// true class of pixels that count.
    pub(super) fn of_softmax(&self, log_p: &Tensor<4>, p: &Tensor<4>, truth: &Tensor<4>, pixels: f64) -> Tensor<1> {
        let [_, classes, _, _] = truth.dims();
        let mut cost = log_p.clone() * truth.clone() * self.power(p.clone().neg() + 1.0);
        if let Some(alpha) = self.alpha {
            let weights: Vec<f64> = (0..classes).map(|class| if class == 0 { 1.0 - alpha } else { alpha }).collect();
            cost = cost * numbers::<4>(&weights, [1, classes, 1, 1], log_p);
        }
        total(cost) * (-1.0 / (pixels * classes as f64))
    }

    /// The mean over so many pixels of the sum over classes, each of which is asked for by itself. `truth` is as above; of pixels that
    /// `ignores` says to be there, it is zero for every class.
    pub(super) fn of_each_class(&self, logits: Tensor<4>, truth: &Tensor<4>, ignores: bool, pixels: f64) -> Tensor<1> {
        // The logarithm of the probability of the right answer: sigmoid(-x) is one minus sigmoid(x).
        let log_p = activation::log_sigmoid(logits * (truth.clone() * 2.0 - 1.0));
        let p = log_p.clone().exp();
        let rest = p.clone().neg() + 1.0;
        let factor = match self.threshold {
            None => self.power(rest),
            Some(threshold) => {
                let unsure = p.lower_elem(threshold);
                self.power(rest * (1.0 / threshold)).mask_fill(unsure, 1.0)
            }
        };
        let mut cost = log_p * factor;
        if let Some(alpha) = self.alpha {
            cost = cost * (truth.clone() * (2.0 * alpha - 1.0) + (1.0 - alpha));
        }
        if ignores {
            cost = cost * truth.clone().sum_dim(1);
        }
        total(cost) * (-1.0 / pixels)
    }
}

/// The sum of everything, rows of pixels first, which keeps rounding small.
fn total(cost: Tensor<4>) -> Tensor<1> {
    sum(over_pixels(cost))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn numbers_out_of_range_are_refused_by_name() {
        let usual = FocalConfig::default();
        assert!(usual.check().is_ok());
        for (wrong, name) in [
            (FocalConfig { gamma: 0.5, ..usual.clone() }, "gamma"),
            (FocalConfig { gamma: f64::NAN, ..usual.clone() }, "gamma"),
            (FocalConfig { alpha: Some(1.5), ..usual.clone() }, "alpha"),
            (FocalConfig { threshold: Some(0.0), ..usual.clone() }, "threshold"),
        ] {
            let sentence = wrong.check().unwrap_err();
            assert!(sentence.contains(name), "{sentence}");
        }
    }
}
