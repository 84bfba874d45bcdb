//! Dense convolutions, by Burn's kernels.
//!
//! A 1x1 convolution is a matrix product of the pixels, which lie beside each other, with the filters. Its output is made
//! without the padding that Burn gives the rows of its own (up to 78 % of a map): it is what is kept for backward. Larger
//! kernels are Burn's convolutions.

use burn::backend::ops::{FloatTensorOps, ModuleOps};
use burn::tensor::ops::ConvOptions;
use burn::tensor::{DType, FloatDType, Slice};
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::kernel::matmul::{MatmulStrategy, matmul};
use burn_cubecl::ops::permute;
use burn_cubecl::tensor::CubeTensor;

use super::layout::{Flat, Spread, dims, empty, relaid};
use super::unread::over_blocks;
use crate::ops::Places;

/// The output.
pub(super) fn forward(x: CubeTensor, weight: CubeTensor, places: Places) -> CubeTensor {
    let ([batch, _, height, width], [output, ..]) = (dims(&x), dims(&weight));
    let weight = cast(weight, x.dtype);
    if is_pointwise(&x, &weight, places) {
        return product(x, permute(matrix(weight), &[1, 0]), [batch, output, height, width]);
    }
    let options = options(&x, &weight, places);
    CubeBackend::conv2d(x, weight, None, options)
}

/// The gradient of the input, whose shape `x` has.
pub(super) fn of_input(x: CubeTensor, weight: CubeTensor, dy: CubeTensor, places: Places) -> CubeTensor {
    let options = options(&x, &weight, places);
    let (shape, weight) = (dims(&x), cast(weight, x.dtype));
    if is_pointwise(&x, &weight, places) {
        return product(dy, matrix(weight), shape);
    }
    CubeBackend::conv2d_x_backward(x, weight, dy, options)
}

/// The gradient of the filters, in float32.
pub(super) fn of_filters(x: CubeTensor, weight: CubeTensor, dy: CubeTensor, places: Places) -> CubeTensor {
    if is_pointwise(&x, &weight, places) {
        return of_pointwise_filters(Flat::of(x).into_matrix(), Flat::of(dy).into_matrix());
    }
    if dims(&x)[1] <= OF_AN_IMAGE {
        return of_image_filters(x, dims(&weight)[2], dy, places);
    }
    let options = options(&x, &weight, places);
    let weight = cast(weight, x.dtype);
    cast(CubeBackend::conv2d_weight_backward(x, weight, dy, options), DType::F32)
}

/// Channels of an image, at most.
const OF_AN_IMAGE: usize = 4;

/// The gradient of filters that read an image: of each of their places a product of the pixels that it reads with the output's
/// gradient. For it alone, the first row of the filters, Burn 0.22.1's kernels for tensor cores give zeros (seen on the stand-in
/// for CUDA at compute capability 8.0; `tests/tests/cuda_networks.rs`).
fn of_image_filters(x: CubeTensor, kernel: usize, dy: CubeTensor, places: Places) -> CubeTensor {
    let Places { stride, dilation, before, out } = places;
    let ([batch, channels, height, width], reach) = (dims(&x), (kernel - 1) * dilation);
    // With zeros around it there is a pixel under each place of each filter.
    let wide = |axis: usize, size: usize| ((out[axis] - 1) * stride + reach + 1).max(before[axis] + size);
    let shape = [batch, channels, wide(0, height), wide(1, width)];
    let zeros = CubeBackend::float_zeros(shape.into(), &x.device, float_of(x.dtype));
    let inside = |axis: usize, size: usize| Slice::from(before[axis]..before[axis] + size);
    let x =
        CubeBackend::float_slice_assign(zeros, &[Slice::full(), Slice::full(), inside(0, height), inside(1, width)], x);
    let dy = Flat::of(dy).into_matrix();
    let under = |axis: usize, at: usize| {
        let first = at * dilation;
        Slice::new(first as isize, Some((first + (out[axis] - 1) * stride + 1) as isize), stride as isize)
    };
    let of_place = |place: usize| {
        let at = [Slice::full(), Slice::full(), under(0, place / kernel), under(1, place % kernel)];
        let pixels = CubeBackend::float_slice(x.clone(), &at);
        of_pointwise_filters(Flat::of(pixels).into_matrix(), dy.clone())
    };
    let dw = CubeBackend::float_cat((0..kernel * kernel).map(of_place).collect(), 2);
    let [output, ..] = dims(&dw);
    CubeBackend::float_reshape(dw, [output, channels, kernel, kernel].into())
}

pub(super) fn cast(x: CubeTensor, dtype: DType) -> CubeTensor {
    if x.dtype == dtype { x } else { CubeBackend::float_cast(x, float_of(dtype)) }
}

fn float_of(dtype: DType) -> FloatDType {
    match dtype {
        DType::F16 => FloatDType::F16,
        DType::BF16 => FloatDType::BF16,
        _ => FloatDType::F32,
    }
}

/// Products that add up a 1x1 filter's gradient should fill the device: so many tiles of a matrix product.
const TILES: usize = 256;
/// Rows and columns of such a tile.
const TILE: usize = 64;

/// The gradient of 1x1 filters, from the pixels of the input and of the output's gradient: stretches of pixels are
/// multiplied beside each other, and their products, which are float32 whatever the maps are, added up.
fn of_pointwise_filters(x: CubeTensor, dy: CubeTensor) -> CubeTensor {
    let ([pixels, input], [_, output]) = (x.meta.shape().dims(), dy.meta.shape().dims());
    let at_once = (TILES / (input.div_ceil(TILE) * output.div_ceil(TILE))).clamp(1, TILE);
    let parts = (1..=at_once).rev().find(|parts| pixels.is_multiple_of(*parts)).unwrap_or(1);
    let (x, dy) = (stretches(x, parts), permute(stretches(dy, parts), &[0, 2, 1]));
    let products = empty(&x, [parts, output, input], DType::F32);
    matmul(dy, x, Some(products.clone()), MatmulStrategy::default(), DType::F32)
        .expect("a matrix product of whole rows");
    let size = input * output;
    let sums = relaid(products, [1, parts, size], [parts * size, size, 1]);
    let dw = empty(&sums, [size], DType::F32);
    let width = if size.is_multiple_of(4) { 4 } else { 1 };
    over_blocks(&sums, &dw, 0..1, Spread::of(size, width, parts, 1), width, 1.0);
    relaid(dw, [output, input, 1, 1], [input, 1, 1, 1])
}

/// A matrix as stretches of rows: `[parts, rows, columns]`.
fn stretches(x: CubeTensor, parts: usize) -> CubeTensor {
    let [rows, columns] = x.meta.shape().dims();
    let row = x.meta.strides()[0];
    relaid(x, [parts, rows / parts, columns], [rows / parts * row, row, 1])
}

/// Burn's options for these places.
fn options(x: &CubeTensor, weight: &CubeTensor, places: Places) -> ConvOptions<2> {
    let Places { stride, dilation, before, out } = places;
    let ([.., height, width], [.., kernel]) = (dims(x), dims(weight));
    // Where the last rows are under no kernel, there are none behind them.
    let after = |out: usize, before: usize, size: usize| {
        ((out - 1) * stride + (kernel - 1) * dilation + 1).saturating_sub(before + size)
    };
    let padding = [(before[0], after(out[0], before[0], height)), (before[1], after(out[1], before[1], width))];
    ConvOptions::new_with_padding([stride; 2], padding, [dilation; 2], 1)
}

fn is_pointwise(x: &CubeTensor, weight: &CubeTensor, Places { stride, before, out, .. }: Places) -> bool {
    let ([.., height, width], [.., kernel]) = (dims(x), dims(weight));
    kernel == 1 && stride == 1 && before == [0; 2] && out == [height, width]
}

/// The map of this shape whose pixels are those of `x` times filters `[k, n]`.
fn product(x: CubeTensor, filters: CubeTensor, [batch, channels, height, width]: [usize; 4]) -> CubeTensor {
    let (plane, dtype) = (height * width, x.dtype);
    let y = empty(&x, [batch * plane, channels], dtype);
    // Burn's own convolutions end a run in the same way: all strategies failed, or a device is lost.
    matmul(Flat::of(x).into_matrix(), filters, Some(y.clone()), MatmulStrategy::default(), dtype)
        .expect("a matrix product of whole rows");
    relaid(y, [batch, channels, height, width], [plane * channels, 1, width * channels, channels])
}

/// Filters `[output, input, 1, 1]` as a matrix.
fn matrix(weight: CubeTensor) -> CubeTensor {
    let [output, input, ..] = dims(&weight);
    relaid(into_contiguous(weight), [output, input], [input, 1])
}
