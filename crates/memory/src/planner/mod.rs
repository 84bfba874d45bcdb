//! Predicts the memory of a training step from the trace alone.
//!
//! The planner simulates a step: the forward pass allocates and frees the tensors that the layers allocate and free, the
//! backward pass walks Burn's gradient graph in Burn's order, then come the exchange with other processes, the optimizer's update (old and new weights and
//! moments side by side, because a step that fails must change nothing) and, on the CPU, the tensor that a checkpoint is writing
//! and the images that loader threads read meanwhile. The phases before and after the steps need less: weights of a file are read
//! into a network that has none of its own, and the best weights are evaluated after the state is freed. What each operation
//! allocates follows its source, Burn 0.22.1 and [`kindling_layers`]; only the overhead of a tensor was measured, over the registry.
//! `benchmarks/` says how accurate the predictions are. For CUDA they were measured on a stand-in alone.

mod backward;
mod bands;
mod cuda;
mod enlarging;
mod exchange;
mod forward;
mod graph;
mod ledger;
mod node;
mod pass;
mod reading;
#[cfg(test)]
mod tests;
mod update;
mod work;

use kindling_layers::pass::{GHOST_BATCH_SIZE, largest_group, normalisation_groups};
use kindling_layers::trace::{Op, Trace};
use kindling_layers::{Checkpointing, Freeze, Precision};

use crate::pages::Pages;
use graph::Graph;
use ledger::{Ledger, Part};
use node::{Node, Place};
pub use work::{Bound, LayerWork, Side, Work, work_by_layer, work_of_update};

/// Weights, gradients and moments are float32.
const WEIGHT_BYTES: u64 = 4;

/// An update rule, as far as it matters for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptimizerKind {
    /// Keeps two moments of each weight.
    AdamW,
    /// Keeps the velocity of each weight, if there is momentum.
    Sgd {
        /// Whether there is momentum.
        momentum: bool,
    },
}

impl OptimizerKind {
    /// Numbers kept for each weight.
    fn moments(self) -> u64 {
        match self {
            Self::AdamW => 2,
            Self::Sgd { momentum } => u64::from(momentum),
        }
    }
}

/// Where a step runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Burn's CPU backend with Kindling's operations. All live allocations of the process are counted.
    Cpu {
        /// Threads that compute, each of which has scratch memory.
        threads: usize,
    },
    /// Burn's CUDA backend. What its pools hold on the device is counted.
    Cuda,
}

/// Everything besides the network that determines how much memory a step needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Situation {
    /// Samples computed at once. On the CPU these are whole normalisation groups, each on threads of its own, and never more of them than
    /// threads: what is larger stands for as many.
    pub micro_batch: usize,
    /// Samples of an optimizer step.
    pub batch: usize,
    /// The most samples whose statistics batch norm takes together.
    pub ghost_batch_size: usize,
    /// Which activations are kept for the backward pass, and which are recomputed.
    pub checkpointing: Checkpointing,
    /// The update rule.
    pub optimizer: OptimizerKind,
    /// Whether a moving average of the weights is kept.
    pub ema: bool,
    /// Parts of the network that do not train.
    pub freeze: Freeze,
    /// Loader threads; each holds up to two global batches in host memory.
    pub workers: usize,
    /// Bytes that a loader thread needs to decode an image, which it does during the step.
    pub decoding: u64,
    /// Where the step runs.
    pub target: Target,
    /// The format of feature maps. Weights, gradients and moments are float32.
    pub precision: Precision,
    /// Processes that divide the normalisation groups of a batch, at least 1. The step is that of the process that needs the most.
    pub processes: usize,
    /// Whether each of several processes reads a batch as a whole, as it does where images are mixed with each other.
    pub mixes: bool,
}

impl Situation {
    /// A float32 step that computes `batch` samples at once in ghost batches of the usual size, with AdamW, nothing frozen, one loader
    /// thread and one process.
    pub fn whole_batch(batch: usize, target: Target) -> Self {
        Self {
            micro_batch: batch,
            batch,
            ghost_batch_size: GHOST_BATCH_SIZE,
            checkpointing: Checkpointing::None,
            optimizer: OptimizerKind::AdamW,
            ema: false,
            freeze: Freeze::None,
            workers: 1,
            decoding: 0,
            target,
            precision: Precision::F32,
            processes: 1,
            mixes: false,
        }
    }

    /// The normalisation groups of a batch.
    fn groups(&self) -> usize {
        normalisation_groups(self.batch, self.ghost_batch_size).len()
    }

    /// The samples that are computed at once at most: several processes compute one group after the other on any device.
    fn most_at_once(&self) -> usize {
        match self.target {
            _ if self.processes > 1 => self.group(),
            Target::Cuda => self.batch,
            Target::Cpu { threads } => self.batch.min(self.group().saturating_mul(threads.max(1))),
        }
    }

    /// The samples of the largest normalisation group.
    fn group(&self) -> usize {
        largest_group(self.batch, self.ghost_batch_size)
    }

    /// How many passes there are at once, and each of them: on the CPU one a normalisation group, on its share of the threads.
    fn passes_at_once(&self) -> (usize, Self) {
        match self.target {
            Target::Cuda => (1, *self),
            Target::Cpu { threads } => {
                let passes = (self.micro_batch / self.group().max(1)).max(1);
                let target = Target::Cpu { threads: threads.div_ceil(passes) };
                (passes, Self { micro_batch: self.micro_batch.min(self.group()), target, ..*self })
            }
        }
    }

    /// The samples of a batch that a process reads at most.
    fn rows_read(&self) -> usize {
        match self.mixes {
            true => self.batch,
            false => {
                let share = self.groups().div_ceil(self.processes.max(1));
                self.batch.min(share * self.group())
            }
        }
    }

    /// This with the micro-batch that is computed.
    fn as_computed(&self) -> Self {
        Self { micro_batch: self.micro_batch.min(self.most_at_once()), ..*self }
    }
}

/// The phase of a step in which the most memory is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum Phase {
    /// The forward pass.
    #[default]
    Forward,
    /// The backward pass.
    Backward,
    /// The exchange of gradients between several processes.
    Exchange,
    /// The optimizer's update.
    Update,
    /// Copying a tensor for a checkpoint. On the CPU only, where the copy is in the same memory as the tensors.
    Checkpoint,
}

/// Memory at the peak of a run, in bytes. The parts add up to the peak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prediction {
    /// The network, its running statistics, and their moving average.
    pub weights: u64,
    /// Gradients of the weights.
    pub gradients: u64,
    /// State of the optimizer.
    pub optimizer: u64,
    /// Feature maps that are kept for the backward pass or passed on, and their gradients.
    pub activations: u64,
    /// Memory that an operation, the update or a checkpoint needs only while it runs.
    pub workspace: u64,
    /// Images in host memory and the process itself (CPU); what pages hold beside tensors (CUDA).
    pub overhead: u64,
    /// The sum of all parts.
    pub peak: u64,
    /// The phase of the step in which the peak occurs.
    pub phase: Phase,
}

/// What a layer keeps for the backward pass, and what it needs while it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerMemory {
    /// The layer's name in the trace.
    pub name: String,
    /// The kind of the layer.
    pub kind: String,
    /// Bytes that it keeps for the backward pass and that no earlier layer keeps already.
    pub kept: u64,
    /// Bytes that it needs only while it runs, in either pass.
    pub workspace: u64,
}

/// The memory a step needs.
pub fn predict(trace: &Trace, situation: &Situation) -> Prediction {
    let ledger = simulate(trace, situation);
    let peak = ledger.peak();
    let of = |part: Part| peak.parts[part as usize];
    let overhead = match situation.target {
        Target::Cpu { .. } => of(Part::Overhead),
        Target::Cuda => ledger.pools().pages().bytes() - peak.total(),
    };
    let mut prediction = Prediction {
        weights: of(Part::Weights),
        gradients: of(Part::Gradients),
        optimizer: of(Part::Optimizer),
        activations: of(Part::Activations),
        workspace: of(Part::Workspace),
        overhead,
        peak: 0,
        phase: peak.phase,
    };
    let Prediction { weights, gradients, optimizer, activations, workspace, overhead, .. } = prediction;
    prediction.peak = weights + gradients + optimizer + activations + workspace + overhead;
    prediction
}

/// The memory that the pools of a GPU should take before a run begins: what [`predict`] says that it needs.
pub fn pages(trace: &Trace, situation: &Situation) -> Pages {
    simulate(trace, situation).pools().pages()
}

/// The bytes of tensors that answers about one image take at least: the weights, and the largest map that a convolution makes, of elements of
/// `element_bytes` bytes. Nothing can answer with less; what it takes in fact is more, and not predicted.
pub fn least_of_inference(trace: &Trace, element_bytes: usize) -> u64 {
    let weights: u64 = Graph::of(trace, Freeze::None).tensors.iter().sum();
    // Other maps may be made in place, or while they are read.
    let stored = trace.layers.iter().filter(|layer| matches!(layer.op, Op::Conv { .. }) && !layer.inside);
    let largest = stored.map(|layer| layer.output.elements()).max().unwrap_or(0);
    weights * WEIGHT_BYTES + largest * element_bytes as u64
}

/// A step, from its state to its update.
fn simulate(trace: &Trace, situation: &Situation) -> Ledger {
    let situation = &situation.as_computed();
    let graph = Graph::of_run(trace, situation);
    let mut ledger = Ledger::default();
    update::hold_state(&graph, situation, &mut ledger);
    pass::micro_batch(&graph, situation, &mut ledger);
    exchange::exchange(&graph, situation, &mut ledger);
    update::step_and_save(&graph, situation, &mut ledger);
    ledger
}

/// On the CPU, several groups at once may take one part in so many more than a single one. With large images they take almost as much more as
/// there are groups, and save next to no time; with small ones a step is up to a third faster.
const FOR_SPEED: u64 = 2;

/// The largest micro-batch of whole normalisation groups of `situation.batch` whose step fits into `memory` bytes, and the memory that it needs;
/// `None` if not even one group fits. On the CPU, where memory is worth more than a little time, several groups at once are taken only where
/// they need at most half as much again as one, and `memory` is that of the process, as for `--memory-budget`. `situation.micro_batch` is
/// ignored.
pub fn largest_micro_batch(trace: &Trace, situation: &Situation, memory: u64) -> Option<(usize, Prediction)> {
    let groups = normalisation_groups(situation.batch, situation.ghost_batch_size);
    let sizes: Vec<usize> = groups
        .iter()
        .scan(0, |sum, group| {
            *sum += group;
            Some(*sum)
        })
        .take_while(|sum| *sum <= situation.most_at_once())
        .collect();
    let predicted = |index: usize| predict(trace, &Situation { micro_batch: sizes[index], ..*situation });
    let room = room(situation, memory);
    let most = match situation.target {
        Target::Cuda => room,
        Target::Cpu { .. } => {
            let one = predicted(0).peak;
            room.min(one.saturating_add(one / FOR_SPEED))
        }
    };
    last_that_fits(sizes.len(), most, predicted).map(|(index, prediction)| (sizes[index], prediction))
}

/// The largest global batch, computed at once as one normalisation group, whose step fits into `memory` bytes.
/// `situation.ghost_batch_size` is ignored.
pub fn largest_batch(trace: &Trace, situation: &Situation, memory: u64) -> Option<(usize, Prediction)> {
    let predicted = |index: usize| {
        let batch = index + 1;
        predict(trace, &Situation { micro_batch: batch, batch, ghost_batch_size: batch, ..*situation })
    };
    last_that_fits(LARGEST_BATCH, room(situation, memory), predicted).map(|(index, prediction)| (index + 1, prediction))
}

/// The part of a memory that predictions are compared with: on the CPU, the bytes that a budget of this size leaves for counted
/// memory.
fn room(situation: &Situation, memory: u64) -> u64 {
    match situation.target {
        Target::Cpu { .. } => crate::counted_within(memory),
        Target::Cuda => memory,
    }
}

/// Nobody trains an image model with more samples in a step.
const LARGEST_BATCH: usize = 65_536;

/// The last of `count` situations that fits, if each needs at least as much as those before it. On CUDA that is only true up to a page
/// of small tensors, so it may be one of the last.
fn last_that_fits(count: usize, memory: u64, predicted: impl Fn(usize) -> Prediction) -> Option<(usize, Prediction)> {
    let fits = |index: usize| Some(predicted(index)).filter(|prediction| prediction.peak <= memory);
    let mut best = (0, fits(0)?);
    // Double the step, then halve the interval.
    let mut step = 1;
    while let Some(index) = Some(best.0 + step).filter(|index| *index < count) {
        match fits(index) {
            Some(prediction) => best = (index, prediction),
            None => break,
        }
        step *= 2;
    }
    while step > 0 {
        if let Some(index) = Some(best.0 + step).filter(|index| *index < count)
            && let Some(prediction) = fits(index)
        {
            best = (index, prediction);
        } else {
            step /= 2;
        }
    }
    Some(best)
}

/// What each layer keeps for the backward pass if nothing is recomputed, in the order in which layers run.
pub fn by_layer(trace: &Trace, situation: &Situation) -> Vec<LayerMemory> {
    let graph = Graph::of_run(trace, situation);
    let situation = Situation { checkpointing: Checkpointing::None, ..situation.as_computed() };
    let of_layers = pass::kept_by_layer(&graph, &situation);
    let describe = |(layer, (kept, workspace)): (usize, (u64, u64))| {
        let layer = &trace.layers[layer];
        LayerMemory { name: layer.name.clone(), kind: layer.op.to_string(), kept, workspace }
    };
    of_layers.into_iter().map(describe).collect()
}

/// Multiply-adds of a step with activation checkpointing, relative to one without. The backward pass costs as much as two forward
/// passes, and segments that are recomputed run forward once more.
pub fn relative_cost(trace: &Trace, checkpointing: Checkpointing, freeze: Freeze) -> f64 {
    if checkpointing == Checkpointing::None {
        return 1.0;
    }
    let graph = Graph::of(trace, freeze);
    let macs = |wanted: &dyn Fn(&Node) -> bool| -> u64 {
        graph.nodes.iter().filter(|node| wanted(node)).map(|node| trace.layers[node.layer].macs).sum()
    };
    let (forward, backward) = (macs(&|_| true), 2 * macs(&|node| !node.frozen));
    let again = macs(&|node| !node.frozen && node.place != Place::Tail);
    (forward + backward + again) as f64 / (forward + backward).max(1) as f64
}
