//! Dense convolutions on the devices of CubeCL.
//!
//! A 1x1 convolution is a matrix product of the pixels, with channels last, and the filters. Larger kernels are cubek's implicit
//! products where a device has tensor cores, and otherwise products of what they see ([`super::columns`]). Outputs are kept for the
//! backward pass, so they are allocated without the padding that Burn gives to rows (up to 78 % of a map).

use burn_cubecl::cubecl;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::{permute, permute_nchw_to_nhwc};
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::TensorBinding;
use cubek::convolution::components::ConvSetupError;
use cubek::convolution::{
    AcceleratedTileKind, ConvAlgorithm, ConvolutionArgs, ConvolutionInputs, Strategy, launch_ref,
};
use cubek::matmul::definition::{MatmulElems, MatmulGlobalElems, MatmulSetupError};
use cubek::std::InputBinding;

use super::columns;
use crate::convolution::Places;
use crate::cube::layout::{Flat, cast, dims, element, empty, empty_map, relaid, whole_planes};
use crate::cube::product::{is_failure, multiply};
use crate::device::has_tensor_cores;

/// Computes the output.
pub(crate) fn forward(x: CubeTensor, weight: CubeTensor, places: Places) -> CubeTensor {
    let ([batch, ..], [output, ..]) = (dims(&x), dims(&weight));
    let weight = cast(weight, x.dtype);
    let shape = [batch, output, places.out[0], places.out[1]];
    if is_pointwise(dims(&x), dims(&weight), places) {
        return product(x, permute(matrix(weight), &[1, 0]), shape);
    }
    let on_cores = on_tensor_cores(&x, shape, places, |y| ConvolutionInputs::Forward {
        input: input(&x),
        weight: input(&weight),
        bias: None,
        out: y,
    });
    whole_planes(on_cores.unwrap_or_else(|| columns::forward(x, weight, places)))
}

/// The gradient of the input, of this shape.
pub(crate) fn of_input(shape: [usize; 4], weight: CubeTensor, dy: CubeTensor, places: Places) -> CubeTensor {
    let weight = cast(weight, dy.dtype);
    if is_pointwise(shape, dims(&weight), places) {
        return product(dy, matrix(weight), shape);
    }
    // With places further apart, cubek's kernel would be asked for something that it does not compute.
    let on_cores = (places.stride == 1)
        .then(|| {
            on_tensor_cores(&dy, shape, places, |dx| ConvolutionInputs::BackwardData {
                out_grad: input(&dy),
                weights: input(&weight),
                in_grad: dx,
            })
        })
        .flatten();
    whole_planes(on_cores.unwrap_or_else(|| columns::of_input(shape, weight, dy, places)))
}

/// The gradient of filters of this shape, in float32.
pub(crate) fn of_filters(x: CubeTensor, shape: [usize; 4], dy: CubeTensor, places: Places) -> CubeTensor {
    if is_pointwise(dims(&x), shape, places) {
        let dw = columns::of_pointwise_filters(Flat::of(x).into_matrix(), Flat::of(dy).into_matrix());
        return relaid(dw, shape, [shape[1], 1, 1, 1]);
    }
    whole_planes(columns::of_filters(&x, shape, dy, places))
}

/// The map of this shape that cubek's kernel for tensor cores writes; `None` where there are none, or not for these formats.
///
/// # Panics
/// If the launch fails. As in Burn's own convolutions, the device is lost then.
fn on_tensor_cores(
    like: &CubeTensor,
    shape: [usize; 4],
    places: Places,
    inputs: impl FnOnce(TensorBinding) -> ConvolutionInputs,
) -> Option<CubeTensor> {
    if !has_tensor_cores(&like.client) {
        return None;
    }
    let map = empty_map(like, shape, like.dtype);
    let of = element(like.dtype);
    let elements = MatmulElems::from_globals(&MatmulGlobalElems { lhs: of, rhs: of, out: of });
    let Places { stride, dilation, before, .. } = places;
    let args = ConvolutionArgs { stride: [stride; 2], padding: before, dilation: [dilation; 2] };
    let kernel =
        Strategy::Inferred { algorithm: ConvAlgorithm::SimpleSyncStrided, tile_kind: AcceleratedTileKind::Mma };
    match launch_ref(&kernel, &like.client, inputs(channels_last(&map)), args, elements) {
        Ok(()) => Some(map),
        Err(ConvSetupError::Launch(reason) | ConvSetupError::Matmul(MatmulSetupError::Launch(reason)))
            if is_failure(&reason) =>
        {
            panic!("a convolution cannot be launched: {reason}")
        }
        Err(_declined) => None,
    }
}

fn input(map: &CubeTensor) -> InputBinding {
    InputBinding::new(channels_last(map), element(map.dtype))
}

fn channels_last(map: &CubeTensor) -> TensorBinding {
    permute_nchw_to_nhwc(map.clone()).binding()
}

fn is_pointwise([.., height, width]: [usize; 4], [.., kernel]: [usize; 4], places: Places) -> bool {
    let Places { stride, before, out, .. } = places;
    kernel == 1 && stride == 1 && before == [0; 2] && out == [height, width]
}

/// The map of this shape whose pixels are the pixels of `x` times filters `[k, n]`.
fn product(x: CubeTensor, filters: CubeTensor, [batch, channels, height, width]: [usize; 4]) -> CubeTensor {
    let plane = height * width;
    let y = empty(&x, [batch * plane, channels], x.dtype);
    multiply(Flat::of(x).into_matrix(), filters, &y);
    whole_planes(relaid(y, [batch, channels, height, width], [plane * channels, 1, width * channels, channels]))
}

/// Filters `[output, input, 1, 1]` as a matrix.
fn matrix(weight: CubeTensor) -> CubeTensor {
    let [output, input, ..] = dims(&weight);
    relaid(into_contiguous(weight), [output, input], [input, 1])
}
