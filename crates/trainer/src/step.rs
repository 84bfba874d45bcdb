//! One optimizer step of a network on one global batch: computed beside the old state, and found good before it replaces it.

use std::rc::Rc;

use burn::tensor::{Device, Tensor};
use kindling_data::HostBatch;
use kindling_layers::Precision;
use kindling_layers::pass::{TrainingPass, largest_group};
use kindling_nvtx::range;

use crate::activation_checkpointing::{self, Work};
use crate::attempt::{Attempt, GoodStep};
use crate::config::TrainConfig;
use crate::error::TrainError;
use crate::exchange::over_ranks;
use crate::fault::{Faults, Phase};
use crate::forks;
use crate::loss::{Loss, Whole};
use crate::micro_batch::{MicroBatch, groups_at_once, micro_batches_on};
use crate::model_state::ModelState;
use crate::norm_momentum::NormMomentum;
use crate::ranks::Ranks;
use crate::schedule::Length;
use crate::sums::{InOrder, Sums};
use crate::trainable::Trainable;
use crate::update::Update;

/// What does not change from step to step.
#[derive(Clone)]
pub(crate) struct StepEngine<L> {
    /// The device, with gradients.
    pub(crate) device: Device,
    pub(crate) loss: L,
    pub(crate) ghost_batch_size: usize,
    pub(crate) seed: u64,
    /// The format of feature maps.
    pub(crate) precision: Precision,
    pub(crate) update: Update,
    /// Who computes a step together.
    pub(crate) ranks: Rc<Ranks>,
}

/// The loss of a good step, and the norm of its gradients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Losses {
    /// The mean loss of the global batch.
    pub loss: f64,
    /// The norm of all gradients, before they are scaled down.
    pub gradient_norm: f64,
}

impl<L: Clone> StepEngine<L> {
    /// The engine of a run of this length on `device`, which is without gradients.
    pub(crate) fn new(
        config: &TrainConfig,
        loss: L,
        device: &Device,
        length: impl Into<Length>,
        faults: Faults,
        ranks: Rc<Ranks>,
    ) -> Self {
        let norm_momentum = NormMomentum::new(config.norm_momentum, length);
        Self {
            device: device.clone().autodiff(),
            loss,
            ghost_batch_size: config.ghost_batch_size,
            seed: config.seed,
            precision: config.precision,
            update: Update { clip_norm: config.clip_norm, norm_momentum, ema: config.ema, faults },
            ranks,
        }
    }

    /// Computes a step from a model state, which stays as it is.
    ///
    /// # Errors
    /// [`TrainError::OutOfMemory`], [`TrainError::Device`] or [`TrainError::NotFinite`]; panics of the device's
    /// runtime are caught and told apart the same way.
    pub(crate) fn compute<M: Trainable<D>, const D: usize>(
        &self,
        model_state: &ModelState<M>,
        batch: &HostBatch,
        at: &Attempt,
        rate: f64,
    ) -> Result<GoodStep<ModelState<M>, Losses>, TrainError>
    where
        L: Loss<D>,
    {
        let &Attempt { step, plan, .. } = at;
        let _step = range(|| format!("step {step}"));
        // Several ranks add by groups, on any device.
        let limit = if self.ranks.is_alone() { plan.micro_batch } else { 1 };
        let cuts = micro_batches_on(&self.device, batch.len(), self.ghost_batch_size, limit);
        let cuts = self.update.faults.micro_batches(step, cuts);
        let at_once = cuts.chunks(self.at_once(batch.len(), at));
        let micro_batch = at_once.map(|some| some.iter().map(|micro| micro.rows.len()).sum()).max().unwrap_or(0);
        // The old state is only read: whatever a panic leaves half-done is dropped with the attempt.
        TrainError::caught(Some(step), micro_batch, || {
            let mut sums = self.sums(model_state.model(), batch, &cuts, at)?;
            let checked = self.update.check(&mut sums, Phase::FiniteCheck, at, micro_batch)?;
            let _phase = range(|| "optimizer");
            let state = self.update.apply(model_state, sums, checked.norm, rate, Phase::Optimizer, at);
            self.update.confirm(state.witness(), at, micro_batch)?;
            let told = Losses { loss: checked.numbers[0], gradient_norm: checked.norm };
            Ok(GoodStep { state, micro_batch, told })
        })
    }

    /// The sums over the whole batch, whoever computes its parts.
    fn sums<M: Trainable<D>, const D: usize>(
        &self,
        model: &M,
        batch: &HostBatch,
        cuts: &[MicroBatch],
        at: &Attempt,
    ) -> Result<Sums, TrainError>
    where
        L: Loss<D>,
    {
        let plain = self.device.clone().without_autodiff();
        let share = self.ranks.share(cuts.len());
        let (first, mine) = (share.start, &cuts[share]);
        let whole = self.whole(model, batch, (first, mine), at)?;
        if self.ranks.is_alone() {
            let sums = self.add(InOrder::on(&plain), model, (batch, &whole), (first, mine), at);
            return Ok(sums.finish().unwrap_or_default());
        }
        let failed = |text: &str| {
            let micro_batch = mine.iter().map(|micro| micro.rows.len()).max().unwrap_or(0);
            TrainError::of_device(Some(at.step), micro_batch, text)
        };
        over_ranks(&self.ranks, model, (at.step, cuts.len()), &plain, failed, || {
            self.add(InOrder::from_group(first), model, (batch, &whole), (first, mine), at).into_nodes()
        })
    }

    /// Adds micro-batches, of which the first is the one with this number, to sums. Several of them may be computed at once; they are added
    /// in their order.
    fn add<M: Trainable<D>, const D: usize>(
        &self,
        mut sums: InOrder<Sums>,
        model: &M,
        (batch, whole): (&HostBatch, &Whole),
        (first, cuts): (usize, &[MicroBatch]),
        at: &Attempt,
    ) -> InOrder<Sums>
    where
        L: Loss<D>,
    {
        let (faults, of_loss, feed) = (&self.update.faults, &self.loss, self.feed());
        let part = |model: &M, (index, micro): (usize, &MicroBatch)| {
            let _micro_batch = range(|| format!("micro-batch {index}"));
            let reach = |phase| faults.at(at.step, phase, index);
            reach(Phase::Upload);
            let (images, pass) = feed.micro_batch(batch, micro);
            let loss = |logits| of_loss.part(logits, batch, micro, whole);
            let work = Work { images, pass, checkpointing: at.plan.checkpointing, loss_scale: at.loss_scale };
            activation_checkpointing::gradients(model, work, loss, reach)
        };
        let numbered: Vec<(usize, &MicroBatch)> = (first..).zip(cuts).collect();
        for some in numbered.chunks(self.at_once(batch.len(), at)) {
            forks::at_once(model, some, &part).into_iter().for_each(|found| sums.push(found));
        }
        sums
    }

    /// How many micro-batches of an attempt at a step of `samples` are computed at once.
    pub(crate) fn at_once(&self, samples: usize, at: &Attempt) -> usize {
        let group = largest_group(samples, self.ghost_batch_size);
        // Several processes share a machine's threads as it is.
        if self.ranks.is_alone() { groups_at_once(&self.device, group, at.plan.micro_batch) } else { 1 }
    }

    /// How images come to the network.
    pub(crate) fn feed(&self) -> Feed {
        Feed { device: self.device.clone().without_autodiff(), precision: self.precision, seed: self.seed }
    }
}

/// How images come to a network, on any thread.
pub(crate) struct Feed {
    /// Without gradients.
    device: Device,
    precision: Precision,
    seed: u64,
}

impl Feed {
    /// The images of a micro-batch in the format of the feature maps, and the pass over them.
    pub(crate) fn micro_batch(&self, batch: &HostBatch, micro: &MicroBatch) -> (Tensor<4>, TrainingPass) {
        let _phase = range(|| "upload");
        let images = upload(batch, micro.rows.clone(), self.precision, &self.device);
        let pass = TrainingPass {
            groups: micro.groups.clone(),
            seed: self.seed,
            epoch: batch.epoch,
            samples: batch.samples[micro.rows.clone()].to_vec(),
        };
        (images, pass)
    }
}

/// Rows of a batch as a tensor, `[rows, channels, height, width]`, in the format of the feature maps.
pub fn upload(batch: &HostBatch, rows: std::ops::Range<usize>, precision: Precision, device: &Device) -> Tensor<4> {
    let [_, channels, height, width] = batch.shape;
    let shape = [rows.len(), channels, height, width];
    kindling_ops::upload(batch.images_of(rows), shape, precision.dtype(), device)
}
