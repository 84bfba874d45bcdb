//! Kernels that read a map through its normalisation, activation and gate.
//!
//! All of them see a map as `[samples, channels, pixels]` and divide it alike ([`crate::cube::layout::Spread`]): `CUBE_POS_Z` is the
//! sample, `CUBE_POS_X` and `UNIT_POS_X` choose `N` neighbouring channels, `CUBE_POS_Y` a block of pixels. A unit loads what is applied
//! to its channels once, into registers, and then goes over `each` pixels of the block that are `CUBE_DIM_Y` apart. With channels
//! last, the units of a row read consecutive memory. What is read, and with what activation, is known when a kernel is compiled.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use crate::activation::Activation;
use crate::activation::cube::value;
use crate::cube::read::{
    Applied, GroupSizes, Read, group_of, normal, numbers, of_normal, over_rows, reading, samples_of,
};

/// Writes the whole map; with `join`, that activation of its sum with the shortcut.
#[cube(launch, address_type = "dynamic")]
pub(crate) fn apply<F: Float, N: Size>(
    x: &Tensor<Vector<F, N>>,
    applied: &Applied<N>,
    shortcut: &Tensor<Vector<F, N>>,
    y: &mut Tensor<Vector<F, N>>,
    each: u32,
    #[comptime] read: Read,
    #[comptime] join: Option<Activation>,
    #[define(F)] _element: ElemType,
) {
    let vectors = x.shape(1) / N::value();
    let vector = (CUBE_POS_X * CUBE_DIM_X + UNIT_POS_X) as usize;
    let sample = CUBE_POS_Z as usize;
    let pixels = x.shape(2);
    if vector < vectors {
        let of = numbers::<N>(applied, vectors, vector, CUBE_POS_Z, read);
        let channel = vector * N::value();
        let mut pixel = (CUBE_POS_Y * CUBE_DIM_Y * each + UNIT_POS_Y) as usize;
        for _ in 0..each {
            if pixel < pixels {
                let from = sample * x.stride(0) + channel * x.stride(1) + pixel * x.stride(2);
                let to = sample * y.stride(0) + channel * y.stride(1) + pixel * y.stride(2);
                let mut out = reading::<N>(Vector::cast_from(x[from / N::value()]), &of, read);
                if comptime!(join.is_some()) {
                    let other = sample * shortcut.stride(0) + channel * shortcut.stride(1) + pixel * shortcut.stride(2);
                    let sum = out + Vector::cast_from(shortcut[other / N::value()]);
                    out = value::<N>(sum, comptime!(join.unwrap_or(Activation::Identity)));
                }
                y[to / N::value()] = Vector::cast_from(out);
            }
            pixel += CUBE_DIM_Y as usize;
        }
    }
}

/// The gradient of a sum that a ReLU follows, from the output `y` and its gradient: `dy` where `y` is above zero, and zero elsewhere.
#[cube(launch, address_type = "dynamic")]
pub(crate) fn of_sum<F: Float, N: Size>(
    y: &Tensor<Vector<F, N>>,
    dy: &Tensor<Vector<F, N>>,
    out: &mut Tensor<Vector<F, N>>,
    each: u32,
    #[define(F)] _element: ElemType,
) {
    let vector = (CUBE_POS_X * CUBE_DIM_X + UNIT_POS_X) as usize;
    let sample = CUBE_POS_Z as usize;
    if vector < y.shape(1) / N::value() {
        let channel = vector * N::value();
        let mut pixel = (CUBE_POS_Y * CUBE_DIM_Y * each + UNIT_POS_Y) as usize;
        for _ in 0..each {
            if pixel < y.shape(2) {
                let from = sample * y.stride(0) + channel * y.stride(1) + pixel * y.stride(2);
                let at = sample * dy.stride(0) + channel * dy.stride(1) + pixel * dy.stride(2);
                let to = sample * out.stride(0) + channel * out.stride(1) + pixel * out.stride(2);
                let zero = Vector::<F, N>::new(F::new(0.0));
                let above = y[from / N::value()].greater_than(&zero);
                out[to / N::value()] = select_many(above, dy[at / N::value()], zero);
            }
            pixel += CUBE_DIM_Y as usize;
        }
    }
}

/// Sums of the values that are read, over a block of pixels of each plane: `sums` `[samples, blocks, channels]`. The units of a cube add up
/// their sums in shared memory; `crate::cube::blocks` adds up the blocks.
#[cube(launch, address_type = "dynamic")]
pub(crate) fn sums_of_planes<F: Float, N: Size>(
    x: &Tensor<Vector<F, N>>,
    applied: &Applied<N>,
    sums: &mut Tensor<Vector<f32, N>>,
    each: u32,
    #[comptime] read: Read,
    #[define(F)] _element: ElemType,
) {
    let vectors = x.shape(1) / N::value();
    let vector = (CUBE_POS_X * CUBE_DIM_X + UNIT_POS_X) as usize;
    let sample = CUBE_POS_Z as usize;
    let pixels = x.shape(2);
    let mut sum = Vector::<f32, N>::new(0.0);
    if vector < vectors {
        let of = numbers::<N>(applied, vectors, vector, CUBE_POS_Z, read);
        let channel = vector * N::value();
        let mut pixel = (CUBE_POS_Y * CUBE_DIM_Y * each + UNIT_POS_Y) as usize;
        for _ in 0..each {
            if pixel < pixels {
                let from = sample * x.stride(0) + channel * x.stride(1) + pixel * x.stride(2);
                sum += reading::<N>(Vector::cast_from(x[from / N::value()]), &of, read);
            }
            pixel += CUBE_DIM_Y as usize;
        }
    }
    let sum = over_rows::<N>(sum);
    if UNIT_POS_Y == 0 && vector < vectors {
        let blocks = CUBE_COUNT_Y as usize;
        sums[(sample * blocks + CUBE_POS_Y as usize) * vectors + vector] = sum;
    }
}

/// The sums that the gradients need, over a block of pixels of each plane: `sums` `[2 or 3, samples, blocks, channels]`. They are the
/// sums of the gradient of the normalised values, of that gradient times the normalised values before scale and shift, and, if there is
/// a gate, of the gate's gradient.
#[cube(launch, address_type = "dynamic")]
pub(crate) fn sums_of_gradients<F: Float, N: Size>(
    x: &Tensor<Vector<F, N>>,
    dy: &Tensor<Vector<F, N>>,
    applied: &Applied<N>,
    sums: &mut Tensor<Vector<f32, N>>,
    each: u32,
    #[comptime] read: Read,
    #[define(F)] _element: ElemType,
) {
    let vectors = x.shape(1) / N::value();
    let vector = (CUBE_POS_X * CUBE_DIM_X + UNIT_POS_X) as usize;
    let sample = CUBE_POS_Z as usize;
    let pixels = x.shape(2);
    let mut of_gate = Vector::<f32, N>::new(0.0);
    let mut plain = Vector::<f32, N>::new(0.0);
    let mut weighted = Vector::<f32, N>::new(0.0);
    if vector < vectors {
        let of = numbers::<N>(applied, vectors, vector, CUBE_POS_Z, read);
        let channel = vector * N::value();
        let mut pixel = (CUBE_POS_Y * CUBE_DIM_Y * each + UNIT_POS_Y) as usize;
        for _ in 0..each {
            if pixel < pixels {
                let from = sample * x.stride(0) + channel * x.stride(1) + pixel * x.stride(2);
                let at = sample * dy.stride(0) + channel * dy.stride(1) + pixel * dy.stride(2);
                let value_x = Vector::<f32, N>::cast_from(x[from / N::value()]);
                let value_dy = Vector::<f32, N>::cast_from(dy[at / N::value()]);
                if comptime!(read.gated) {
                    of_gate += value_dy * value::<N>(normal::<N>(value_x, &of, read), comptime!(read.activation));
                }
                let dz = of_normal::<N>(value_x, value_dy, &of, read);
                plain += dz;
                weighted += dz * ((value_x - of.mean) * of.inverse);
            }
            pixel += CUBE_DIM_Y as usize;
        }
    }
    let plain = over_rows::<N>(plain);
    let weighted = over_rows::<N>(weighted);
    let of_planes = (CUBE_COUNT_Z * CUBE_COUNT_Y) as usize;
    let at = sample * CUBE_COUNT_Y as usize + CUBE_POS_Y as usize;
    let first = UNIT_POS_Y == 0 && vector < vectors;
    if first {
        sums[at * vectors + vector] = plain;
        sums[(of_planes + at) * vectors + vector] = weighted;
    }
    if comptime!(read.gated) {
        let of_gate = over_rows::<N>(of_gate);
        if first {
            sums[(2 * of_planes + at) * vectors + vector] = of_gate;
        }
    }
}

/// Adds up the sums of planes `[2, samples, channels]` over the samples of each group, `[2, groups, channels]`, and over all samples.
/// The latter are the gradients of shift and scale, `[channels]`.
///
/// One unit does this for `N` channels, in the order of the samples; `CUBE_POS_Y` says which of the two sums.
#[cube(launch, address_type = "dynamic")]
pub(crate) fn over_groups<N: Size>(
    sums: &Tensor<Vector<f32, N>>,
    of_groups: &mut Tensor<Vector<f32, N>>,
    of_shift: &mut Tensor<Vector<f32, N>>,
    of_scale: &mut Tensor<Vector<f32, N>>,
    sizes: GroupSizes,
) {
    let samples = sums.shape(1);
    let vectors = sums.shape(2) / N::value();
    let vector = (CUBE_POS_X * CUBE_DIM_X + UNIT_POS_X) as usize;
    // 0 for the plain sums, 1 for the weighted ones.
    let which = CUBE_POS_Y as usize;
    let groups = of_groups.shape(1);
    if UNIT_POS_Y == 0 && vector < vectors {
        let mut total = Vector::<f32, N>::new(0.0);
        let mut sample = 0usize;
        for group in 0..groups {
            let mut sum = Vector::<f32, N>::new(0.0);
            for _ in 0..samples_of(group as u32, &sizes) {
                sum += sums[(which * samples + sample) * vectors + vector];
                sample += 1;
            }
            of_groups[(which * groups + group) * vectors + vector] = sum;
            total += sum;
        }
        if which == 0 {
            of_shift[vector] = total;
        } else {
            of_scale[vector] = total;
        }
    }
}

/// The gradient of the input of a normalisation, from the gradient of the values that were read and the sums over groups.
///
/// With the gradient `dz` of the normalised values, `m` pixels in a group, and `h = (x - mean) / deviation`, it is
/// `scale / deviation * (dz - sum(dz) / m - h * sum(dz * h) / m)`.
#[cube(launch, address_type = "dynamic")]
pub(crate) fn backward<F: Float, N: Size>(
    x: &Tensor<Vector<F, N>>,
    dy: &Tensor<Vector<F, N>>,
    applied: &Applied<N>,
    of_groups: &Tensor<Vector<f32, N>>,
    dx: &mut Tensor<Vector<F, N>>,
    each: u32,
    #[comptime] read: Read,
    #[define(F)] _element: ElemType,
) {
    let vectors = x.shape(1) / N::value();
    let vector = (CUBE_POS_X * CUBE_DIM_X + UNIT_POS_X) as usize;
    let sample = CUBE_POS_Z as usize;
    let pixels = x.shape(2);
    if vector < vectors {
        let of = numbers::<N>(applied, vectors, vector, CUBE_POS_Z, read);
        let (group, groups) = (group_of(CUBE_POS_Z, &applied.groups), of_groups.shape(1));
        let samples = samples_of(group as u32, &applied.groups);
        let share = Vector::<f32, N>::new(1.0 / (samples as f32 * pixels as f32));
        let centre = of_groups[group * vectors + vector] * share;
        let slope = of_groups[(groups + group) * vectors + vector] * share * of.inverse;
        let channel = vector * N::value();
        let mut pixel = (CUBE_POS_Y * CUBE_DIM_Y * each + UNIT_POS_Y) as usize;
        for _ in 0..each {
            if pixel < pixels {
                let from = sample * x.stride(0) + channel * x.stride(1) + pixel * x.stride(2);
                let at = sample * dy.stride(0) + channel * dy.stride(1) + pixel * dy.stride(2);
                let to = sample * dx.stride(0) + channel * dx.stride(1) + pixel * dx.stride(2);
                let value_x = Vector::<f32, N>::cast_from(x[from / N::value()]);
                let dz = of_normal::<N>(value_x, Vector::cast_from(dy[at / N::value()]), &of, read);
                let out = of.scale * (dz - centre - (value_x - of.mean) * slope);
                dx[to / N::value()] = Vector::cast_from(out);
            }
            pixel += CUBE_DIM_Y as usize;
        }
    }
}
