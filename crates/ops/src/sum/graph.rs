//! The sum on Burn's gradient graph.

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops};
use burn::backend::{Autodiff, TensorMetadata};
use burn::tensor::Shape;

use super::Sum;
use crate::graph::{Tracked, on_graph, parents};

impl<B: Sum, C: CheckpointStrategy> Sum for Autodiff<B, C> {
    fn sum(x: Tracked<B, C>) -> Tracked<B, C> {
        let (x, node) = x.into_parts();
        on_graph!(C, SumBackward, [node], x.shape(), B::sum(x))
    }
}

/// Every number has the gradient of the sum.
#[derive(Debug)]
struct SumBackward;

impl<B: Sum> Backward<B, 1> for SumBackward {
    type State = Shape;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let [node] = parents(&ops);
        let dy = grads.consume::<B>(&ops.node);
        if let Some(node) = node {
            grads.register::<B>(node, B::float_expand(dy, ops.state));
        }
    }
}
