//! [`UnreadOps`] on Burn's gradient graph, for every backend that has its gradients.

use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, TensorMetadata};
use burn::tensor::DType;

use super::autodiff::{Tracked, on_graph, parents, register, wanted};
use super::{Again, Convolution, Normalisation, Pooling, Primitive, UnreadGradients, UnreadOps};
use crate::activation::Activation;

/// What is kept of a map between forward and backward: the map before its normalisation, or nothing of it if it is made
/// again, and numbers for each channel.
#[derive(Clone, Debug)]
struct Kept<B: Backend> {
    x: Option<FloatTensor<B>>,
    elements: usize,
    dtype: DType,
    weight: FloatTensor<B>,
    bias: FloatTensor<B>,
    statistics: FloatTensor<B>,
    gate: FloatTensor<B>,
    how: Normalisation,
    again: Option<Again>,
}

impl<B: Primitive> Kept<B> {
    /// The map, kept or made again.
    fn x(x: Option<FloatTensor<B>>, elements: usize, dtype: DType, again: Option<&Again>) -> FloatTensor<B> {
        match (x, again) {
            (Some(x), _) => x,
            (None, Some(Again(make))) => {
                B::announce(elements, dtype);
                B::of(make())
            }
            // It is left out only if it can be made.
            (None, None) => unreachable!("a map that is neither kept nor made again"),
        }
    }
}

/// The tensors of a map that is only read, and the nodes of those with gradients: map, scale, shift, gate.
macro_rules! parts {
    ($x:ident, $weight:ident, $bias:ident, $statistics:ident, $gate:ident) => {{
        let (($x, x_node), ($weight, weight_node)) = ($x.into_parts(), $weight.into_parts());
        let (($bias, bias_node), ($gate, gate_node)) = ($bias.into_parts(), $gate.into_parts());
        (($x, $weight, $bias, $statistics.into_primitive(), $gate), [x_node, weight_node, bias_node, gate_node])
    }};
}

/// What is kept of those tensors.
macro_rules! kept {
    ($x:ident, $weight:ident, $bias:ident, $statistics:ident, $gate:ident, $how:ident, $again:ident) => {
        Kept::<B> {
            x: $again.is_none().then(|| $x.clone()),
            elements: $x.shape().num_elements(),
            dtype: $x.dtype(),
            weight: $weight.clone(),
            bias: $bias.clone(),
            statistics: $statistics.clone(),
            gate: $gate.clone(),
            how: $how.clone(),
            again: $again,
        }
    };
}

/// Calls a method of [`UnreadGradients`] with what was kept, other tensors, and what is no tensor.
macro_rules! backward {
    ($method:ident, $kept:expr, $($tensor:expr),+; $($rest:expr),+) => {{
        let Kept { x, elements, dtype, weight, bias, statistics, gate, how, again } = $kept;
        let x = Kept::<B>::x(x, elements, dtype, again.as_ref());
        B::$method(x, weight, bias, statistics, gate, $($tensor,)+ how, $($rest),+)
    }};
}

impl<B: UnreadOps + UnreadGradients + Primitive, C: CheckpointStrategy> UnreadOps for Autodiff<B, C> {
    fn norm_act(
        x: Tracked<B, C>,
        weight: Tracked<B, C>,
        bias: Tracked<B, C>,
        statistics: Tracked<B, C>,
        gate: Tracked<B, C>,
        how: Normalisation,
    ) -> Tracked<B, C> {
        let ((x, weight, bias, statistics, gate), nodes) = parts!(x, weight, bias, statistics, gate);
        let (how, again) = how.split();
        let kept = kept!(x, weight, bias, statistics, gate, how, again);
        on_graph!(C, NormActBackward, nodes, kept, B::norm_act(x, weight, bias, statistics, gate, how))
    }

    fn norm_act_conv(
        x: Tracked<B, C>,
        weight: Tracked<B, C>,
        bias: Tracked<B, C>,
        statistics: Tracked<B, C>,
        gate: Tracked<B, C>,
        filters: Tracked<B, C>,
        how: Normalisation,
        convolution: Convolution,
    ) -> Tracked<B, C> {
        let ((x, weight, bias, statistics, gate), nodes) = parts!(x, weight, bias, statistics, gate);
        let (how, again) = how.split();
        let (filters, filters_node) = filters.into_parts();
        let [x_node, weight_node, bias_node, gate_node] = nodes;
        let nodes = [x_node, weight_node, bias_node, gate_node, filters_node];
        let state = (kept!(x, weight, bias, statistics, gate, how, again), filters.clone(), convolution);
        let y = B::norm_act_conv(x, weight, bias, statistics, gate, filters, how, convolution);
        on_graph!(C, ConvBackward, nodes, state, y)
    }

    fn norm_act_means(
        x: Tracked<B, C>,
        weight: Tracked<B, C>,
        bias: Tracked<B, C>,
        statistics: Tracked<B, C>,
        gate: Tracked<B, C>,
        how: Normalisation,
    ) -> Tracked<B, C> {
        let ((x, weight, bias, statistics, gate), nodes) = parts!(x, weight, bias, statistics, gate);
        let (how, again) = how.split();
        let kept = kept!(x, weight, bias, statistics, gate, how, again);
        on_graph!(C, MeansBackward, nodes, kept, B::norm_act_means(x, weight, bias, statistics, gate, how))
    }

    fn norm_act_max_pool(
        x: Tracked<B, C>,
        weight: Tracked<B, C>,
        bias: Tracked<B, C>,
        statistics: Tracked<B, C>,
        gate: Tracked<B, C>,
        how: Normalisation,
        pooling: Pooling,
    ) -> Tracked<B, C> {
        let ((x, weight, bias, statistics, gate), nodes) = parts!(x, weight, bias, statistics, gate);
        let (how, again) = how.split();
        let state = (kept!(x, weight, bias, statistics, gate, how, again), pooling);
        let y = B::norm_act_max_pool(x, weight, bias, statistics, gate, how, pooling);
        on_graph!(C, MaxPoolBackward, nodes, state, y)
    }

    fn norm_act_add(
        x: Tracked<B, C>,
        weight: Tracked<B, C>,
        bias: Tracked<B, C>,
        statistics: Tracked<B, C>,
        gate: Tracked<B, C>,
        shortcut: Tracked<B, C>,
        how: Normalisation,
        activation: Activation,
    ) -> Tracked<B, C> {
        let ((x, weight, bias, statistics, gate), nodes) = parts!(x, weight, bias, statistics, gate);
        let (how, again) = how.split();
        let (shortcut, shortcut_node) = shortcut.into_parts();
        let [x_node, weight_node, bias_node, gate_node] = nodes;
        let nodes = [x_node, weight_node, bias_node, gate_node, shortcut_node];
        let kept = kept!(x, weight, bias, statistics, gate, how, again);
        let y = B::norm_act_add(x, weight, bias, statistics, gate, shortcut, how, activation);
        let kept_y = (activation != Activation::Identity).then(|| y.clone());
        on_graph!(C, AddBackward, nodes, (kept, kept_y), y)
    }
}

#[derive(Debug)]
struct NormActBackward;

impl<B: UnreadGradients + Primitive> Backward<B, 4> for NormActBackward {
    type State = Kept<B>;

    fn backward(self, ops: Ops<Self::State, 4>, grads: &mut Gradients, _: &mut Checkpointer) {
        let nodes = parents(&ops);
        let dy = grads.consume::<B>(&ops.node);
        let gradients = backward!(norm_act_backward, ops.state, dy; wanted(nodes));
        register_map::<B>(grads, nodes, gradients);
    }
}

#[derive(Debug)]
struct ConvBackward;

impl<B: UnreadGradients + Primitive> Backward<B, 5> for ConvBackward {
    type State = (Kept<B>, FloatTensor<B>, Convolution);

    fn backward(self, ops: Ops<Self::State, 5>, grads: &mut Gradients, _: &mut Checkpointer) {
        let nodes = parents(&ops);
        let dy = grads.consume::<B>(&ops.node);
        let (kept, filters, convolution) = ops.state;
        let (x, weight, bias, gate, of_filters) =
            backward!(norm_act_conv_backward, kept, filters, dy; convolution, wanted(nodes));
        let [x_node, weight_node, bias_node, gate_node, filters_node] = nodes;
        register::<B>(grads, filters_node, of_filters);
        register_map::<B>(grads, [x_node, weight_node, bias_node, gate_node], (x, weight, bias, gate));
    }
}

#[derive(Debug)]
struct MeansBackward;

impl<B: UnreadGradients + Primitive> Backward<B, 4> for MeansBackward {
    type State = Kept<B>;

    fn backward(self, ops: Ops<Self::State, 4>, grads: &mut Gradients, _: &mut Checkpointer) {
        let nodes = parents(&ops);
        let dy = grads.consume::<B>(&ops.node);
        let gradients = backward!(norm_act_means_backward, ops.state, dy; wanted(nodes));
        register_map::<B>(grads, nodes, gradients);
    }
}

#[derive(Debug)]
struct MaxPoolBackward;

impl<B: UnreadGradients + Primitive> Backward<B, 4> for MaxPoolBackward {
    type State = (Kept<B>, Pooling);

    fn backward(self, ops: Ops<Self::State, 4>, grads: &mut Gradients, _: &mut Checkpointer) {
        let nodes = parents(&ops);
        let dy = grads.consume::<B>(&ops.node);
        let (kept, pooling) = ops.state;
        let gradients = backward!(norm_act_max_pool_backward, kept, dy; pooling, wanted(nodes));
        register_map::<B>(grads, nodes, gradients);
    }
}

#[derive(Debug)]
struct AddBackward;

impl<B: UnreadGradients + Primitive> Backward<B, 5> for AddBackward {
    /// The output if its activation is not the identity.
    type State = (Kept<B>, Option<FloatTensor<B>>);

    fn backward(self, ops: Ops<Self::State, 5>, grads: &mut Gradients, _: &mut Checkpointer) {
        let nodes = parents(&ops);
        let dy = grads.consume::<B>(&ops.node);
        let (kept, y) = ops.state;
        let of_sum = match y {
            Some(y) => B::sum_backward(y, dy),
            None => dy,
        };
        let [x_node, weight_node, bias_node, gate_node, shortcut_node] = nodes;
        if shortcut_node.is_some() {
            register::<B>(grads, shortcut_node, of_sum.clone());
        }
        let nodes = [x_node, weight_node, bias_node, gate_node];
        let gradients = backward!(norm_act_backward, kept, of_sum; wanted(nodes));
        register_map::<B>(grads, nodes, gradients);
    }
}

/// Registers the gradients of map, scale, shift and gate.
fn register_map<B: Backend>(
    grads: &mut Gradients,
    [x_node, weight_node, bias_node, gate_node]: [Option<NodeId>; 4],
    (x, weight, bias, gate): (FloatTensor<B>, FloatTensor<B>, FloatTensor<B>, FloatTensor<B>),
) {
    register::<B>(grads, x_node, x);
    register::<B>(grads, weight_node, weight);
    register::<B>(grads, bias_node, bias);
    register::<B>(grads, gate_node, gate);
}
