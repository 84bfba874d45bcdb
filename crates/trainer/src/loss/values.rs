//! The loss of a number.

use burn::tensor::{Tensor, TensorData};
use kindling_data::HostBatch;
use kindling_given::{Named, UnknownName};
use kindling_ops::sum;
use serde::{Deserialize, Serialize};

use super::{Loss, Whole};
use crate::micro_batch::MicroBatch;

/// The loss that is minimised where an image has a number: a mean over samples of what the difference between answer and target
/// costs, both in standard deviations of the training samples' numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[derive(strum::Display, strum::EnumString, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "lowercase", parse_err_ty = UnknownName, parse_err_fn = Self::unknown)]
pub enum ValueLoss {
    /// Its square, as PyTorch's `mse_loss`: answers are means.
    #[default]
    Mse,
    /// Its absolute value, as PyTorch's `l1_loss`: answers are medians, which outliers hardly move.
    L1,
    /// Half its square up to 1 and its absolute value less one half beyond, as PyTorch's `huber_loss` with its `delta` of 1.
    Huber,
}

impl Named for ValueLoss {
    const KIND: &str = "loss of numbers";
}

impl ValueLoss {
    /// What a difference costs.
    pub(crate) fn of(self, difference: f64) -> f64 {
        let size = difference.abs();
        match self {
            Self::Mse => difference * difference,
            Self::L1 => size,
            Self::Huber if size <= 1.0 => 0.5 * difference * difference,
            Self::Huber => size - 0.5,
        }
    }

    fn costs(self, difference: Tensor<2>) -> Tensor<2> {
        match self {
            Self::Mse => difference.clone() * difference,
            Self::L1 => difference.abs(),
            Self::Huber => {
                // With the part within 1 as c and the size as s: c (s - c / 2), which is one formula for both.
                let size = difference.abs();
                let within = size.clone().clamp_max(1.0);
                within.clone() * (size - within * 0.5)
            }
        }
    }
}

impl Loss<2> for ValueLoss {
    fn total_weight(&self, batch: &HostBatch) -> f64 {
        batch.len() as f64
    }

    /// `logits` are `[rows, 1]`. Panics if the batch has no targets.
    fn part(&self, logits: Tensor<2>, batch: &HostBatch, micro: &MicroBatch, whole: &Whole) -> Tensor<1> {
        let Some(targets) = batch.targets_of(micro.rows.clone()) else {
            unreachable!("a loader of a regression gives targets with every batch")
        };
        let targets = Tensor::<2>::from_data(TensorData::new(targets.to_vec(), [targets.len(), 1]), &logits.device());
        sum(self.costs(logits - targets)) * (1.0 / whole.weight)
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    const ALL: [ValueLoss; 3] = [ValueLoss::Mse, ValueLoss::L1, ValueLoss::Huber];

    /// The formulas in the documentation of `torch.nn.MSELoss`, `L1Loss` and `HuberLoss`.
    #[test]
    fn losses_and_their_gradients_are_pytorchs_formulas() {
        let (answers, targets) = ([0.5f32, -3.0, 2.0, 1.25], [0.25f32, 1.0, 2.0, 2.5]);
        let batch = HostBatch { targets: Some(targets.to_vec()), labels: vec![0; 4], ..HostBatch::default() };
        let differences = [0.25, -4.0, 0.0, -1.25];
        let expected = [
            (differences.map(|d| d * d), differences.map(|d| 2.0 * d)),
            (differences.map(f64::abs), [1.0, -1.0, 0.0, -1.0]),
            ([0.03125, 3.5, 0.0, 0.75], [0.25, -1.0, 0.0, -1.0]),
        ];
        for (loss, (costs, slopes)) in ALL.into_iter().zip(expected) {
            for (difference, cost) in differences.into_iter().zip(costs) {
                assert_eq!(loss.of(difference), cost, "{loss:?} of {difference}");
            }
            let device = Device::flex().autodiff();
            let logits = Tensor::<2>::from_data(TensorData::new(answers.to_vec(), [4, 1]), &device).require_grad();
            let micro = MicroBatch { rows: 0..4, groups: vec![4] };
            let whole = Whole { weight: loss.total_weight(&batch), ..Whole::default() };
            let part = loss.part(logits.clone(), &batch, &micro, &whole);
            let gradients = logits.grad(&part.backward()).expect("it was asked for").into_data();
            let found = f64::from(part.into_scalar::<f32>());
            assert!((found - costs.iter().sum::<f64>() / 4.0).abs() < 1e-6, "{loss:?}: {found}");
            for (found, slope) in gradients.try_to_vec::<f32>().expect("floats").into_iter().zip(slopes) {
                assert!((f64::from(found) - slope / 4.0).abs() < 1e-6, "{loss:?}: {found} for {slope}");
            }
        }
    }
}
