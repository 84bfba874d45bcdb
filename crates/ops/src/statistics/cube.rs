//! Mean and variance of each channel of each group, by two kernels.
//!
//! In the first, each unit goes over its pixels with Welford's update, and the units of a cube merge their results by Chan's rule.
//! In the second, the results of all cubes of a group's samples are merged. A variance is made of differences from the mean, so its
//! digits do not cancel however large the mean is. The order is fixed, so every run gives the same bits.

use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{CubeBackend, cubecl};
use cubecl::prelude::*;

use super::{Statistics, SumsOverGroups};
use crate::cube::layout::{Flat, Groups, Spread, addresses, element, empty, width_of};
use crate::cube::place::{at, place_of_unit};
use crate::cube::read::{GroupSizes, first_of, samples_of};
use crate::cube::units::UNITS;

/// The most pixels that a unit takes.
const EACH: usize = 32;

impl Statistics for CubeBackend {
    fn statistics(x: CubeTensor, groups: Vec<usize>) -> CubeTensor {
        statistics(x, &groups)
    }
}

/// `[2, groups, channels]`: means, then biased variances.
fn statistics(x: CubeTensor, sizes: &[usize]) -> CubeTensor {
    let x = Flat::of(x);
    let width = width_of(&[&x]);
    let spread = Spread::of(x.channels, width, x.pixels, EACH);
    let groups = Groups::of(sizes);
    let blocks = spread.over_pixels as usize;
    let parts = empty(&x.tensor, [2, x.samples * blocks, x.channels], DType::F32);
    let client = x.tensor.client.clone();
    of_blocks::launch(
        &client,
        spread.count(x.samples),
        spread.dim(),
        addresses(&[&x.tensor, &parts]),
        width,
        x.arg(),
        parts.clone().into_tensor_arg(),
        spread.each,
        element(x.tensor.dtype),
    );
    let out = empty(&x.tensor, [2, groups.count, x.channels], DType::F32);
    merged::launch(
        &client,
        CubeCount::Static(spread.over_channels, 1, groups.count as u32),
        spread.dim(),
        addresses(&[&parts]),
        width,
        parts.into_tensor_arg(),
        out.clone().into_tensor_arg(),
        x.pixels as u32,
        blocks as u32,
        spread.each,
        groups.sizes(),
    );
    out
}

impl SumsOverGroups for CubeBackend {
    fn sums_over_groups(statistics: CubeTensor, groups: Vec<usize>, pixels: usize) -> (CubeTensor, CubeTensor) {
        let [_, _, channels] = statistics.meta.shape().dims();
        let [means, variances] = [(); 2].map(|()| empty(&statistics, [channels], DType::F32));
        sums::launch(
            &statistics.client.clone(),
            CubeCount::Static(channels.div_ceil(UNITS as usize) as u32, 1, 1),
            CubeDim::new_1d(UNITS),
            addresses(&[&statistics]),
            statistics.into_tensor_arg(),
            means.clone().into_tensor_arg(),
            variances.clone().into_tensor_arg(),
            pixels as u32,
            Groups::of(&groups).sizes(),
        );
        (means, variances)
    }
}

/// Running statistics: how many numbers were seen, their mean, and the sum of the squared differences from the mean.
#[derive(CubeType, Clone, Copy)]
struct Seen<N: Size> {
    count: f32,
    mean: Vector<f32, N>,
    squares: Vector<f32, N>,
}

/// Merges two running statistics by Chan's rule (Chan, Golub and LeVeque, 1979).
#[cube]
fn merge<N: Size>(a: Seen<N>, b: Seen<N>) -> Seen<N> {
    let count = a.count + b.count;
    // Two empty statistics give an empty one: `max` avoids 0 / 0.
    let share = b.count / max(count, 1.0);
    let difference = b.mean - a.mean;
    let between = difference * difference * Vector::new(a.count * share);
    Seen::<N> { count, mean: a.mean + difference * Vector::new(share), squares: a.squares + b.squares + between }
}

/// Merges the statistics of the rows of a cube, for each lane of channels: in each round the upper half of the rows is merged into
/// the lower half, in shared memory. All units of the cube must call this, since it synchronises; units of the first row get the
/// result.
#[cube]
fn merge_rows<N: Size>(mine: Seen<N>) -> Seen<N> {
    let mut counts = Shared::<[f32]>::new_slice(comptime!(UNITS as usize));
    let mut means = Shared::<[Vector<f32, N>]>::new_slice(comptime!(UNITS as usize));
    let mut squares = Shared::<[Vector<f32, N>]>::new_slice(comptime!(UNITS as usize));
    let at = UNIT_POS as usize;
    counts[at] = mine.count;
    means[at] = mine.mean;
    squares[at] = mine.squares;
    sync_cube();
    let mut rows = CUBE_DIM_Y;
    while rows > 1 {
        let half = rows.div_ceil(2);
        if UNIT_POS_Y + half < rows {
            let other = at + (half * CUBE_DIM_X) as usize;
            let lower = Seen::<N> { count: counts[at], mean: means[at], squares: squares[at] };
            let upper = Seen::<N> { count: counts[other], mean: means[other], squares: squares[other] };
            let both = merge::<N>(lower, upper);
            counts[at] = both.count;
            means[at] = both.mean;
            squares[at] = both.squares;
        }
        rows = half;
        sync_cube();
    }
    Seen::<N> { count: counts[at], mean: means[at], squares: squares[at] }
}

/// Mean and squared differences of each block of pixels of each plane: `parts` `[2, samples * blocks, channels]`.
///
/// `CUBE_POS_X` and `UNIT_POS_X` choose `N` channels, `CUBE_POS_Y` the block of pixels, `CUBE_POS_Z` the sample. A unit takes `each`
/// pixels that are `CUBE_DIM_Y` apart; with channels last, the units of a row read consecutive memory.
#[cube(launch, address_type = "dynamic")]
fn of_blocks<F: Float, N: Size>(
    x: &Tensor<Vector<F, N>>,
    parts: &mut Tensor<Vector<f32, N>>,
    each: u32,
    #[define(F)] _element: ElemType,
) {
    let vectors = x.shape(1) / N::value();
    let place = place_of_unit(each);
    let pixels = x.shape(2);
    let mut count = 0.0f32;
    let mut mean = Vector::<f32, N>::new(0.0);
    let mut squares = Vector::<f32, N>::new(0.0);
    if place.vector < vectors {
        let mut pixel = place.pixel;
        for _ in 0..each {
            if pixel < pixels {
                let value = Vector::<f32, N>::cast_from(x[at::<F, N>(x, &place, pixel)]);
                count += 1.0;
                let difference = value - mean;
                mean += difference * Vector::new(1.0 / count);
                squares += difference * (value - mean);
            }
            pixel += CUBE_DIM_Y as usize;
        }
    }
    let seen = merge_rows::<N>(Seen::<N> { count, mean, squares });
    if UNIT_POS_Y == 0 && place.vector < vectors {
        let block = (CUBE_POS_Z * CUBE_COUNT_Y + CUBE_POS_Y) as usize;
        let of_blocks = parts.shape(1);
        parts[block * vectors + place.vector] = seen.mean;
        parts[(of_blocks + block) * vectors + place.vector] = seen.squares;
    }
}

/// Merges the blocks of all samples of each group and writes mean and biased variance: `out` `[2, groups, channels]`.
///
/// `CUBE_POS_Z` is the group. The rows of a cube share the blocks, each taking every `CUBE_DIM_Y`-th.
#[cube(launch, address_type = "dynamic")]
fn merged<N: Size>(
    parts: &Tensor<Vector<f32, N>>,
    out: &mut Tensor<Vector<f32, N>>,
    pixels: u32,
    blocks: u32,
    each: u32,
    sizes: GroupSizes,
) {
    let vectors = parts.shape(2) / N::value();
    let of_blocks = parts.shape(1);
    let vector = (CUBE_POS_X * CUBE_DIM_X + UNIT_POS_X) as usize;
    let group = CUBE_POS_Z;
    let (start, samples) = (first_of(group, &sizes), samples_of(group, &sizes));
    let mut seen_count = 0.0f32;
    let mut mean = Vector::<f32, N>::new(0.0);
    let mut squares = Vector::<f32, N>::new(0.0);
    if vector < vectors {
        let mut at = UNIT_POS_Y;
        while at < samples * blocks {
            let block = at % blocks;
            // The number of pixels that a cube of the first kernel has taken. Only the last block may be smaller.
            let first = block * CUBE_DIM_Y * each;
            let count = min(pixels - first, CUBE_DIM_Y * each);
            let index = (start * blocks + at) as usize;
            let next = Seen::<N> {
                count: count as f32,
                mean: parts[index * vectors + vector],
                squares: parts[(of_blocks + index) * vectors + vector],
            };
            let both = merge::<N>(Seen::<N> { count: seen_count, mean, squares }, next);
            seen_count = both.count;
            mean = both.mean;
            squares = both.squares;
            at += CUBE_DIM_Y;
        }
    }
    let seen = merge_rows::<N>(Seen::<N> { count: seen_count, mean, squares });
    if UNIT_POS_Y == 0 && vector < vectors {
        let groups = out.shape(1);
        let group = group as usize;
        out[group * vectors + vector] = seen.mean;
        out[(groups + group) * vectors + vector] = seen.squares / Vector::new(seen.count);
    }
}

/// A unit adds up the groups of its channel, one after the other.
#[cube(launch, address_type = "dynamic")]
fn sums(
    statistics: &Tensor<f32>,
    means: &mut Tensor<f32>,
    variances: &mut Tensor<f32>,
    pixels: u32,
    sizes: GroupSizes,
) {
    let channel = (CUBE_POS_X * CUBE_DIM_X + UNIT_POS_X) as usize;
    if channel < statistics.shape(2) {
        let mut mean = 0.0f32;
        let mut variance = 0.0f32;
        for group in 0..statistics.shape(1) {
            let at = group * statistics.stride(1) + channel * statistics.stride(2);
            let count = f32::cast_from(samples_of(group as u32, &sizes) * pixels);
            mean += statistics[at];
            // Bessel's correction, see `super::bessel`.
            variance += statistics[statistics.stride(0) + at] * (count / max(count - 1.0, 1.0));
        }
        means[channel] = mean;
        variances[channel] = variance;
    }
}
