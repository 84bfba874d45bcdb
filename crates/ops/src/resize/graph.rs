//! Resizing on Burn's gradient graph.

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops};
use burn::backend::{Autodiff, TensorMetadata};

use super::{Interpolation, Resize, ResizeGradient};
use crate::graph::{Tracked, on_graph, parents};

impl<B: Resize + ResizeGradient, C: CheckpointStrategy> Resize for Autodiff<B, C> {
    fn resize(x: Tracked<B, C>, size: [usize; 2], interpolation: Interpolation) -> Tracked<B, C> {
        let (x, node) = x.into_parts();
        let [_, _, height, width] = x.shape().dims();
        on_graph!(C, ResizeBackward, [node], ([height, width], interpolation), B::resize(x, size, interpolation))
    }
}

#[derive(Debug)]
struct ResizeBackward;

impl<B: ResizeGradient> Backward<B, 1> for ResizeBackward {
    /// Rows and columns of the input, which itself is not kept.
    type State = ([usize; 2], Interpolation);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let [node] = parents(&ops);
        let dy = grads.consume::<B>(&ops.node);
        if let Some(node) = node {
            let (size, interpolation) = ops.state;
            grads.register::<B>(node, B::resize_backward(dy, size, interpolation));
        }
    }
}
