//! Kernels of [`super::state`] for the devices of CubeCL: one launch for eight tensors.
//!
//! A kernel cannot index its arguments, so the eight tensors are eight parameters.

use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{CubeBackend, cubecl};
use cubecl::prelude::*;

use super::state::{AT_ONCE, BLOCKS, Eight, StateOps};
use crate::cube::layout::{UNITS, addresses, empty};

impl StateOps for CubeBackend {
    fn first_numbers(tensors: Eight<Self>) -> CubeTensor {
        first_numbers(tensors.into_array())
    }

    fn squares(tensors: Eight<Self>) -> CubeTensor {
        squares(tensors.into_array())
    }
}

/// The first number of each tensor, `[8]`.
fn first_numbers(tensors: [CubeTensor; AT_ONCE]) -> CubeTensor {
    let out = empty(&tensors[0], [AT_ONCE], DType::F32);
    let client = out.client.clone();
    let [a, b, c, d, e, f, g, h] = tensors.map(CubeTensor::into_tensor_arg);
    firsts::launch(
        &client,
        CubeCount::Static(1, 1, 1),
        CubeDim::new_1d(1),
        a,
        b,
        c,
        d,
        e,
        f,
        g,
        h,
        out.clone().into_tensor_arg(),
    );
    out
}

/// 32 partial sums of squares for each tensor, `[8 * 32]`.
fn squares(tensors: [CubeTensor; AT_ONCE]) -> CubeTensor {
    let out = empty(&tensors[0], [AT_ONCE * BLOCKS], DType::F32);
    let client = out.client.clone();
    let addresses = addresses(&tensors.each_ref());
    let [a, b, c, d, e, f, g, h] = tensors.map(CubeTensor::into_tensor_arg);
    sums_of_squares::launch(
        &client,
        CubeCount::Static(AT_ONCE as u32, BLOCKS as u32, 1),
        CubeDim::new_1d(UNITS),
        addresses,
        a,
        b,
        c,
        d,
        e,
        f,
        g,
        h,
        out.clone().into_tensor_arg(),
    );
    out
}

/// One unit copies eight numbers: it is the dependence on all tensors that is wanted, not the work.
#[cube(launch)]
fn firsts(
    a: &Tensor<f32>,
    b: &Tensor<f32>,
    c: &Tensor<f32>,
    d: &Tensor<f32>,
    e: &Tensor<f32>,
    f: &Tensor<f32>,
    g: &Tensor<f32>,
    h: &Tensor<f32>,
    out: &mut Tensor<f32>,
) {
    out[0] = a[0];
    out[1] = b[0];
    out[2] = c[0];
    out[3] = d[0];
    out[4] = e[0];
    out[5] = f[0];
    out[6] = g[0];
    out[7] = h[0];
}

/// The sum of the squares of this unit's numbers: every `units * blocks`-th of the tensor, so that neighbouring units read
/// neighbouring numbers.
#[cube]
fn of_unit(x: &Tensor<f32>) -> f32 {
    let step = (CUBE_COUNT_Y * CUBE_DIM_X) as usize;
    let (length, stride) = (x.shape(0), x.stride(0));
    let mut at = (CUBE_POS_Y * CUBE_DIM_X + UNIT_POS_X) as usize;
    let mut sum = 0.0f32;
    while at < length {
        let number = x[at * stride];
        sum += number * number;
        at += step;
    }
    sum
}

/// `CUBE_POS_X` is the tensor and `CUBE_POS_Y` the block. The units of a cube add up their numbers and then halve the number of
/// partial sums in shared memory until one is left, always in the same order.
#[cube(launch, address_type = "dynamic")]
fn sums_of_squares(
    a: &Tensor<f32>,
    b: &Tensor<f32>,
    c: &Tensor<f32>,
    d: &Tensor<f32>,
    e: &Tensor<f32>,
    f: &Tensor<f32>,
    g: &Tensor<f32>,
    h: &Tensor<f32>,
    out: &mut Tensor<f32>,
) {
    let mut sum = 0.0f32;
    if CUBE_POS_X == 0 {
        sum += of_unit(a);
    } else if CUBE_POS_X == 1 {
        sum += of_unit(b);
    } else if CUBE_POS_X == 2 {
        sum += of_unit(c);
    } else if CUBE_POS_X == 3 {
        sum += of_unit(d);
    } else if CUBE_POS_X == 4 {
        sum += of_unit(e);
    } else if CUBE_POS_X == 5 {
        sum += of_unit(f);
    } else if CUBE_POS_X == 6 {
        sum += of_unit(g);
    } else {
        sum += of_unit(h);
    }
    let mut sums = Shared::<[f32]>::new_slice(comptime!(UNITS as usize));
    let at = UNIT_POS_X as usize;
    sums[at] = sum;
    sync_cube();
    let mut left = CUBE_DIM_X;
    while left > 1 {
        left /= 2;
        if UNIT_POS_X < left {
            let other = sums[at + left as usize];
            sums[at] += other;
        }
        sync_cube();
    }
    if UNIT_POS_X == 0 {
        out[(CUBE_POS_X * CUBE_COUNT_Y + CUBE_POS_Y) as usize] = sums[0];
    }
}
