//! What lives besides the passes: the network, the optimizer and the images; the update, and what a checkpoint copies.

use super::graph::Graph;
use super::ledger::{BufferId, Ledger, Part};
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
    let copies = if situation.ema { 2 } else { 1 };
    for elements in graph.trained() {
        for _ in 0..copies {
            ledger.make(Part::Weights, elements * WEIGHT_BYTES);
        }
    }
    // Running statistics, and what is frozen.
    in_small_pieces(ledger, Part::Weights, statistics(graph, situation));
    for elements in graph.trained() {
        for _ in 0..situation.optimizer.moments() {
            ledger.make(Part::Optimizer, elements * WEIGHT_BYTES);
        }
    }
    if let Target::Cpu { threads } = situation.target {
        // The batch in use, and of each loader thread one that waits and one that it just made.
        let batches = 1 + 2 * situation.workers.max(1) as u64;
        ledger.add(Part::Overhead, PROCESS + PACKING * (threads as u64 + 1) + batches * host_batch(graph, situation));
    }
}

/// Bytes of the weights that no gradient has.
fn statistics(graph: &Graph, situation: &Situation) -> u64 {
    let copies = if situation.ema { 2 } else { 1 };
    weights(graph, situation).saturating_sub(copies * gradients(graph))
}

/// Allocates many small tensors.
fn in_small_pieces(ledger: &mut Ledger, part: Part, bytes: u64) -> Vec<BufferId> {
    const PIECE: u64 = 1 << 12;
    let whole = (0..bytes / PIECE).map(|_| PIECE);
    let sizes: Vec<u64> = whole.chain(Some(bytes % PIECE).filter(|rest| *rest > 0)).collect();
    sizes.into_iter().map(|size| ledger.make(part, size)).collect()
}

/// A gradient for each tensor that trains.
pub(super) fn gradients_of_all(graph: &Graph, ledger: &mut Ledger) -> Vec<BufferId> {
    graph.trained().map(|elements| ledger.make(Part::Gradients, elements * WEIGHT_BYTES)).collect()
}

/// The optimizer's update beside the old state, from gradients, which it takes. Returns the new state.
pub(super) fn step(
    graph: &Graph,
    situation: &Situation,
    ledger: &mut Ledger,
    mut gradients: Vec<BufferId>,
) -> Vec<BufferId> {
    ledger.moment = Moment::Update;
    // New numbers for each weight: itself and its moments. Its gradient goes away with it. In between Burn's AdamW holds
    // both corrected moments and SGD what it will subtract; on the CPU AdamW goes over the weights once.
    let (made, scratch) = match situation.optimizer {
        OptimizerKind::AdamW if matches!(situation.target, Target::Cpu { .. }) => (3, 0),
        OptimizerKind::AdamW => (3, 2),
        OptimizerKind::Sgd { momentum } => (1 + u64::from(momentum), 1),
    };
    let largest = graph.trained().max().unwrap_or(0) * WEIGHT_BYTES;
    let mut new = Vec::new();
    for elements in graph.trained() {
        let bytes = elements * WEIGHT_BYTES;
        new.extend((0..made - 1).map(|_| ledger.make(Part::Workspace, bytes)));
        let scratch: Vec<BufferId> = (0..scratch).map(|_| ledger.make(Part::Workspace, bytes)).collect();
        if let Some(at) = gradients.iter().rposition(|gradient| ledger.bytes(*gradient) == bytes) {
            ledger.release(gradients.remove(at));
        }
        new.push(ledger.make(Part::Workspace, bytes));
        scratch.into_iter().for_each(|buffer| ledger.release(buffer));
    }
    gradients.into_iter().for_each(|gradient| ledger.release(gradient));
    // The new running statistics, the new average, and squares of the largest tensor, whose sum is read to see that all
    // of it is there.
    if situation.ema {
        new.extend(
            graph.trained().map(|elements| ledger.make(Part::Workspace, elements * WEIGHT_BYTES)).collect::<Vec<_>>(),
        );
    }
    new.extend(in_small_pieces(ledger, Part::Workspace, statistics(graph, situation)));
    ledger.burst(largest);
    new
}

/// What a checkpoint copies at a time, on the CPU.
pub(super) fn save(graph: &Graph, situation: &Situation, ledger: &mut Ledger) {
    if matches!(situation.target, Target::Cpu { .. }) {
        ledger.moment = Moment::Checkpoint;
        // The batch that was trained on is gone. One tensor after the other is read and written: of a parameter all moments.
        ledger.remove(Part::Overhead, host_batch(graph, situation));
        let largest = graph.trained().max().unwrap_or(0) * WEIGHT_BYTES;
        ledger.burst(largest * situation.optimizer.moments().max(1));
    }
}
