//! Transposed convolution: the gradient of the input of a dense convolution. Its own gradients are that convolution and the gradient
//! of that convolution's filters.

use burn::backend::Flex;
use burn_flex::FlexTensor;

use super::dense;
use super::input_gradient;
use super::shape::Dense;
use crate::convolution::{OfConvolution, Places, Wanted};
use crate::cpu::reserve_like;
use crate::cpu::tensors::{computed_in, contiguous, dims, tensor, values};
use crate::graph::Gradient;

/// Computes the output, of this height and width.
pub(super) fn forward(x: &FlexTensor, weight: &FlexTensor, places: Places, size: [usize; 2]) -> FlexTensor {
    let shape = turned(x, weight, places, size);
    computed_in!(T = x.dtype(); {
        let x = contiguous(x);
        let y = input_gradient::backward_input::<T>(x.source(), &values(weight), &shape);
        tensor(y, shape.input_shape())
    })
}

/// Computes the gradients of the map and of the filters.
pub(super) fn backward(
    x: &FlexTensor,
    weight: &FlexTensor,
    dy: &FlexTensor,
    places: Places,
    wanted: Wanted,
) -> OfConvolution<Flex> {
    let [.., height, width] = dims(dy);
    let shape = turned(x, weight, places, [height, width]);
    reserve_like(x);
    computed_in!(T = x.dtype(); {
        let dy = contiguous(dy);
        let of_weight = Gradient::if_wanted(wanted.weight, || {
            tensor(dense::backward_weight::<T>(dy.source(), contiguous(x).source(), &shape), dims(weight))
        });
        let of_x = Gradient::if_wanted(wanted.x, || {
            tensor(dense::forward::<T>(dy.source(), &values(weight), &shape), shape.output_shape())
        });
        OfConvolution { x: of_x, weight: of_weight }
    })
}

/// The convolution, with an output of the shape of `x`, whose input gradient is the transposed convolution.
fn turned(x: &FlexTensor, weight: &FlexTensor, places: Places, [height, width]: [usize; 2]) -> Dense {
    let [_, input, ..] = dims(weight);
    Dense::of([dims(x)[0], input, height, width], weight, places)
}
