//! What several processes hold for the sum of their gradients, by the function that reserves it in a run.

use kindling_processes::reduce::Held;
use kindling_processes::tree::most_held;

use super::graph::Graph;
use super::ledger::{Ledger, Part};
use super::{Phase, Situation, Target, WEIGHT_BYTES, update};

/// Numbers of the sum: gradients, and statistics of normalisation groups.
fn numbers(graph: &Graph) -> u64 {
    update::gradients(graph).sum::<u64>() / WEIGHT_BYTES + graph.statistics.iter().sum::<u64>()
}

/// The most sums of gradients that wait while normalisation groups are computed.
pub(super) fn waiting(situation: &Situation) -> usize {
    match situation.processes {
        1 => most_held(0..situation.groups(), situation.passes_at_once().0),
        processes => Held::of(processes, situation.groups(), 0).waiting,
    }
}

/// The exchange, from the gradients of a process to the sum of all. That is kept in host memory, beside the tensors that the update takes,
/// until the next step. What MPI and NCCL take for themselves is not counted.
pub(super) fn exchange(graph: &Graph, situation: &Situation, ledger: &mut Ledger) {
    if situation.processes == 1 {
        return;
    }
    ledger.phase = Phase::Exchange;
    let numbers = numbers(graph);
    let (vector, in_bytes) = (numbers * WEIGHT_BYTES, |floats: usize| floats as u64 * WEIGHT_BYTES);
    let held = Held::of(situation.processes, situation.groups(), usize::try_from(numbers).unwrap_or(usize::MAX));
    // Each node becomes one vector, and beside it there is a copy while it does.
    ledger.remove_all(Part::Gradients, update::gradients(graph));
    (0..held.nodes).for_each(|_| ledger.add(Part::Gradients, vector));
    ledger.burst(vector);
    match situation.target {
        Target::Cpu { .. } => {
            ledger.add(Part::Gradients, vector);
            ledger.burst(in_bytes(held.buffers));
        }
        Target::Cuda => ledger.burst(in_bytes(held.room)),
    }
    (0..held.nodes).for_each(|_| ledger.remove(Part::Gradients, vector));
    ledger.add_all(Part::Gradients, update::gradients(graph));
}
