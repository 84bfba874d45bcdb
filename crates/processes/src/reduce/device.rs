//! The sum of vectors in memory of GPUs, which NCCL moves.
//!
//! A round is that of [`super::sum`]: segments of all nodes come to their owners, each adds in the order of the tree, and everyone gets
//! the sums. Nodes are sent from where they are. What is received lies in a room of its own, of at most 16 MiB: first the sum of the
//! round, then a segment of each node of all ranks.

#![allow(unsafe_code)]

use std::cell::RefCell;

use super::{IN_FLIGHT, Plan};
use crate::nccl::{Failed, Nccl, Piece};
use crate::tree::{Node, root, share};
use crate::{Error, Group};

const FLOAT: u64 = size_of::<f32>() as u64;

/// The vectors of a rank in memory of its GPU, and what computes there.
///
/// # Safety
/// As long as it lives, each address is that of memory of the GPU which holds as many floats as is said, and which nothing but these
/// calls writes to. What was written to the nodes before is written when [`sum_on_device`] is called. All of that is true whenever no
/// call is under way: what a call asks of the GPU is done when [`Self::settle`] or [`Self::read`] returns.
pub unsafe trait DeviceMemory {
    /// The addresses of this rank's nodes, in order, each as long as the sum.
    fn nodes(&self) -> &[u64];

    /// The address of the room, which holds [`room_on_device`] floats.
    fn room(&self) -> u64;

    /// Adds `length` floats of the room from `right` on to those from `left` on: each `left + right`, rounded to float32 once.
    ///
    /// # Errors
    /// The words of the device.
    fn add(&self, left: usize, right: usize, length: usize) -> Result<(), String>;

    /// Returns when the additions are done.
    ///
    /// # Errors
    /// The words of the device, of an addition before as well.
    fn settle(&self) -> Result<(), String>;

    /// Reads the first floats of the room.
    ///
    /// # Errors
    /// The words of the device.
    fn read(&self, floats: &mut [f32]) -> Result<(), String>;
}

/// Floats of the room on each of `size` ranks for a sum of `length` numbers over `leaves` leaves: at most 16 MiB and a few bytes.
pub fn room_on_device(size: usize, leaves: usize, length: usize) -> usize {
    let plan = Plan::new(size, leaves, IN_FLIGHT);
    let round = plan.round.min(length);
    round + plan.all() * round.div_ceil(size)
}

/// [`super::sum`] of vectors in memory of GPUs, with the same bits in `total`, which is in host memory. `places` are those of the nodes
/// in `memory`. After a failure of the inner kind the nodes are as they were, on this rank; others may have the sum, so all ranks agree
/// on what became of it before they go on.
///
/// # Errors
/// If `places` are not those of this rank's share. The inner error is that of NCCL or the device.
pub fn sum_on_device(
    (group, nccl): (&Group, &Nccl),
    about: &'static str,
    leaves: usize,
    (places, memory): (&[Node<()>], &impl DeviceMemory),
    total: &mut [f32],
) -> Result<Result<(), Failed>, Error> {
    let plan = Plan::new(group.size(), leaves, IN_FLIGHT);
    if leaves == 0 || plan.places[group.rank()] != places || memory.nodes().len() != places.len() {
        let given = format!("{places:?} on a device");
        return Err(Error::Nodes { rank: group.rank(), size: group.size(), leaves, given });
    }
    Ok(group.progress().waiting_for(about, || {
        let mut begin = 0;
        total.chunks_mut(plan.round).try_for_each(|total| {
            round(&plan, (group, nccl), memory, begin, total)?;
            begin += total.len();
            Ok(())
        })
    }))
}

/// Sums what `total` is of the vectors, which begins at `begin`.
fn round(
    plan: &Plan,
    (group, nccl): (&Group, &Nccl),
    memory: &impl DeviceMemory,
    begin: usize,
    total: &mut [f32],
) -> Result<(), Failed> {
    let (rank, size) = (group.rank(), group.size());
    let segment = |rank| share(total.len(), rank, size);
    let mine = segment(rank).len();
    let in_room = |float: usize| memory.room() + FLOAT * float as u64;
    let of_node = |float: usize| move |node: &u64| node + FLOAT * (begin + float) as u64;

    let to = (0..size).flat_map(|owner| {
        let (start, floats) = (segment(owner).start, segment(owner).len());
        memory.nodes().iter().map(of_node(start)).map(move |address| Piece { rank: owner, address, floats })
    });
    let from = plan.places.iter().enumerate().flat_map(|(rank, places)| places.iter().map(move |place| (rank, *place)));
    let received: Vec<(usize, Node<usize>)> =
        from.enumerate().map(|(number, (rank, place))| (rank, place.map(|()| total.len() + number * mine))).collect();
    let came = received.iter().map(|(rank, node)| Piece { rank: *rank, address: in_room(node.sum), floats: mine });
    move_pieces(group, nccl, &to.collect::<Vec<_>>(), &came.collect::<Vec<_>>())?;

    let sum = add(memory, received.into_iter().map(|(_, node)| node), mine)?;
    let to = (0..size).map(|rank| Piece { rank, address: in_room(sum), floats: mine });
    let from = (0..size).map(|rank| Piece { rank, address: in_room(segment(rank).start), floats: segment(rank).len() });
    move_pieces(group, nccl, &to.collect::<Vec<_>>(), &from.collect::<Vec<_>>())?;
    memory.read(total).map_err(Failed::new)
}

fn move_pieces(group: &Group, nccl: &Nccl, to: &[Piece], from: &[Piece]) -> Result<(), Failed> {
    let others = to.iter().filter(|piece| piece.rank != group.rank());
    group.count(others.map(|piece| piece.floats * size_of::<f32>()).sum());
    // SAFETY: addresses are those of the memory that its trait promises, of nodes which are only read, and of the room. In the room the
    // segments that are received stand behind each other and behind the sum, of which every segment is another part; what is sent from
    // it is a segment of a node, and what is received then is the sum. Nothing of what was asked of the GPU before is still to be done.
    unsafe { nccl.exchange(to, from) }
}

/// Adds nodes, each by the place of its segment in the room, in the order of the tree; the place where the sum is.
fn add(memory: &impl DeviceMemory, nodes: impl Iterator<Item = Node<usize>>, length: usize) -> Result<usize, Failed> {
    let failed = RefCell::new(Ok(()));
    let sum = root(nodes, |left, right| {
        if length > 0 && failed.borrow().is_ok() {
            *failed.borrow_mut() = memory.add(left, right, length);
        }
        left
    });
    failed.into_inner().and_then(|()| memory.settle()).map_err(Failed::new)?;
    Ok(sum.unwrap_or(0))
}
