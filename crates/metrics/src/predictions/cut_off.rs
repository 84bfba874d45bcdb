//! A cut-off: from which probability on an image is said to be of a class.

use super::ranking::Ranked;

/// Sensitivity, specificity, positive and negative predictive value; `NaN` where one is not defined.
pub(super) struct AtCutOff {
    pub(super) sensitivity: f64,
    pub(super) specificity: f64,
    pub(super) ppv: f64,
    pub(super) npv: f64,
}

impl Ranked {
    /// The cut-off of the largest sum of sensitivity and specificity (Youden 1950), the highest of equals; `None` where all images
    /// are of the class, or none is. An image of that probability or more is assigned to the class.
    pub(super) fn best_cut_off(&self) -> Option<f64> {
        let once = vec![1; self.probabilities.len()];
        let (positives, negatives) = self.walk(&once, |_, _, _| {});
        let (mut best, mut found) = (f64::NEG_INFINITY, None);
        self.walk(&once, |place, hits, wrong| {
            let youden = hits / positives - wrong / negatives;
            if youden > best {
                (best, found) = (youden, Some(self.probabilities[place]));
            }
        });
        found.filter(|_| positives > 0.0 && negatives > 0.0)
    }

    /// What a cut-off does where image `i` counts `times[i]` times.
    pub(super) fn at(&self, cut_off: f64, times: &[u32]) -> AtCutOff {
        let (mut hits, mut wrong) = (0.0, 0.0);
        let (positives, negatives) = self.walk(times, |place, h, w| {
            if self.probabilities[place] >= cut_off {
                (hits, wrong) = (h, w);
            }
        });
        let right = negatives - wrong;
        AtCutOff {
            sensitivity: hits / positives,
            specificity: right / negatives,
            ppv: hits / (hits + wrong),
            npv: right / (right + positives - hits),
        }
    }
}
