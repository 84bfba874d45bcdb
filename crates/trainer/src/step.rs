//! One optimizer step on one global batch: computed beside the old state, and found good before it replaces it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::tensor::{Device, Tensor, TensorData};
use kindling_data::{HostBatch, Task};
use kindling_layers::pass::{BatchStatistics, TrainingPass};
use kindling_layers::{Classifier, Precision, host};
use kindling_memory::{Plan, panic_message};
use kindling_nvtx::range;

use crate::activation_checkpointing::{self, Work};
use crate::config::TrainConfig;
use crate::error::TrainError;
use crate::fault::{Faults, Phase};
use crate::gradients::GradientSum;
use crate::loss::Loss;
use crate::micro_batch::{MicroBatch, micro_batches};
use crate::model_state::{ModelState, Move, decay_at};
use crate::norm_momentum::NormMomentum;
use crate::schedule::Length;

/// What does not change from step to step.
#[derive(Clone)]
pub(crate) struct StepEngine {
    /// The device, with gradients.
    pub(crate) device: Device,
    pub(crate) loss: Loss,
    pub(crate) clip_norm: Option<f64>,
    pub(crate) ghost_batch_size: usize,
    /// The least weight of a step's statistics in the running ones.
    pub(crate) norm_momentum: NormMomentum,
    /// Decay of the moving average of the weights, if one is kept.
    pub(crate) ema: Option<f64>,
    pub(crate) seed: u64,
    /// The format of feature maps.
    pub(crate) precision: Precision,
    pub(crate) faults: Faults,
}

/// A step that was computed and found good, not yet committed.
pub(crate) struct GoodStep<M> {
    pub(crate) model_state: ModelState<M>,
    pub(crate) loss: f64,
    pub(crate) gradient_norm: f64,
    /// The largest micro-batch it was computed in.
    pub(crate) micro_batch: usize,
}

impl StepEngine {
    /// The engine of a run of this length on `device`, which is without gradients.
    pub(crate) fn new(
        config: &TrainConfig,
        task: Task,
        classes: usize,
        device: &Device,
        length: impl Into<Length>,
        faults: Faults,
    ) -> Self {
        Self {
            device: device.clone().autodiff(),
            loss: Loss::new(task, classes, config.label_smoothing, config.class_weights.as_deref()),
            clip_norm: config.clip_norm,
            ghost_batch_size: config.ghost_batch_size,
            norm_momentum: NormMomentum::new(config.norm_momentum, length),
            ema: config.ema,
            seed: config.seed,
            precision: config.precision,
            faults,
        }
    }

    /// Computes step `step` from a model state, which stays as it is. The loss is multiplied by `loss_scale` for the backward
    /// pass, and the gradients are divided by it.
    ///
    /// # Errors
    /// [`TrainError::OutOfMemory`], [`TrainError::Device`] or [`TrainError::NotFinite`]; panics of the device's
    /// runtime are caught and told apart the same way.
    pub(crate) fn compute<M: Classifier>(
        &self,
        model_state: &ModelState<M>,
        batch: &HostBatch,
        plan: &Plan,
        step: u64,
        rate: f64,
        loss_scale: f64,
    ) -> Result<GoodStep<M>, TrainError> {
        let _step = range(|| format!("step {step}"));
        let cuts = self.faults.micro_batches(step, micro_batches(batch.len(), self.ghost_batch_size, plan.micro_batch));
        let micro_batch = cuts.iter().map(|micro| micro.rows.len()).max().unwrap_or(0);
        let failed = |text: &str| TrainError::of_device(Some(step), micro_batch, text);
        let attempt = || -> Result<GoodStep<M>, TrainError> {
            let mut sums = self.sums(&model_state.model, batch, &cuts, plan, step, loss_scale);
            self.faults.scale(step, &mut sums.gradients);
            self.faults.at(step, Phase::FiniteCheck, 0);
            let phase = range(|| "finite check");
            let (loss, scaled_norm) = sums.finite_check().map_err(|text| failed(&text))?;
            drop(phase);
            let gradient_norm = scaled_norm / loss_scale;
            if !(loss.is_finite() && gradient_norm.is_finite()) {
                return Err(TrainError::NotFinite { step, loss, norm: gradient_norm });
            }
            let by = Move {
                rate: self.faults.rate(step, rate),
                scale: match self.clip_norm {
                    Some(limit) if gradient_norm > limit => limit / scaled_norm,
                    _ => 1.0 / loss_scale,
                },
                momentum: self.norm_momentum.at(step),
                decay: self.ema.map_or(0.0, |decay| decay_at(decay, step)),
            };
            self.faults.at(step, Phase::Optimizer, 0);
            let _phase = range(|| "optimizer");
            let statistics = self.faults.statistics(step, sums.statistics);
            let model_state = self.faults.moved(step, model_state, model_state.moved(sums.gradients, statistics, &by));
            // The update allocates as well; what failed of it shows only when something is read that depends on it.
            read_any(model_state.witness()).map_err(|text| failed(&text))?;
            self.faults.at(step, Phase::Commit, 0);
            Ok(GoodStep { model_state, loss, gradient_norm, micro_batch })
        };
        // The old state is only read: whatever a panic leaves half-done is dropped with the attempt.
        catch_unwind(AssertUnwindSafe(attempt)).unwrap_or_else(|panic| Err(failed(&panic_message(panic.as_ref()))))
    }

    fn sums<M: Classifier>(
        &self,
        model: &M,
        batch: &HostBatch,
        cuts: &[MicroBatch],
        plan: &Plan,
        step: u64,
        loss_scale: f64,
    ) -> Sums {
        let total_weight = self.loss.total_weight(batch);
        let plain = self.device.clone().without_autodiff();
        let mut sums = Sums::default();
        for (index, micro) in cuts.iter().enumerate() {
            let _micro_batch = range(|| format!("micro-batch {index}"));
            self.faults.at(step, Phase::Upload, index);
            let phase = range(|| "upload");
            let images = self.precision.cast(upload(batch, micro.rows.clone(), &plain));
            drop(phase);
            let pass = TrainingPass {
                groups: micro.groups.clone(),
                seed: self.seed,
                epoch: batch.epoch,
                samples: batch.samples[micro.rows.clone()].to_vec(),
            };
            let reach = |phase| self.faults.at(step, phase, index);
            let loss = |logits| self.loss.part(logits, batch, micro.rows.clone(), total_weight);
            let work = Work { images, pass, checkpointing: plan.checkpointing, loss_scale };
            let left = activation_checkpointing::gradients(model, work, loss, &mut sums.gradients, reach);
            sums.statistics.merge(left.statistics);
            sums.loss = Some(match sums.loss.take() {
                Some(loss) => loss + left.loss,
                None => left.loss,
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
    fn finite_check(&mut self) -> Result<(f64, f64), String> {
        let (Some(loss), Some(squares)) = (self.loss.take(), self.gradients.squared_norm()) else {
            return Err("the batch is empty or the model has no parameters".into());
        };
        match read(Tensor::cat(vec![loss.reshape([1]), squares.reshape([1])], 0))?.as_slice() {
            [loss, squares] => Ok((*loss, squares.sqrt())),
            other => Err(format!("the finite check read {} numbers", other.len())),
        }
    }
}

pub(crate) fn read(values: Tensor<1>) -> Result<Vec<f64>, String> {
    let data = host::read(values)?;
    data.convert::<f64>().try_to_vec::<f64>().map_err(|error| format!("{error:?}"))
}

/// Reads a number that depends on everything a step has made. Only whether it can be read counts: a weight that is not a
/// number shows in the next step's loss, with its own message.
pub(crate) fn read_any(number: Option<Tensor<1>>) -> Result<(), String> {
    number.map_or(Ok(()), |number| read(number).map(|_| ()))
}
