//! Sums over pixels on Burn's gradient graph.

use std::sync::Arc;

use burn::backend::Autodiff;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops};
use burn::backend::tensor::FloatTensor;

use super::{PixelSums, PixelSumsGradient};
use crate::graph::{Tracked, on_graph, parents};

impl<B: PixelSums + PixelSumsGradient, C: CheckpointStrategy> PixelSums for Autodiff<B, C> {
    fn pixel_sums(logits: Tracked<B, C>, truth: Arc<[u8]>) -> Tracked<B, C> {
        let (logits, node) = logits.into_parts();
        let state = || (logits.clone(), truth.clone());
        on_graph!(C, PixelSumsBackward, [node], state(), B::pixel_sums(logits, truth))
    }
}

#[derive(Debug)]
struct PixelSumsBackward;

impl<B: PixelSumsGradient> Backward<B, 1> for PixelSumsBackward {
    /// The logits, and the class of each pixel.
    type State = (FloatTensor<B>, Arc<[u8]>);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let [node] = parents(&ops);
        let gradient = grads.consume::<B>(&ops.node);
        if let Some(node) = node {
            let (logits, truth) = ops.state;
            grads.register::<B>(node, B::pixel_sums_backward(logits, truth, gradient));
        }
    }
}
