//! What is made small: cross-entropy where an image is of one class, binary cross-entropy where it may be of several, and the losses
//! of segmentation.

mod binary;
mod cross_entropy;
mod pixels;

use std::sync::Arc;

use burn::tensor::Tensor;
use kindling_data::{HostBatch, Task};

use crate::micro_batch::MicroBatch;

pub(crate) use binary::BinaryCrossEntropy;
pub(crate) use cross_entropy::CrossEntropy;
pub(crate) use pixels::SegmentationLoss;
pub use pixels::{DiceOver, PixelLoss, PixelTerm};

/// The loss of a run, of logits with `D` axes: parts of a batch add up to the whole, however it is cut into whole normalisation groups.
pub(crate) trait Loss<const D: usize> {
    /// What the losses of a global batch are divided by.
    fn total_weight(&self, batch: &HostBatch) -> f64;

    /// The part of a global batch's loss that belongs to a micro-batch with these `logits`. `total_weight` is that of the global batch.
    fn part(&self, logits: Tensor<D>, batch: &HostBatch, micro: &MicroBatch, total_weight: f64) -> Tensor<1>;
}

impl<const D: usize> Loss<D> for Arc<dyn Loss<D>> {
    fn total_weight(&self, batch: &HostBatch) -> f64 {
        self.as_ref().total_weight(batch)
    }

    fn part(&self, logits: Tensor<D>, batch: &HostBatch, micro: &MicroBatch, total_weight: f64) -> Tensor<1> {
        self.as_ref().part(logits, batch, micro, total_weight)
    }
}

/// The loss of a classifier.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ImageLoss {
    /// Each sample is of one class, mixed images aside.
    MultiClass(CrossEntropy),
    /// Each sample has any of the classes.
    MultiLabel(BinaryCrossEntropy),
}

impl ImageLoss {
    /// A loss over `classes` classes; even weights if `weights` is absent.
    pub(crate) fn new(task: Task, classes: usize, smoothing: f64, weights: Option<&[f64]>) -> Self {
        match task {
            Task::MultiLabel => Self::MultiLabel(BinaryCrossEntropy::new(classes, smoothing, weights)),
            Task::MultiClass | Task::Segmentation => Self::MultiClass(CrossEntropy::new(classes, smoothing, weights)),
        }
    }
}

impl Loss<2> for ImageLoss {
    fn total_weight(&self, batch: &HostBatch) -> f64 {
        match (self, &batch.targets) {
            (Self::MultiClass(loss), None) => loss.total_weight(&batch.labels),
            (Self::MultiClass(loss), Some(targets)) => loss.total_soft_weight(targets),
            (Self::MultiLabel(loss), _) => loss.total_weight(batch.len()),
        }
    }

    /// `logits` are `[rows, classes]`. Panics if a batch of any-of samples has no targets.
    fn part(&self, logits: Tensor<2>, batch: &HostBatch, micro: &MicroBatch, total_weight: f64) -> Tensor<1> {
        let rows = micro.rows.clone();
        match (self, batch.targets_of(rows.clone())) {
            (Self::MultiClass(loss), None) => loss.part(logits, &batch.labels[rows], total_weight),
            (Self::MultiClass(loss), Some(targets)) => loss.soft_part(logits, targets, total_weight),
            (Self::MultiLabel(loss), Some(targets)) => loss.part(logits, targets, total_weight),
            (Self::MultiLabel(_), None) => {
                unreachable!("a loader of a multi-label task gives targets with every batch")
            }
        }
    }
}
