//! What a step of each kind of row does, and what of it is timed.

use std::time::Instant;

use anyhow::{Result, bail};
use burn::tensor::{Device, Tensor};
use kindling_data::HostBatch;
use kindling_layers::pass::{TrainingPass, normalisation_groups, training};
use kindling_layers::trace::Trace;
use kindling_layers::{Checkpointing, Precision};
use kindling_ops::FilterCache;
use kindling_runs::bench::{Configuration, What};
use kindling_trainer::engine::{Fit, Pieces, upload};
use kindling_trainer::{Inference, OptimizerConfig, TrainConfig};

use super::benched::{Benched, OneStep};
use crate::commands::train::defaults::MOMENTUM;
use crate::fitting::start_of_steps;
use crate::noise::noise;

/// Batches that take turns.
const BATCHES: usize = 2;

/// What one step did.
pub(super) struct Step {
    /// What of it is timed.
    pub(super) seconds: f64,
    /// Samples computed at once, at most.
    pub(super) micro_batch: usize,
    pub(super) recoveries: u64,
    pub(super) skipped: bool,
    pub(super) loss: Option<f64>,
}

/// Something that takes steps. `look` reads memory at a moment worth it, outside of what is timed.
pub(super) trait Workload {
    fn step(&mut self, look: &mut dyn FnMut()) -> Result<Step>;
}

/// The workload of a row. `network`, which has this trace, is on `device`, both without gradients.
pub(super) fn of<M: Benched + 'static>(
    configuration: &Configuration,
    precision: Precision,
    network: M,
    trace: &Trace,
    device: &Device,
) -> Result<Box<dyn Workload>> {
    let batch = configuration.batch_size;
    match configuration.what {
        What::Train => {
            let config = train_config(configuration, precision)?;
            let start = start_of_steps(&config, trace, device);
            let step = network.steps(&config, configuration.classes, device, start)?;
            Ok(Box::new(Train { step, batches: Turns::new(configuration, M::HAS_MASKS) }))
        }
        What::Infer => {
            let size = configuration.micro_batch.unwrap_or(batch).clamp(1, batch);
            Ok(Box::new(Infer {
                network: network.valid(),
                device: device.clone(),
                precision,
                fit: Fit { size, own_allocations: false },
                batches: Turns::new(configuration, M::HAS_MASKS),
                _filters: FilterCache::open(),
            }))
        }
        What::Forward | What::Backward => {
            let size = configuration.micro_batch.unwrap_or(batch).clamp(1, batch);
            let host = host_batch(configuration, 0, false);
            let parts = (0..batch)
                .step_by(size)
                .map(|start| upload(&host, start..(start + size).min(batch), precision, device));
            Ok(Box::new(Passes {
                parts: parts.collect(),
                network: network.train(),
                device: device.clone(),
                ghost_batch_size: configuration.norm_group,
                micro_batch: size,
                backward: configuration.what == What::Backward,
            }))
        }
    }
}

/// The configuration that a run with the steps of a row has.
pub(super) fn train_config(configuration: &Configuration, precision: Precision) -> Result<TrainConfig> {
    let activation_checkpointing = match configuration.recompute.as_str() {
        "auto" => None,
        text => match Checkpointing::ALL.into_iter().find(|level| level.to_string() == text) {
            Some(level) => Some(level),
            None => bail!("activation checkpointing is none, stages, blocks or auto, not `{text}`"),
        },
    };
    let usual = OptimizerConfig::default();
    let optimizer = match configuration.optimizer.as_str() {
        "adamw" => usual,
        "sgd" => OptimizerConfig::Sgd { momentum: MOMENTUM, weight_decay: usual.weight_decay() },
        other => bail!("the optimizer is adamw or sgd, not `{other}`"),
    };
    Ok(TrainConfig {
        micro_batch: configuration.micro_batch,
        activation_checkpointing,
        precision,
        ghost_batch_size: configuration.norm_group,
        // Noise cannot be learnt; a small rate keeps it from doing harm.
        lr: 1e-4,
        warmup: 0.0,
        optimizer,
        seed: configuration.seed,
        ..TrainConfig::new(configuration.batch_size, 1)
    })
}

/// A batch of noise with mean 0 and variance 1.
fn host_batch(configuration: &Configuration, index: usize, has_masks: bool) -> HostBatch {
    let Configuration { batch_size, channels, image_size, classes, seed, .. } = *configuration;
    let shape = [batch_size, channels, image_size, image_size];
    let uniform = noise(shape.iter().product(), seed, index as u64);
    let first = index * batch_size;
    let pixels = image_size * image_size;
    // Columns of every class.
    let mask = (0..pixels).map(move |pixel| (pixel % image_size * classes / image_size) as u8);
    let counts = (0..classes).map(|class| mask.clone().filter(|it| usize::from(*it) == class).count() as u64);
    HostBatch {
        masks: has_masks.then(|| mask.clone().collect::<Vec<u8>>().repeat(batch_size)),
        pixels: if has_masks { vec![counts.collect(); batch_size] } else { Vec::new() },
        images: uniform.into_iter().map(|value| (value - 0.5) * 12f32.sqrt()).collect(),
        shape,
        labels: (first..first + batch_size).map(|sample| sample % classes).collect(),
        samples: (first as u64..(first + batch_size) as u64).collect(),
        index,
        ..HostBatch::default()
    }
}

/// Batches that take turns.
struct Turns {
    batches: Vec<HostBatch>,
    next: usize,
}

impl Turns {
    fn new(configuration: &Configuration, has_masks: bool) -> Self {
        Self { batches: (0..BATCHES).map(|index| host_batch(configuration, index, has_masks)).collect(), next: 0 }
    }

    fn next(&mut self) -> &HostBatch {
        self.next = (self.next + 1) % self.batches.len();
        &self.batches[self.next]
    }
}

/// Whole training steps. They end with a read of what the update made, so nothing is left to wait for.
struct Train {
    step: OneStep,
    batches: Turns,
}

impl Workload for Train {
    fn step(&mut self, _look: &mut dyn FnMut()) -> Result<Step> {
        let batch = self.batches.next();
        let began = Instant::now();
        let done = (self.step)(batch)?;
        let seconds = began.elapsed().as_secs_f64();
        let recoveries = done.recoveries.len() as u64;
        Ok(Step { seconds, micro_batch: done.micro_batch, recoveries, skipped: done.loss.is_none(), loss: done.loss })
    }
}

/// Answers, read back, of as many images at once as fit.
struct Infer<M> {
    network: M,
    device: Device,
    precision: Precision,
    fit: Fit,
    batches: Turns,
    _filters: FilterCache,
}

impl<M: Benched> Workload for Infer<M> {
    fn step(&mut self, _look: &mut dyn FnMut()) -> Result<Step> {
        let Self { network, device, precision, fit, batches, .. } = self;
        let batch = batches.next();
        let inference = Inference::new(device, fit.size, *precision);
        let mut pieces = Pieces::fitting(&inference, *fit);
        let began = Instant::now();
        let mut start = 0;
        while start < batch.len() {
            let done = pieces.next(batch.len(), start, |rows| {
                let count = rows.len();
                network.infer(batch, rows, &inference).map(|()| vec![(); count])
            })?;
            start += done.len();
        }
        let seconds = began.elapsed().as_secs_f64();
        *fit = pieces.fit();
        let recoveries = pieces.recoveries.len() as u64;
        Ok(Step { seconds, micro_batch: fit.size, recoveries, skipped: false, loss: None })
    }
}

/// The passes of training on images that are on the device already, one of them timed.
struct Passes<M> {
    parts: Vec<Tensor<4>>,
    network: M,
    device: Device,
    ghost_batch_size: usize,
    micro_batch: usize,
    backward: bool,
}

impl<M> Passes<M> {
    /// Seconds until the device has done what `work` asked for.
    fn time<T>(&self, work: impl FnOnce() -> T) -> Result<(T, f64)> {
        let sync = || self.device.sync().map_err(|error| anyhow::anyhow!("the device failed: {error}"));
        sync()?;
        let began = Instant::now();
        let result = work();
        sync()?;
        Ok((result, began.elapsed().as_secs_f64()))
    }
}

impl<M: Benched> Workload for Passes<M> {
    fn step(&mut self, look: &mut dyn FnMut()) -> Result<Step> {
        let mut seconds = 0.0;
        for part in &self.parts {
            let rows = part.dims()[0];
            let groups = normalisation_groups(rows, self.ghost_batch_size);
            let pass = TrainingPass { groups, ..TrainingPass::whole_batch(rows) };
            let images = Tensor::from_inner(part.clone());
            let forward = || training(pass, || self.network.logits(images)).0;
            let (logits, taken) = self.time(forward)?;
            look();
            let loss = kindling_ops::mean(logits);
            if self.backward {
                let (gradients, taken) = self.time(|| loss.backward())?;
                look();
                drop(gradients);
                seconds += taken;
            } else {
                seconds += taken;
                // The graph of a forward pass lives until a backward pass has used it up.
                drop(loss.backward());
            }
        }
        Ok(Step { seconds, micro_batch: self.micro_batch, recoveries: 0, skipped: false, loss: None })
    }
}
