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
use crate::cube::place::{at, place_of_unit, put};
use crate::cube::read::{
    Applied, GroupSizes, Read, group_of, normal, numbers, of_normal, over_rows, reading, samples_of,
};

/// Writes the whole map; with `sum_activation`, that activation of its sum with the shortcut.
#[cube(launch, address_type = "dynamic")]
pub(crate) fn apply<F: Float, N: Size>(
    x: &Tensor<Vector<F, N>>,
    applied: &Applied<N>,
    shortcut: &Tensor<Vector<F, N>>,
    y: &mut Tensor<Vector<F, N>>,
    each: u32,
    #[comptime] read: Read,
    #[comptime] sum_activation: Option<Activation>,
    #[define(F)] _element: ElemType,
) {
    let vectors = x.shape(1) / N::value();
    let place = place_of_unit(each);
    let pixels = x.shape(2);
    if place.vector < vectors {
        let of = numbers::<N>(applied, vectors, place.vector, CUBE_POS_Z, read);
        let mut pixel = place.pixel;
        for _ in 0..each {
            if pixel < pixels {
                let mut out = reading::<N>(Vector::cast_from(x[at::<F, N>(x, &place, pixel)]), &of, read);
                if comptime!(sum_activation.is_some()) {
                    let sum = out + Vector::cast_from(shortcut[at::<F, N>(shortcut, &place, pixel)]);
                    out = value::<N>(sum, comptime!(sum_activation.unwrap_or(Activation::Identity)));
                }
                put::<F, N>(y, &place, pixel, Vector::cast_from(out));
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
    let place = place_of_unit(each);
    if place.vector < y.shape(1) / N::value() {
        let mut pixel = place.pixel;
        for _ in 0..each {
            if pixel < y.shape(2) {
                let zero = Vector::<F, N>::new(F::new(0.0));
                let above = y[at::<F, N>(y, &place, pixel)].greater_than(&zero);
                let gradient = select_many(above, dy[at::<F, N>(dy, &place, pixel)], zero);
                put::<F, N>(out, &place, pixel, gradient);
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
    let place = place_of_unit(each);
    let pixels = x.shape(2);
    let mut sum = Vector::<f32, N>::new(0.0);
    if place.vector < vectors {
        let of = numbers::<N>(applied, vectors, place.vector, CUBE_POS_Z, read);
        let mut pixel = place.pixel;
        for _ in 0..each {
            if pixel < pixels {
                sum += reading::<N>(Vector::cast_from(x[at::<F, N>(x, &place, pixel)]), &of, read);
            }
            pixel += CUBE_DIM_Y as usize;
        }
    }
    let sum = over_rows::<N>(sum);
    if UNIT_POS_Y == 0 && place.vector < vectors {
        let blocks = CUBE_COUNT_Y as usize;
        sums[(place.sample * blocks + CUBE_POS_Y as usize) * vectors + place.vector] = sum;
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
    let place = place_of_unit(each);
    let pixels = x.shape(2);
    let mut of_gate = Vector::<f32, N>::new(0.0);
    let mut plain = Vector::<f32, N>::new(0.0);
    let mut weighted = Vector::<f32, N>::new(0.0);
    if place.vector < vectors {
        let of = numbers::<N>(applied, vectors, place.vector, CUBE_POS_Z, read);
        let mut pixel = place.pixel;
        for _ in 0..each {
            if pixel < pixels {
                let value_x = Vector::<f32, N>::cast_from(x[at::<F, N>(x, &place, pixel)]);
                let value_dy = Vector::<f32, N>::cast_from(dy[at::<F, N>(dy, &place, pixel)]);
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
    let plane = place.sample * CUBE_COUNT_Y as usize + CUBE_POS_Y as usize;
    let first = UNIT_POS_Y == 0 && place.vector < vectors;
    if first {
        sums[plane * vectors + place.vector] = plain;
        sums[(of_planes + plane) * vectors + place.vector] = weighted;
    }
    if comptime!(read.gated) {
        let of_gate = over_rows::<N>(of_gate);
        if first {
            sums[(2 * of_planes + plane) * vectors + place.vector] = of_gate;
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
    let place = place_of_unit(each);
    let pixels = x.shape(2);
    if place.vector < vectors {
        let of = numbers::<N>(applied, vectors, place.vector, CUBE_POS_Z, read);
        let (group, groups) = (group_of(CUBE_POS_Z, &applied.groups), of_groups.shape(1));
        let samples = samples_of(group as u32, &applied.groups);
        let share = Vector::<f32, N>::new(1.0 / (samples as f32 * pixels as f32));
        let centre = of_groups[group * vectors + place.vector] * share;
        let slope = of_groups[(groups + group) * vectors + place.vector] * share * of.inverse;
        let mut pixel = place.pixel;
        for _ in 0..each {
            if pixel < pixels {
                let value_x = Vector::<f32, N>::cast_from(x[at::<F, N>(x, &place, pixel)]);
                let dz = of_normal::<N>(value_x, Vector::cast_from(dy[at::<F, N>(dy, &place, pixel)]), &of, read);
                let out = of.scale * (dz - centre - (value_x - of.mean) * slope);
                put::<F, N>(dx, &place, pixel, Vector::cast_from(out));
            }
            pixel += CUBE_DIM_Y as usize;
        }
    }
}
