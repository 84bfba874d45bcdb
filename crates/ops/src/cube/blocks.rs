//! The second step of sums over pixels: the partial sums that the cubes of a first kernel have written are added up in order.
//!
//! With atomic additions, one kernel would be enough, but the order of the sum, and so its rounding, would differ from run to run.

use std::ops::Range;

use burn_cubecl::cubecl;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::layout::{Spread, addresses};
use super::read::over_rows;

/// Adds up the second axis of `sums` `[places, blocks, channels]` and multiplies by a factor, for a range of the first axis, `width`
/// channels at a time. `out` is `[places.len(), channels]`.
pub(crate) fn over_blocks(sums: &CubeTensor, out: &CubeTensor, places: Range<usize>, width: usize, factor: f32) {
    let [_, blocks, channels] = sums.meta.shape().dims();
    let spread = Spread::of_sums(channels, width, blocks);
    blocks::launch(
        &sums.client,
        CubeCount::Static(spread.over_channels, 1, places.len() as u32),
        spread.dim(),
        addresses(&[sums]),
        width,
        sums.clone().into_tensor_arg(),
        out.clone().into_tensor_arg(),
        places.start as u32,
        factor,
    );
}

/// `CUBE_POS_Z` is the place, counted from `first`. The rows of a cube share the blocks, each adding up every `CUBE_DIM_Y`-th, and are
/// then added up in shared memory.
#[cube(launch, address_type = "dynamic")]
fn blocks<N: Size>(sums: &Tensor<Vector<f32, N>>, out: &mut Tensor<Vector<f32, N>>, first: u32, factor: f32) {
    let vectors = sums.shape(2) / N::value();
    let blocks = sums.shape(1);
    let vector = (CUBE_POS_X * CUBE_DIM_X + UNIT_POS_X) as usize;
    let index = CUBE_POS_Z as usize;
    let mut sum = Vector::<f32, N>::new(0.0);
    if vector < vectors {
        let mut block = UNIT_POS_Y as usize;
        while block < blocks {
            sum += sums[((first as usize + index) * blocks + block) * vectors + vector];
            block += CUBE_DIM_Y as usize;
        }
    }
    let sum = over_rows::<N>(sum);
    if UNIT_POS_Y == 0 && vector < vectors {
        out[index * vectors + vector] = sum * Vector::new(factor);
    }
}
