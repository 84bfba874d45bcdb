//! Convolutions of enlarged maps on Burn's gradient graph.

use burn::backend::Autodiff;
use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops};
use burn::backend::tensor::FloatTensor;

use super::{Beside, Enlarged, EnlargedGradients, Wanted};
use crate::graph::{Tracked, on_graph, parents};

impl<B: Enlarged + EnlargedGradients, C: CheckpointStrategy> Enlarged for Autodiff<B, C> {
    fn convolve(x: Tracked<B, C>, beside: Beside<Self>, weight: Tracked<B, C>) -> Tracked<B, C> {
        let ((x, x_node), (weight, weight_node)) = (x.into_parts(), weight.into_parts());
        match beside {
            Beside::Map(beside) => {
                let (beside, beside_node) = beside.into_parts();
                let state = (x.clone(), Beside::Map(beside.clone()), weight.clone());
                let y = B::convolve(x, Beside::Map(beside), weight);
                on_graph!(C, BesideBackward, [x_node, weight_node, beside_node], state, y)
            }
            Beside::Nothing => {
                let state = (x.clone(), Beside::Nothing, weight.clone());
                on_graph!(C, AloneBackward, [x_node, weight_node], state, B::convolve(x, Beside::Nothing, weight))
            }
        }
    }
}

/// The maps and the filters.
type Kept<B> = (FloatTensor<B>, Beside<B>, FloatTensor<B>);

/// With a map beside.
#[derive(Debug)]
struct BesideBackward;

impl<B: EnlargedGradients> Backward<B, 3> for BesideBackward {
    type State = Kept<B>;

    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
        let [x, weight, beside] = parents(&ops);
        let dy = grads.consume::<B>(&ops.node);
        backward(ops.state, dy, grads, [x, beside, weight]);
    }
}

/// Of one map alone.
#[derive(Debug)]
struct AloneBackward;

impl<B: EnlargedGradients> Backward<B, 2> for AloneBackward {
    type State = Kept<B>;

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let [x, weight] = parents(&ops);
        let dy = grads.consume::<B>(&ops.node);
        backward(ops.state, dy, grads, [x, None, weight]);
    }
}

/// Registers the gradients of the map, of the one beside it and of the filters with those of these parents that there are.
fn backward<B: EnlargedGradients>(
    (x, beside, weight): Kept<B>,
    dy: FloatTensor<B>,
    grads: &mut Gradients,
    [x_node, beside_node, weight_node]: [Option<NodeId>; 3],
) {
    let wanted = Wanted { x: x_node.is_some(), beside: beside_node.is_some(), weight: weight_node.is_some() };
    let of = B::convolve_backward(x, beside, weight, dy, wanted);
    of.weight.register(grads, weight_node);
    of.beside.register(grads, beside_node);
    of.x.register(grads, x_node);
}
