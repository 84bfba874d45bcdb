//! The operations on Burn's gradient graph.

use burn::backend::TensorMetadata;
use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Flex};
use burn::tensor::{DType, Shape};
use burn_flex::FlexTensor;

use super::conv::{self, Dense};
use super::conv_input;
use super::depthwise::{self, Geometry};
use super::{CpuOps, Places, dims, gate, tensor, values};
use crate::room;

pub(super) type Tracked<C> = FloatTensor<Autodiff<Flex, C>>;

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
pub(super) use on_graph;

impl<C: CheckpointStrategy> CpuOps for Autodiff<Flex, C> {
    fn depthwise(x: Tracked<C>, weight: Tracked<C>, stride: usize, before: [usize; 2]) -> Tracked<C> {
        let ((x, x_node), (weight, weight_node)) = (x.into_parts(), weight.into_parts());
        let state = (x.clone(), weight.clone(), stride, before);
        on_graph!(C, DepthwiseBackward, [x_node, weight_node], state, Flex::depthwise(x, weight, stride, before))
    }

    fn dense(x: Tracked<C>, weight: Tracked<C>, places: Places) -> Tracked<C> {
        let ((x, x_node), (weight, weight_node)) = (x.into_parts(), weight.into_parts());
        let state = (x.clone(), weight.clone(), places);
        on_graph!(C, DenseBackward, [x_node, weight_node], state, Flex::dense(x, weight, places))
    }

    fn transposed(x: Tracked<C>, weight: Tracked<C>, places: Places, size: [usize; 2]) -> Tracked<C> {
        let ((x, x_node), (weight, weight_node)) = (x.into_parts(), weight.into_parts());
        let state = (x.clone(), weight.clone(), places, size);
        on_graph!(C, TransposedBackward, [x_node, weight_node], state, Flex::transposed(x, weight, places, size))
    }

    fn statistics(x: Tracked<C>, groups: Vec<usize>) -> Tracked<C> {
        Tracked::<C>::new(Flex::statistics(x.into_primitive(), groups))
    }

    fn means(x: Tracked<C>) -> Tracked<C> {
        let (x, node) = x.into_parts();
        on_graph!(C, MeansBackward, [node], (dims(&x), x.dtype()), Flex::means(x))
    }

    fn scale(x: Tracked<C>, gate: Tracked<C>) -> Tracked<C> {
        let ((x, x_node), (gate, gate_node)) = (x.into_parts(), gate.into_parts());
        let state = (x.clone(), gate.clone());
        on_graph!(C, ScaleBackward, [x_node, gate_node], state, Flex::scale(x, gate))
    }
}

#[derive(Debug)]
struct DepthwiseBackward;

impl Backward<Flex, 2> for DepthwiseBackward {
    type State = (FlexTensor, FlexTensor, usize, [usize; 2]);

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (x, weight, stride, before) = ops.state;
        let geometry = Geometry::of(dims(&x), &weight, stride, before);
        let dy = values(&grads.consume::<Flex>(&ops.node));
        announce_gradient(&x);
        let [x_node, weight_node] = ops.parents.map(|node| node.map(|node| node.id));
        register(grads, x_node, || {
            tensor(depthwise::backward_input(&dy, &values(&weight), &geometry), geometry.input(), x.dtype())
        });
        register(grads, weight_node, || {
            tensor(depthwise::backward_weight(&values(&x), &dy, &geometry), dims(&weight), DType::F32)
        });
    }
}

#[derive(Debug)]
struct DenseBackward;

impl Backward<Flex, 2> for DenseBackward {
    type State = (FlexTensor, FlexTensor, Places);

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (x, weight, places) = ops.state;
        let shape = Dense::of(dims(&x), &weight, places);
        let dy = values(&grads.consume::<Flex>(&ops.node));
        announce_gradient(&x);
        let [x_node, weight_node] = ops.parents.map(|node| node.map(|node| node.id));
        register(grads, weight_node, || {
            tensor(conv::backward_weight(&values(&x), &dy, &shape), dims(&weight), DType::F32)
        });
        let dtype = x.dtype();
        drop(x);
        register(grads, x_node, || {
            tensor(conv_input::backward_input(&dy, &values(&weight), &shape), shape.input_shape(), dtype)
        });
    }
}

#[derive(Debug)]
struct TransposedBackward;

impl Backward<Flex, 2> for TransposedBackward {
    type State = (FlexTensor, FlexTensor, Places, [usize; 2]);

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (x, weight, places, size) = ops.state;
        let shape = Dense::backwards(&x, &weight, places, size);
        let dy = values(&grads.consume::<Flex>(&ops.node));
        announce_gradient(&x);
        let [x_node, weight_node] = ops.parents.map(|node| node.map(|node| node.id));
        register(grads, weight_node, || {
            tensor(conv::backward_weight(&dy, &values(&x), &shape), dims(&weight), DType::F32)
        });
        register(grads, x_node, || {
            tensor(conv::forward(&dy, &values(&weight), &shape), shape.output_shape(), x.dtype())
        });
    }
}

#[derive(Debug)]
struct MeansBackward;

impl Backward<Flex, 1> for MeansBackward {
    type State = ([usize; 4], DType);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (shape, dtype) = ops.state;
        let [batch, channels, height, width] = shape;
        let dy = values(&grads.consume::<Flex>(&ops.node));
        let each: Vec<f32> = dy.iter().map(|dy| dy / (height * width) as f32).collect();
        let [node] = ops.parents.map(|node| node.map(|node| node.id));
        // One number a plane, however large the plane is.
        register(grads, node, || Flex::float_expand(tensor(each, [batch, channels, 1, 1], dtype), Shape::new(shape)));
    }
}

#[derive(Debug)]
struct ScaleBackward;

impl Backward<Flex, 2> for ScaleBackward {
    type State = (FlexTensor, FlexTensor);

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (x, factors) = ops.state;
        let shape = dims(&x);
        let plane = shape[2] * shape[3];
        let dy = values(&grads.consume::<Flex>(&ops.node));
        announce_gradient(&x);
        let [x_node, gate_node] = ops.parents.map(|node| node.map(|node| node.id));
        register(grads, gate_node, || {
            tensor(gate::backward_gate(&values(&x), &dy, plane), [shape[0], shape[1]], DType::F32)
        });
        register(grads, x_node, || tensor(gate::scale(&dy, &values(&factors), plane), shape, x.dtype()));
    }
}

/// Says that a gradient of this map's shape is about to be made.
fn announce_gradient(x: &FlexTensor) {
    announce(x.shape().num_elements(), x.dtype());
}

/// Says that a map of so many elements is about to be made.
pub(super) fn announce(elements: usize, dtype: DType) {
    room::announce(dtype.size() * elements);
}

pub(super) fn register(grads: &mut Gradients, node: Option<NodeId>, gradient: impl FnOnce() -> FlexTensor) {
    if let Some(node) = node {
        grads.register::<Flex>(node, gradient());
    }
}
