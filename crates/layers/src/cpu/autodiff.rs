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
use burn_flex::FlexTensor;

use super::depthwise::{self, Geometry};
use super::norm_act::NormAct;
use super::{CpuOps, dims, tensor, values};
use crate::activation::Activation;
use crate::room;

type Tracked<C> = FloatTensor<Autodiff<Flex, C>>;

impl<C: CheckpointStrategy> CpuOps for Autodiff<Flex, C> {
    fn depthwise(x: Tracked<C>, weight: Tracked<C>, stride: usize, before: [usize; 2]) -> Tracked<C> {
        let ((x, x_node), (weight, weight_node)) = (x.into_parts(), weight.into_parts());
        match DepthwiseBackward.prepare::<C>([x_node, weight_node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let state = (x.clone(), weight.clone(), stride, before);
                prep.finish(state, Flex::depthwise(x, weight, stride, before))
            }
            OpsKind::UnTracked(prep) => prep.finish(Flex::depthwise(x, weight, stride, before)),
        }
    }

    fn pointwise(x: Tracked<C>, weight: Tracked<C>) -> Tracked<C> {
        let ((x, x_node), (weight, weight_node)) = (x.into_parts(), weight.into_parts());
        match PointwiseBackward.prepare::<C>([x_node, weight_node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish((x.clone(), weight.clone()), Flex::pointwise(x, weight)),
            OpsKind::UnTracked(prep) => prep.finish(Flex::pointwise(x, weight)),
        }
    }

    fn norm_act(
        x: Tracked<C>,
        weight: Tracked<C>,
        bias: Tracked<C>,
        statistics: Tracked<C>,
        groups: Vec<usize>,
        epsilon: f64,
        activation: Activation,
    ) -> Tracked<C> {
        let ((x, x_node), (weight, weight_node), (bias, bias_node)) =
            (x.into_parts(), weight.into_parts(), bias.into_parts());
        let statistics = statistics.into_primitive();
        let forward = |x, weight, bias, statistics, groups| {
            Flex::norm_act(x, weight, bias, statistics, groups, epsilon, activation)
        };
        match NormActBackward.prepare::<C>([x_node, weight_node, bias_node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let state = NormActState {
                    x: x.clone(),
                    weight: weight.clone(),
                    bias: bias.clone(),
                    statistics: statistics.clone(),
                    groups: groups.clone(),
                    epsilon,
                    activation,
                };
                prep.finish(state, forward(x, weight, bias, statistics, groups))
            }
            OpsKind::UnTracked(prep) => prep.finish(forward(x, weight, bias, statistics, groups)),
        }
    }

    fn statistics(x: Tracked<C>, groups: Vec<usize>) -> Tracked<C> {
        Tracked::<C>::new(Flex::statistics(x.into_primitive(), groups))
    }
}

#[derive(Debug)]
struct DepthwiseBackward;

impl Backward<Flex, 2> for DepthwiseBackward {
    type State = (FlexTensor, FlexTensor, usize, [usize; 2]);

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (x, weight, stride, before) = ops.state;
        let geometry = Geometry::of(&x, &weight, stride, before);
        let dy = grads.consume::<Flex>(&ops.node);
        let dy = values(&dy);
        room::announce(size_of::<f32>() * geometry.input().iter().product::<usize>());
        let [x_node, weight_node] = ops.parents;
        if let Some(node) = x_node {
            let dx = depthwise::backward_input(&dy, &values(&weight), &geometry);
            grads.register::<Flex>(node.id, tensor(dx, geometry.input()));
        }
        if let Some(node) = weight_node {
            let dw = depthwise::backward_weight(&values(&x), &dy, &geometry);
            grads.register::<Flex>(node.id, tensor(dw, dims(&weight)));
        }
    }
}

#[derive(Debug)]
struct PointwiseBackward;

impl Backward<Flex, 2> for PointwiseBackward {
    type State = (FlexTensor, FlexTensor);

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (x, weight) = ops.state;
        let dy = grads.consume::<Flex>(&ops.node);
        let [x_node, weight_node] = ops.parents;
        // Burn makes a product and then copies it, and copies what lies transposed.
        room::announce(2 * size_of::<f32>() * (x.shape().num_elements() + dy.shape().num_elements()));
        if let Some(node) = x_node {
            let dx = Flex::float_matmul(Flex::float_swap_dims(weight, 1, 2), dy.clone());
            grads.register::<Flex>(node.id, dx);
        }
        if let Some(node) = weight_node {
            let of_samples = Flex::float_matmul(dy, Flex::float_swap_dims(x, 1, 2));
            grads.register::<Flex>(node.id, Flex::float_sum_dim(of_samples, 0));
        }
    }
}

#[derive(Debug)]
struct NormActBackward;

#[derive(Clone, Debug)]
struct NormActState {
    x: FlexTensor,
    weight: FlexTensor,
    bias: FlexTensor,
    statistics: FlexTensor,
    groups: Vec<usize>,
    epsilon: f64,
    activation: Activation,
}

impl Backward<Flex, 3> for NormActBackward {
    type State = NormActState;

    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
        let NormActState { x, weight, bias, statistics, groups, epsilon, activation } = ops.state;
        let shape = dims(&x);
        let norm = NormAct::new(shape, &values(&weight), &values(&bias), &values(&statistics), groups, epsilon);
        let dy = grads.consume::<Flex>(&ops.node);
        room::announce(size_of::<f32>() * shape.iter().product::<usize>());
        let gradients = norm.backward(&values(&x), &values(&dy), activation);
        let of_channels = |values: Vec<f32>| {
            let shape = [values.len()];
            FlexTensor::from_data(burn::tensor::TensorData::new(values, shape))
        };
        let [x_node, weight_node, bias_node] = ops.parents.map(|node| node.map(|node| node.id));
        register(grads, x_node, || tensor(gradients.x, shape));
        register(grads, weight_node, || of_channels(gradients.weight));
        register(grads, bias_node, || of_channels(gradients.bias));
    }
}

fn register(grads: &mut Gradients, node: Option<NodeId>, gradient: impl FnOnce() -> FlexTensor) {
    if let Some(node) = node {
        grads.register::<Flex>(node, gradient());
    }
}
