//! What the micro-batches of a step add up to, and in which order.
//!
//! On the CPU a sum has the same bits however the batch was cut and whoever computed its parts. A part is one normalisation group, and
//! parts are added in a fixed binary tree over the groups of the global batch, see [`kindling_processes::tree`]. Gradients, statistics and
//! numbers travel in it together. On other devices kernels follow from the size of a micro-batch, so its parts round differently
//! whatever their order; there a micro-batch is added to the sum of those before it, which needs the least memory.

use burn::tensor::{Device, Tensor};
use kindling_layers::pass::BatchStatistics;
use kindling_ops::{plain, sums_in_a_fixed_order};
use kindling_processes::tree::{Accumulator, Node, root};

use crate::gradients::GradientSum;

/// What can be added up.
pub trait Summand: Sized {
    /// This and what follows it in the batch.
    fn plus(self, next: Self) -> Self;
}

/// What some rows of a batch give for one network.
#[derive(Clone, Default)]
pub struct Sums {
    /// The gradients, multiplied by the loss scale.
    pub gradients: GradientSum,
    /// The statistics of its normalisation groups.
    pub statistics: BatchStatistics,
    /// Numbers that the finite check reads, `[1]` each: first the loss, then what else is to be told.
    pub numbers: Vec<Tensor<1>>,
}

impl Sums {
    /// Adds to the numbers, which are as many every time.
    pub fn count<const N: usize>(&mut self, numbers: [Tensor<1>; N]) {
        let known = std::mem::take(&mut self.numbers);
        self.numbers = added(known, numbers.map(plain).into());
    }
}

impl Summand for Sums {
    fn plus(mut self, next: Self) -> Self {
        self.gradients.merge(next.gradients);
        self.statistics.merge(next.statistics);
        self.numbers = added(self.numbers, next.numbers);
        self
    }
}

fn added(known: Vec<Tensor<1>>, more: Vec<Tensor<1>>) -> Vec<Tensor<1>> {
    if known.is_empty() {
        return more;
    }
    known.into_iter().zip(more).map(|(known, more)| known + more).collect()
}

/// A sum in the making, part by part in the order of the batch.
pub struct InOrder<T>(Order<T>);

enum Order<T> {
    /// In the fixed tree.
    Tree(Accumulator<T>),
    /// One after the other.
    Running(Option<T>),
}

impl<T: Summand> InOrder<T> {
    /// Nothing yet, of a batch on `device`.
    pub fn on(device: &Device) -> Self {
        let fixed = sums_in_a_fixed_order(device);
        Self(if fixed { Order::Tree(Accumulator::starting_at(0)) } else { Order::Running(None) })
    }

    /// The same of the groups from `first` on, in the fixed tree on any device.
    pub(crate) fn from_group(first: usize) -> Self {
        Self(Order::Tree(Accumulator::starting_at(first)))
    }

    /// Adds the next part.
    pub fn push(&mut self, part: T) {
        match &mut self.0 {
            Order::Tree(tree) => tree.push(part, T::plus),
            Order::Running(sum) => {
                *sum = Some(match sum.take() {
                    Some(known) => known.plus(part),
                    None => part,
                });
            }
        }
    }

    /// The nodes of the tree that are whole, of a sum that has one.
    pub(crate) fn into_nodes(self) -> Vec<Node<T>> {
        match self.0 {
            Order::Tree(tree) => tree.into_nodes(),
            Order::Running(_) => Vec::new(),
        }
    }

    /// The sum of all parts, none if there was none.
    pub fn finish(self) -> Option<T> {
        match self.0 {
            Order::Tree(tree) => root(tree.into_nodes(), T::plus),
            Order::Running(sum) => sum,
        }
    }
}
