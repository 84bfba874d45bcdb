//! What lives besides the passes: the network, the optimizer and the images; the update, and what a checkpoint copies.

use super::graph::Graph;
use super::ledger::{Ledger, Part};
use super::{Moment, OptimizerKind, Situation, Target};

/// Weights, gradients and moments are float32.
pub(super) const WEIGHT_BYTES: u64 = 4;

/// What the command holds on the CPU besides tensors and images: Burn's graph and tables, the log, names.
const PROCESS: u64 = 1 << 19;

/// What a thread that multiplies matrices keeps to pack its operands into (the `gemm` crate); the trainer's own thread
/// is one more.
const PACKING: u64 = 1 << 20;

fn weights(graph: &Graph, situation: &Situation) -> u64 {
    graph.weights * WEIGHT_BYTES * if situation.ema { 2 } else { 1 }
}

/// Bytes of all gradients.
pub(super) fn gradients(graph: &Graph) -> u64 {
    graph.trained().sum::<u64>() * WEIGHT_BYTES
}

fn moments(graph: &Graph, situation: &Situation) -> u64 {
    gradients(graph) * situation.optimizer.moments()
}

/// Bytes of a global batch in host memory.
fn host_batch(graph: &Graph, situation: &Situation) -> u64 {
    graph.maps[0].elements() * situation.batch as u64 * 4
}

/// What is there before and after every pass.
pub(super) fn hold_state(graph: &Graph, situation: &Situation, ledger: &mut Ledger) {
    ledger.add(Part::Weights, weights(graph, situation));
    ledger.add(Part::Optimizer, moments(graph, situation));
    if let Target::Cpu { threads } = situation.target {
        // The batch in use, and of each loader thread one that waits and one that it just made.
        let loaders = situation.workers.max(1) as u64;
        let of_loaders = (1 + 2 * loaders) * host_batch(graph, situation) + loaders * situation.decoding;
        ledger.add(Part::Overhead, PROCESS + PACKING * (threads as u64 + 1) + of_loaders);
    }
}

/// The optimizer's update beside the old state, and then what a checkpoint copies at a time.
pub(super) fn step_and_save(graph: &Graph, situation: &Situation, ledger: &mut Ledger) {
    ledger.moment = Moment::Update;
    // New numbers for each weight: itself and its moments. Its gradient goes away with it. In between Burn's AdamW holds
    // both corrected moments and SGD what it will subtract; on the CPU AdamW goes over the weights once.
    let (made, scratch) = match situation.optimizer {
        OptimizerKind::AdamW if matches!(situation.target, Target::Cpu { .. }) => (3, 0),
        OptimizerKind::AdamW => (3, 2),
        OptimizerKind::Sgd { momentum } => (1 + u64::from(momentum), 1),
    };
    let largest = graph.trained().max().unwrap_or(0) * WEIGHT_BYTES;
    for elements in graph.trained() {
        let bytes = elements * WEIGHT_BYTES;
        ledger.add(Part::Workspace, (made - 1 + scratch) * bytes);
        ledger.remove(Part::Gradients, bytes);
        ledger.add(Part::Workspace, bytes);
        ledger.remove(Part::Workspace, scratch * bytes);
    }
    // The new running statistics, the new average, and squares of the largest tensor, whose sum is read to see that all
    // of it is there.
    let average = if situation.ema { graph.weights } else { 0 };
    ledger.add(Part::Workspace, (graph.statistics + average) * WEIGHT_BYTES);
    ledger.burst(largest);
    let live = ledger.live(Part::Workspace);
    ledger.remove(Part::Workspace, live);

    if matches!(situation.target, Target::Cpu { .. }) {
        ledger.moment = Moment::Checkpoint;
        // The batch that was trained on is gone. One tensor after the other is read and written: of a parameter all moments.
        ledger.remove(Part::Overhead, host_batch(graph, situation));
        let largest = graph.trained().max().unwrap_or(0) * WEIGHT_BYTES;
        ledger.burst(largest * situation.optimizer.moments().max(1));
    }
}
