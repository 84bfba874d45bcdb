//! Own operations for the CPU device, with their backward passes.
//!
//! Burn's depthwise weight gradient loops over channels, its batch norm is a chain of whole-tensor operations, its matrix
//! products are made twice and its convolutions go through other layouts; on a CPU these were most of a step. The operations
//! here are plain loops over planes and matrix products on the maps as they lie, spread over the cores, compiled for
//! the instruction set that is found at run time. They serve the float formats on Burn's `Flex` device; everything else takes
//! the path through Burn's own operations, which the tests compare them with.
//!
//! Weights are float32, sums are made in float32 or wider, and a map's format is that of the output. For maps of float64 all of
//! it is float64 ([`real`]). Results do not
//! depend on the number of threads: a plane is computed by one thread, and sums over planes are added in order.

mod activation;
mod adamw;
mod after_norm;
mod autodiff;
mod conv;
mod conv_input;
mod correlate;
mod depthwise;
mod filters;
mod gate;
mod gemm;
mod gradients;
mod join;
mod lanes;
mod max_pool;
mod norm_act;
mod reading;
mod real;
mod scratch;
#[cfg(test)]
mod tests;
mod unread;
mod unread_gradients;
mod values;
mod winograd;
mod winograd_tiles;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, Flex, backend_extension};
use burn::tensor::{DType, Tensor};
use burn_flex::FlexTensor;

use after_norm::Shape;
use conv::Dense;
use depthwise::Geometry;
use real::Real;
use values::{computed_in, dims, tensor, values};

use crate::{AT_ONCE, BLOCKS, Convolution, MapOps, Places, StateOps};

pub use adamw::{AdamWStep, adamw};
pub use gemm::{packing_bytes, small_product};
pub use scratch::ConvScratch;

/// What the CPU device alone can do.
#[backend_extension(Autodiff, Flex)]
pub(crate) trait CpuOps: Backend {
    /// The convolution backwards: from maps of `out` rows and columns to larger ones of `size`; `weight` `[c, output, k, k]`.
    fn transposed(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        places: Places,
        size: [usize; 2],
    ) -> FloatTensor<Self>;
}

/// Whether a tensor lies in the process's own memory and is one that these operations serve; [`transposed`] serves no others.
pub fn serves_on_cpu<const D: usize>(x: &Tensor<D>) -> bool {
    crate::on_cpu(x) && crate::serves(x)
}

/// See [`CpuOps::transposed`]. The caller has asked [`serves_on_cpu`].
pub fn transposed(x: Tensor<4>, weight: Tensor<4>, places: Places, size: [usize; 2]) -> Tensor<4> {
    Tensor::from_dispatch(<Dispatch as CpuOps>::transposed(x.into_dispatch(), weight.into_dispatch(), places, size))
}

impl CpuOps for Flex {
    fn transposed(x: FlexTensor, weight: FlexTensor, places: Places, size: [usize; 2]) -> FlexTensor {
        let shape = Dense::backwards(&x, &weight, places, size);
        computed_in!(T = x.dtype(); {
            let y = conv_input::backward_input::<T>(&values(&x), &values(&weight), &shape);
            tensor(y, shape.input_shape(), x.dtype())
        })
    }
}

/// Nobody asks for these on the CPU, where a tensor is looked at by Burn's operations; they are here for the graph's sake.
#[rustfmt::skip] // as many tensors as an operation takes
impl StateOps for Flex {
    fn first_numbers(
        a: FlexTensor, b: FlexTensor, c: FlexTensor, d: FlexTensor, e: FlexTensor, f: FlexTensor, g: FlexTensor, h: FlexTensor,
    ) -> FlexTensor {
        let firsts = [a, b, c, d, e, f, g, h].map(|x| values::<f32>(&x).first().copied().unwrap_or_default());
        tensor(firsts.to_vec(), [AT_ONCE], DType::F32)
    }

    fn squares(
        a: FlexTensor, b: FlexTensor, c: FlexTensor, d: FlexTensor, e: FlexTensor, f: FlexTensor, g: FlexTensor, h: FlexTensor,
    ) -> FlexTensor {
        let mut sums = vec![0.0; AT_ONCE * BLOCKS];
        for (sums, x) in sums.chunks_exact_mut(BLOCKS).zip([a, b, c, d, e, f, g, h]) {
            values::<f32>(&x).iter().enumerate().for_each(|(at, value)| sums[at % BLOCKS] += value * value);
        }
        tensor(sums, [AT_ONCE * BLOCKS], DType::F32)
    }
}

impl MapOps for Flex {
    fn depthwise(x: FlexTensor, weight: FlexTensor, places: Places) -> FlexTensor {
        let geometry = Geometry::of(dims(&x), &weight, places);
        computed_in!(T = x.dtype(); {
            let y = depthwise::forward::<T>(&values(&x), &values(&weight), &geometry);
            tensor(y, geometry.output(), x.dtype())
        })
    }

    fn dense(x: FlexTensor, weight: FlexTensor, places: Places) -> FlexTensor {
        let shape = Dense::of(dims(&x), &weight, places);
        computed_in!(T = x.dtype(); {
            let y = conv::forward::<T>(&values(&x), &values(&weight), &shape);
            tensor(y, shape.output_shape(), x.dtype())
        })
    }

    fn statistics(x: FlexTensor, groups: Vec<usize>) -> FlexTensor {
        let shape = dims(&x);
        computed_in!(T = x.dtype(); {
            let of_groups = norm_act::statistics::<T>(&values(&x), shape, &groups);
            tensor(of_groups, [2, groups.len(), shape[1]], T::DTYPE)
        })
    }

    fn means(x: FlexTensor) -> FlexTensor {
        let [batch, channels, height, width] = dims(&x);
        computed_in!(T = x.dtype(); tensor(gate::means::<T>(&values(&x), height * width), [batch, channels], T::DTYPE))
    }

    fn scale(x: FlexTensor, gate: FlexTensor) -> FlexTensor {
        let shape = dims(&x);
        computed_in!(T = x.dtype(); {
            let y = gate::scale::<T>(&values(&x), &values(&gate), shape[2] * shape[3]);
            tensor(y, shape, x.dtype())
        })
    }
}

impl Convolution {
    fn shape(self, x: [usize; 4], weight: &FlexTensor) -> Shape {
        match self {
            Self::Depthwise(places) => Shape::Depthwise(Geometry::of(x, weight, places)),
            Self::Dense(places) => Shape::Dense(Dense::of(x, weight, places)),
        }
    }
}

impl Shape {
    fn output(&self) -> [usize; 4] {
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

    /// The convolution whose output has the shape of `x`.
    fn backwards(x: &FlexTensor, weight: &FlexTensor, places: Places, [height, width]: [usize; 2]) -> Self {
        let [_, input, ..] = dims(weight);
        Self::of([dims(x)[0], input, height, width], weight, places)
    }
}
