//! Cross-entropy of grades: classes that have an order.

use burn::tensor::Tensor;

use super::binary::weighted_answers;
use super::cross_entropy::CrossEntropy;

/// Cross-entropy where one logit stands between each grade and the next: that of being above it for what is at least of it, so that
/// the probability of grade `k` is what reaches it times what stays. It is the likelihood of a continuation-ratio model, which CORN
/// (Shi, Cao and Raschka 2023) learns by the same questions. Weights and smoothing are those of classes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GradeLoss(pub(crate) CrossEntropy);

impl GradeLoss {
    /// As [`CrossEntropy::part`]; `logits` is `[samples, classes - 1]`.
    pub(crate) fn part(&self, logits: Tensor<2>, labels: &[usize], total_weight: f64) -> Tensor<1> {
        self.sum(logits, &self.0.of_labels(labels, total_weight))
    }

    /// As [`CrossEntropy::soft_part`]; `logits` is `[samples, classes - 1]`.
    pub(crate) fn soft_part(&self, logits: Tensor<2>, targets: &[f32], total_weight: f64) -> Tensor<1> {
        self.sum(logits, &self.0.of_shares(targets, total_weight))
    }

    /// What counts for a grade counts for going on at every grade below it, and for staying at it; above the last is nothing.
    fn sum(&self, logits: Tensor<2>, targets: &[f32]) -> Tensor<1> {
        let (mut goes, mut stays) = (Vec::with_capacity(targets.len()), Vec::with_capacity(targets.len()));
        for row in targets.chunks_exact(self.0.classes()) {
            let mut above: f64 = row.iter().map(|target| f64::from(*target)).sum();
            for target in &row[..row.len() - 1] {
                above -= f64::from(*target);
                goes.push(above.max(0.0) as f32);
                stays.push(*target);
            }
        }
        weighted_answers(logits, goes, stays)
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;
    use crate::answers;

    const LOGITS: [[f32; 3]; 4] = [[0.5, -1.0, 2.0], [1.5, 30.0, -0.5], [-2.0, 0.0, 1.0], [0.0, -40.0, 0.5]];
    const LABELS: [usize; 4] = [2, 3, 0, 1];

    /// The weighted mean over samples of `-ln p(label)`, with the probabilities that inference gives.
    fn by_probabilities(smoothing: f64, weights: [f64; 4]) -> f64 {
        let mut sum = 0.0;
        for (row, &label) in LOGITS.iter().zip(&LABELS) {
            let found = answers::of_logits(kindling_data::Task::Ordinal, &row.map(f64::from));
            let cost = |class: usize| -weights[class] * found[class].ln();
            sum += (1.0 - smoothing) * cost(label) + smoothing / 4.0 * (0..4).map(cost).sum::<f64>();
        }
        sum / LABELS.iter().map(|&label| weights[label]).sum::<f64>()
    }

    #[test]
    fn the_loss_is_the_cross_entropy_of_the_probabilities_that_inference_gives() {
        for (smoothing, weights) in [(0.0, [1.0; 4]), (0.1, [1.0; 4]), (0.1, [1.0, 2.0, 0.5, 3.0])] {
            let loss = GradeLoss(CrossEntropy::new(4, smoothing, Some(&weights)));
            let logits = Tensor::<2>::from_floats(LOGITS, &Device::flex());
            let part = loss.part(logits.clone(), &LABELS, loss.0.total_weight(&LABELS));
            let (found, wanted) = (f64::from(part.into_scalar::<f32>()), by_probabilities(smoothing, weights));
            assert!((found - wanted).abs() < 1e-5 * wanted.max(1.0), "{found} for {wanted}");

            let mut shares = [[0.0f32; 4]; 4];
            LABELS.iter().zip(&mut shares).for_each(|(&label, row)| row[label] = 1.0);
            let shares = shares.as_flattened();
            let soft = loss.soft_part(logits, shares, loss.0.total_soft_weight(shares));
            assert!((f64::from(soft.into_scalar::<f32>()) - found).abs() < 1e-5, "shares of 0 and 1 are labels");
        }
    }
}
