//! Scores of an order: how far images of a class are ranked above the others.

use super::answers::Predictions;

/// Steps of the grid on which curves are given, from 0 to 1.
pub(super) const STEPS: usize = 100;

/// The images in the order of one class's probability, the most probable first. Sorted once, counted for every resample.
pub(super) struct Ranked {
    images: Vec<u32>,
    /// Of each place, whether the image is of the class.
    has: Vec<bool>,
    /// Of each place, whether the next one has a smaller probability.
    ends_tie: Vec<bool>,
    /// Of each place, the probability.
    pub(super) probabilities: Vec<f64>,
}

/// What a ranking is worth; `NaN` where all images are of the class, or none is.
pub(super) struct Areas {
    /// Area under the ROC curve: the share of pairs in the right order, where ties count half.
    pub(super) auroc: f64,
    /// Average precision: the mean of the precisions at each recall, weighted by its increase, without interpolation.
    pub(super) auprc: f64,
}

impl Ranked {
    pub(super) fn new(predictions: &Predictions, class: usize) -> Self {
        let mut images: Vec<u32> = (0..predictions.images() as u32).collect();
        let probability = |image: u32| predictions.probability(image as usize, class);
        images.sort_by(|a, b| probability(*b).total_cmp(&probability(*a)));
        let probabilities: Vec<f64> = images.iter().map(|image| probability(*image)).collect();
        let ends_tie = (0..images.len()).map(|at| probabilities.get(at + 1) != Some(&probabilities[at])).collect();
        let has = images.iter().map(|image| predictions.has(*image as usize, class)).collect();
        Self { images, has, ends_tie, probabilities }
    }

    /// Calls `each` with the place and the counts (of the class, others) down to the end of every tie, then gives the totals.
    pub(super) fn walk(&self, times: &[u32], mut each: impl FnMut(usize, f64, f64)) -> (f64, f64) {
        let (mut of_class, mut others) = (0_u64, 0_u64);
        for (place, image) in self.images.iter().enumerate() {
            let times = u64::from(times[*image as usize]);
            let has = u64::from(self.has[place]);
            of_class += times * has;
            others += times * (1 - has);
            if self.ends_tie[place] {
                each(place, of_class as f64, others as f64);
            }
        }
        (of_class as f64, others as f64)
    }

    /// The areas where image `i` counts `times[i]` times.
    pub(super) fn areas(&self, times: &[u32]) -> Areas {
        let (mut pairs, mut precisions, mut before) = (0.0, 0.0, (0.0, 0.0));
        let (positives, negatives) = self.walk(times, |_, hits, wrong| {
            pairs += (wrong - before.1) * (hits + before.0) / 2.0;
            if hits > before.0 {
                precisions += (hits - before.0) * hits / (hits + wrong);
            }
            before = (hits, wrong);
        });
        let defined = positives > 0.0 && negatives > 0.0;
        let or_nan = |value: f64| if defined { value } else { f64::NAN };
        Areas { auroc: or_nan(pairs / (positives * negatives)), auprc: or_nan(precisions / positives) }
    }

    /// The sensitivity at each of [`STEPS`] + 1 shares of false alarms, then the precision at each as many sensitivities. Between
    /// two points of the ROC curve the line between them counts (a coin decides); a precision is that of the highest cut-off that
    /// reaches the sensitivity.
    pub(super) fn curves(&self, times: &[u32]) -> Option<(Vec<f64>, Vec<f64>)> {
        let (positives, negatives) = self.walk(times, |_, _, _| {});
        if positives == 0.0 || negatives == 0.0 {
            return None;
        }
        let at = |step: usize| step as f64 / STEPS as f64;
        let (mut roc, mut precision) = (Vec::with_capacity(STEPS + 1), Vec::with_capacity(STEPS + 1));
        let mut before = (0.0, 0.0);
        self.walk(times, |_, hits, wrong| {
            let (x, y) = (wrong / negatives, hits / positives);
            while roc.len() <= STEPS && at(roc.len()) < x {
                let share = (at(roc.len()) - before.0) / (x - before.0);
                roc.push(before.1 + share * (y - before.1));
            }
            // Rounding must not take the sensitivity that is reached for one that is not.
            while hits > 0.0 && precision.len() <= STEPS && at(precision.len()) <= y + 1e-12 {
                precision.push(hits / (hits + wrong));
            }
            before = (x, y);
        });
        roc.resize(STEPS + 1, 1.0);
        precision.resize(STEPS + 1, positives / (positives + negatives));
        Some((roc, precision))
    }
}
