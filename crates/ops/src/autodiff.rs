//! [`MapOps`] on Burn's gradient graph, for every backend that has its gradients.

use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, TensorMetadata};
use burn::tensor::DType;

use super::{MapGradients, MapOps, Places};

pub(super) type Tracked<B, C> = FloatTensor<Autodiff<B, C>>;

/// Puts an operation on the graph: its state, made only if one of the nodes wants a gradient, and its output.
macro_rules! on_graph {
    ($checkpoint:ty, $backward:expr, $nodes:expr, $state:expr, $output:expr) => {
        match $backward.prepare::<$checkpoint>($nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let state = $state;
                prep.finish(state, $output)
            }
            OpsKind::UnTracked(prep) => prep.finish($output),
        }
    };
}
pub(crate) use on_graph;

impl<B: MapOps + MapGradients, C: CheckpointStrategy> MapOps for Autodiff<B, C> {
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

    fn statistics(x: Tracked<B, C>, groups: Vec<usize>) -> Tracked<B, C> {
        Tracked::<B, C>::new(B::statistics(x.into_primitive(), groups))
    }

    fn means(x: Tracked<B, C>) -> Tracked<B, C> {
        let (x, node) = x.into_parts();
        let shape = x.shape().dims::<4>();
        on_graph!(C, MeansBackward, [node], (shape, x.dtype()), B::means(x))
    }

    fn scale(x: Tracked<B, C>, gate: Tracked<B, C>) -> Tracked<B, C> {
        let ((x, x_node), (gate, gate_node)) = (x.into_parts(), gate.into_parts());
        let state = (x.clone(), gate.clone());
        on_graph!(C, ScaleBackward, [x_node, gate_node], state, B::scale(x, gate))
    }
}

/// The parents of an operation, those with gradients.
pub(super) fn parents<S, const N: usize>(ops: &Ops<S, N>) -> [Option<NodeId>; N] {
    ops.parents.each_ref().map(|node| node.as_ref().map(|node| node.id))
}

/// Which parents want a gradient.
pub(super) fn wanted<const N: usize>(parents: [Option<NodeId>; N]) -> [bool; N] {
    parents.map(|node| node.is_some())
}

/// Hands a gradient to a parent, if it wants one.
pub(crate) fn register<B: Backend>(grads: &mut Gradients, node: Option<NodeId>, gradient: FloatTensor<B>) {
    if let Some(node) = node {
        grads.register::<B>(node, gradient);
    }
}

#[derive(Debug)]
struct DepthwiseBackward;

impl<B: MapGradients> Backward<B, 2> for DepthwiseBackward {
    type State = (FloatTensor<B>, FloatTensor<B>, Places);

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let [x_node, weight_node] = parents(&ops);
        let dy = grads.consume::<B>(&ops.node);
        let (x, weight, places) = ops.state;
        let (dx, dw) = B::depthwise_backward(x, weight, dy, places, wanted([x_node, weight_node]));
        register::<B>(grads, x_node, dx);
        register::<B>(grads, weight_node, dw);
    }
}

#[derive(Debug)]
struct DenseBackward;

impl<B: MapGradients> Backward<B, 2> for DenseBackward {
    type State = (FloatTensor<B>, FloatTensor<B>, Places);

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let [x_node, weight_node] = parents(&ops);
        let dy = grads.consume::<B>(&ops.node);
        let (x, weight, places) = ops.state;
        let (dx, dw) = B::dense_backward(x, weight, dy, places, wanted([x_node, weight_node]));
        register::<B>(grads, weight_node, dw);
        register::<B>(grads, x_node, dx);
    }
}

#[derive(Debug)]
struct MeansBackward;

impl<B: MapGradients> Backward<B, 1> for MeansBackward {
    type State = ([usize; 4], DType);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let [node] = parents(&ops);
        let dy = grads.consume::<B>(&ops.node);
        if node.is_some() {
            let (shape, dtype) = ops.state;
            register::<B>(grads, node, B::means_backward(dy, shape, dtype));
        }
    }
}

#[derive(Debug)]
struct ScaleBackward;

impl<B: MapGradients> Backward<B, 2> for ScaleBackward {
    type State = (FloatTensor<B>, FloatTensor<B>);

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let [x_node, gate_node] = parents(&ops);
        let dy = grads.consume::<B>(&ops.node);
        let (x, gate) = ops.state;
        let (dx, dgate) = B::scale_backward(x, gate, dy, wanted([x_node, gate_node]));
        register::<B>(grads, gate_node, dgate);
        register::<B>(grads, x_node, dx);
    }
}
