//! Networks that are measured: what their steps are.

use std::ops::Range;

use anyhow::Result;
use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kindling_data::{HostBatch, Task};
use kindling_layers::{Classifier, Segmenter};
use kindling_memory::Plan;
use kindling_trainer::{Inference, Stepped, Steps, TrainConfig, TrainError, predict, segment};
use kindling_zoo::{Network, SegmentationNetwork};

/// A training step on a batch.
pub(super) type OneStep = Box<dyn FnMut(&HostBatch) -> Result<Stepped, TrainError>>;

/// A network that can be measured.
pub(super) trait Benched: Module {
    /// Whether its batches have masks.
    const HAS_MASKS: bool;

    /// Training steps from here on.
    fn steps(self, config: &TrainConfig, classes: usize, device: &Device, start: Plan) -> Result<OneStep>;

    /// Its answers to some rows of a batch, read back.
    fn infer(&self, batch: &HostBatch, rows: Range<usize>, inference: &Inference<'_>) -> Result<(), TrainError>;

    /// Its logits, those of an image in a row.
    fn logits(&self, images: Tensor<4>) -> Tensor<2>;
}

impl Benched for Network {
    const HAS_MASKS: bool = false;

    fn steps(self, config: &TrainConfig, classes: usize, device: &Device, start: Plan) -> Result<OneStep> {
        let mut steps = Steps::new(self, config, Task::MultiClass, classes, device, start)?;
        Ok(Box::new(move |batch| steps.step(batch)))
    }

    fn infer(&self, batch: &HostBatch, rows: Range<usize>, inference: &Inference<'_>) -> Result<(), TrainError> {
        predict(self, batch, rows, Task::MultiClass, inference).map(drop)
    }

    fn logits(&self, images: Tensor<4>) -> Tensor<2> {
        self.forward(images)
    }
}

impl Benched for SegmentationNetwork {
    const HAS_MASKS: bool = true;

    fn steps(self, config: &TrainConfig, classes: usize, device: &Device, start: Plan) -> Result<OneStep> {
        let mut steps = Steps::segmenting(self, config, classes, device, start)?;
        Ok(Box::new(move |batch| steps.step(batch)))
    }

    fn infer(&self, batch: &HostBatch, rows: Range<usize>, inference: &Inference<'_>) -> Result<(), TrainError> {
        segment(self, batch, rows, inference).map(drop)
    }

    fn logits(&self, images: Tensor<4>) -> Tensor<2> {
        self.forward(images).flatten(1, 3)
    }
}
