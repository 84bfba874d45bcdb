//! Overlap of two masks.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::label_map::LabelMap;

/// Voxels of a case by whether the prediction and the truth have a class there. Ignored voxels are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VoxelCounts {
    /// Both have the class.
    pub true_positives: u64,
    /// Only the prediction has it.
    pub false_positives: u64,
    /// Only the truth has it.
    pub false_negatives: u64,
    /// Neither has it.
    pub true_negatives: u64,
}

impl VoxelCounts {
    /// Counts the voxels of a class in two maps of one shape.
    pub(super) fn of<P, T>(prediction: &LabelMap<P>, truth: &LabelMap<T>, class: u32, ignored: Option<u32>) -> Self
    where
        P: Copy + Into<u32> + Sync,
        T: Copy + Into<u32> + Sync,
    {
        let voxels: usize = truth.shape().iter().product();
        (0..voxels)
            .into_par_iter()
            .fold(Self::default, |counts, index| {
                let label = truth.label(index);
                if ignored == Some(label) {
                    return counts;
                }
                counts.with(prediction.label(index) == class, label == class)
            })
            .reduce(Self::default, Self::plus)
    }

    /// These counts and one more voxel.
    fn with(mut self, predicted: bool, true_: bool) -> Self {
        self.true_positives += u64::from(predicted & true_);
        self.false_positives += u64::from(predicted & !true_);
        self.false_negatives += u64::from(!predicted & true_);
        self.true_negatives += u64::from(!predicted & !true_);
        self
    }

    /// The sum of counts of different voxels.
    fn plus(self, other: Self) -> Self {
        Self {
            true_positives: self.true_positives + other.true_positives,
            false_positives: self.false_positives + other.false_positives,
            false_negatives: self.false_negatives + other.false_negatives,
            true_negatives: self.true_negatives + other.true_negatives,
        }
    }

    /// Twice the shared voxels over those of both masks, 0 to 1. If both masks are empty it is NaN, and if only one of them is, 0
    /// (`compute_metrics` in `nnunetv2/evaluation/evaluate_predictions.py`, nnU-Net 2.8.1).
    pub fn dice(&self) -> f64 {
        let shared = 2 * self.true_positives;
        shared as f64 / (shared + self.false_positives + self.false_negatives) as f64
    }

    /// The shared voxels over those that either mask has, 0 to 1. If both masks are empty it is NaN, and if only one of them is, 0, as
    /// nnU-Net has it.
    pub fn iou(&self) -> f64 {
        self.true_positives as f64 / (self.true_positives + self.false_positives + self.false_negatives) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_voxel_that_is_not_ignored_is_counted_once() {
        let (prediction, truth) = ([1_u8, 1, 0, 2, 1, 0], [1_u16, 0, 1, 2, 9, 0]);
        let prediction = LabelMap::new(&prediction, &[2, 3]).unwrap();
        let truth = LabelMap::new(&truth, &[2, 3]).unwrap();
        let of = |ignored| {
            let counts = VoxelCounts::of(&prediction, &truth, 1, ignored);
            [counts.true_positives, counts.false_positives, counts.false_negatives, counts.true_negatives]
        };
        assert_eq!(of(None), [1, 2, 1, 2]);
        assert_eq!(of(Some(9)), [1, 1, 1, 2]);
    }

    #[test]
    fn empty_masks_score_as_in_nnu_net() {
        let neither = VoxelCounts { true_negatives: 4, ..VoxelCounts::default() };
        assert!(neither.dice().is_nan() && neither.iou().is_nan());
        let one = VoxelCounts { false_negatives: 4, ..VoxelCounts::default() };
        assert_eq!((one.dice(), one.iou()), (0.0, 0.0));
        let half = VoxelCounts { true_positives: 2, false_positives: 1, false_negatives: 1, true_negatives: 0 };
        assert_eq!((half.dice(), half.iou()), (4.0 / 6.0, 0.5));
    }
}
