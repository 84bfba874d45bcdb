//! The sum of vectors over ranks, in the order of the [tree](crate::tree).
//!
//! MPI's own reductions choose an order by the number of ranks, the length and the network, so they give other bits on another
//! machine. Here bytes move, and additions are ours. Each rank has the nodes of its share. The vector is cut into as many segments as
//! there are ranks: everyone sends its nodes' segments to their owners, each owner adds in the order of the tree, and everyone gets
//! the sums. Nobody has to be told which nodes there are, because the shares follow from the number of leaves.
//!
//! Where the number of ranks is a power of two that divides the number of leaves, each rank has one node, and what is sent is what a
//! ring sends: `2 (ranks - 1) / ranks` vectors a rank. In other cases it is more: 3 ranks and 16 leaves have 7 nodes together.
//!
//! [`sum`] has the vectors in host memory, and MPI moves them. [`sum_on_device`] has them in memory of a GPU, where NCCL moves them and
//! the caller adds. Both follow the same plan, and float32 addition is the same everywhere, so their bits are the same.

mod device;

use std::collections::TryReserveError;
use std::time::{Duration, Instant};

pub use device::{DeviceMemory, room_on_device, sum_on_device};

use crate::tree::{Node, cover, most_held, root, share};
use crate::{Error, Group};

/// Floats that one round holds on a rank, sent and received together: 16 MiB. More is no faster, and less waits more often.
const IN_FLIGHT: usize = (16 << 20) / size_of::<f32>();
/// The same for one rank, which waits for nobody: what a processor's cache holds.
const IN_CACHE: usize = (1 << 20) / size_of::<f32>();

/// What a rank holds at most in a sum of `length` numbers over `leaves` leaves, whichever of `size` ranks it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The most nodes that wait while the next leaf is computed.
    pub waiting: usize,
    /// Nodes that it sends.
    pub nodes: usize,
    /// Floats of [`Buffers`].
    pub buffers: usize,
    /// Floats of the room in memory of a GPU, where NCCL moves the nodes: see [`room_on_device`].
    pub room: usize,
}

impl Held {
    /// Of one of `size` ranks.
    ///
    /// # Panics
    /// If `size` is 0.
    pub fn of(size: usize, leaves: usize, length: usize) -> Self {
        let plan = Plan::new(size, leaves, in_flight(size));
        let (send, receive) = plan.buffers(length);
        Self {
            waiting: (0..size).map(|rank| most_held(share(leaves, rank, size), 1)).max().unwrap_or(0),
            nodes: plan.most(),
            buffers: send + receive,
            room: room_on_device(size, leaves, length),
        }
    }
}

/// Host memory that a sum needs besides nodes and total, so that it can be there before the ranks wait for each other.
#[derive(Debug, Default)]
pub struct Buffers {
    send: Vec<f32>,
    receive: Vec<f32>,
}

impl Buffers {
    /// So large that no sum of `length` numbers over `leaves` leaves makes them larger, on any rank of this group.
    ///
    /// # Errors
    /// If the system has not so much memory.
    pub fn of(group: &Group, leaves: usize, length: usize) -> Result<Self, TryReserveError> {
        let (send, receive) = Plan::new(group.size(), leaves, in_flight(group.size())).buffers(length);
        let mut buffers = Self::default();
        buffers.send.try_reserve_exact(send)?;
        buffers.receive.try_reserve_exact(receive)?;
        Ok(buffers)
    }
}

/// What a sum cost this rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes that were sent to other ranks.
    pub sent: u64,
    /// Time of the whole call, with waiting for others.
    pub time: Duration,
}

/// Sums vectors of one length over all leaves, and leaves the sum in `total` on every rank, with the same bits as one rank would get.
/// `nodes` are those that an [`Accumulator`](crate::tree::Accumulator) ends with after this rank's [share](Group::share) of `leaves`. A
/// vector may be several tensors one after the other. Besides nodes and total a rank holds at most 16 MiB.
///
/// # Errors
/// If `nodes` are not those of the share, their vectors are not as long as `total`, or a rank is gone.
pub fn sum<V: AsRef<[f32]>>(
    group: &Group,
    about: &'static str,
    leaves: usize,
    nodes: &[Node<V>],
    total: &mut [f32],
) -> Result<Traffic, Error> {
    sum_with(&mut Buffers::default(), group, about, leaves, nodes, total)
}

/// [`sum`] with [`Buffers`] that are there already.
///
/// # Errors
/// As [`sum`].
pub fn sum_with<V: AsRef<[f32]>>(
    buffers: &mut Buffers,
    group: &Group,
    about: &'static str,
    leaves: usize,
    nodes: &[Node<V>],
    total: &mut [f32],
) -> Result<Traffic, Error> {
    let plan = Plan::new(group.size(), leaves, in_flight(group.size()));
    sum_by(&plan, buffers, group, about, nodes, total)
}

/// Floats that one round holds on each of `size` ranks.
fn in_flight(size: usize) -> usize {
    if size == 1 { IN_CACHE } else { IN_FLIGHT }
}

fn sum_by<V: AsRef<[f32]>>(
    plan: &Plan,
    buffers: &mut Buffers,
    group: &Group,
    about: &'static str,
    nodes: &[Node<V>],
    total: &mut [f32],
) -> Result<Traffic, Error> {
    let (began, sent) = (Instant::now(), group.bytes_sent());
    plan.check(group, nodes, total.len())?;
    group.progress().waiting_for(about, || {
        let mut begin = 0;
        total.chunks_mut(plan.round).try_for_each(|round| {
            plan.run(group, nodes, begin, round, buffers)?;
            begin += round.len();
            Ok(())
        })
    })?;
    Ok(Traffic { sent: group.bytes_sent() - sent, time: began.elapsed() })
}

/// Who has which nodes, and how much of the vectors goes at once.
struct Plan {
    leaves: usize,
    /// Places of the nodes of each rank.
    places: Vec<Vec<Node<()>>>,
    /// Floats of the vector in one round.
    round: usize,
}

impl Plan {
    fn new(size: usize, leaves: usize, in_flight: usize) -> Self {
        let places: Vec<Vec<Node<()>>> = (0..size).map(|rank| cover(share(leaves, rank, size))).collect();
        let plan = Self { leaves, places, round: 0 };
        let (most, all) = (plan.most(), plan.all());
        // A rank sends its nodes of the round, gets a segment of all nodes, and sends one of the sum.
        let round = in_flight / (most + (all + 1).div_ceil(size)).max(1);
        Self { round: round.max(1), ..plan }
    }

    /// The most nodes of one rank.
    fn most(&self) -> usize {
        self.places.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// Floats that a rank sends and receives at most in a round of a sum of `length` numbers.
    fn buffers(&self, length: usize) -> (usize, usize) {
        let round = self.round.min(length);
        (self.most() * round, self.all() * round.div_ceil(self.places.len()))
    }

    /// All nodes, those of the first rank first.
    fn all(&self) -> usize {
        self.places.iter().map(Vec::len).sum()
    }

    fn check<V: AsRef<[f32]>>(&self, group: &Group, nodes: &[Node<V>], length: usize) -> Result<(), Error> {
        let wrong = |given| Error::Nodes { rank: group.rank(), size: group.size(), leaves: self.leaves, given };
        let given = nodes.iter().map(|node| (node.level, node.index));
        let expected = self.places[group.rank()].iter().map(|node| (node.level, node.index));
        if self.leaves == 0 || !given.clone().eq(expected) {
            return Err(wrong(format!("{:?}, as (level, index)", given.collect::<Vec<_>>())));
        }
        match nodes.iter().find(|node| node.sum.as_ref().len() != length) {
            Some(node) => {
                Err(wrong(format!("{} numbers in one of them, for a sum of {length}", node.sum.as_ref().len())))
            }
            None => Ok(()),
        }
    }

    /// Sums what `total` is of the vectors, which begins at `begin`.
    fn run<V: AsRef<[f32]>>(
        &self,
        group: &Group,
        nodes: &[Node<V>],
        begin: usize,
        total: &mut [f32],
        Buffers { send, receive }: &mut Buffers,
    ) -> Result<(), Error> {
        let (rank, size) = (group.rank(), group.size());
        let segment = |rank| share(total.len(), rank, size);
        let mine = segment(rank);

        send.clear();
        for owner in 0..size {
            let segment = segment(owner);
            let place = begin + segment.start..begin + segment.end;
            nodes.iter().for_each(|node| send.extend_from_slice(&node.sum.as_ref()[place.clone()]));
        }
        let bytes = |floats: usize| floats * size_of::<f32>();
        let to: Vec<usize> = (0..size).map(|owner| bytes(nodes.len() * segment(owner).len())).collect();
        let from: Vec<usize> = self.places.iter().map(|places| bytes(places.len() * mine.len())).collect();
        receive.resize(from.iter().sum::<usize>() / size_of::<f32>(), 0.0);
        group.exchange(bytemuck::cast_slice(send), &to, bytemuck::cast_slice_mut(receive), &from)?;

        let counts: Vec<usize> = (0..size).map(|owner| bytes(segment(owner).len())).collect();
        let sum = self.add(receive, mine.len());
        group.all_gather(bytemuck::cast_slice(sum), &counts, bytemuck::cast_slice_mut(total))
    }

    /// Adds the nodes of all ranks, which stand one after the other, in place.
    fn add<'a>(&self, received: &'a mut [f32], length: usize) -> &'a [f32] {
        if length == 0 {
            return &[];
        }
        let places = self.places.iter().flatten();
        let nodes = places.zip(received.chunks_exact_mut(length)).map(|(place, sum)| place.map(|()| sum));
        let sum = root(nodes, |left, right| {
            left.iter_mut().zip(&*right).for_each(|(left, right)| *left += *right);
            left
        });
        sum.map_or(&[], |sum| sum)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::group::tests::on_ranks;
    use crate::tree::Accumulator;

    const LENGTH: usize = 37;

    fn leaf(index: usize) -> Vec<f32> {
        let number =
            |place: usize| ((index * 7919 + place * 104_729 + 17) as f32).sin() * 10f32.powi((index % 7) as i32 - 3);
        (0..LENGTH).map(number).collect()
    }

    fn add(mut left: Vec<f32>, right: Vec<f32>) -> Vec<f32> {
        left.iter_mut().zip(right).for_each(|(left, right)| *left += right);
        left
    }

    fn nodes(leaves: std::ops::Range<usize>) -> Vec<Node<Vec<f32>>> {
        let mut sums = Accumulator::starting_at(leaves.start);
        leaves.for_each(|index| sums.push(leaf(index), add));
        sums.into_nodes()
    }

    fn bits(values: &[f32]) -> Vec<u32> {
        values.iter().map(|value| value.to_bits()).collect()
    }

    #[test]
    fn every_rank_gets_the_bits_of_one_rank_in_any_number_of_rounds() {
        for leaves in [1, 2, 3, 5, 7, 12, 16, 33] {
            let expected = bits(&root(nodes(0..leaves), add).unwrap());
            for size in 1..9 {
                for in_flight in [1, 40, 1 << 20] {
                    let totals = on_ranks(size, |group| {
                        let mut total = vec![f32::NAN; LENGTH];
                        let nodes = nodes(group.share(leaves));
                        let plan = Plan::new(size, leaves, in_flight);
                        sum_by(&plan, &mut Buffers::default(), group, "gradients", &nodes, &mut total).unwrap();
                        bits(&total)
                    });
                    assert!(
                        totals.iter().all(|total| *total == expected),
                        "{leaves} leaves, {size} ranks, {in_flight}"
                    );
                }
            }
        }
    }

    #[test]
    fn where_ranks_are_a_power_of_two_that_divides_the_leaves_as_much_is_sent_as_in_a_ring() {
        let length = 64;
        let sent = on_ranks(4, |group| {
            let nodes: Vec<Node<Vec<f32>>> =
                cover(group.share(16)).into_iter().map(|node| node.map(|()| vec![1.0; length])).collect();
            let mut total = vec![0.0; length];
            let traffic = sum(group, "gradients", 16, &nodes, &mut total).unwrap();
            assert_eq!(total, vec![4.0; length]);
            traffic.sent
        });
        let vector = length * size_of::<f32>();
        assert_eq!(sent, vec![(2 * 3 * vector / 4) as u64; 4]);
    }

    #[test]
    fn nodes_of_another_share_are_refused() {
        let group = Group::alone();
        let mut total = vec![0.0; LENGTH];
        let sentence = sum(&group, "gradients", 4, &nodes(0..3), &mut total).unwrap_err().to_string();
        assert!(sentence.contains("rank 0 of 1 has other nodes than those of its share of 4 leaves"), "{sentence}");
        let sentence = sum(&group, "gradients", 4, &nodes(0..4), &mut total[1..]).unwrap_err().to_string();
        assert!(sentence.contains("37 numbers in one of them, for a sum of 36"), "{sentence}");
    }

    /// Memory that is asked for in the middle of a sum might not be there, and the others would wait.
    #[test]
    fn buffers_that_are_there_are_not_made_larger_by_a_sum() {
        for leaves in [3, 7, 16] {
            for size in [2, 3] {
                on_ranks(size, |group| {
                    let mut buffers = Buffers::of(group, leaves, LENGTH).unwrap();
                    let before = (buffers.send.capacity(), buffers.receive.capacity());
                    let mut total = vec![0.0; LENGTH];
                    let nodes = nodes(group.share(leaves));
                    sum_with(&mut buffers, group, "gradients", leaves, &nodes, &mut total).unwrap();
                    assert!(buffers.send.len() + buffers.receive.len() > 0, "they are used");
                    assert_eq!((buffers.send.capacity(), buffers.receive.capacity()), before, "{leaves} leaves");
                    let held = Held::of(size, leaves, LENGTH);
                    assert!(nodes.len() <= held.nodes && buffers.send.len() + buffers.receive.len() <= held.buffers);
                });
            }
        }
        let held = Held::of(3, 16, 1 << 24);
        assert!((IN_FLIGHT / 2..=IN_FLIGHT + 7).contains(&held.buffers), "{held:?}");
    }

    #[test]
    fn a_round_stays_within_its_bounds() {
        for size in 1..9 {
            for leaves in 1..70 {
                let plan = Plan::new(size, leaves, IN_FLIGHT);
                let all: usize = plan.places.iter().map(Vec::len).sum();
                let segment = plan.round.div_ceil(size);
                for places in &plan.places {
                    assert!(
                        places.len() * plan.round + all * segment <= IN_FLIGHT + all,
                        "{size} ranks, {leaves} leaves"
                    );
                }
            }
        }
    }
}
