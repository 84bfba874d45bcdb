//! [`UnreadOps`] on Burn's gradient graph.

use burn::backend::TensorMetadata;
use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::{Autodiff, Flex};
use burn::tensor::DType;
use burn_flex::FlexTensor;

use super::autodiff::{Tracked, announce, on_graph, register};
use super::unread::{Normalisation, Pooling, Source, UnreadOps};
use super::values::{dims, owned, tensor, values};
use super::{Convolution, after_norm, join, max_pool, norm_act};
use crate::activation::Activation;

/// The tensors of a map that is only read, and the nodes of those with gradients: map, scale, shift, gate.
macro_rules! source {
    ($x:ident, $weight:ident, $bias:ident, $statistics:ident, $gate:ident, $how:ident) => {{
        let (($x, x_node), ($weight, weight_node)) = ($x.into_parts(), $weight.into_parts());
        let (($bias, bias_node), ($gate, gate_node)) = ($bias.into_parts(), $gate.into_parts());
        let source = Source::new($x, $weight, $bias, $statistics.into_primitive(), $gate, $how);
        (source, [x_node, weight_node, bias_node, gate_node])
    }};
}

impl<C: CheckpointStrategy> UnreadOps for Autodiff<Flex, C> {
    fn norm_act(
        x: Tracked<C>,
        weight: Tracked<C>,
        bias: Tracked<C>,
        statistics: Tracked<C>,
        gate: Tracked<C>,
        how: Normalisation,
    ) -> Tracked<C> {
        let (source, nodes) = source!(x, weight, bias, statistics, gate, how);
        on_graph!(C, NormActBackward, nodes, source.kept(), source.whole())
    }

    fn norm_act_conv(
        x: Tracked<C>,
        weight: Tracked<C>,
        bias: Tracked<C>,
        statistics: Tracked<C>,
        gate: Tracked<C>,
        filters: Tracked<C>,
        how: Normalisation,
        convolution: Convolution,
    ) -> Tracked<C> {
        let (source, [x, weight, bias, gate]) = source!(x, weight, bias, statistics, gate, how);
        let (filters, filters_node) = filters.into_parts();
        let nodes = [x, weight, bias, gate, filters_node];
        let state = (source.kept(), filters.clone(), convolution);
        on_graph!(C, ConvBackward, nodes, state, source.convolved(&filters, convolution))
    }

    fn norm_act_means(
        x: Tracked<C>,
        weight: Tracked<C>,
        bias: Tracked<C>,
        statistics: Tracked<C>,
        gate: Tracked<C>,
        how: Normalisation,
    ) -> Tracked<C> {
        let (source, nodes) = source!(x, weight, bias, statistics, gate, how);
        on_graph!(C, MeansBackward, nodes, source.kept(), source.means())
    }

    fn norm_act_max_pool(
        x: Tracked<C>,
        weight: Tracked<C>,
        bias: Tracked<C>,
        statistics: Tracked<C>,
        gate: Tracked<C>,
        how: Normalisation,
        pooling: Pooling,
    ) -> Tracked<C> {
        let (source, nodes) = source!(x, weight, bias, statistics, gate, how);
        on_graph!(C, MaxPoolBackward, nodes, (source.kept(), pooling), source.max_pooled(pooling))
    }

    fn norm_act_add(
        x: Tracked<C>,
        weight: Tracked<C>,
        bias: Tracked<C>,
        statistics: Tracked<C>,
        gate: Tracked<C>,
        shortcut: Tracked<C>,
        how: Normalisation,
        activation: Activation,
    ) -> Tracked<C> {
        let (source, [x, weight, bias, gate]) = source!(x, weight, bias, statistics, gate, how);
        let (shortcut, shortcut_node) = shortcut.into_parts();
        let nodes = [x, weight, bias, gate, shortcut_node];
        let y = source.added_to(&shortcut, activation);
        let kept = (activation != Activation::Identity).then(|| y.clone());
        on_graph!(C, AddBackward, nodes, (source.kept(), kept), y)
    }
}

#[derive(Debug)]
struct NormActBackward;

impl Backward<Flex, 4> for NormActBackward {
    type State = Source;

    fn backward(self, ops: Ops<Source, 4>, grads: &mut Gradients, _: &mut Checkpointer) {
        let dy = grads.consume::<Flex>(&ops.node);
        announce_unless_free(&dy);
        let dy = owned(dy);
        let gradients = ops.state.read(|reading| reading.backward(dy));
        register_map(grads, &ops.parents.map(|node| node.map(|node| node.id)), &ops.state, gradients);
    }
}

#[derive(Debug)]
struct ConvBackward;

impl Backward<Flex, 5> for ConvBackward {
    type State = (Source, FlexTensor, Convolution);

    fn backward(self, ops: Ops<Self::State, 5>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (source, filters, convolution) = ops.state;
        let shape = convolution.shape(source.shape, &filters);
        let dy = values(&grads.consume::<Flex>(&ops.node));
        announce_map(&source);
        let (gradients, of_filters) =
            source.read(|reading| after_norm::backward(reading, &values(&filters), &dy, &shape));
        let nodes = ops.parents.map(|node| node.map(|node| node.id));
        register(grads, nodes[4], || tensor(of_filters, dims(&filters), DType::F32));
        register_map(grads, &nodes, &source, gradients);
    }
}

#[derive(Debug)]
struct MeansBackward;

impl Backward<Flex, 4> for MeansBackward {
    type State = Source;

    fn backward(self, ops: Ops<Source, 4>, grads: &mut Gradients, _: &mut Checkpointer) {
        let dy = values(&grads.consume::<Flex>(&ops.node));
        announce_map(&ops.state);
        let gradients = ops.state.read(|reading| after_norm::backward_means(reading, &dy));
        register_map(grads, &ops.parents.map(|node| node.map(|node| node.id)), &ops.state, gradients);
    }
}

#[derive(Debug)]
struct MaxPoolBackward;

impl Backward<Flex, 4> for MaxPoolBackward {
    type State = (Source, Pooling);

    fn backward(self, ops: Ops<Self::State, 4>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (source, pooling) = ops.state;
        let dy = values(&grads.consume::<Flex>(&ops.node));
        announce_map(&source);
        let windows = source.windows(pooling);
        let gradients = source.read(|reading| max_pool::backward(reading, &dy, &windows));
        register_map(grads, &ops.parents.map(|node| node.map(|node| node.id)), &source, gradients);
    }
}

#[derive(Debug)]
struct AddBackward;

impl Backward<Flex, 5> for AddBackward {
    /// The output if its activation is not the identity.
    type State = (Source, Option<FlexTensor>);

    fn backward(self, ops: Ops<Self::State, 5>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (source, y) = ops.state;
        let mut of_sum = grads.consume::<Flex>(&ops.node);
        if let Some(y) = y {
            announce_map(&source);
            of_sum = tensor(join::of_sum(&values(&y), &values(&of_sum)), source.shape, source.dtype);
        }
        let nodes = ops.parents.map(|node| node.map(|node| node.id));
        register(grads, nodes[4], || of_sum.clone());
        announce_unless_free(&of_sum);
        let of_sum = owned(of_sum);
        let gradients = source.read(|reading| reading.backward(of_sum));
        register_map(grads, &nodes, &source, gradients);
    }
}

/// Registers the gradients of map, scale, shift and gate, the first four of `parents`.
fn register_map(grads: &mut Gradients, parents: &[Option<NodeId>], source: &Source, made: norm_act::Gradients) {
    let [batch, channels, ..] = source.shape;
    register(grads, parents[0], || tensor(made.x, source.shape, source.dtype));
    register(grads, parents[1], || tensor(made.weight, [channels], DType::F32));
    register(grads, parents[2], || tensor(made.bias, [channels], DType::F32));
    register(grads, parents[3], || tensor(made.gate, [batch, channels], DType::F32));
}

fn announce_map(source: &Source) {
    announce(source.shape.iter().product(), source.dtype);
}

/// A gradient is written over one that nobody else has; otherwise there will be another map.
fn announce_unless_free(dy: &FlexTensor) {
    if !(dy.is_unique() && dy.dtype() == DType::F32) {
        announce(dy.shape().num_elements(), dy.dtype());
    }
}
