//! Memory outside the passes: the network, the optimizer and the images; the update, and the copies of a checkpoint.

use kindling_ops::{packing_bytes, small_product};

use super::graph::Graph;
use super::ledger::{Ledger, Part};
use super::{OptimizerKind, Phase, Situation, Target, WEIGHT_BYTES};

/// Tensors that AdamW updates in one launch on a GPU (`kindling_ops::adamw`).
const UPDATED_AT_ONCE: usize = 8;

/// Bytes that the command holds on the CPU besides tensors and images: Burn's graph and tables, the log, names.
const PROCESS: u64 = 1 << 19;

/// Bytes of a tensor besides its numbers: shape, strides, reference counts.
const TENSOR: u64 = 512;

/// Further bytes of a tensor of the network: the parameter around it, and its node in the gradient graph.
const PARAMETER: u64 = 1024;

/// Bytes of all tensors of a network, its average and its optimizer besides their numbers (CPU).
fn around(graph: &Graph, situation: &Situation) -> u64 {
    let networks = if situation.ema { 2 } else { 1 };
    let moments = graph.trained().count() as u64 * situation.optimizer.moments();
    networks * graph.tensors.len() as u64 * (TENSOR + PARAMETER) + moments * TENSOR
}

/// Bytes of each gradient.
pub(super) fn gradients(graph: &Graph) -> impl Iterator<Item = u64> {
    graph.trained().map(in_bytes)
}

/// Bytes of a tensor of weights, gradients or moments.
fn in_bytes(elements: u64) -> u64 {
    elements * WEIGHT_BYTES
}

/// Bytes of what a process reads of a global batch, in host memory.
fn host_batch(graph: &Graph, situation: &Situation) -> u64 {
    graph.maps[0].elements() * situation.rows_read() as u64 * 4
}

/// Allocates what exists before and after every pass.
pub(super) fn hold_state(graph: &Graph, situation: &Situation, ledger: &mut Ledger) {
    let networks = if situation.ema { 2 } else { 1 };
    (0..networks).for_each(|_| ledger.add_all(Part::Weights, graph.tensors.iter().copied().map(in_bytes)));
    (0..situation.optimizer.moments()).for_each(|_| ledger.add_all(Part::Optimizer, gradients(graph)));
    if let Target::Cpu { threads } = situation.target {
        // The batch in use, and for each loader thread one that waits and one that it has just finished.
        let loaders = situation.workers.max(1) as u64;
        let of_loaders = (1 + 2 * loaders) * host_batch(graph, situation) + loaders * situation.decoding;
        // The trainer's own thread is one of those that multiply; the products of few small images run on it alone. Groups at once have as
        // many threads again.
        let (passes, each) = situation.passes_at_once();
        let alone = each.micro_batch < threads && graph.product <= small_product();
        let packers = match (passes, alone) {
            (1, true) => 1,
            (1, false) => threads as u64,
            _ => 2 * threads as u64,
        };
        let packed = packing_bytes(situation.precision.bytes() < size_of::<f32>()) * packers;
        ledger.add(Part::Overhead, PROCESS + around(graph, situation) + packed + of_loaders);
    }
}

/// The optimizer's update, while the old state still exists, and then the copy of one tensor at a time for a checkpoint.
pub(super) fn step_and_save(graph: &Graph, situation: &Situation, ledger: &mut Ledger) {
    ledger.phase = Phase::Update;
    // Each weight and its moments get new tensors. AdamW keeps the gradients to the end of a pass: on the CPU a pass is one tensor, on
    // CUDA eight. SGD frees the gradient and holds what it will subtract.
    let at_once = match (situation.optimizer, situation.target) {
        (OptimizerKind::AdamW, Target::Cuda) => UPDATED_AT_ONCE,
        _ => 1,
    };
    let moments = situation.optimizer.moments() as usize;
    let trained: Vec<u64> = gradients(graph).collect();
    let mut old = Vec::new();
    for some in trained.chunks(at_once) {
        for &bytes in some {
            let of_it = std::iter::repeat_n(bytes, moments + 1);
            ledger.add_all(Part::Workspace, of_it.clone());
            old.extend(of_it);
            ledger.remove(Part::Gradients, bytes);
            ledger.add(Part::Workspace, bytes);
        }
        ledger.remove_all(Part::Workspace, some.iter().copied());
    }
    // The running statistics and the average.
    let average = graph.tensors.iter().filter(|_| situation.ema);
    let rest: Vec<u64> = graph.statistics.iter().chain(average).copied().map(in_bytes).collect();
    ledger.add_all(Part::Workspace, rest.iter().copied());
    let tables = if matches!(situation.target, Target::Cpu { .. }) { around(graph, situation) } else { 0 };
    ledger.add(Part::Workspace, tables);
    ledger.remove_all(Part::Workspace, old.into_iter().chain(rest).chain([tables]));

    if matches!(situation.target, Target::Cpu { .. }) {
        ledger.phase = Phase::Checkpoint;
        // The batch of the step has been freed. Tensors are read and written one after the other, including frozen ones; for a parameter,
        // all its moments together. Burn copies what it reads, and copies it once more to align it.
        ledger.remove(Part::Overhead, host_batch(graph, situation));
        let moments = situation.optimizer.moments();
        let trained = graph.trained().max().unwrap_or(0);
        let trained = trained * if moments > 0 { moments + 1 } else { 0 };
        ledger.burst(trained.max(2 * graph.largest()) * WEIGHT_BYTES);
    }
}
