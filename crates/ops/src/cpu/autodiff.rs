//! The CPU's own transposed convolution on Burn's gradient graph, and what is announced before gradients are made.

use burn::backend::TensorMetadata;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Flex};
use burn::tensor::DType;
use burn_flex::FlexTensor;

use super::conv::{self, Dense};
use super::real::Real;
use super::values::computed_in;
use super::{CpuOps, dims, tensor, values};
use crate::room;
use crate::{Places, on_graph, register};

type Tracked<C> = FloatTensor<Autodiff<Flex, C>>;

impl<C: CheckpointStrategy> CpuOps for Autodiff<Flex, C> {
    fn transposed(x: Tracked<C>, weight: Tracked<C>, places: Places, size: [usize; 2]) -> Tracked<C> {
        let ((x, x_node), (weight, weight_node)) = (x.into_parts(), weight.into_parts());
        let state = (x.clone(), weight.clone(), places, size);
        on_graph!(C, TransposedBackward, [x_node, weight_node], state, Flex::transposed(x, weight, places, size))
    }
}

#[derive(Debug)]
struct TransposedBackward;

impl Backward<Flex, 2> for TransposedBackward {
    type State = (FlexTensor, FlexTensor, Places, [usize; 2]);

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (x, weight, places, size) = ops.state;
        let shape = Dense::backwards(&x, &weight, places, size);
        let dy = grads.consume::<Flex>(&ops.node);
        announce_gradient(&x);
        let [x_node, weight_node] = ops.parents.map(|node| node.map(|node| node.id));
        computed_in!(T = x.dtype(); {
            let dy = values::<T>(&dy);
            if weight_node.is_some() {
                let dw = conv::backward_weight(&dy, &values(&x), &shape);
                register::<Flex>(grads, weight_node, tensor(dw, dims(&weight), T::DTYPE));
            }
            if x_node.is_some() {
                let dx = conv::forward(&dy, &values(&weight), &shape);
                register::<Flex>(grads, x_node, tensor(dx, shape.output_shape(), x.dtype()));
            }
        });
    }
}

/// Says that a gradient of this map's shape is about to be made.
pub(super) fn announce_gradient(x: &FlexTensor) {
    announce(x.shape().num_elements(), x.dtype());
}

/// Says that a map of so many elements is about to be made.
pub(super) fn announce(elements: usize, dtype: DType) {
    room::announce(dtype.size() * elements);
}

/// A gradient is written over one that nobody else has; otherwise there will be another map.
pub(super) fn announce_unless_free(dy: &FlexTensor) {
    if !(dy.is_unique() && matches!(dy.dtype(), DType::F32 | DType::F64)) {
        announce_gradient(dy);
    }
}
