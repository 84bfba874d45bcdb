//! Launches of the kernels in [`super::depthwise_kernels`].

use burn::tensor::DType;
use burn_cubecl::cubecl;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::depthwise_kernels::{self as kernels, Window};
use crate::convolution::Places;
use crate::cube::blocks::over_blocks;
use crate::cube::layout::{
    Spread, addresses, alongside, dims, element, empty, empty_map, relaid, whole_planes, width_of_maps,
};
use crate::cube::source::Source;

/// Pixels of a row that a unit computes.
const TILE: usize = 4;
/// Tiles of a row that a unit adds up for the gradient of the filters.
const TILES: usize = 8;
/// The most cubes that the gradient of the filters is divided among.
const CUBES: usize = 1024;

/// The compile-time parameters of a kernel.
fn window(Places { stride, dilation, before, .. }: Places, side: usize, tile: usize) -> Window {
    Window { side, stride, dilation, before, tile }
}

/// Computes the output.
pub(crate) fn forward(source: &Source, filters: CubeTensor, places: Places) -> CubeTensor {
    let ([batch, channels, ..], [.., side], [rows, columns]) = (dims(&source.x), dims(&filters), places.out);
    let y = empty_map(&source.x, [batch, channels, rows, columns], source.x.dtype);
    let vector = width_of_maps(&[&source.x, &y]);
    let tiles = columns.div_ceil(TILE);
    let spread = Spread::of(channels, vector, rows * tiles, 1);
    kernels::forward::launch(
        &y.client,
        spread.count(batch),
        spread.dim(),
        addresses(&[&source.x, &y]),
        vector,
        source.x.clone().into_tensor_arg(),
        channels_last(filters).into_tensor_arg(),
        source.numbers(),
        y.clone().into_tensor_arg(),
        tiles as u32,
        source.read,
        window(places, side, TILE),
        element(y.dtype),
    );
    y
}

/// The gradient of the convolution's input. Of `x`, only shape, format and layout are used.
pub(crate) fn of_input(x: &CubeTensor, filters: CubeTensor, dy: CubeTensor, places: Places) -> CubeTensor {
    let (shape @ [batch, channels, height, width], [.., side]) = (dims(x), dims(&filters));
    let (dx, dy) = (empty_map(x, shape, x.dtype), alongside(dy, x));
    let vector = width_of_maps(&[&dy, &dx]);
    // A multiple of the stride, so that a pixel of a tile meets the same columns of the filters in every tile.
    let tile = places.stride * (TILE / places.stride).max(1);
    let tiles = width.div_ceil(tile);
    let spread = Spread::of(channels, vector, height * tiles, 1);
    kernels::backward_input::launch(
        &dx.client,
        spread.count(batch),
        spread.dim(),
        addresses(&[&dy, &dx]),
        vector,
        dy.into_tensor_arg(),
        channels_last(filters).into_tensor_arg(),
        dx.clone().into_tensor_arg(),
        tiles as u32,
        window(places, side, tile),
        element(dx.dtype),
    );
    dx
}

/// The gradient of the filters `[channels, 1, side, side]`, in float32.
pub(crate) fn of_filters(source: &Source, side: usize, dy: CubeTensor, places: Places) -> CubeTensor {
    let ([batch, channels, ..], [_, _, rows, columns]) = (dims(&source.x), dims(&dy));
    let dy = alongside(dy, &source.x);
    let vector = width_of_maps(&[&source.x, &dy]);
    let stretches = columns.div_ceil(TILE * TILES);
    let tiles = columns.div_ceil(stretches * TILE);
    let spread = Spread::of(channels, vector, batch * rows * stretches, 1);
    let most = (CUBES / (spread.over_channels as usize * side)).max(1);
    let parts_of = (spread.over_pixels as usize).min(most);
    let parts = empty(&source.x, [side * side, parts_of, channels], DType::F32);
    kernels::backward_filters::launch(
        &parts.client,
        CubeCount::Static(spread.over_channels, parts_of as u32, side as u32),
        spread.dim(),
        addresses(&[&source.x, &dy, &parts]),
        vector,
        source.x.clone().into_tensor_arg(),
        dy.clone().into_tensor_arg(),
        source.numbers(),
        parts.clone().into_tensor_arg(),
        stretches as u32,
        tiles as u32,
        source.read,
        window(places, side, TILE),
        element(source.x.dtype),
    );
    let dw = empty(&source.x, [side * side, channels], DType::F32);
    over_blocks(&parts, &dw, 0..side * side, vector, 1.0);
    whole_planes(relaid(dw, [channels, 1, side, side], [1, 1, side * channels, channels]))
}

/// Filters `[channels, 1, side, side]` as `[side * side, channels]`, so that units read neighbouring channels together as they do in a
/// map.
fn channels_last(filters: CubeTensor) -> CubeTensor {
    let [channels, _, side, _] = dims(&filters);
    into_contiguous(relaid(into_contiguous(filters), [side * side, channels], [1, side * side]))
}
