//! What is made small: cross-entropy where a sample is of one class, binary cross-entropy where it may be of several.

mod binary;
mod cross_entropy;

use std::ops::Range;

use burn::tensor::Tensor;
use kindling_data::{HostBatch, Task};

pub(crate) use binary::BinaryCrossEntropy;
pub(crate) use cross_entropy::CrossEntropy;

/// The loss of a run: parts of a batch add up to the whole, however it is cut.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Loss {
    /// Each sample is of one class, mixed images aside.
    MultiClass(CrossEntropy),
    /// Each sample has any of the classes.
    MultiLabel(BinaryCrossEntropy),
}

impl Loss {
    /// A loss over `classes` classes; even weights if `weights` is absent.
    pub(crate) fn new(task: Task, classes: usize, smoothing: f64, weights: Option<&[f64]>) -> Self {
        match task {
            Task::MultiClass => Self::MultiClass(CrossEntropy::new(classes, smoothing, weights)),
            Task::MultiLabel => Self::MultiLabel(BinaryCrossEntropy::new(classes, smoothing, weights)),
        }
    }

    /// What the losses of a global batch are divided by.
    pub(crate) fn total_weight(&self, batch: &HostBatch) -> f64 {
        match (self, &batch.targets) {
            (Self::MultiClass(loss), None) => loss.total_weight(&batch.labels),
            (Self::MultiClass(loss), Some(targets)) => loss.total_soft_weight(targets),
            (Self::MultiLabel(loss), _) => loss.total_weight(batch.len()),
        }
    }

    /// The part of a global batch's loss that belongs to some of its rows, whose `logits` are `[rows, classes]`.
    /// `total_weight` is that of the global batch. Panics if a batch of any-of samples has no targets.
    pub(crate) fn part(
        &self,
        logits: Tensor<2>,
        batch: &HostBatch,
        rows: Range<usize>,
        total_weight: f64,
    ) -> Tensor<1> {
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
