//! [`DeferredOps`] on Burn's gradient graph, for every backend that has their gradients.

use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, NodeGuard, Ops};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, TensorMetadata};
use burn::tensor::DType;

use super::{
    DeferredGradients, DeferredMap, DeferredOps, Gate, Normalisation, OfConvolved, OfMap, Pooling, Rebuild, Wanted,
};
use crate::activation::Activation;
use crate::convolution::Convolution;
use crate::graph::{Primitive, Tracked, on_graph, parents};

/// What is kept of a map for the backward pass: the map before its normalisation, unless it is recomputed, and small tensors of
/// its channels.
#[derive(Clone, Debug)]
struct Kept<B: Backend> {
    x: KeptInput<B>,
    weight: FloatTensor<B>,
    bias: FloatTensor<B>,
    statistics: FloatTensor<B>,
    gate: Gate<B>,
    how: Normalisation,
}

#[derive(Clone, Debug)]
enum KeptInput<B: Backend> {
    Kept(FloatTensor<B>),
    Rebuild { make: Rebuild, elements: usize, dtype: DType },
}

impl<B: Primitive> Kept<B> {
    fn of(map: &DeferredMap<B>, rebuild: Option<Rebuild>) -> Self {
        let DeferredMap { x, weight, bias, statistics, gate, how } = map.clone();
        let x = match rebuild {
            Some(make) => KeptInput::Rebuild { make, elements: x.shape().num_elements(), dtype: x.dtype() },
            None => KeptInput::Kept(x),
        };
        Self { x, weight, bias, statistics, gate, how }
    }

    /// The map, recomputed if it was not kept.
    fn into_map(self) -> DeferredMap<B> {
        let Self { x, weight, bias, statistics, gate, how } = self;
        let x = match x {
            KeptInput::Kept(x) => x,
            KeptInput::Rebuild { make, elements, dtype } => {
                B::reserve(elements, dtype);
                B::of(make.0())
            }
        };
        DeferredMap { x, weight, bias, statistics, gate, how }
    }
}

/// A map taken off the graph, how it can be recomputed, and the graph's nodes of map, scale, shift and gate.
type Parts<B> = (DeferredMap<B>, Option<Rebuild>, [NodeGuard; 4]);

fn parts<B: Backend, C: CheckpointStrategy>(map: DeferredMap<Autodiff<B, C>>) -> Parts<B> {
    let DeferredMap { x, weight, bias, statistics, gate, how } = map;
    let ((x, x_node), (weight, weight_node), (bias, bias_node)) =
        (x.into_parts(), weight.into_parts(), bias.into_parts());
    // Statistics have no gradient, so their node can stand for the gate where there is none.
    let (statistics, none) = statistics.into_parts();
    let (gate, gate_node) = match gate {
        Gate::Of(gate) => {
            let (gate, node) = gate.into_parts();
            (Gate::Of(gate), node)
        }
        Gate::Open => (Gate::Open, none),
    };
    let (how, rebuild) = how.split();
    (DeferredMap { x, weight, bias, statistics, gate, how }, rebuild, [x_node, weight_node, bias_node, gate_node])
}

impl<B: DeferredOps + DeferredGradients + Primitive, C: CheckpointStrategy> DeferredOps for Autodiff<B, C> {
    fn apply(map: DeferredMap<Self>) -> Tracked<B, C> {
        let (map, rebuild, nodes) = parts(map);
        let kept = Kept::of(&map, rebuild);
        on_graph!(C, ApplyBackward, nodes, kept, B::apply(map))
    }

    fn convolve(map: DeferredMap<Self>, filters: Tracked<B, C>, convolution: Convolution) -> Tracked<B, C> {
        let (map, rebuild, [x_node, weight_node, bias_node, gate_node]) = parts(map);
        let (filters, filters_node) = filters.into_parts();
        let nodes = [x_node, weight_node, bias_node, gate_node, filters_node];
        let state = (Kept::of(&map, rebuild), filters.clone(), convolution);
        on_graph!(C, ConvolveBackward, nodes, state, B::convolve(map, filters, convolution))
    }

    fn average(map: DeferredMap<Self>) -> Tracked<B, C> {
        let (map, rebuild, nodes) = parts(map);
        let kept = Kept::of(&map, rebuild);
        on_graph!(C, AverageBackward, nodes, kept, B::average(map))
    }

    fn max_pool(map: DeferredMap<Self>, pooling: Pooling) -> Tracked<B, C> {
        let (map, rebuild, nodes) = parts(map);
        let state = (Kept::of(&map, rebuild), pooling);
        on_graph!(C, MaxPoolBackward, nodes, state, B::max_pool(map, pooling))
    }

    fn add(map: DeferredMap<Self>, shortcut: Tracked<B, C>, activation: Activation) -> Tracked<B, C> {
        let (map, rebuild, [x_node, weight_node, bias_node, gate_node]) = parts(map);
        let (shortcut, shortcut_node) = shortcut.into_parts();
        let nodes = [x_node, weight_node, bias_node, gate_node, shortcut_node];
        let kept = Kept::of(&map, rebuild);
        let y = B::add(map, shortcut, activation);
        let kept_y = (activation != Activation::Identity).then(|| y.clone());
        on_graph!(C, AddBackward, nodes, (kept, kept_y), y)
    }
}

/// Which parents of a map need a gradient.
fn wanted([x, weight, bias, gate]: [Option<NodeId>; 4]) -> Wanted {
    Wanted { x: x.is_some(), weight: weight.is_some(), bias: bias.is_some(), gate: gate.is_some() }
}

/// Registers the gradients of a map's tensors.
fn register<B: Backend>(grads: &mut Gradients, [x, weight, bias, gate]: [Option<NodeId>; 4], of: OfMap<B>) {
    of.x.register(grads, x);
    of.weight.register(grads, weight);
    of.bias.register(grads, bias);
    of.gate.register(grads, gate);
}

#[derive(Debug)]
struct ApplyBackward;

impl<B: DeferredGradients + Primitive> Backward<B, 4> for ApplyBackward {
    type State = Kept<B>;

    fn backward(self, ops: Ops<Self::State, 4>, grads: &mut Gradients, _: &mut Checkpointer) {
        let nodes = parents(&ops);
        let dy = grads.consume::<B>(&ops.node);
        register(grads, nodes, B::apply_backward(ops.state.into_map(), dy, wanted(nodes)));
    }
}

#[derive(Debug)]
struct ConvolveBackward;

impl<B: DeferredGradients + Primitive> Backward<B, 5> for ConvolveBackward {
    type State = (Kept<B>, FloatTensor<B>, Convolution);

    fn backward(self, ops: Ops<Self::State, 5>, grads: &mut Gradients, _: &mut Checkpointer) {
        let [x, weight, bias, gate, filters_node] = parents(&ops);
        let nodes = [x, weight, bias, gate];
        let dy = grads.consume::<B>(&ops.node);
        let (kept, filters, convolution) = ops.state;
        let OfConvolved { map, filters } =
            B::convolve_backward(kept.into_map(), filters, dy, convolution, wanted(nodes), filters_node.is_some());
        filters.register(grads, filters_node);
        register(grads, nodes, map);
    }
}

#[derive(Debug)]
struct AverageBackward;

impl<B: DeferredGradients + Primitive> Backward<B, 4> for AverageBackward {
    type State = Kept<B>;

    fn backward(self, ops: Ops<Self::State, 4>, grads: &mut Gradients, _: &mut Checkpointer) {
        let nodes = parents(&ops);
        let dy = grads.consume::<B>(&ops.node);
        register(grads, nodes, B::average_backward(ops.state.into_map(), dy, wanted(nodes)));
    }
}

#[derive(Debug)]
struct MaxPoolBackward;

impl<B: DeferredGradients + Primitive> Backward<B, 4> for MaxPoolBackward {
    type State = (Kept<B>, Pooling);

    fn backward(self, ops: Ops<Self::State, 4>, grads: &mut Gradients, _: &mut Checkpointer) {
        let nodes = parents(&ops);
        let dy = grads.consume::<B>(&ops.node);
        let (kept, pooling) = ops.state;
        register(grads, nodes, B::max_pool_backward(kept.into_map(), dy, pooling, wanted(nodes)));
    }
}

#[derive(Debug)]
struct AddBackward;

impl<B: DeferredGradients + Primitive> Backward<B, 5> for AddBackward {
    /// The second element is the output, if its activation is not the identity.
    type State = (Kept<B>, Option<FloatTensor<B>>);

    fn backward(self, ops: Ops<Self::State, 5>, grads: &mut Gradients, _: &mut Checkpointer) {
        let [x, weight, bias, gate, shortcut_node] = parents(&ops);
        let nodes = [x, weight, bias, gate];
        let dy = grads.consume::<B>(&ops.node);
        let (kept, y) = ops.state;
        let of_sum = match y {
            Some(y) => B::sum_backward(y, dy),
            None => dy,
        };
        if let Some(node) = shortcut_node {
            grads.register::<B>(node, of_sum.clone());
        }
        register(grads, nodes, B::apply_backward(kept.into_map(), of_sum, wanted(nodes)));
    }
}
