//! The fixed binary tree in which the parts of a global batch are added.
//!
//! The leaves are the normalisation groups of the batch in order. The node of level `l` and index `i` is the sum of the leaves
//! `i << l .. (i + 1) << l`: its left half plus its right half. Where the right half has no leaves, the node is its left half. So a
//! sum is a function of the leaves alone, whoever adds which of them and in which pieces, and it rounds less than adding one leaf
//! after the other.
//!
//! ```
//! use kindling_processes::tree::{Accumulator, root, share};
//!
//! let leaves = [0.1f32, 0.2, 0.3, 0.4, 0.5];
//! let add = |left: f32, right: f32| left + right;
//! let nodes = (0..2).flat_map(|rank| {
//!     let share = share(leaves.len(), rank, 2);
//!     let mut sums = Accumulator::starting_at(share.start);
//!     leaves[share].iter().for_each(|leaf| sums.push(*leaf, add));
//!     sums.into_nodes()
//! });
//! assert_eq!(root(nodes, add), Some(((0.1 + 0.2) + (0.3 + 0.4)) + 0.5));
//! ```

use std::ops::Range;

/// The leaves that a rank of `size` owns: `leaves * rank / size .. leaves * (rank + 1) / size`, so that the ranks own all leaves in
/// order and no rank owns two more than another. With more ranks than leaves some own none.
///
/// # Panics
/// If `size` is 0.
pub fn share(leaves: usize, rank: usize, size: usize) -> Range<usize> {
    // In u128, because a product of two counts may not fit; the quotients are at most `leaves`.
    let edge = |rank: usize| (leaves as u128 * rank as u128 / size as u128) as usize;
    edge(rank)..edge(rank + 1)
}

/// A sum of neighbouring leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node<T> {
    /// It stands for `1 << level` leaves.
    pub level: u32,
    /// The number of leaves before it, divided by `1 << level`.
    pub index: usize,
    /// Their sum.
    pub sum: T,
}

impl<T> Node<T> {
    /// The same place with another form of its sum, such as a tensor read to the host.
    pub fn map<U>(self, form: impl FnOnce(T) -> U) -> Node<U> {
        Node { level: self.level, index: self.index, sum: form(self.sum) }
    }
}

/// Leaves that are added in order, from any leaf on: a binary counter. It holds one node for each bit of the number of leaves where it
/// starts at 0, and at most twice as many where it starts elsewhere.
#[derive(Clone, Debug)]
pub struct Accumulator<T> {
    next: usize,
    nodes: Vec<Node<T>>,
}

impl<T> Accumulator<T> {
    /// Holds nothing yet. The first leaf that is pushed is this one of the tree.
    pub fn starting_at(first: usize) -> Self {
        Self { next: first, nodes: Vec::new() }
    }

    /// Adds the next leaf. `add` gets a left and a right half, in this order.
    pub fn push(&mut self, leaf: T, add: impl Fn(T, T) -> T) {
        self.nodes.push(Node { level: 0, index: self.next, sum: leaf });
        self.next += 1;
        merge_siblings(&mut self.nodes, &add);
    }

    /// The largest whole nodes of the leaves so far, in order.
    pub fn nodes(&self) -> &[Node<T>] {
        &self.nodes
    }

    /// The largest whole nodes of the leaves, in order.
    pub fn into_nodes(self) -> Vec<Node<T>> {
        self.nodes
    }
}

/// The most nodes that an [`Accumulator`] of these leaves holds while the next `at_once` of them are computed; those that are left at the end
/// are fewer, and take less.
pub fn most_held(leaves: Range<usize>, at_once: usize) -> usize {
    let mut places = Accumulator::starting_at(leaves.start);
    (0..leaves.len()).fold(0, |most, leaf| {
        let is_before_all = leaf.is_multiple_of(at_once.max(1)) && leaf + at_once <= leaves.len();
        let held = if is_before_all { places.nodes().len() } else { 0 };
        places.push((), |(), ()| ());
        held.max(most)
    })
}

/// The places of the nodes that an [`Accumulator`] ends with after these leaves.
pub fn cover(leaves: Range<usize>) -> Vec<Node<()>> {
    let mut places = Accumulator::starting_at(leaves.start);
    leaves.for_each(|_| places.push((), |(), ()| ()));
    places.into_nodes()
}

/// The sum of the whole tree from nodes that cover it in order, such as those of all ranks one after the other; none if there are none.
pub fn root<T>(nodes: impl IntoIterator<Item = Node<T>>, add: impl Fn(T, T) -> T) -> Option<T> {
    let mut merged = Vec::new();
    for node in nodes {
        merged.push(node);
        merge_siblings(&mut merged, &add);
    }
    // What has no right half stands for its parent, until it is the right half of something. Levels fall from left to right, so that
    // each node waits for the sum of all that is right of it.
    let last = merged.pop()?.sum;
    Some(merged.into_iter().rfold(last, |right, left| add(left.sum, right)))
}

/// Merges the last two nodes for as long as they are the halves of one.
fn merge_siblings<T>(nodes: &mut Vec<Node<T>>, add: &impl Fn(T, T) -> T) {
    while let [.., left, right] = nodes.as_slice()
        && left.level == right.level
        && left.index.is_multiple_of(2)
        && let (Some(right), Some(left)) = (nodes.pop(), nodes.pop())
    {
        nodes.push(Node { level: left.level + 1, index: left.index / 2, sum: add(left.sum, right.sum) });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use kindling_random::{Purpose, rng};
    use proptest::prelude::*;
    use rand::RngExt;

    use super::*;

    type Sum = Vec<f32>;

    fn add(mut left: Sum, right: Sum) -> Sum {
        left.iter_mut().zip(right).for_each(|(left, right)| *left += right);
        left
    }

    /// The definition: halves at powers of two, from the root down.
    fn by_definition(leaves: &[Sum]) -> Sum {
        match leaves {
            [leaf] => leaf.clone(),
            leaves => {
                let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
                add(by_definition(left), by_definition(right))
            }
        }
    }

    /// Numbers of many sizes and both signs, so that another order gives other bits.
    fn leaves(count: usize) -> Vec<Sum> {
        let leaf = |index: usize| {
            let mut rng = rng(0, Purpose::MadeUp, 0, index as u64);
            (0..5).map(|_| rng.random_range(-1f32..1.0) * 10f32.powi(rng.random_range(-3..=3))).collect()
        };
        (0..count).map(leaf).collect()
    }

    fn bits(sum: &[f32]) -> Vec<u32> {
        sum.iter().map(|value| value.to_bits()).collect()
    }

    fn sum_of(leaves: &[Sum], ranges: impl IntoIterator<Item = Range<usize>>) -> Sum {
        let nodes = ranges.into_iter().flat_map(|range| {
            let mut sums = Accumulator::starting_at(range.start);
            leaves[range].iter().for_each(|leaf| sums.push(leaf.clone(), add));
            sums.into_nodes()
        });
        root(nodes, add).unwrap()
    }

    #[test]
    fn a_sum_has_the_bits_of_the_definition_for_any_number_of_ranks() {
        for count in 1..70 {
            let leaves = leaves(count);
            let expected = bits(&by_definition(&leaves));
            for size in 1..9 {
                let sum = sum_of(&leaves, (0..size).map(|rank| share(count, rank, size)));
                assert_eq!(bits(&sum), expected, "{count} leaves, {size} ranks");
            }
        }
    }

    proptest! {
        #[test]
        fn a_sum_has_the_bits_of_the_definition_however_its_leaves_are_cut(
            count in 1usize..70,
            cuts in prop::collection::btree_set(0usize..70, 0..9),
        ) {
            let leaves = leaves(count);
            let edges: Vec<usize> = [0].into_iter().chain(cuts.into_iter().filter(|cut| *cut < count)).chain([count]).collect();
            let sum = sum_of(&leaves, edges.windows(2).map(|edge| edge[0]..edge[1]));
            prop_assert_eq!(bits(&sum), bits(&by_definition(&leaves)), "cut at {:?}", edges);
        }
    }

    #[test]
    fn adding_in_sequence_would_have_other_bits() {
        let leaves = leaves(32);
        let sequence = leaves.iter().cloned().reduce(add).unwrap();
        assert_ne!(bits(&sequence), bits(&by_definition(&leaves)));
    }

    #[test]
    fn shares_are_all_leaves_in_order_and_nearly_equal() {
        for leaves in 0..70 {
            for size in 1..9 {
                let shares: Vec<Range<usize>> = (0..size).map(|rank| share(leaves, rank, size)).collect();
                assert_eq!((shares[0].start, shares[size - 1].end), (0, leaves));
                assert!(shares.windows(2).all(|pair| pair[0].end == pair[1].start), "{shares:?}");
                let lengths = || shares.iter().map(ExactSizeIterator::len);
                assert!(lengths().max().unwrap() - lengths().min().unwrap() <= 1, "{shares:?}");
            }
        }
        assert_eq!(share(usize::MAX, 2, 3).end, usize::MAX, "a product that does not fit");
    }

    #[test]
    fn few_nodes_are_held_and_they_are_where_cover_says() {
        for count in 1..200usize {
            for first in [0, 1, 5, 64, 77] {
                let mut sums = Accumulator::starting_at(first);
                let mut most = 0;
                for _ in 0..count {
                    sums.push((), |(), ()| ());
                    most = most.max(sums.nodes().len() as u32);
                }
                let bits = count.ilog2() + 1;
                assert!(most <= if first == 0 { bits } else { 2 * bits }, "{count} leaves from {first}: {most}");
                assert_eq!(sums.into_nodes(), cover(first..first + count));
            }
        }
    }

    #[test]
    fn from_the_first_leaf_on_as_many_nodes_wait_as_the_number_of_leaves_has_bits_after_the_highest() {
        for count in 1..200usize {
            assert_eq!(most_held(0..count, 1), count.ilog2() as usize, "{count} leaves");
        }
        assert_eq!((most_held(3..3, 1), most_held(1..2, 1), most_held(1..3, 1)), (0, 0, 1));
        // Leaves 0 and 1, then 2 and 3; then four at a time, of eight.
        assert_eq!((most_held(0..2, 2), most_held(0..4, 2), most_held(0..8, 4)), (0, 1, 1));
        assert_eq!((most_held(0..3, 2), most_held(0..5, 2)), (0, 1), "the last is alone");
    }

    #[test]
    fn no_leaves_have_no_sum() {
        assert_eq!(root(Vec::<Node<f32>>::new(), |left, right| left + right), None);
        assert_eq!(cover(3..3), []);
    }
}
