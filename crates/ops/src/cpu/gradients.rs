//! [`MapGradients`] on the CPU.

use burn::backend::Flex;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::{DType, Shape};
use burn_flex::FlexTensor;

use super::autodiff::announce_gradient;
use super::conv::{self, Dense};
use super::conv_input;
use super::depthwise::{self, Geometry};
use super::real::Real;
use super::values::computed_in;
use super::{dims, gate, tensor, values};
use crate::{MapGradients, Places};

impl MapGradients for Flex {
    fn depthwise_backward(
        x: FlexTensor,
        weight: FlexTensor,
        dy: FlexTensor,
        places: Places,
        wanted: [bool; 2],
    ) -> (FlexTensor, FlexTensor) {
        let geometry = Geometry::of(dims(&x), &weight, places);
        computed_in!(T = x.dtype(); {
            let dy = values::<T>(&dy);
            announce_gradient(&x);
            let dx = if_wanted(wanted[0], || {
                tensor(depthwise::backward_input(&dy, &values(&weight), &geometry), geometry.input(), x.dtype())
            });
            let dw = if_wanted(wanted[1], || {
                tensor(depthwise::backward_weight(&values(&x), &dy, &geometry), dims(&weight), T::DTYPE)
            });
            (dx, dw)
        })
    }

    fn dense_backward(
        x: FlexTensor,
        weight: FlexTensor,
        dy: FlexTensor,
        places: Places,
        wanted: [bool; 2],
    ) -> (FlexTensor, FlexTensor) {
        let shape = Dense::of(dims(&x), &weight, places);
        let dtype = x.dtype();
        computed_in!(T = dtype; {
            let dy = values::<T>(&dy);
            announce_gradient(&x);
            let dw = if_wanted(wanted[1], || {
                tensor(conv::backward_weight(&values(&x), &dy, &shape), dims(&weight), T::DTYPE)
            });
            drop(x);
            let dx = if_wanted(wanted[0], || {
                tensor(conv_input::backward_input(&dy, &values(&weight), &shape), shape.input_shape(), dtype)
            });
            (dx, dw)
        })
    }

    fn means_backward(dy: FlexTensor, shape: [usize; 4], dtype: DType) -> FlexTensor {
        let [batch, channels, height, width] = shape;
        let each = computed_in!(T = dtype; {
            let each: Vec<T> = values::<T>(&dy).iter().map(|dy| *dy / T::of((height * width) as f64)).collect();
            tensor(each, [batch, channels, 1, 1], dtype)
        });
        // One number a plane, however large the plane is.
        Flex::float_expand(each, Shape::new(shape))
    }

    fn scale_backward(
        x: FlexTensor,
        factors: FlexTensor,
        dy: FlexTensor,
        wanted: [bool; 2],
    ) -> (FlexTensor, FlexTensor) {
        let shape = dims(&x);
        let plane = shape[2] * shape[3];
        computed_in!(T = x.dtype(); {
            let dy = values::<T>(&dy);
            announce_gradient(&x);
            let of_gate = if_wanted(wanted[1], || {
                tensor(gate::backward_gate(&values(&x), &dy, plane), [shape[0], shape[1]], T::DTYPE)
            });
            let dx = if_wanted(wanted[0], || tensor(gate::scale(&dy, &values(&factors), plane), shape, x.dtype()));
            (dx, of_gate)
        })
    }
}

/// A gradient, or a tensor without elements.
pub(super) fn if_wanted(wanted: bool, gradient: impl FnOnce() -> FlexTensor) -> FlexTensor {
    if wanted { gradient() } else { tensor(Vec::<f32>::new(), [0], DType::F32) }
}
