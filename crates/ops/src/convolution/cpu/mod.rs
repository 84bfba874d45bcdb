//! Convolutions on the CPU.

mod correlate;
pub(crate) mod dense;
pub(crate) mod depthwise;
pub(crate) mod filters;
pub(crate) mod input_gradient;
pub(crate) mod planes;
pub(crate) mod pointwise;
pub(crate) mod samples;
mod scratch;
pub(crate) mod shape;
pub(crate) mod strips;
mod surrounded;
mod transposed;
mod winograd;

use burn::backend::Flex;
use burn_flex::FlexTensor;

use super::{Convolution, ConvolutionGradients, Convolutions, OfConvolution, Places, Wanted};
use crate::cpu::tensors::{computed_in, contiguous, dims, tensor, values};
use crate::cpu::{reserve, reserve_like};
use crate::graph::Gradient;
use depthwise::Geometry;
use shape::Dense;

pub use scratch::ConvScratch;

/// A convolution with its shapes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    Depthwise(Geometry),
    Dense(Dense),
}

impl Shape {
    /// Of the convolution of a map of the shape `x`.
    pub(crate) fn of(convolution: Convolution, x: [usize; 4], weight: &FlexTensor) -> Self {
        match convolution {
            Convolution::Depthwise(places) => Self::Depthwise(Geometry::of(x, weight, places)),
            Convolution::Dense(places) => Self::Dense(Dense::of(x, weight, places)),
        }
    }

    pub(crate) fn output(&self) -> [usize; 4] {
        match self {
            Self::Depthwise(geometry) => geometry.output(),
            Self::Dense(dense) => dense.output_shape(),
        }
    }
}

impl Dense {
    fn of([batch, input, height, width]: [usize; 4], weight: &FlexTensor, places: Places) -> Self {
        let [output, _, kernel, _] = dims(weight);
        let Places { stride, dilation, before, out } = places;
        Self { batch, input, output, height, width, kernel, stride, dilation, before, out }
    }
}

impl Convolutions for Flex {
    fn depthwise(x: FlexTensor, weight: FlexTensor, places: Places) -> FlexTensor {
        let geometry = Geometry::of(dims(&x), &weight, places);
        computed_in!(T = x.dtype(); {
            let y = depthwise::forward::<T>(contiguous(&x).source(), &values(&weight), &geometry);
            tensor(y, geometry.output())
        })
    }

    fn dense(x: FlexTensor, weight: FlexTensor, places: Places) -> FlexTensor {
        let shape = Dense::of(dims(&x), &weight, places);
        computed_in!(T = x.dtype(); {
            let y = dense::forward::<T>(contiguous(&x).source(), &values(&weight), &shape);
            tensor(y, shape.output_shape())
        })
    }

    fn transposed(x: FlexTensor, weight: FlexTensor, places: Places, size: [usize; 2]) -> FlexTensor {
        transposed::forward(&x, &weight, places, size)
    }
}

impl ConvolutionGradients for Flex {
    fn depthwise_backward(
        x: FlexTensor,
        weight: FlexTensor,
        dy: FlexTensor,
        places: Places,
        wanted: Wanted,
    ) -> OfConvolution<Self> {
        let geometry = Geometry::of(dims(&x), &weight, places);
        computed_in!(T = x.dtype(); {
            let dy = contiguous(&dy);
            reserve_like(&x);
            let of_x = Gradient::if_wanted(wanted.x, || {
                tensor(depthwise::backward_input::<T>(dy.source(), &values(&weight), &geometry), geometry.input())
            });
            let of_weight = Gradient::if_wanted(wanted.weight, || {
                let x = contiguous(&x);
                tensor(depthwise::backward_weight::<T>(x.source(), dy.source(), &geometry), dims(&weight))
            });
            OfConvolution { x: of_x, weight: of_weight }
        })
    }

    fn transposed_backward(
        x: FlexTensor,
        weight: FlexTensor,
        dy: FlexTensor,
        places: Places,
        wanted: Wanted,
    ) -> OfConvolution<Self> {
        transposed::backward(&x, &weight, &dy, places, wanted)
    }

    fn dense_backward(
        x: FlexTensor,
        weight: FlexTensor,
        dy: FlexTensor,
        places: Places,
        wanted: Wanted,
    ) -> OfConvolution<Self> {
        let shape = Dense::of(dims(&x), &weight, places);
        computed_in!(T = x.dtype(); {
            let (dy, dtype) = (contiguous(&dy), x.dtype());
            if wanted.x && wanted.weight && pointwise::serves(&shape, dy.source::<T>().multiplies_halves()) {
                reserve_like(&x);
                let (dx, dw) = pointwise::backward::<T>(contiguous(&x).source(), &values(&weight), dy.source(), &shape);
                return OfConvolution {
                    x: Gradient::Of(tensor(dx, shape.input_shape())),
                    weight: Gradient::Of(tensor(dw, dims(&weight))),
                };
            }
            let of_weight = Gradient::if_wanted(wanted.weight, || {
                let x = contiguous(&x);
                tensor(dense::backward_weight::<T>(x.source(), dy.source(), &shape), dims(&weight))
            });
            // The gradient of the input is as large, and may take its place.
            drop(x);
            let of_x = Gradient::if_wanted(wanted.x, || {
                reserve(shape.batch * shape.in_sample(), dtype);
                let dx = input_gradient::backward_input::<T>(dy.source(), &values(&weight), &shape);
                tensor(dx, shape.input_shape())
            });
            OfConvolution { x: of_x, weight: of_weight }
        })
    }
}
