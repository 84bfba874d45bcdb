//! The sum of all numbers by one kernel, which is launched once for small tensors and twice for large ones: the first launch leaves a
//! partial sum for each cube, and the second adds these up.

use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{CubeBackend, cubecl};
use cubecl::ir::ElemType;
use cubecl::prelude::*;

use super::Sum;
use crate::cube::layout::{addresses, cast, element, empty};
use crate::cube::units::{UNITS, sum_of_cube};

/// Numbers that a unit takes before a further cube is launched.
const EACH: usize = 16;
/// The most cubes: enough to fill any GPU, and no more than one cube adds up in a few rounds.
const MOST_CUBES: usize = 1024;

impl Sum for CubeBackend {
    fn sum(x: CubeTensor) -> CubeTensor {
        let dtype = x.dtype;
        let cubes = x.meta.num_elements().div_ceil(UNITS as usize * EACH).clamp(1, MOST_CUBES);
        let parts = sums_of_cubes(x, cubes);
        cast(if cubes > 1 { sums_of_cubes(parts, 1) } else { parts }, dtype)
    }
}

/// The sums of `cubes` shares of `x` `[n]`: `[cubes]` float32.
fn sums_of_cubes(x: CubeTensor, cubes: usize) -> CubeTensor {
    let out = empty(&x, [cubes], DType::F32);
    sums::launch(
        &x.client.clone(),
        CubeCount::Static(cubes as u32, 1, 1),
        CubeDim::new_1d(UNITS),
        addresses(&[&x]),
        x.clone().into_tensor_arg(),
        out.clone().into_tensor_arg(),
        element(x.dtype),
    );
    out
}

/// Each unit adds up every `units * cubes`-th number, so that neighbouring units read neighbouring numbers. Then the units of a cube add
/// up their sums.
#[cube(launch, address_type = "dynamic")]
fn sums<F: Float>(x: &Tensor<F>, out: &mut Tensor<f32>, #[define(F)] _element: ElemType) {
    let (length, apart) = (x.shape(0), x.stride(0));
    let mut at = (CUBE_POS_X * CUBE_DIM_X + UNIT_POS_X) as usize;
    let mut sum = 0.0f32;
    while at < length {
        sum += f32::cast_from(x[at * apart]);
        at += (CUBE_COUNT_X * CUBE_DIM_X) as usize;
    }
    let sum = sum_of_cube(sum);
    if UNIT_POS_X == 0 {
        out[CUBE_POS_X as usize] = sum;
    }
}
