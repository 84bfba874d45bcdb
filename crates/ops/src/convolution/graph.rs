//! Convolutions on Burn's gradient graph, for every backend that has their gradients.

use burn::backend::Autodiff;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops};
use burn::backend::tensor::FloatTensor;

use super::{ConvolutionGradients, Convolutions, OfConvolution, Places, Wanted};
use crate::graph::{Tracked, on_graph, parents};

impl<B: Convolutions + ConvolutionGradients, C: CheckpointStrategy> Convolutions for Autodiff<B, C> {
    fn depthwise(x: Tracked<B, C>, weight: Tracked<B, C>, places: Places) -> Tracked<B, C> {
        let ((x, x_node), (weight, weight_node)) = (x.into_parts(), weight.into_parts());
        let state = (x.clone(), weight.clone(), places);
        on_graph!(C, DepthwiseBackward, [x_node, weight_node], state, B::depthwise(x, weight, places))
    }

    fn dense(x: Tracked<B, C>, weight: Tracked<B, C>, places: Places) -> Tracked<B, C> {
        let ((x, x_node), (weight, weight_node)) = (x.into_parts(), weight.into_parts());
        let state = (x.clone(), weight.clone(), places);
        on_graph!(C, DenseBackward, [x_node, weight_node], state, B::dense(x, weight, places))
    }

    fn transposed(x: Tracked<B, C>, weight: Tracked<B, C>, places: Places, size: [usize; 2]) -> Tracked<B, C> {
        let ((x, x_node), (weight, weight_node)) = (x.into_parts(), weight.into_parts());
        let state = (x.clone(), weight.clone(), places);
        on_graph!(C, TransposedBackward, [x_node, weight_node], state, B::transposed(x, weight, places, size))
    }
}

/// What a convolution keeps for its backward pass.
type Kept<B> = (FloatTensor<B>, FloatTensor<B>, Places);

#[derive(Debug)]
struct DepthwiseBackward;

impl<B: ConvolutionGradients> Backward<B, 2> for DepthwiseBackward {
    type State = Kept<B>;

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        backward(ops, grads, |(x, weight, places), dy, wanted| B::depthwise_backward(x, weight, dy, places, wanted));
    }
}

#[derive(Debug)]
struct DenseBackward;

impl<B: ConvolutionGradients> Backward<B, 2> for DenseBackward {
    type State = Kept<B>;

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        backward(ops, grads, |(x, weight, places), dy, wanted| B::dense_backward(x, weight, dy, places, wanted));
    }
}

#[derive(Debug)]
struct TransposedBackward;

impl<B: ConvolutionGradients> Backward<B, 2> for TransposedBackward {
    type State = Kept<B>;

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        backward(ops, grads, |(x, weight, places), dy, wanted| B::transposed_backward(x, weight, dy, places, wanted));
    }
}

fn backward<B: ConvolutionGradients>(
    ops: Ops<Kept<B>, 2>,
    grads: &mut Gradients,
    gradients: impl FnOnce(Kept<B>, FloatTensor<B>, Wanted) -> OfConvolution<B>,
) {
    let [x_node, weight_node] = parents(&ops);
    let dy = grads.consume::<B>(&ops.node);
    let wanted = Wanted { x: x_node.is_some(), weight: weight_node.is_some() };
    let OfConvolution { x, weight } = gradients(ops.state, dy, wanted);
    weight.register(grads, weight_node);
    x.register(grads, x_node);
}
