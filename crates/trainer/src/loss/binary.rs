//! Binary cross-entropy on logits, one question a class.

use burn::tensor::{Tensor, TensorData, activation};
use kindling_ops::sum;

/// The mean over samples and classes of the cross-entropy between a sigmoid and a target. A class's weight is that of
/// its positives, as `pos_weight` of PyTorch's `BCEWithLogitsLoss`. Smoothing moves targets towards one half.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BinaryCrossEntropy {
    smoothing: f64,
    weights: Vec<f64>,
}

impl BinaryCrossEntropy {
    /// A loss over `classes` classes; even weights if `weights` is absent.
    pub(crate) fn new(classes: usize, smoothing: f64, weights: Option<&[f64]>) -> Self {
        let weights = weights.map_or_else(|| vec![1.0; classes], <[f64]>::to_vec);
        Self { smoothing, weights }
    }

    /// What the losses of a global batch are divided by: the number of answers.
    pub(crate) fn total_weight(&self, samples: usize) -> f64 {
        (samples * self.weights.len()) as f64
    }

    /// The part of some samples. `targets` is `[samples, classes]`.
    pub(crate) fn part(&self, logits: Tensor<2>, targets: &[f32], total_weight: f64) -> Tensor<1> {
        let classes = self.weights.len();
        let (mut yes, mut no) = (Vec::with_capacity(targets.len()), Vec::with_capacity(targets.len()));
        for row in targets.chunks_exact(classes) {
            for (target, weight) in row.iter().zip(&self.weights) {
                let target = f64::from(*target) * (1.0 - self.smoothing) + self.smoothing / 2.0;
                yes.push((weight * target / total_weight) as f32);
                no.push(((1.0 - target) / total_weight) as f32);
            }
        }
        weighted_answers(logits, yes, no)
    }
}

/// The sum of what each answer costs: `yes` weighs the negative logarithm of a sigmoid, `no` that of one minus it, both of the shape of
/// `logits`.
pub(super) fn weighted_answers(logits: Tensor<2>, yes: Vec<f32>, no: Vec<f32>) -> Tensor<1> {
    let (shape, device) = (logits.dims(), logits.device());
    let tensor = |values| Tensor::<2>::from_data(TensorData::new(values, shape), &device);
    // 1 - sigmoid(x) = sigmoid(-x), so both logarithms keep their digits.
    let (yes, no) = (tensor(yes), tensor(no));
    sum(activation::log_sigmoid(logits.clone()) * yes + activation::log_sigmoid(logits.neg()) * no).neg()
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    const LOGITS: [[f32; 3]; 4] = [[0.5, -1.0, 2.0], [1.5, 30.0, -0.5], [-2.0, 0.0, 1.0], [0.0, -40.0, 0.5]];
    const TARGETS: [[f32; 3]; 4] = [[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.25, 0.0, 0.75]];

    fn loss(loss: &BinaryCrossEntropy, rows: std::ops::Range<usize>) -> f64 {
        let logits = Tensor::<2>::from_floats(LOGITS, &Device::flex()).narrow(0, rows.start, rows.len());
        let part = loss.part(logits, TARGETS[rows].as_flattened(), loss.total_weight(4));
        f64::from(part.into_scalar::<f32>())
    }

    /// The formula in the documentation of `torch.nn.BCEWithLogitsLoss`, in float64.
    fn by_formula(smoothing: f64, weights: [f64; 3]) -> f64 {
        let mut sum = 0.0;
        for (logits, targets) in LOGITS.iter().zip(&TARGETS) {
            for class in 0..3 {
                let x = f64::from(logits[class]);
                let target = f64::from(targets[class]) * (1.0 - smoothing) + smoothing / 2.0;
                let (yes, no) = (-(-x).exp().ln_1p(), -x.exp().ln_1p());
                sum -= weights[class] * target * yes + (1.0 - target) * no;
            }
        }
        sum / 12.0
    }

    #[test]
    fn the_loss_is_pytorchs_formula_with_positive_weights() {
        for (smoothing, weights) in [(0.0, [1.0; 3]), (0.1, [1.0; 3]), (0.0, [1.0, 2.0, 0.5]), (0.1, [3.0, 2.0, 0.5])] {
            let computed = loss(&BinaryCrossEntropy::new(3, smoothing, Some(&weights)), 0..4);
            let expected = by_formula(smoothing, weights);
            assert!((computed - expected).abs() < 1e-5 * expected.max(1.0), "{computed} for {expected}");
        }
    }

    #[test]
    fn parts_of_a_batch_add_up_to_its_loss() {
        let weighted = BinaryCrossEntropy::new(3, 0.1, Some(&[1.0, 2.0, 0.5]));
        let parts = loss(&weighted, 0..1) + loss(&weighted, 1..4);
        assert!((parts - loss(&weighted, 0..4)).abs() < 1e-5);
    }
}
