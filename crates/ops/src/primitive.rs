//! From Burn's tensors to those of a backend.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Flex};
use burn::tensor::{DType, Tensor};
use burn_flex::FlexTensor;

use crate::room;

/// A backend whose tensors can be taken out of Burn's, to make a map again in the backward pass.
pub(crate) trait Primitive: Backend {
    /// Says that `elements` more of a type are about to be made, where somebody keeps count.
    fn announce(elements: usize, dtype: DType);

    /// The backend's own tensor, outside any gradient graph.
    fn of(x: Tensor<4>) -> FloatTensor<Self>;
}

impl Primitive for Flex {
    fn announce(elements: usize, dtype: DType) {
        room::announce(dtype.size() * elements);
    }

    fn of(x: Tensor<4>) -> FlexTensor {
        FlexTensor::from_data(x.into_data())
    }
}

#[cfg(feature = "cube")]
impl Primitive for burn::backend::Cube {
    fn announce(_: usize, _: DType) {}

    fn of(x: Tensor<4>) -> FloatTensor<Self> {
        // The map is made from tensors of the device it is asked on.
        x.try_into_primitive::<Self>().expect("a map made again lies on its own device")
    }
}
