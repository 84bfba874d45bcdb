//! Cross-entropy with label smoothing and class weights, as PyTorch defines it.

use burn::tensor::{Tensor, TensorData, activation};
use kindling_ops::sum;

/// Cross-entropy, `mean` reduction: with class weights the mean is weighted by the weights of the true classes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CrossEntropy {
    classes: usize,
    smoothing: f64,
    weights: Vec<f64>,
}

impl CrossEntropy {
    /// A loss over `classes` classes; even weights if `weights` is absent.
    pub(crate) fn new(classes: usize, smoothing: f64, weights: Option<&[f64]>) -> Self {
        let weights = weights.map_or_else(|| vec![1.0; classes], <[f64]>::to_vec);
        Self { classes, smoothing, weights }
    }

    /// What the losses of a global batch are divided by: the sum of the weights of its true classes.
    pub(crate) fn total_weight(&self, labels: &[usize]) -> f64 {
        labels.iter().map(|&label| self.weights[label]).sum()
    }

    /// [`CrossEntropy::total_weight`] of samples that are of several classes by shares: `targets` is `[samples, classes]`.
    pub(crate) fn total_soft_weight(&self, targets: &[f32]) -> f64 {
        let row =
            |row: &[f32]| row.iter().zip(&self.weights).map(|(share, weight)| f64::from(*share) * weight).sum::<f64>();
        targets.chunks_exact(self.classes).map(row).sum()
    }

    /// [`CrossEntropy::part`] of samples that are of several classes by shares: `targets` is `[samples, classes]`. With
    /// shares of 0 and 1 it is that of labels. (PyTorch divides by the number of samples where targets are shares, and by
    /// the weights where they are labels; here both are divided by the weights.)
    pub(crate) fn soft_part(&self, logits: Tensor<2>, targets: &[f32], total_weight: f64) -> Tensor<1> {
        self.sum(logits, self.of_shares(targets, total_weight))
    }

    /// The part of a global batch's loss that belongs to some of its samples: parts add up to the whole.
    ///
    /// `logits` is `[samples, classes]`, `labels` the samples' classes, `total_weight` that of the global batch.
    pub(crate) fn part(&self, logits: Tensor<2>, labels: &[usize], total_weight: f64) -> Tensor<1> {
        self.sum(logits, self.of_labels(labels, total_weight))
    }

    /// How many classes there are.
    pub(super) fn classes(&self) -> usize {
        self.classes
    }

    /// What the negative logarithm of each class's probability counts, `[samples, classes]`, in a loss whose total weight is this.
    pub(super) fn of_labels(&self, labels: &[usize], total_weight: f64) -> Vec<f32> {
        let spread = self.smoothing / self.classes as f64;
        let mut targets = Vec::with_capacity(labels.len() * self.classes);
        for &label in labels {
            for (class, weight) in self.weights.iter().enumerate() {
                let hit = if class == label { 1.0 - self.smoothing } else { 0.0 };
                targets.push((weight * (hit + spread) / total_weight) as f32);
            }
        }
        targets
    }

    /// The same of samples that are of several classes by shares: `targets` is `[samples, classes]`.
    pub(super) fn of_shares(&self, targets: &[f32], total_weight: f64) -> Vec<f32> {
        let spread = self.smoothing / self.classes as f64;
        let weighted = targets.chunks_exact(self.classes).flat_map(|row| {
            let smooth = |share: &f32| f64::from(*share) * (1.0 - self.smoothing) + spread;
            row.iter().zip(&self.weights).map(move |(share, weight)| (weight * smooth(share) / total_weight) as f32)
        });
        weighted.collect()
    }

    fn sum(&self, logits: Tensor<2>, targets: Vec<f32>) -> Tensor<1> {
        let shape = [targets.len() / self.classes, self.classes];
        let targets = Tensor::<2>::from_data(TensorData::new(targets, shape), &logits.device());
        sum(activation::log_softmax(logits, 1) * targets).neg()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    const LOGITS: [[f32; 3]; 4] = [[0.5, -1.0, 2.0], [1.5, 0.25, -0.5], [-2.0, 0.0, 1.0], [0.0, 3.0, 0.5]];
    const LABELS: [usize; 4] = [2, 0, 1, 1];

    fn loss(loss: &CrossEntropy, rows: std::ops::Range<usize>) -> f64 {
        let device = Device::flex();
        let logits = Tensor::<2>::from_floats(LOGITS, &device).narrow(0, rows.start, rows.len());
        let part = loss.part(logits, &LABELS[rows], loss.total_weight(&LABELS));
        f64::from(part.into_scalar::<f32>())
    }

    /// The formula in the documentation of `torch.nn.CrossEntropyLoss`, in float64.
    fn by_formula(smoothing: f64, weights: [f64; 3]) -> f64 {
        let mut sum = 0.0;
        for (row, &label) in LOGITS.iter().zip(&LABELS) {
            let total: f64 = row.iter().map(|&v| f64::from(v).exp()).sum();
            let log = |class: usize| f64::from(row[class]) - total.ln();
            sum += (1.0 - smoothing) * weights[label] * -log(label);
            sum += smoothing / 3.0 * (0..3).map(|class| weights[class] * -log(class)).sum::<f64>();
        }
        sum / LABELS.iter().map(|&label| weights[label]).sum::<f64>()
    }

    #[test]
    fn the_loss_is_pytorchs_formula_with_smoothing_and_weights() {
        for (smoothing, weights) in [(0.0, [1.0; 3]), (0.1, [1.0; 3]), (0.0, [1.0, 2.0, 0.5]), (0.1, [1.0, 2.0, 0.5])] {
            let computed = loss(&CrossEntropy::new(3, smoothing, Some(&weights)), 0..4);
            let expected = by_formula(smoothing, weights);
            assert!((computed - expected).abs() < 1e-6, "{computed} for {expected}");
        }
    }

    /// Shares of 0 and 1 are labels, and the loss is linear in the shares.
    #[test]
    fn shares_of_classes_weigh_the_losses_of_their_labels() {
        let device = Device::flex();
        let even = CrossEntropy::new(3, 0.1, None);
        let one = |row: usize, shares: [f32; 3]| {
            let logits = Tensor::<2>::from_floats([LOGITS[row]], &device);
            f64::from(even.soft_part(logits, &shares, even.total_soft_weight(&shares)).into_scalar::<f32>())
        };
        let hard = |row: usize, label: usize| {
            let logits = Tensor::<2>::from_floats([LOGITS[row]], &device);
            f64::from(even.part(logits, &[label], 1.0).into_scalar::<f32>())
        };
        for row in 0..4 {
            assert!((one(row, [0.0, 1.0, 0.0]) - hard(row, 1)).abs() < 1e-6);
            let mixed = 0.3 * hard(row, 0) + 0.7 * hard(row, 2);
            assert!((one(row, [0.3, 0.0, 0.7]) - mixed).abs() < 1e-6);
        }
        let weighted = CrossEntropy::new(3, 0.0, Some(&[1.0, 2.0, 0.5]));
        assert!((weighted.total_soft_weight(&[0.5, 0.5, 0.0, 0.0, 0.0, 1.0]) - 2.0).abs() < 1e-12);
    }

    #[test]
    fn parts_of_a_batch_add_up_to_its_loss() {
        let weighted = CrossEntropy::new(3, 0.1, Some(&[1.0, 2.0, 0.5]));
        let parts = loss(&weighted, 0..1) + loss(&weighted, 1..4);
        assert!((parts - loss(&weighted, 0..4)).abs() < 1e-6);
    }
}
