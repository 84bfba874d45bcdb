//! Dense convolutions on the devices of CubeCL, by Burn's kernels.
//!
//! A 1x1 convolution is a matrix product of the pixels, with channels last, and the filters. Its output is kept for the backward
//! pass, so it is allocated without the padding that Burn gives to rows (up to 78 % of a map). Convolutions with larger kernels are
//! Burn's.

use burn::backend::ops::{FloatTensorOps, ModuleOps};
use burn::tensor::ops::ConvOptions;
use burn::tensor::{DType, Slice};
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::kernel::matmul::{MatmulStrategy, matmul};
use burn_cubecl::ops::{permute, permute_nchw_to_nhwc, permute_nhwc_to_nchw};
use burn_cubecl::tensor::CubeTensor;

use crate::convolution::Places;
use crate::cube::blocks::over_blocks;
use crate::cube::layout::{Flat, Spread, cast, dims, empty, relaid, whole_planes};

/// Computes the output.
pub(crate) fn forward(x: CubeTensor, weight: CubeTensor, places: Places) -> CubeTensor {
    let ([batch, _, height, width], [output, ..]) = (dims(&x), dims(&weight));
    let weight = cast(weight, x.dtype);
    if is_pointwise(&x, &weight, places) {
        return product(x, permute(matrix(weight), &[1, 0]), [batch, output, height, width]);
    }
    let options = options(&x, &weight, places);
    whole_planes(CubeBackend::conv2d(x, weight, None, options))
}

/// The gradient of the input. Of `x`, only the shape is used.
pub(crate) fn of_input(x: CubeTensor, weight: CubeTensor, dy: CubeTensor, places: Places) -> CubeTensor {
    let options = options(&x, &weight, places);
    let (shape, weight) = (dims(&x), cast(weight, x.dtype));
    if is_pointwise(&x, &weight, places) {
        return product(dy, matrix(weight), shape);
    }
    whole_planes(CubeBackend::conv2d_x_backward(x, weight, dy, options))
}

/// The gradient of the filters, in float32.
pub(crate) fn of_filters(x: CubeTensor, weight: CubeTensor, dy: CubeTensor, places: Places) -> CubeTensor {
    if is_pointwise(&x, &weight, places) {
        return of_pointwise_filters(Flat::of(x).into_matrix(), Flat::of(dy).into_matrix());
    }
    let options = options(&x, &weight, places);
    // Only the shape of the filters is used.
    let [filters, input, kernel, _] = dims(&weight);
    let dw = if has_tensor_cores(&x) && filters.is_multiple_of(TILE_SIDE) {
        let weight = relaid(weight, [filters + SPARE, input, kernel, kernel], [0; 4]);
        let dw = CubeBackend::conv2d_weight_backward(x, weight, with_spare_channels(dy), options);
        CubeBackend::float_slice(dw, &[Slice::from(0..filters)])
    } else {
        CubeBackend::conv2d_weight_backward(x, weight, dy, options)
    };
    whole_planes(cast(dw, DType::F32))
}

/// A divisor of the sides of all tiles of tensor cores.
const TILE_SIDE: usize = 8;
/// Channels that are appended to the output's gradient where Burn's kernels for tensor cores compute the gradient of the filters. Their
/// number makes the sum indivisible by any tile, and keeps it a multiple of four so that four channels are still read at once.
///
/// This works around a bug: a tile that reaches beyond the last of the `kernel * kernel * input` columns writes zeros to the first
/// row of every filter, over the results of another tile, unless bounds are checked. cubek-convolution 0.3.1
/// (`WeightLayout::is_in_bounds`, transposed in `backward_weight/args.rs`) checks columns only where tiles reach beyond the last
/// *filter*, so with these channels they always do.
const SPARE: usize = 4;

/// The output's gradient with [`SPARE`] more channels, whose values are arbitrary: they only produce filters that are cut off.
fn with_spare_channels(dy: CubeTensor) -> CubeTensor {
    let [batch, channels, height, width] = dims(&dy);
    let wider = empty(&dy, [batch, height, width, channels + SPARE], dy.dtype);
    let inside = [Slice::full(), Slice::full(), Slice::full(), Slice::from(0..channels)];
    permute_nhwc_to_nchw(CubeBackend::float_slice_assign(wider, &inside, permute_nchw_to_nhwc(dy)))
}

fn has_tensor_cores(x: &CubeTensor) -> bool {
    let matmul = &x.client.properties().features.matmul;
    !(matmul.cmma.is_empty() && matmul.mma.is_empty())
}

/// The number of tiles of a matrix product that is taken to fill a device.
const TILES: usize = 256;
/// Rows and columns of such a tile.
const TILE: usize = 64;

/// The gradient of 1x1 filters, from the pixels of the input and of the output's gradient.
///
/// The result is small and the sum over pixels is long, so one product would use few tiles and leave most of a device idle. The
/// pixels are divided into stretches that are multiplied in parallel, as a batch, and the products are added up. Products are
/// float32 whatever the format of the maps.
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

/// A matrix as a batch of stretches of its rows: `[parts, rows, columns]`.
fn stretches(x: CubeTensor, parts: usize) -> CubeTensor {
    let [rows, columns] = x.meta.shape().dims();
    let row = x.meta.strides()[0];
    relaid(x, [parts, rows / parts, columns], [rows / parts * row, row, 1])
}

/// Burn's options for these places.
fn options(x: &CubeTensor, weight: &CubeTensor, places: Places) -> ConvOptions<2> {
    let Places { stride, dilation, before, out } = places;
    let ([.., height, width], [.., kernel]) = (dims(x), dims(weight));
    // Where no kernel reaches the last rows, there is no padding after them.
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

/// The map of this shape whose pixels are the pixels of `x` times filters `[k, n]`.
fn product(x: CubeTensor, filters: CubeTensor, [batch, channels, height, width]: [usize; 4]) -> CubeTensor {
    let (plane, dtype) = (height * width, x.dtype);
    let y = empty(&x, [batch * plane, channels], dtype);
    // As in Burn's own convolutions, a failure here ends the run: no strategy works, or the device is lost.
    matmul(Flat::of(x).into_matrix(), filters, Some(y.clone()), MatmulStrategy::default(), dtype)
        .expect("a matrix product of whole rows");
    whole_planes(relaid(y, [batch, channels, height, width], [plane * channels, 1, width * channels, channels]))
}

/// Filters `[output, input, 1, 1]` as a matrix.
fn matrix(weight: CubeTensor) -> CubeTensor {
    let [output, input, ..] = dims(&weight);
    relaid(into_contiguous(weight), [output, input], [input, 1])
}
