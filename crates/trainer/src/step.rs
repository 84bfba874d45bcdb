//! One optimizer step on one global batch.

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::tensor::{Device, Tensor, TensorData};
use kindling_data::HostBatch;
use kindling_layers::Classifier;
use kindling_layers::pass::{self, BatchStatistics, TrainingPass};
use kindling_memory::panic_message;

use crate::error::TrainError;
use crate::gradients::GradientSum;
use crate::loss::CrossEntropy;
use crate::micro_batch::MicroBatch;
use crate::norm_momentum::NormMomentum;
use crate::optimizer::Optimizer;

/// What does not change from step to step.
pub(crate) struct StepEngine {
    /// The device, with gradients.
    pub(crate) device: Device,
    pub(crate) loss: CrossEntropy,
    pub(crate) clip_norm: Option<f64>,
    /// The least weight of a step's statistics in the running ones.
    pub(crate) norm_momentum: NormMomentum,
    pub(crate) seed: u64,
}

/// A step that was computed and found good, not yet committed.
pub(crate) struct GoodStep<M> {
    pub(crate) model: M,
    pub(crate) optimizer: Optimizer,
    pub(crate) loss: f64,
    pub(crate) gradient_norm: f64,
}

impl StepEngine {
    /// Computes a step from a model and an optimizer, which stay as they are.
    ///
    /// # Errors
    /// [`TrainError::OutOfMemory`], [`TrainError::Device`] or [`TrainError::NotFinite`]; panics of the device's
    /// runtime are caught and told apart the same way.
    pub(crate) fn compute<M: Classifier>(
        &self,
        model: &M,
        optimizer: &Optimizer,
        batch: &HostBatch,
        micro_batches: &[MicroBatch],
        step: u64,
        rate: f64,
    ) -> Result<GoodStep<M>, TrainError> {
        let micro_batch = micro_batches.iter().map(|micro| micro.rows.len()).max().unwrap_or(0);
        let failed = |text: &str| TrainError::of_device(Some(step), micro_batch, text);
        let attempt = || -> Result<GoodStep<M>, TrainError> {
            let mut sums = self.sums(model, batch, micro_batches);
            let (loss, gradient_norm) = sums.gate().map_err(|text| failed(&text))?;
            if !(loss.is_finite() && gradient_norm.is_finite()) {
                return Err(TrainError::NotFinite { step, loss, norm: gradient_norm });
            }
            let scale = match self.clip_norm {
                Some(limit) if gradient_norm > limit => limit / gradient_norm,
                _ => 1.0,
            };
            let gradients = std::mem::take(&mut sums.gradients);
            let (model, optimizer) = optimizer.update(model.clone(), gradients, rate, scale);
            let model = sums.statistics.commit(model, self.norm_momentum.at(step));
            Ok(GoodStep { model, optimizer, loss, gradient_norm })
        };
        // The old state is only read: whatever a panic leaves half-done is dropped with the attempt.
        catch_unwind(AssertUnwindSafe(attempt)).unwrap_or_else(|panic| Err(failed(&panic_message(panic.as_ref()))))
    }

    fn sums<M: Classifier>(&self, model: &M, batch: &HostBatch, micro_batches: &[MicroBatch]) -> Sums {
        let total_weight = self.loss.total_weight(&batch.labels);
        let mut sums = Sums::default();
        for micro in micro_batches {
            let images = upload(batch, micro.rows.clone(), &self.device);
            let labels = &batch.labels[micro.rows.clone()];
            let pass = TrainingPass {
                groups: micro.groups.clone(),
                seed: self.seed,
                epoch: batch.epoch,
                samples: batch.samples[micro.rows.clone()].to_vec(),
            };
            let (loss, statistics) =
                pass::training(pass, || self.loss.part(model.forward(images), labels, total_weight));
            let gradients = loss.backward();
            sums.gradients.add(gradients, model);
            sums.statistics.merge(statistics);
            let part = loss.inner();
            sums.loss = Some(match sums.loss.take() {
                Some(loss) => loss + part,
                None => part,
            });
        }
        sums
    }
}

/// Rows of a batch as a tensor, `[rows, channels, height, width]`.
pub(crate) fn upload(batch: &HostBatch, rows: std::ops::Range<usize>, device: &Device) -> Tensor<4> {
    let [_, channels, height, width] = batch.shape;
    let shape = [rows.len(), channels, height, width];
    Tensor::from_data(TensorData::new(batch.images_of(rows).to_vec(), shape), device)
}

/// What the micro-batches of one global batch add up to.
#[derive(Default)]
struct Sums {
    loss: Option<Tensor<1>>,
    gradients: GradientSum,
    statistics: BatchStatistics,
}

impl Sums {
    /// Reads the loss and the global norm of the gradients, in one transfer that depends on all of them: what failed
    /// on the device shows here, before anything has changed.
    fn gate(&mut self) -> Result<(f64, f64), String> {
        let (Some(loss), Some(squares)) = (self.loss.take(), self.gradients.squared_norm()) else {
            return Err("the batch is empty or the model has no parameters".into());
        };
        let read = Tensor::cat(vec![loss.reshape([1]), squares.reshape([1])], 0).try_into_data();
        let values = read.map_err(|error| error.to_string())?.convert::<f64>();
        match values.try_to_vec::<f64>().map_err(|error| format!("{error:?}"))?.as_slice() {
            [loss, squares] => Ok((*loss, squares.sqrt())),
            other => Err(format!("the gate read {} numbers", other.len())),
        }
    }
}
