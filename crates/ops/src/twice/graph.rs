//! A map that is read twice on Burn's gradient graph.

use std::sync::{Arc, Mutex, PoisonError};

use burn::backend::Autodiff;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops};
use burn::backend::tensor::FloatTensor;

use super::{Both, SumOfTwo, Twice};
use crate::graph::{Tracked, on_graph, parents};

impl<B: Twice + SumOfTwo, C: CheckpointStrategy> Twice for Autodiff<B, C> {
    fn twice(x: Tracked<B, C>) -> Both<Self> {
        let first: First<B> = Arc::default();
        let [one, other] = [x.clone(), x].map(|x| {
            let (x, node) = x.into_parts();
            on_graph!(C, TwiceBackward, [node], first.clone(), x)
        });
        Both { one, other }
    }
}

/// The gradient of the reader whose turn comes first, from then until that of the other.
type First<B> = Arc<Mutex<Option<FloatTensor<B>>>>;

/// For one of the two readers.
#[derive(Debug)]
struct TwiceBackward;

impl<B: SumOfTwo> Backward<B, 1> for TwiceBackward {
    type State = First<B>;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let [node] = parents(&ops);
        let Some(node) = node else { return };
        let dy = grads.consume::<B>(&ops.node);
        let mut waiting = ops.state.lock().unwrap_or_else(PoisonError::into_inner);
        match waiting.take() {
            Some(first) => grads.register::<B>(node, B::sum_of_two(first, dy)),
            None => *waiting = Some(dy),
        }
    }
}
