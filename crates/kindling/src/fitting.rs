//! What of a run fits into memory, by the planner: where a run starts, and what would fit where it does not.

use anyhow::Result;
use burn::tensor::Device;
use kindling_data::Preprocess;
use kindling_layers::trace::Trace;
use kindling_layers::{Checkpointing, Freeze};
use kindling_memory::planner::{self, OptimizerKind, Situation, Target};
use kindling_memory::{MemorySize, Plan, counted_within, take_pages};
use kindling_trainer::{OptimizerConfig, TrainConfig};
use kindling_zoo::{models, segmentation_models};

use crate::budget::default_budget;
use crate::config::{DataConfig, ModelConfig, RunConfig};
use crate::device::cuda;
use crate::model::AnyModel;

/// Where a run starts: with what the planner says will fit into the budget, or on the CPU into the system's limit; on a GPU without a budget
/// with the whole batch. What does not fit is found out, and room is made use of.
/// `decoding` is what reading an image takes, in bytes; `processes` is how many divide a batch.
pub(crate) fn starting_plan(
    config: &RunConfig,
    trace: &Trace,
    device: &Device,
    budget: Option<u64>,
    decoding: u64,
    processes: usize,
) -> Plan {
    let group = config.train.largest_group();
    let fixed = config.train.activation_checkpointing;
    let budget = match (budget, default_budget()) {
        (None, _) if device.memory_pool_usage().is_some() => {
            return Plan { micro_batch: config.train.batch_size, checkpointing: fixed.unwrap_or(Checkpointing::None) };
        }
        (Some(budget), _) | (None, Some((budget, _))) => budget,
        (None, None) => u64::MAX,
    };
    let situation = |checkpointing| Situation { decoding, processes, ..situation(config, checkpointing, device) };
    let levels = fixed.map_or(Checkpointing::ALL.to_vec(), |level| vec![level]);
    let fitting = levels.iter().find_map(|&checkpointing| {
        let (micro_batch, _) = planner::largest_micro_batch(trace, &situation(checkpointing), budget)?;
        Some(Plan { micro_batch, checkpointing })
    });
    // If nothing is predicted to fit, the least is tried: a prediction is no refusal.
    let least = Plan { micro_batch: group, checkpointing: levels.last().copied().unwrap_or(Checkpointing::None) };
    fitting.unwrap_or(least)
}

/// A GPU keeps one part in so many of its free memory out of what is taken in advance: kernels are loaded into it.
const LEFT_FREE: u64 = 16;

/// Has a GPU take, before anything lies in its memory, what a run is planned to need, so that it takes no more later. Where there is not
/// that much, nothing is taken, and the run finds out what fits.
pub(crate) fn take_planned(config: &RunConfig, device: &Device, budget: Option<u64>) -> Result<()> {
    let Some(free) = cuda::index_of(device).and_then(cuda::free) else { return Ok(()) };
    let trace = AnyModel::find(&config.model.name)?.trace(&config.model_options(), config.data.preprocess.size)?;
    let start = starting_plan(config, &trace, device, budget, 0, 1);
    let micro_batch = config.train.micro_batch.unwrap_or(start.micro_batch);
    take(&trace, &Situation { micro_batch, ..situation(config, start.checkpointing, device) }, device, free);
    Ok(())
}

/// [`take_planned`] for steps that belong to no run.
pub(crate) fn take_planned_for_steps(train: &TrainConfig, trace: &Trace, device: &Device) {
    let Some(free) = cuda::index_of(device).and_then(cuda::free) else { return };
    let start = start_of_steps(train, trace, device);
    let situation = situation_of_steps(train, start.checkpointing, device);
    take(trace, &Situation { micro_batch: start.micro_batch, ..situation }, device, free);
}

/// Takes the pages of a step if that much and a little more is free, in bytes.
fn take(trace: &Trace, situation: &Situation, device: &Device, free: u64) {
    let pages = planner::pages(trace, situation);
    if pages.bytes() <= free - free / LEFT_FREE {
        take_pages(device, pages);
    }
}

/// Where steps that belong to no run start, without a budget: on a GPU with the whole batch, on the CPU with as many groups at once as the
/// planner takes.
pub(crate) fn start_of_steps(train: &TrainConfig, trace: &Trace, device: &Device) -> Plan {
    let checkpointing = train.activation_checkpointing.unwrap_or(Checkpointing::None);
    let situation = situation_of_steps(train, checkpointing, device);
    let micro_batch = match device.memory_pool_usage() {
        Some(_) => train.batch_size,
        None => {
            planner::largest_micro_batch(trace, &situation, u64::MAX).map_or(train.largest_group(), |(most, _)| most)
        }
    };
    Plan { micro_batch: train.micro_batch.unwrap_or(micro_batch), checkpointing }
}

/// The bytes of the tensors of the smallest step that training may come down to: one normalisation group, with as many activations computed
/// again as the user allows. What lies between tensors is not counted, so no step can do with less.
pub(crate) fn least_of_step(train: &TrainConfig, trace: &Trace, device: &Device) -> u64 {
    let levels = train.activation_checkpointing.map_or(Checkpointing::ALL.to_vec(), |level| vec![level]);
    let tensors = |level: Checkpointing| {
        let prediction = planner::predict(trace, &situation_of_steps(train, level, device));
        prediction.peak - prediction.overhead
    };
    levels.into_iter().map(tensors).min().unwrap_or(0)
}

/// The bytes that a budget has room for: on the CPU the process itself takes some of it.
pub(crate) fn room_within(budget: u64, device: &Device) -> u64 {
    if device.memory_pool_usage().is_some() { budget } else { counted_within(budget) }
}

/// What a device means for a prediction: all that compile kernels have the pools of CubeCL.
fn target(device: &Device) -> Target {
    let threads = rayon::current_num_threads();
    if device.memory_pool_usage().is_some() { Target::Cuda } else { Target::Cpu { threads } }
}

/// A run as the planner sees it; its micro-batch is not looked at.
fn situation(config: &RunConfig, checkpointing: Checkpointing, device: &Device) -> Situation {
    let of_steps = situation_of_steps(&config.train, checkpointing, device);
    let mixes = config.data.augment.policy().mixes();
    Situation { freeze: config.model.freeze, workers: config.workers, mixes, ..of_steps }
}

/// The same of the steps alone.
fn situation_of_steps(train: &TrainConfig, checkpointing: Checkpointing, device: &Device) -> Situation {
    Situation {
        micro_batch: train.largest_group(),
        ghost_batch_size: train.ghost_batch_size,
        checkpointing,
        optimizer: match train.optimizer {
            OptimizerConfig::AdamW { .. } => OptimizerKind::AdamW,
            OptimizerConfig::Sgd { momentum, .. } => OptimizerKind::Sgd { momentum: momentum > 0.0 },
        },
        ema: train.ema.is_some(),
        precision: train.precision,
        ..Situation::whole_batch(train.batch_size, target(device))
    }
}

/// Layers named in a report.
const LAYERS: usize = 10;
/// Models named in a report.
const MODELS: usize = 5;

/// What to say when even the smallest step does not fit: what needs the most, and what would fit.
pub(crate) fn does_not_fit(
    config: &RunConfig,
    trace: &Trace,
    device: &Device,
    budget: Option<u64>,
    decoding: u64,
    processes: usize,
) -> String {
    let mut lines = vec!["what this model keeps for its backward pass, largest first:".to_string()];
    let least = situation(config, Checkpointing::None, device);
    let mut layers = planner::by_layer(trace, &least);
    layers.sort_by_key(|layer| std::cmp::Reverse(layer.kept));
    for layer in layers.iter().take(LAYERS) {
        lines.push(format!("  {:>10}  {} ({})", MemorySize(layer.kept).to_string(), layer.name, layer.kind));
    }
    let Some(budget) = budget.or(default_budget().map(|(share, _)| share)) else { return lines.join("\n") };
    let smallest = situation(config, config.train.activation_checkpointing.unwrap_or(Checkpointing::Blocks), device);
    let fits = |model: &str, size: usize, ghost_batch_size: usize| -> bool {
        let altered = RunConfig {
            model: ModelConfig { name: model.to_string(), start: None, freeze: Freeze::None, ..config.model.clone() },
            data: DataConfig {
                preprocess: Preprocess { size, ..config.data.preprocess.clone() },
                ..config.data.clone()
            },
            ..config.clone()
        };
        // Of the layers alone: memory is what there is none of.
        let trace = AnyModel::find(model).and_then(|model| model.trace(&altered.model_options(), size));
        let Ok(trace) = trace else { return false };
        let situation = Situation { ghost_batch_size, decoding, processes, ..smallest };
        planner::largest_micro_batch(&trace, &situation, budget).is_some()
    };
    let (size, group) = (config.data.preprocess.size, config.train.ghost_batch_size);
    lines.push(format!("what would fit into {}, by the planner:", MemorySize(budget)));
    let smaller_group = [group / 2, group / 4, 1].into_iter().filter(|&it| it >= 1 && it < group);
    if let Some(group) = smaller_group.into_iter().find(|&it| fits(&config.model.name, size, it)) {
        lines.push(format!("  --ghost-batch-size {group} (it changes what batch norm computes)"));
    }
    let smaller_size = [size * 3 / 4, size / 2, size / 4].map(|it| it / 32 * 32);
    if let Some(size) = smaller_size.into_iter().find(|&it| it >= 32 && fits(&config.model.name, it, group)) {
        lines.push(format!("  --image-size {size}"));
    }
    let others: Vec<String> = match config.is_segmentation() {
        true => segmentation_models().map(|model| model.key()).collect(),
        false => models().map(|entry| entry.name().to_string()).collect(),
    };
    let others = others.into_iter().filter(|name| fits(name, size, group)).take(MODELS);
    lines.extend(others.map(|name| format!("  --model {name}")));
    if lines.last().is_some_and(|line| line.starts_with("what would")) {
        lines.push("  nothing that was looked at: smaller groups, smaller images, other models".to_string());
    }
    lines.join("\n")
}
