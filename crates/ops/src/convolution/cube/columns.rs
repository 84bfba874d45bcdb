//! Dense convolutions as matrix products.
//!
//! What a kernel sees at a place is a row of `kernel * kernel * channels` numbers, the taps of the kernel one after the other. Such
//! rows are written for some pixels at a time, few enough to stay in a GPU's cache, and multiplied: with the filters they give the
//! output, with the output's gradient that of the filters. The gradient of the input is the product of the filters and what the
//! turned kernel sees of the output's gradient, with zeros between its pixels where places are more than one pixel apart.

use std::ops::Range;

use burn::tensor::DType;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::add;
use burn_cubecl::ops::permute;
use burn_cubecl::tensor::CubeTensor;

use super::columns_kernels::{ReachLaunch, columns};
use crate::convolution::Places;
use crate::convolution::portions::{most_stretches, rows_at_once};
use crate::cube::blocks::over_blocks;
use crate::cube::layout::{Flat, Spread, addresses, dims, element, empty, empty_map, relaid, width_of_maps};
use crate::cube::product::multiply;

/// The most numbers that a unit writes.
const EACH: usize = 8;

/// Which pixels are seen.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// Those of the input, from the pixels of the output.
    Input,
    /// Those of the output, from the pixels of the input.
    Output,
}

/// The output.
pub(crate) fn forward(x: CubeTensor, weight: CubeTensor, places: Places) -> CubeTensor {
    let ([batch, ..], [output, _, kernel, _]) = (dims(&x), dims(&weight));
    let y = empty_map(&x, [batch, output, places.out[0], places.out[1]], x.dtype);
    // [taps * input, output]
    let filters = permute(rows_of_filters(weight, &[0, 2, 3, 1]), &[1, 0]);
    products(&x, filters, &y, kernel, places, Seen::Input);
    y
}

/// The gradient of the input, of this shape.
pub(crate) fn of_input(shape: [usize; 4], weight: CubeTensor, dy: CubeTensor, places: Places) -> CubeTensor {
    let [_, _, kernel, _] = dims(&weight);
    let dx = empty_map(&dy, shape, dy.dtype);
    // [taps * output, input]
    let filters = permute(rows_of_filters(weight, &[1, 2, 3, 0]), &[1, 0]);
    products(&dy, filters, &dx, kernel, places, Seen::Output);
    dx
}

/// The gradient of filters `[output, input, kernel, kernel]`, in float32.
pub(crate) fn of_filters(x: &CubeTensor, shape: [usize; 4], dy: CubeTensor, places: Places) -> CubeTensor {
    let [output, input, kernel, _] = shape;
    let dy = Flat::of(dy).into_matrix();
    let mut sum: Option<CubeTensor> = None;
    for rows in parts_of(x, dy.meta.shape()[0], kernel * kernel * input) {
        let seen = seen(x, rows.clone(), kernel, places, places.out, Seen::Input);
        let of_rows = of_pointwise_filters(seen, part(&dy, rows));
        sum = Some(match sum {
            Some(sum) => add(sum, of_rows),
            None => of_rows,
        });
    }
    let sum = sum.expect("a map has pixels");
    let (row, tap) = (kernel * kernel * input, input);
    relaid(sum, [output, input, kernel, kernel], [row, 1, kernel * tap, tap])
}

/// Writes the products of what is seen and the filters, some rows at a time.
fn products(map: &CubeTensor, filters: CubeTensor, into: &CubeTensor, kernel: usize, places: Places, what: Seen) {
    let [batch, channels, height, width] = dims(into);
    let (all, columns) = (batch * height * width, filters.meta.shape()[0]);
    let into = relaid(into.clone(), [all, channels], [channels, 1]);
    for rows in parts_of(map, all, columns) {
        let seen = seen(map, rows.clone(), kernel, places, [height, width], what);
        multiply(seen, filters.clone(), &part(&into, rows));
    }
}

/// The ranges of rows that are written at a time.
fn parts_of(map: &CubeTensor, rows: usize, columns: usize) -> impl Iterator<Item = Range<usize>> + use<> {
    let element = map.elem_size();
    let at_once = rows_at_once(map.meta.num_elements() * element, columns * element);
    (0..rows).step_by(at_once).map(move |first| first..rows.min(first + at_once))
}

/// Some rows of a matrix.
fn part(matrix: &CubeTensor, rows: Range<usize>) -> CubeTensor {
    let ([_, columns], row) = (matrix.meta.shape().dims(), matrix.meta.strides()[0]);
    let mut part = matrix.clone();
    part.handle = part.handle.offset_start((rows.start * row * matrix.elem_size()) as u64);
    relaid(part, [rows.len(), columns], [row, 1])
}

/// What the kernel sees of `map` from pixels `rows` of maps of this height and width: `[rows, kernel * kernel * channels]`.
fn seen(
    map: &CubeTensor,
    rows: Range<usize>,
    kernel: usize,
    places: Places,
    [height, width]: [usize; 2],
    what: Seen,
) -> CubeTensor {
    let ([_, channels, ..], taps) = (dims(map), kernel * kernel);
    let matrix = empty(map, [rows.len(), taps * channels], map.dtype);
    let as_map = relaid(matrix.clone(), [1, channels, rows.len() * taps, 1], [0, 1, channels, channels]);
    let vector = width_of_maps(&[map, &as_map]);
    let spread = Spread::of(channels, vector, rows.len() * taps, EACH);
    let Places { stride, dilation, before, .. } = places;
    let reach = ReachLaunch::new(
        kernel as u32,
        stride as u32,
        dilation as u32,
        before[0] as u32,
        before[1] as u32,
        height as u32,
        width as u32,
        rows.start,
        (rows.len() * taps) as u32,
    );
    columns::launch(
        &map.client,
        spread.count(1),
        spread.dim(),
        addresses(&[map, &matrix]),
        vector,
        map.clone().into_tensor_arg(),
        as_map.into_tensor_arg(),
        reach,
        spread.each,
        what == Seen::Output,
        element(map.dtype),
    );
    matrix
}

/// Filters `[output, input, kernel, kernel]` with these axes as the rows and columns of a matrix.
fn rows_of_filters(weight: CubeTensor, axes: &[usize; 4]) -> CubeTensor {
    let turned = into_contiguous(permute(weight, axes));
    let [rows, height, width, channels] = dims(&turned);
    let columns = height * width * channels;
    relaid(turned, [rows, columns], [columns, 1])
}

/// The gradient of filters `[output, columns]`, in float32 and as a vector, from what they were multiplied with, `[rows, columns]`, and
/// the output's gradient, `[rows, output]`.
///
/// The result is small and the sum over rows is long, so one product would use few tiles and leave most of a device idle. The
/// rows are divided into stretches that are multiplied in parallel, as a batch, and the products are added up. Products are
/// float32 whatever the format of the maps.
pub(crate) fn of_pointwise_filters(x: CubeTensor, dy: CubeTensor) -> CubeTensor {
    let ([rows, columns], [_, output]) = (x.meta.shape().dims(), dy.meta.shape().dims());
    let size = columns * output;
    let parts =
        (1..=most_stretches(output, columns, rows)).rev().find(|parts| rows.is_multiple_of(*parts)).unwrap_or(1);
    let (x, dy) = (stretches(x, parts), permute(stretches(dy, parts), &[0, 2, 1]));
    let products = empty(&x, [parts, output, columns], DType::F32);
    multiply(dy, x, &products);
    let sums = relaid(products, [1, parts, size], [parts * size, size, 1]);
    let dw = empty(&sums, [size], DType::F32);
    let width = if size.is_multiple_of(4) { 4 } else { 1 };
    over_blocks(&sums, &dw, 0..1, width, 1.0);
    dw
}

/// A matrix as a batch of stretches of its rows: `[parts, rows, columns]`.
fn stretches(x: CubeTensor, parts: usize) -> CubeTensor {
    let [rows, columns] = x.meta.shape().dims();
    let row = x.meta.strides()[0];
    relaid(x, [parts, rows / parts, columns], [rows / parts * row, row, 1])
}
