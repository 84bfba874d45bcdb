//! The sums of a step over all ranks.
//!
//! A rank has the nodes of the [tree](kindling_processes::tree) that its normalisation groups fill. They are read to the host, where
//! [`kindling_processes::reduce`] adds those of all ranks in the order of the tree: float32 and float32, which is what one process adds.
//! Where NCCL connects the ranks, they stay on their GPUs, and so do the additions; the sum alone is read. What comes back is kept in host
//! memory until the next step begins. So a rank that runs out of memory after the exchange computes what follows it again, alone.
//!
//! What a rank needs for that in host memory, which is the sum and the buffers of the exchange, it takes when it has computed its nodes
//! and before it says so. Where there is not so much, it has run out of memory like one that does not get through its backward pass, and
//! nobody waits in the middle of an exchange. `kindling plan --processes` counts the same bytes ([`reduce::Held`]).
//!
//! Each rank says where it has its nodes before they move. Only if all have them on GPUs does NCCL move them. Otherwise, and if it fails,
//! all read theirs to the host and say so again: a rank whose device fails in that is back at the same word when it has computed again.

use std::time::Instant;

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kindling_memory::grant_host;
use kindling_processes::reduce::{self, Buffers, room_on_device};
use kindling_processes::tree::Node;
use serde::{Deserialize, Serialize};

use crate::error::TrainError;
use crate::nodes::Nodes;
use crate::ranks::Ranks;
use crate::shared::{Layout, Shared, Tensors, joined};
use crate::sums::Sums;

/// What a rank says when it has computed its groups.
#[derive(Serialize, Deserialize)]
struct Computed {
    /// How long that took.
    seconds: f64,
    /// Told where a rank has no group from which it could know it.
    layout: Option<Layout>,
    /// Whether its nodes are in memory of its GPU, ready for NCCL.
    on_device: bool,
}

/// The sums of step `step`, which has so many normalisation groups, over all ranks; `mine` computes the nodes of this one. What runs out
/// of memory in `mine` panics, before anything is collective.
///
/// # Errors
/// [`TrainError::Elsewhere`], [`TrainError::Processes`], and the device's error in computing `mine`.
pub(crate) fn over_ranks<M: Module>(
    ranks: &Ranks,
    model: &M,
    (step, groups): (u64, usize),
    device: &Device,
    failed: impl Fn(&str) -> TrainError,
    mine: impl FnOnce() -> Vec<Node<Sums>>,
) -> Result<Sums, TrainError> {
    let tensors = Tensors::of(model);
    if let Some(shared) = ranks.shared.borrow().as_ref().filter(|shared| shared.step == step) {
        return Ok(shared.on(&tensors, device));
    }
    // The sum of the step before is of no use any more, and this one needs its memory.
    drop(ranks.shared.take());
    let began = Instant::now();
    let nodes = mine();
    let layout = nodes.first().map(|node| Layout::of(&node.sum, &tensors));
    // Whoever has no group does not know how long the sum is, so NCCL is for batches of which every rank has a part.
    let everyone_has_some = groups >= ranks.group().size();
    let room = layout.as_ref().filter(|_| everyone_has_some && ranks.has_nccl());
    let room = room.map(|layout| room_on_device(ranks.group().size(), groups, layout.length(&tensors)));
    let join = |sums: Sums| -> Result<Tensor<1>, String> {
        joined(layout.as_ref().ok_or("a node without a layout")?, sums, &tensors)
    };
    let mut nodes = Nodes::of(nodes, join, room, device).map_err(|text| failed(&text))?;
    // Whoever has no group learns how long the sum is from the others, and takes what it needs then.
    let length = layout.as_ref().map_or(0, |layout| layout.length(&tensors));
    let mut host = Host::of(ranks, groups, length).map_err(|text| failed(&text))?;
    let seconds = began.elapsed().as_secs_f64();
    let told = layout.clone().filter(|_| !everyone_has_some);
    let layout = loop {
        let mine = Computed { seconds, layout: told.clone(), on_device: nodes.are_on_device() };
        let all = ranks.agree("sums", mine)?;
        ranks.took(&all.iter().map(|computed| computed.seconds).collect::<Vec<_>>());
        let layout = layout.clone().or_else(|| all.iter().find_map(|computed| computed.layout.clone()));
        let layout = layout.ok_or_else(|| failed("the batch is empty"))?;
        host.numbers.resize(layout.length(&tensors), 0.0);
        if sum(ranks, groups, &nodes, &all, &mut host)? {
            break layout;
        }
        nodes = nodes.into_host().map_err(|text| failed(&text))?;
    };
    drop(nodes);
    let shared = Shared { step, groups, layout, numbers: host.numbers };
    let sums = shared.on(&tensors, device);
    *ranks.shared.borrow_mut() = Some(shared);
    Ok(sums)
}

/// What a rank takes of host memory before it says that it has computed its groups.
struct Host {
    /// For the sum over all ranks.
    numbers: Vec<f32>,
    buffers: Buffers,
}

impl Host {
    /// For a sum of so many numbers over so many groups.
    ///
    /// # Errors
    /// The sentence of a lack of memory.
    fn of(ranks: &Ranks, groups: usize, length: usize) -> Result<Self, String> {
        let held = reduce::Held::of(ranks.group().size(), groups, length);
        let bytes = (length + held.buffers) * size_of::<f32>();
        // The budget is asked first: it is kept by those who ask.
        let _granted = grant_host(bytes as u64)?;
        let refused = |_| format!("memory allocation of {bytes} bytes failed, for the exchange of gradients");
        let mut numbers = Vec::new();
        numbers.try_reserve_exact(length).map_err(refused)?;
        let buffers = Buffers::of(ranks.group(), groups, length).map_err(refused)?;
        Ok(Self { numbers, buffers })
    }
}

/// The sum of all ranks' nodes, if all have theirs in the same kind of memory and it could be moved. Every rank gets the same answer.
fn sum(ranks: &Ranks, groups: usize, nodes: &Nodes, all: &[Computed], host: &mut Host) -> Result<bool, TrainError> {
    let Host { numbers, buffers } = host;
    let of_nccl = all.iter().filter(|computed| computed.on_device).count();
    match nodes {
        Nodes::OnHost(nodes) if of_nccl == 0 => {
            reduce::sum_with(buffers, ranks.group(), "gradients", groups, nodes, numbers)?;
            Ok(true)
        }
        Nodes::OnDevice(nodes) if of_nccl == all.len() => {
            ranks.over_nccl(|nccl| nodes.sum((ranks, nccl), groups, numbers))
        }
        _ => Ok(false),
    }
}

/// The sum of what all rows of the batch of step `step` add, in their order; `mine` computes the rows of this rank. What runs out of memory
/// in `mine` happens before anything is collective, and what all have agreed on is not asked for again.
///
/// # Errors
/// [`TrainError::Elsewhere`], [`TrainError::Processes`], and that of `mine`.
pub(crate) fn rows_of_ranks(
    ranks: &Ranks,
    step: u64,
    mine: impl FnOnce() -> Result<Vec<Vec<f64>>, TrainError>,
) -> Result<Vec<f64>, TrainError> {
    if ranks.is_alone() {
        return Ok(added(mine()?.into_iter()));
    }
    if let Some((_, sums)) = ranks.first_pass.borrow().as_ref().filter(|(of, _)| *of == step) {
        return Ok(sums.clone());
    }
    // Words are JSON, which does not keep every float64.
    let bits = |row: Vec<f64>| row.into_iter().map(f64::to_bits).collect();
    let mine: Vec<Vec<u64>> = mine()?.into_iter().map(bits).collect();
    let all = ranks.agree("sums of the first pass", mine)?;
    let sums = added(all.into_iter().flatten().map(|row| row.into_iter().map(f64::from_bits).collect()));
    *ranks.first_pass.borrow_mut() = Some((step, sums.clone()));
    Ok(sums)
}

/// The sum of rows, one after the other.
fn added(rows: impl Iterator<Item = Vec<f64>>) -> Vec<f64> {
    let add = |mut sum: Vec<f64>, row: Vec<f64>| {
        sum.iter_mut().zip(row).for_each(|(sum, number)| *sum += number);
        sum
    };
    rows.reduce(add).unwrap_or_default()
}
