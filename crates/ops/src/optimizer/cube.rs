//! Kernels of [`super::state`] and [`super::adamw`] for the devices of CubeCL: one launch for eight tensors.
//!
//! A kernel takes sequences of tensors, whose length is known when it is compiled. `CUBE_POS_X` is the tensor that a cube works on. The
//! cubes along y share the tensor's numbers: a unit takes every `units * cubes`-th, so that neighbouring units read neighbouring
//! numbers.

use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{CubeBackend, cubecl};
use cubecl::prelude::*;

use super::adamw::{AdamWStep, Updated, UpdatesAtOnce};
use super::state::{AT_ONCE, BLOCKS, Eight, StateOps};
use crate::cube::layout::{addresses, empty};
use crate::cube::units::{UNITS, sum_of_cube};

/// Numbers that a unit takes before a further cube is launched.
const EACH: usize = 8;
/// The most cubes for a tensor: enough to fill any GPU.
const MOST_CUBES: usize = 1024;
/// Bindings of a kernel that are not tensors: shapes with strides, and scalars.
const NOT_TENSORS: usize = 2;
/// Tensors that an update of one parameter reads or writes.
const OF_UPDATE: usize = 7;
/// Tensors that an interpolation reads or writes.
const OF_LERP: usize = 3;

impl StateOps for CubeBackend {
    fn first_numbers(tensors: Eight<Self>) -> CubeTensor {
        let tensors = tensors.into_array();
        let out = empty(&tensors[0], [AT_ONCE], DType::F32);
        firsts::launch(
            &out.client.clone(),
            CubeCount::Static(1, 1, 1),
            CubeDim::new_1d(1),
            args(tensors),
            out.clone().into_tensor_arg(),
        );
        out
    }

    fn squares(tensors: Eight<Self>, _: usize) -> CubeTensor {
        let tensors = tensors.into_array();
        let out = empty(&tensors[0], [AT_ONCE * BLOCKS], DType::F32);
        sums_of_squares::launch(
            &out.client.clone(),
            CubeCount::Static(AT_ONCE as u32, BLOCKS as u32, 1),
            CubeDim::new_1d(UNITS),
            addresses(&tensors.each_ref()),
            args(tensors),
            out.clone().into_tensor_arg(),
        );
        out
    }

    fn lerp(from: Eight<Self>, to: Eight<Self>, count: usize, factor: f32, share: f32) -> Eight<Self> {
        let from = some_of(from, count);
        let mut moved = Vec::new();
        for (from, to) in in_launches(&from, OF_LERP).zip(in_launches(&some_of(to, count), OF_LERP)) {
            let out = like(from);
            lerps::launch(
                &from[0].client.clone(),
                cubes(from),
                CubeDim::new_1d(UNITS),
                addresses(&from.iter().chain(to).chain(&out).collect::<Vec<_>>()),
                args(from.to_vec()),
                args(to.to_vec()),
                args(out.clone()),
                factor,
                share,
            );
            moved.extend(out);
        }
        filled_up(moved)
    }
}

impl UpdatesAtOnce for CubeBackend {
    fn adamw_at_once(
        weights: Eight<Self>,
        gradients: Eight<Self>,
        firsts: Eight<Self>,
        seconds: Eight<Self>,
        count: usize,
        step: AdamWStep,
    ) -> Updated<Self> {
        let old = [weights, gradients, firsts, seconds].map(|tensors| some_of(tensors, count));
        let mut new = [const { Vec::new() }; 3];
        let mut old = old.each_ref().map(|tensors| in_launches(tensors, OF_UPDATE));
        while let [Some(weights), Some(gradients), Some(firsts), Some(seconds)] = old.each_mut().map(Iterator::next) {
            let made = [weights, firsts, seconds].map(like);
            let all = weights.iter().chain(gradients).chain(firsts).chain(seconds).chain(made.iter().flatten());
            updates::launch(
                &weights[0].client.clone(),
                cubes(weights),
                CubeDim::new_1d(UNITS),
                addresses(&all.collect::<Vec<_>>()),
                args(weights.to_vec()),
                args(gradients.to_vec()),
                args(firsts.to_vec()),
                args(seconds.to_vec()),
                args(made[0].clone()),
                args(made[1].clone()),
                args(made[2].clone()),
                StepLaunch::new(
                    step.scale,
                    step.betas[0],
                    step.betas[1],
                    1.0 / step.corrections[0],
                    1.0 / step.corrections[1],
                    step.epsilon,
                    step.keep,
                    step.rate,
                ),
            );
            new.iter_mut().zip(made).for_each(|(new, made)| new.extend(made));
        }
        let [weights, firsts, seconds] = new.map(filled_up);
        Updated { weights, firsts, seconds }
    }
}

/// The first `count` of eight tensors, at least one.
fn some_of(tensors: Eight<CubeBackend>, count: usize) -> Vec<CubeTensor> {
    let mut tensors = tensors.into_array().to_vec();
    tensors.truncate(count.max(1));
    tensors
}

/// Eight tensors again. The placeholders are copies of the last.
fn filled_up(tensors: Vec<CubeTensor>) -> Eight<CubeBackend> {
    Eight::of(std::array::from_fn(|place| tensors[place.min(tensors.len() - 1)].clone()))
}

/// Chunks of tensors for one launch each. A kernel has `each` bindings for a tensor, and devices limit their number.
fn in_launches(tensors: &[CubeTensor], each: usize) -> std::slice::Chunks<'_, CubeTensor> {
    let bindings = tensors[0].client.properties().hardware.max_bindings as usize;
    tensors.chunks((bindings.saturating_sub(NOT_TENSORS) / each).clamp(1, AT_ONCE))
}

/// New tensors of the same lengths.
fn like(tensors: &[CubeTensor]) -> Vec<CubeTensor> {
    tensors.iter().map(|tensor| empty(tensor, [tensor.meta.num_elements()], DType::F32)).collect()
}

/// A row of cubes for each tensor, as long as the largest tensor needs.
fn cubes(tensors: &[CubeTensor]) -> CubeCount {
    let longest = tensors.iter().map(|tensor| tensor.meta.num_elements()).max().unwrap_or(0);
    let cubes = longest.div_ceil(UNITS as usize * EACH).clamp(1, MOST_CUBES);
    CubeCount::Static(tensors.len() as u32, cubes as u32, 1)
}

fn args(tensors: impl IntoIterator<Item = CubeTensor>) -> SequenceArg<OwnedTensor<f32>> {
    tensors.into_iter().map(CubeTensor::into_tensor_arg).collect()
}

/// One unit copies a number of each tensor: it is the dependence on all tensors that is wanted, not the work.
#[cube(launch)]
fn firsts(tensors: &Sequence<OwnedTensor<f32>>, out: &mut Tensor<f32>) {
    #[unroll]
    for place in 0..tensors.len() {
        out[place] = tensors[place][0];
    }
}

/// The first number that this unit takes of a tensor. The next is [`stride()`] further.
#[cube]
fn start() -> usize {
    (CUBE_POS_Y * CUBE_DIM_X + UNIT_POS_X) as usize
}

/// The number of units that share a tensor.
#[cube]
fn stride() -> usize {
    (CUBE_COUNT_Y * CUBE_DIM_X) as usize
}

/// The sum of the squares of this unit's numbers.
#[cube]
fn of_unit(x: &OwnedTensor<f32>) -> f32 {
    let (length, apart) = (x.shape(0), x.stride(0));
    let mut at = start();
    let mut sum = 0.0f32;
    while at < length {
        let number = x[at * apart];
        sum += number * number;
        at += stride();
    }
    sum
}

/// The units of a cube add up the squares of their numbers, and then their sums.
#[cube(launch, address_type = "dynamic")]
fn sums_of_squares(tensors: &Sequence<OwnedTensor<f32>>, out: &mut Tensor<f32>) {
    let mut sum = 0.0f32;
    #[unroll]
    for place in 0..tensors.len() {
        if CUBE_POS_X as usize == place {
            sum += of_unit(&tensors[place]);
        }
    }
    let sum = sum_of_cube(sum);
    if UNIT_POS_X == 0 {
        out[(CUBE_POS_X * CUBE_COUNT_Y + CUBE_POS_Y) as usize] = sum;
    }
}

#[cube(launch, address_type = "dynamic")]
fn lerps(
    from: &Sequence<OwnedTensor<f32>>,
    to: &Sequence<OwnedTensor<f32>>,
    out: &mut Sequence<OwnedTensor<f32>>,
    factor: f32,
    share: f32,
) {
    #[unroll]
    for place in 0..from.len() {
        if CUBE_POS_X as usize == place {
            lerp(&from[place], &to[place], &mut out[place], factor, share);
        }
    }
}

#[cube]
fn lerp(from: &OwnedTensor<f32>, to: &OwnedTensor<f32>, out: &mut OwnedTensor<f32>, factor: f32, share: f32) {
    let length = out.shape(0);
    let mut at = start();
    while at < length {
        let old = from[at * from.stride(0)];
        out[at] = old + share * (factor * to[at * to.stride(0)] - old);
        at += stride();
    }
}

/// [`AdamWStep`] with the reciprocals of its corrections, since multiplying is faster than dividing.
#[derive(CubeType, CubeLaunch)]
struct Step {
    scale: f32,
    beta_1: f32,
    beta_2: f32,
    inverse_correction_1: f32,
    inverse_correction_2: f32,
    epsilon: f32,
    keep: f32,
    rate: f32,
}

#[cube(launch, address_type = "dynamic")]
fn updates(
    weights: &Sequence<OwnedTensor<f32>>,
    gradients: &Sequence<OwnedTensor<f32>>,
    firsts: &Sequence<OwnedTensor<f32>>,
    seconds: &Sequence<OwnedTensor<f32>>,
    new_weights: &mut Sequence<OwnedTensor<f32>>,
    new_firsts: &mut Sequence<OwnedTensor<f32>>,
    new_seconds: &mut Sequence<OwnedTensor<f32>>,
    step: Step,
) {
    #[unroll]
    for place in 0..weights.len() {
        if CUBE_POS_X as usize == place {
            update(
                &weights[place],
                &gradients[place],
                &firsts[place],
                &seconds[place],
                &mut new_weights[place],
                &mut new_firsts[place],
                &mut new_seconds[place],
                &step,
            );
        }
    }
}

#[cube]
fn update(
    weight: &OwnedTensor<f32>,
    gradient: &OwnedTensor<f32>,
    first: &OwnedTensor<f32>,
    second: &OwnedTensor<f32>,
    new_weight: &mut OwnedTensor<f32>,
    new_first: &mut OwnedTensor<f32>,
    new_second: &mut OwnedTensor<f32>,
    step: &Step,
) {
    let length = new_weight.shape(0);
    let mut at = start();
    while at < length {
        let slope = gradient[at * gradient.stride(0)] * step.scale;
        let mean = first[at * first.stride(0)] * step.beta_1 + slope * (1.0 - step.beta_1);
        let square = second[at * second.stride(0)] * step.beta_2 + slope * slope * (1.0 - step.beta_2);
        let root = (square * step.inverse_correction_2).sqrt();
        let way = mean * step.inverse_correction_1 / (root + step.epsilon);
        new_weight[at] = weight[at * weight.stride(0)] * step.keep - way * step.rate;
        new_first[at] = mean;
        new_second[at] = square;
        at += stride();
    }
}
