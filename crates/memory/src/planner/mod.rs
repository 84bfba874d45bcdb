//! What a training step will need, from the trace alone.
//!
//! A step is played through on paper: the forward pass makes and frees the tensors that the layers make and free, the
//! backward pass walks Burn's gradient graph in Burn's order, then come the optimizer's update (old and new weights and
//! moments side by side, as a step that fails must change nothing) and, on the CPU, the tensor that a checkpoint is writing and
//! the images that loader threads read meanwhile. What comes before and after the steps takes less: weights of a file are read into a
//! network that has none of its own, and the best weights are judged when the state is gone. What each operation holds is read from its source, Burn 0.22.1 and
//! [`kindling_layers`]; only what a tensor takes beside its numbers was measured, over the registry. `benchmarks/` says how close that comes. For CUDA no measurement stands behind it yet.

mod backward;
mod cuda;
mod forward;
mod graph;
mod ledger;
mod pass;
mod reading;
#[cfg(test)]
mod tests;
mod update;

use kindling_layers::pass::normalisation_groups;
use kindling_layers::trace::Trace;
use kindling_layers::{Checkpointing, Freeze};

use graph::Graph;
use ledger::{Ledger, Part};

/// An update rule, by what it remembers of each weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptimizerKind {
    /// Two moments.
    AdamW,
    /// Its velocity, if there is momentum.
    Sgd {
        /// Whether there is.
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
    /// Burn's CPU backend with Kindling's own operations; counted is everything the process holds.
    Cpu {
        /// Threads that compute: each has its own scratch memory.
        threads: usize,
    },
    /// Burn's CUDA backend; counted is what its pools hold on the device.
    Cuda,
}

/// Everything besides the network that decides how much memory a step needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Situation {
    /// Samples computed at once.
    pub micro_batch: usize,
    /// Samples of an optimizer step.
    pub batch: usize,
    /// The most samples whose statistics batch norm takes together.
    pub ghost_batch_size: usize,
    /// Which activations are kept for backward, and which are computed again.
    pub checkpointing: Checkpointing,
    /// The update rule.
    pub optimizer: OptimizerKind,
    /// Whether a moving average of the weights is kept.
    pub ema: bool,
    /// What does not train.
    pub freeze: Freeze,
    /// Loader threads; each holds up to two global batches in host memory.
    pub workers: usize,
    /// Bytes that a loader thread takes to read an image on disk, which it does beside the step.
    pub decoding: u64,
    /// Where the step runs.
    pub target: Target,
    /// Bytes of an element of a feature map: 4 for float32. Weights, gradients and moments are float32.
    pub element_bytes: usize,
}

impl Situation {
    /// A float32 step of `batch` samples at once with AdamW, nothing frozen, one loader thread.
    pub fn whole_batch(batch: usize, target: Target) -> Self {
        Self {
            micro_batch: batch,
            batch,
            ghost_batch_size: 8,
            checkpointing: Checkpointing::None,
            optimizer: OptimizerKind::AdamW,
            ema: false,
            freeze: Freeze::None,
            workers: 1,
            decoding: 0,
            target,
            element_bytes: 4,
        }
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
    /// The optimizer's update.
    Update,
    /// A tensor's copy on its way into a checkpoint (CPU only: there host and device are one).
    Checkpoint,
}

/// Memory at the fullest moment of a run, in bytes. The parts add up to the peak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prediction {
    /// The network, its running statistics, and their moving average.
    pub weights: u64,
    /// Gradients of the weights.
    pub gradients: u64,
    /// What the optimizer remembers.
    pub optimizer: u64,
    /// Feature maps kept for backward or passed on, and their gradients.
    pub activations: u64,
    /// What an operation, the update or a checkpoint needs only while it runs.
    pub workspace: u64,
    /// Images in host memory and the process itself (CPU); rounding to pages (CUDA).
    pub overhead: u64,
    /// All of them together.
    pub peak: u64,
    /// When that is.
    pub phase: Phase,
}

/// What one layer keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerMemory {
    /// The layer's name in the trace.
    pub name: String,
    /// What it is.
    pub kind: String,
    /// Bytes it keeps from forward to backward that no layer before it keeps already.
    pub kept: u64,
    /// Bytes it needs only while it runs, in either pass.
    pub workspace: u64,
}

fn graph_of(trace: &Trace, situation: &Situation) -> Graph {
    let graph = Graph::of_run(trace, situation.freeze);
    if situation.target == Target::Cuda { graph.with_padded_filters() } else { graph }
}

/// The memory a step needs.
pub fn predict(trace: &Trace, situation: &Situation) -> Prediction {
    let graph = graph_of(trace, situation);
    let mut ledger = Ledger::default();
    update::hold_state(&graph, situation, &mut ledger);
    pass::micro_batch(&graph, situation, &mut ledger);
    update::step_and_save(&graph, situation, &mut ledger);
    let peak = ledger.peak();
    let overhead = match situation.target {
        Target::Cpu { .. } => peak.parts[Part::Overhead as usize],
        Target::Cuda => cuda::overhead(peak.total(), peak.largest, peak.phase != Phase::Update),
    };
    let of = |part: Part| peak.parts[part as usize];
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

/// The largest micro-batch of whole normalisation groups of `situation.batch` whose step fits into `memory` bytes (on the CPU:
/// of a process, as `--memory-budget` counts them), with what it needs; `None` if not even one group fits. `situation.micro_batch` is not looked at.
pub fn largest_micro_batch(trace: &Trace, situation: &Situation, memory: u64) -> Option<(usize, Prediction)> {
    let groups = normalisation_groups(situation.batch, situation.ghost_batch_size);
    let sizes: Vec<usize> = groups
        .iter()
        .scan(0, |sum, group| {
            *sum += group;
            Some(*sum)
        })
        .collect();
    let predicted = |index: usize| predict(trace, &Situation { micro_batch: sizes[index], ..*situation });
    last_that_fits(sizes.len(), room(situation, memory), predicted)
        .map(|(index, prediction)| (sizes[index], prediction))
}

/// The largest global batch, computed at once, whose step fits into `memory` bytes.
pub fn largest_batch(trace: &Trace, situation: &Situation, memory: u64) -> Option<(usize, Prediction)> {
    let predicted = |index: usize| {
        let batch = index + 1;
        predict(trace, &Situation { micro_batch: batch, batch, ..*situation })
    };
    last_that_fits(LARGEST_BATCH, room(situation, memory), predicted).map(|(index, prediction)| (index + 1, prediction))
}

/// What of a memory is left for what is predicted: on the CPU what a run with this budget leaves for counted bytes.
fn room(situation: &Situation, memory: u64) -> u64 {
    match situation.target {
        Target::Cpu { .. } => crate::counted_room(memory),
        Target::Cuda => memory,
    }
}

/// Beyond this nobody trains an image model.
const LARGEST_BATCH: usize = 65_536;

/// The last of `count` situations that fits, where each needs at least what those before it need; on CUDA one of the last, within
/// a page of memory.
fn last_that_fits(count: usize, memory: u64, predicted: impl Fn(usize) -> Prediction) -> Option<(usize, Prediction)> {
    let fits = |index: usize| Some(predicted(index)).filter(|prediction| prediction.peak <= memory);
    let mut best = (0, fits(0)?);
    // Doubling, then halving the gap.
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

/// What each layer keeps for backward when nothing is computed again, in the order they run.
pub fn by_layer(trace: &Trace, situation: &Situation) -> Vec<LayerMemory> {
    let graph = graph_of(trace, situation);
    let situation = Situation { checkpointing: Checkpointing::None, ..*situation };
    let of_layers = pass::kept_by_layer(&graph, &situation);
    let describe = |(layer, (kept, workspace)): (usize, (u64, u64))| {
        let layer = &trace.layers[layer];
        LayerMemory { name: layer.name.clone(), kind: layer.op.to_string(), kept, workspace }
    };
    of_layers.into_iter().map(describe).collect()
}

/// Multiply-adds of a step with activation checkpointing relative to one without: backward costs two forwards, and the
/// segments that are computed again run forward once more.
pub fn relative_cost(trace: &Trace, checkpointing: Checkpointing, freeze: Freeze) -> f64 {
    if checkpointing == Checkpointing::None {
        return 1.0;
    }
    let graph = Graph::of(trace, freeze);
    let macs = |wanted: &dyn Fn(&graph::Node) -> bool| -> u64 {
        graph.nodes.iter().filter(|node| wanted(node)).map(|node| trace.layers[node.layer].macs).sum()
    };
    let (forward, backward) = (macs(&|_| true), 2 * macs(&|node| !node.frozen));
    let again = macs(&|node| !node.frozen && node.place != graph::Place::Tail);
    (forward + backward + again) as f64 / (forward + backward).max(1) as f64
}
