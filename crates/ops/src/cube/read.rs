//! What kernels share that read a map through its normalisation, activation and gate.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use super::layout::UNITS;
use crate::activation::Activation;
use crate::activation::cube::{derivative, value};

/// What is applied to a map while it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Read {
    /// Normalisation, scale and shift; nothing of them for a whole map.
    pub(crate) norm: bool,
    pub(crate) activation: Activation,
    /// A factor for each plane.
    pub(crate) gated: bool,
}

impl Read {
    /// A map as it is.
    pub(crate) const WHOLE: Self = Self { norm: false, activation: Activation::Identity, gated: false };
}

/// The numbers of some channels of a sample.
#[derive(CubeType, Clone, Copy)]
pub(crate) struct Numbers<N: Size> {
    pub(crate) mean: Vector<f32, N>,
    /// One over the standard deviation.
    pub(crate) inverse: Vector<f32, N>,
    /// The same times the normalisation's scale.
    pub(crate) scale: Vector<f32, N>,
    shift: Vector<f32, N>,
    gate: Vector<f32, N>,
}

/// Where the numbers of a map are. A kernel that needs none of some is given any tensor in their place and does not look at it.
#[derive(CubeType, CubeLaunch)]
pub(crate) struct Applied<N: Size> {
    /// A scale and a shift for each channel.
    weight: OwnedTensor<Vector<f32, N>>,
    bias: OwnedTensor<Vector<f32, N>>,
    /// Means and variances `[2, groups, channels]`.
    statistics: OwnedTensor<Vector<f32, N>>,
    /// A factor for each plane.
    gate: OwnedTensor<Vector<f32, N>>,
    epsilon: f32,
    pub(crate) groups: GroupSizes,
}

/// Even normalisation groups: the first `larger` have `size + 1` samples and the others `size`.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(crate) struct GroupSizes {
    size: u32,
    larger: u32,
}

/// The numbers of some channels of a sample.
#[cube]
pub(crate) fn numbers<N: Size>(
    applied: &Applied<N>,
    vectors: usize,
    vector: usize,
    sample: u32,
    #[comptime] read: Read,
) -> Numbers<N> {
    let (zero, one) = (Vector::<f32, N>::new(0.0), Vector::<f32, N>::new(1.0));
    let mut of = Numbers::<N> { mean: zero, inverse: one, scale: one, shift: zero, gate: one };
    if comptime!(read.norm) {
        let group = group_of(sample, &applied.groups);
        let groups = applied.statistics.shape(1);
        let variance = applied.statistics[(groups + group) * vectors + vector];
        of.mean = applied.statistics[group * vectors + vector];
        of.inverse = one / (variance + Vector::new(applied.epsilon)).sqrt();
        of.scale = applied.weight[vector] * of.inverse;
        of.shift = applied.bias[vector];
    }
    if comptime!(read.gated) {
        of.gate = applied.gate[sample as usize * vectors + vector];
    }
    of
}

/// The normalised value, before the activation.
#[cube]
pub(crate) fn normal<N: Size>(x: Vector<f32, N>, of: &Numbers<N>, #[comptime] read: Read) -> Vector<f32, N> {
    if comptime!(read.norm) { (x - of.mean) * of.scale + of.shift } else { x }
}

/// What is read of `x`.
#[cube]
pub(crate) fn reading<N: Size>(x: Vector<f32, N>, of: &Numbers<N>, #[comptime] read: Read) -> Vector<f32, N> {
    let y = value::<N>(normal::<N>(x, of, read), comptime!(read.activation));
    if comptime!(read.gated) { y * of.gate } else { y }
}

/// The gradient of the normalised value, from that of what was read.
#[cube]
pub(crate) fn of_normal<N: Size>(
    x: Vector<f32, N>,
    dy: Vector<f32, N>,
    of: &Numbers<N>,
    #[comptime] read: Read,
) -> Vector<f32, N> {
    let dz = dy * derivative::<N>(normal::<N>(x, of, read), comptime!(read.activation));
    if comptime!(read.gated) { dz * of.gate } else { dz }
}

/// The group of a sample.
#[cube]
pub(crate) fn group_of(sample: u32, groups: &GroupSizes) -> usize {
    let boundary = groups.larger * (groups.size + 1);
    let mut group = sample / (groups.size + 1);
    if sample >= boundary {
        group = groups.larger + (sample - boundary) / groups.size;
    }
    group as usize
}

/// How many samples a group has.
#[cube]
pub(crate) fn samples_of(group: u32, groups: &GroupSizes) -> u32 {
    let mut samples = groups.size;
    if group < groups.larger {
        samples = groups.size + 1;
    }
    samples
}

/// The first sample of a group.
#[cube]
pub(crate) fn first_of(group: u32, groups: &GroupSizes) -> u32 {
    let mut first = group * groups.size + groups.larger;
    if group < groups.larger {
        first = group * (groups.size + 1);
    }
    first
}

/// The sum of what the rows of a cube have, the same for all units of a lane. All units must come here.
#[cube]
pub(crate) fn over_rows<N: Size>(mine: Vector<f32, N>) -> Vector<f32, N> {
    let mut shared = Shared::<[Vector<f32, N>]>::new_slice(comptime!(UNITS as usize));
    over_rows_in::<N>(&mut shared, mine)
}

/// The same in memory that may have been used before.
#[cube]
pub(crate) fn over_rows_in<N: Size>(shared: &mut Shared<[Vector<f32, N>]>, mine: Vector<f32, N>) -> Vector<f32, N> {
    let at = UNIT_POS as usize;
    sync_cube();
    shared[at] = mine;
    sync_cube();
    let mut rows = CUBE_DIM_Y;
    while rows > 1 {
        // The upper half is added to the lower; a row in the middle waits.
        let half = rows.div_ceil(2);
        if UNIT_POS_Y + half < rows {
            let other = shared[at + (half * CUBE_DIM_X) as usize];
            shared[at] += other;
        }
        rows = half;
        sync_cube();
    }
    shared[UNIT_POS_X as usize]
}
