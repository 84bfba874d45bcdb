//! The operations of squeeze-excite on Burn's gradient graph.

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, TensorMetadata};
use burn::tensor::DType;

use super::{OfMultiply, SqueezeExcite, SqueezeExciteGradients, Wanted};
use crate::graph::{Tracked, on_graph, parents};

impl<B: SqueezeExcite + SqueezeExciteGradients, C: CheckpointStrategy> SqueezeExcite for Autodiff<B, C> {
    fn global_average_pool(x: Tracked<B, C>) -> Tracked<B, C> {
        let (x, node) = x.into_parts();
        let shape = x.shape().dims::<4>();
        on_graph!(C, GlobalAveragePoolBackward, [node], (shape, x.dtype()), B::global_average_pool(x))
    }

    fn channel_multiply(x: Tracked<B, C>, gate: Tracked<B, C>) -> Tracked<B, C> {
        let ((x, x_node), (gate, gate_node)) = (x.into_parts(), gate.into_parts());
        let state = (x.clone(), gate.clone());
        on_graph!(C, ChannelMultiplyBackward, [x_node, gate_node], state, B::channel_multiply(x, gate))
    }
}

#[derive(Debug)]
struct GlobalAveragePoolBackward;

impl<B: SqueezeExciteGradients> Backward<B, 1> for GlobalAveragePoolBackward {
    type State = ([usize; 4], DType);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let [node] = parents(&ops);
        let dy = grads.consume::<B>(&ops.node);
        if let Some(node) = node {
            let (shape, dtype) = ops.state;
            grads.register::<B>(node, B::global_average_pool_backward(dy, shape, dtype));
        }
    }
}

#[derive(Debug)]
struct ChannelMultiplyBackward;

impl<B: SqueezeExciteGradients> Backward<B, 2> for ChannelMultiplyBackward {
    type State = (FloatTensor<B>, FloatTensor<B>);

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let [x_node, gate_node] = parents(&ops);
        let dy = grads.consume::<B>(&ops.node);
        let (x, gate) = ops.state;
        let wanted = Wanted { x: x_node.is_some(), gate: gate_node.is_some() };
        let OfMultiply { x, gate } = B::channel_multiply_backward(x, gate, dy, wanted);
        gate.register(grads, gate_node);
        x.register(grads, x_node);
    }
}
