//! Transposed convolution: the gradient of the input of a dense convolution. Its own gradients are that convolution and the gradient
//! of that convolution's filters.

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops};
use burn::backend::{Autodiff, Flex};
use burn_flex::FlexTensor;

use super::dense;
use super::input_gradient;
use super::shape::Dense;
use crate::convolution::{Places, TransposedConvolution};
use crate::cpu::real::Real;
use crate::cpu::reserve_like;
use crate::cpu::values::{computed_in, dims, tensor, values};
use crate::graph::{Gradient, Tracked, on_graph, parents};

impl TransposedConvolution for Flex {
    fn transposed(x: FlexTensor, weight: FlexTensor, places: Places, size: [usize; 2]) -> FlexTensor {
        let shape = backwards(&x, &weight, places, size);
        computed_in!(T = x.dtype(); {
            let y = input_gradient::backward_input::<T>(&values(&x), &values(&weight), &shape);
            tensor(y, shape.input_shape(), x.dtype())
        })
    }
}

/// The convolution, with an output of the shape of `x`, whose input gradient is the transposed convolution.
fn backwards(x: &FlexTensor, weight: &FlexTensor, places: Places, [height, width]: [usize; 2]) -> Dense {
    let [_, input, ..] = dims(weight);
    Dense::of([dims(x)[0], input, height, width], weight, places)
}

impl<C: CheckpointStrategy> TransposedConvolution for Autodiff<Flex, C> {
    fn transposed(x: Tracked<Flex, C>, weight: Tracked<Flex, C>, places: Places, size: [usize; 2]) -> Tracked<Flex, C> {
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
        let [x_node, weight_node] = parents(&ops);
        let (x, weight, places, size) = ops.state;
        let shape = backwards(&x, &weight, places, size);
        let dy = grads.consume::<Flex>(&ops.node);
        reserve_like(&x);
        computed_in!(T = x.dtype(); {
            let dy = values::<T>(&dy);
            let of_weight = Gradient::<Flex>::if_wanted(weight_node.is_some(), || {
                tensor(dense::backward_weight(&dy, &values(&x), &shape), dims(&weight), T::DTYPE)
            });
            of_weight.register(grads, weight_node);
            let of_x = Gradient::<Flex>::if_wanted(x_node.is_some(), || {
                tensor(dense::forward(&dy, &values(&weight), &shape), shape.output_shape(), x.dtype())
            });
            of_x.register(grads, x_node);
        });
    }
}
