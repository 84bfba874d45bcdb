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
use super::depthwise::{self, Geometry};
use super::{
    Convolution, CpuOps, Normalisation, Places, Source, after_norm, dims, gate, norm_act, owned, tensor, values,
};
use crate::room;

type Tracked<C> = FloatTensor<Autodiff<Flex, C>>;

/// Runs an operation on `state`, which is kept for backward if one of the nodes wants a gradient.
macro_rules! on_graph {
    ($checkpoint:ty, $backward:expr, $nodes:expr, $state:expr, $forward:expr) => {{
        let (state, forward) = ($state, $forward);
        match $backward.prepare::<$checkpoint>($nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(state.clone(), forward(state)),
            OpsKind::UnTracked(prep) => prep.finish(forward(state)),
        }
    }};
}

impl<C: CheckpointStrategy> CpuOps for Autodiff<Flex, C> {
    fn depthwise(x: Tracked<C>, weight: Tracked<C>, stride: usize, before: [usize; 2]) -> Tracked<C> {
        let ((x, x_node), (weight, weight_node)) = (x.into_parts(), weight.into_parts());
        on_graph!(C, DepthwiseBackward, [x_node, weight_node], (x, weight, stride, before), |state| {
            let (x, weight, stride, before) = state;
            Flex::depthwise(x, weight, stride, before)
        })
    }

    fn dense(x: Tracked<C>, weight: Tracked<C>, places: Places) -> Tracked<C> {
        let ((x, x_node), (weight, weight_node)) = (x.into_parts(), weight.into_parts());
        on_graph!(C, DenseBackward, [x_node, weight_node], (x, weight, places), |(x, weight, places)| {
            Flex::dense(x, weight, places)
        })
    }

    fn transposed(x: Tracked<C>, weight: Tracked<C>, places: Places, size: [usize; 2]) -> Tracked<C> {
        let ((x, x_node), (weight, weight_node)) = (x.into_parts(), weight.into_parts());
        on_graph!(C, TransposedBackward, [x_node, weight_node], (x, weight, places, size), |(
            x,
            weight,
            places,
            size,
        )| {
            Flex::transposed(x, weight, places, size)
        })
    }

    fn norm_act(
        x: Tracked<C>,
        weight: Tracked<C>,
        bias: Tracked<C>,
        statistics: Tracked<C>,
        how: Normalisation,
    ) -> Tracked<C> {
        let ((x, x_node), (weight, weight_node), (bias, bias_node)) =
            (x.into_parts(), weight.into_parts(), bias.into_parts());
        let source = Source { x, weight, bias, statistics: statistics.into_primitive(), how, gate: None };
        on_graph!(C, NormActBackward, [x_node, weight_node, bias_node], source, |source: Source| {
            Flex::norm_act(source.x, source.weight, source.bias, source.statistics, source.how)
        })
    }

    fn norm_act_conv(
        x: Tracked<C>,
        norm_weight: Tracked<C>,
        norm_bias: Tracked<C>,
        statistics: Tracked<C>,
        gate: Tracked<C>,
        weight: Tracked<C>,
        how: Normalisation,
        convolution: Convolution,
    ) -> Tracked<C> {
        let ((x, x_node), (norm_weight, norm_weight_node), (norm_bias, norm_bias_node)) =
            (x.into_parts(), norm_weight.into_parts(), norm_bias.into_parts());
        let ((gate, gate_node), (weight, weight_node)) = (gate.into_parts(), weight.into_parts());
        let statistics = statistics.into_primitive();
        let source = Source { x, weight: norm_weight, bias: norm_bias, statistics, how, gate: Some(gate) };
        let nodes = [x_node, norm_weight_node, norm_bias_node, gate_node, weight_node];
        on_graph!(C, NormActConvBackward(convolution), nodes, (source, weight), |(source, weight): (
            Source,
            FlexTensor
        )| {
            source.convolved(&weight, convolution)
        })
    }

    fn norm_act_means(
        x: Tracked<C>,
        weight: Tracked<C>,
        bias: Tracked<C>,
        statistics: Tracked<C>,
        how: Normalisation,
    ) -> Tracked<C> {
        let ((x, x_node), (weight, weight_node), (bias, bias_node)) =
            (x.into_parts(), weight.into_parts(), bias.into_parts());
        let source = Source { x, weight, bias, statistics: statistics.into_primitive(), how, gate: None };
        on_graph!(C, NormActMeansBackward, [x_node, weight_node, bias_node], source, |source: Source| {
            Flex::norm_act_means(source.x, source.weight, source.bias, source.statistics, source.how)
        })
    }

    fn statistics(x: Tracked<C>, groups: Vec<usize>) -> Tracked<C> {
        Tracked::<C>::new(Flex::statistics(x.into_primitive(), groups))
    }

    fn means(x: Tracked<C>) -> Tracked<C> {
        let (x, node) = x.into_parts();
        match MeansBackward.prepare::<C>([node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish((dims(&x), x.dtype()), Flex::means(x)),
            OpsKind::UnTracked(prep) => prep.finish(Flex::means(x)),
        }
    }

    fn scale(x: Tracked<C>, gate: Tracked<C>) -> Tracked<C> {
        let ((x, x_node), (gate, gate_node)) = (x.into_parts(), gate.into_parts());
        on_graph!(C, ScaleBackward, [x_node, gate_node], (x, gate), |(x, gate)| Flex::scale(x, gate))
    }
}

#[derive(Debug)]
struct DepthwiseBackward;

impl Backward<Flex, 2> for DepthwiseBackward {
    type State = (FlexTensor, FlexTensor, usize, [usize; 2]);

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (x, weight, stride, before) = ops.state;
        let geometry = Geometry::of(&x, &weight, stride, before);
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
            tensor(conv::backward_input(&dy, &values(&weight), &shape), shape.input_shape(), dtype)
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

#[derive(Debug)]
struct NormActBackward;

impl Backward<Flex, 3> for NormActBackward {
    type State = Source;

    fn backward(self, ops: Ops<Source, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
        let dy = grads.consume::<Flex>(&ops.node);
        // The result is written over a gradient that nobody else has.
        if !(dy.is_unique() && dy.dtype() == DType::F32) {
            announce_gradient(&ops.state.x);
        }
        let dy = owned(dy);
        let gradients = ops.state.read(|reading| reading.backward(dy));
        register_norm(grads, &ops.parents.map(|node| node.map(|node| node.id)), &ops.state.x, gradients);
    }
}

#[derive(Debug)]
struct NormActMeansBackward;

impl Backward<Flex, 3> for NormActMeansBackward {
    type State = Source;

    fn backward(self, ops: Ops<Source, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
        let dy = values(&grads.consume::<Flex>(&ops.node));
        announce_gradient(&ops.state.x);
        let gradients = ops.state.read(|reading| after_norm::backward_means(reading, &dy));
        register_norm(grads, &ops.parents.map(|node| node.map(|node| node.id)), &ops.state.x, gradients);
    }
}

/// Parents: map, scale, shift, gate, filters.
#[derive(Debug)]
struct NormActConvBackward(Convolution);

impl Backward<Flex, 5> for NormActConvBackward {
    type State = (Source, FlexTensor);

    fn backward(self, ops: Ops<Self::State, 5>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (source, weight) = ops.state;
        let shape = self.0.shape(&source.x, &weight);
        let dy = values(&grads.consume::<Flex>(&ops.node));
        announce_gradient(&source.x);
        let (mut gradients, of_weight) =
            source.read(|reading| after_norm::backward(reading, &values(&weight), &dy, &shape));
        let [batch, channels, ..] = dims(&source.x);
        let of_gate = std::mem::take(&mut gradients.gate);
        let nodes = ops.parents.map(|node| node.map(|node| node.id));
        register(grads, nodes[3], || tensor(of_gate, [batch, channels], DType::F32));
        register(grads, nodes[4], || tensor(of_weight, dims(&weight), DType::F32));
        register_norm(grads, &nodes, &source.x, gradients);
    }
}

/// Registers the gradients of a normalisation's map, scale and shift, the first three of `parents`.
fn register_norm(grads: &mut Gradients, parents: &[Option<NodeId>], x: &FlexTensor, gradients: norm_act::Gradients) {
    let channels = [gradients.weight.len()];
    register(grads, parents[0], || tensor(gradients.x, dims(x), x.dtype()));
    register(grads, parents[1], || tensor(gradients.weight, channels, DType::F32));
    register(grads, parents[2], || tensor(gradients.bias, channels, DType::F32));
}

/// Says that a gradient of this map's shape is about to be made.
fn announce_gradient(x: &FlexTensor) {
    room::announce(x.dtype().size() * x.shape().num_elements());
}

fn register(grads: &mut Gradients, node: Option<NodeId>, gradient: impl FnOnce() -> FlexTensor) {
    if let Some(node) = node {
        grads.register::<Flex>(node, gradient());
    }
}
