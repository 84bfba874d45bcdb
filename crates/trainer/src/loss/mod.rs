//! The losses that are minimised: cross-entropy where an image is of one class, of grades or of others, binary cross-entropy where it
//! may be of several, and the losses of numbers and of segmentation.

mod binary;
mod cross_entropy;
mod focal;
mod grades;
mod overlap;
mod pixel_terms;
mod pixels;
mod values;

use std::sync::Arc;

use burn::tensor::Tensor;
use kindling_data::{HostBatch, Task};

use crate::micro_batch::MicroBatch;

pub(crate) use binary::BinaryCrossEntropy;
pub(crate) use cross_entropy::CrossEntropy;
pub use focal::FocalConfig;
pub(crate) use grades::GradeLoss;
pub use pixel_terms::{DiceOver, PixelLoss, PixelTerm};
pub use pixels::SegmentationConfig;
pub(crate) use pixels::SegmentationLoss;
pub use values::ValueLoss;

/// What a part of a batch's loss has to know of the whole batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Whole {
    /// What the losses of the global batch are divided by.
    pub(crate) weight: f64,
    /// What [`OverBatch::of_rows`] adds up to over the global batch; nothing if the loss does not ask for it.
    pub(crate) sums: Vec<f64>,
}

/// The loss of a run, of logits with `D` axes: parts of a batch add up to the whole, however it is cut into whole normalisation groups.
pub(crate) trait Loss<const D: usize>: Send + Sync {
    /// What the losses of a global batch are divided by.
    fn total_weight(&self, batch: &HostBatch) -> f64;

    /// The part of a global batch's loss that belongs to a micro-batch with these `logits`.
    fn part(&self, logits: Tensor<D>, batch: &HostBatch, micro: &MicroBatch, whole: &Whole) -> Tensor<1>;

    /// What has to be added up over the batch, in a pass of its own, before the first part can be computed.
    fn over_batch(&self) -> Option<&dyn OverBatch<D>> {
        None
    }
}

/// What a loss that is no sum over samples has to know of all of them.
pub(crate) trait OverBatch<const D: usize>: Sync {
    /// What each row of a micro-batch with these `logits` adds, `[rows, sums]`. It is computed without a gradient.
    fn of_rows(&self, logits: Tensor<D>, batch: &HostBatch, micro: &MicroBatch) -> Tensor<2>;
}

impl<const D: usize> Loss<D> for Arc<dyn Loss<D>> {
    fn total_weight(&self, batch: &HostBatch) -> f64 {
        self.as_ref().total_weight(batch)
    }

    fn part(&self, logits: Tensor<D>, batch: &HostBatch, micro: &MicroBatch, whole: &Whole) -> Tensor<1> {
        self.as_ref().part(logits, batch, micro, whole)
    }

    fn over_batch(&self) -> Option<&dyn OverBatch<D>> {
        self.as_ref().over_batch()
    }
}

/// The loss of a network that answers for a whole image.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ImageLoss {
    /// Each sample is of one class, mixed images aside.
    MultiClass(CrossEntropy),
    /// Each sample is of one grade.
    Grade(GradeLoss),
    /// Each sample has any of the classes.
    MultiLabel(BinaryCrossEntropy),
    /// Each sample has a number.
    Value(ValueLoss),
}

impl ImageLoss {
    /// The loss of a task over `classes` classes, whose weights are even if `weights` is absent; `value` is that of a regression.
    pub(crate) fn new(task: Task, classes: usize, smoothing: f64, weights: Option<&[f64]>, value: ValueLoss) -> Self {
        let cross_entropy = || CrossEntropy::new(classes, smoothing, weights);
        match task {
            Task::MultiClass | Task::Segmentation => Self::MultiClass(cross_entropy()),
            Task::Ordinal => Self::Grade(GradeLoss(cross_entropy())),
            Task::MultiLabel => Self::MultiLabel(BinaryCrossEntropy::new(classes, smoothing, weights)),
            Task::Regression => Self::Value(value),
        }
    }
}

impl Loss<2> for ImageLoss {
    fn total_weight(&self, batch: &HostBatch) -> f64 {
        match (self, &batch.targets) {
            (Self::MultiClass(loss) | Self::Grade(GradeLoss(loss)), None) => loss.total_weight(&batch.labels),
            (Self::MultiClass(loss) | Self::Grade(GradeLoss(loss)), Some(targets)) => loss.total_soft_weight(targets),
            (Self::MultiLabel(loss), _) => loss.total_weight(batch.len()),
            (Self::Value(loss), _) => loss.total_weight(batch),
        }
    }

    /// `logits` are `[rows, outputs]`. Panics if a batch of multi-label samples, or of numbers, has no targets.
    fn part(&self, logits: Tensor<2>, batch: &HostBatch, micro: &MicroBatch, whole: &Whole) -> Tensor<1> {
        let (rows, total_weight) = (micro.rows.clone(), whole.weight);
        match (self, batch.targets_of(rows.clone())) {
            (Self::MultiClass(loss), None) => loss.part(logits, &batch.labels[rows], total_weight),
            (Self::MultiClass(loss), Some(targets)) => loss.soft_part(logits, targets, total_weight),
            (Self::Grade(loss), None) => loss.part(logits, &batch.labels[rows], total_weight),
            (Self::Grade(loss), Some(targets)) => loss.soft_part(logits, targets, total_weight),
            (Self::Value(loss), _) => loss.part(logits, batch, micro, whole),
            (Self::MultiLabel(loss), Some(targets)) => loss.part(logits, targets, total_weight),
            (Self::MultiLabel(_), None) => {
                unreachable!("a loader of a multi-label task gives targets with every batch")
            }
        }
    }
}
