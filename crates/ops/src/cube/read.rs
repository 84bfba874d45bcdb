//! Functions that kernels call to read a map through its normalisation, activation and gate, and to add up over a cube.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use super::units::UNITS;
use crate::activation::Activation;
use crate::activation::cube::{derivative, value};

/// What is applied to a map while it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Read {
    /// Whether the map is normalised, scaled and shifted.
    pub(crate) norm: bool,
    pub(crate) activation: Activation,
    /// Whether each plane is multiplied by a factor.
    pub(crate) gated: bool,
}

impl Read {
    /// Reads the map as it is.
    pub(crate) const WHOLE: Self = Self { norm: false, activation: Activation::Identity, gated: false };
}

/// What is applied to `N` neighbouring channels of a sample, which a unit keeps in registers for all its pixels.
#[derive(CubeType, Clone, Copy)]
pub(crate) struct Numbers<N: Size> {
    pub(crate) mean: Vector<f32, N>,
    /// One divided by the standard deviation.
    pub(crate) inverse: Vector<f32, N>,
    /// `inverse` times the scale of the normalisation.
    pub(crate) scale: Vector<f32, N>,
    shift: Vector<f32, N>,
    gate: Vector<f32, N>,
}

/// The tensors that a map is normalised with. A kernel that does not need one of them is given an arbitrary tensor in its place.
#[derive(CubeType, CubeLaunch)]
pub(crate) struct Applied<N: Size> {
    /// A scale and a shift for each channel.
    weight: OwnedTensor<Vector<f32, N>>,
    bias: OwnedTensor<Vector<f32, N>>,
    /// Means and variances `[2, groups, channels]`.
    statistics: OwnedTensor<Vector<f32, N>>,
    /// A factor for each plane, `[samples, channels]`.
    gate: OwnedTensor<Vector<f32, N>>,
    epsilon: f32,
    pub(crate) groups: GroupSizes,
}

/// Normalisation groups: the first `larger` groups have `size + 1` samples and the others `size`.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(crate) struct GroupSizes {
    size: u32,
    larger: u32,
}

/// Loads what is applied to vector number `vector` of the `vectors` vectors of channels of a sample.
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

/// The value that is read for `x`: normalised, activated and gated.
#[cube]
pub(crate) fn reading<N: Size>(x: Vector<f32, N>, of: &Numbers<N>, #[comptime] read: Read) -> Vector<f32, N> {
    let y = value::<N>(normal::<N>(x, of, read), comptime!(read.activation));
    if comptime!(read.gated) { y * of.gate } else { y }
}

/// The gradient of the normalised value, from the gradient `dy` of the value that was read.
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

/// The sum of `mine` over the rows of a cube. All units of a lane get the same sum. All units of the cube must call this, since it
/// synchronises.
#[cube]
pub(crate) fn over_rows<N: Size>(mine: Vector<f32, N>) -> Vector<f32, N> {
    let mut shared = Shared::<[Vector<f32, N>]>::new_slice(comptime!(UNITS as usize));
    over_rows_in::<N>(&mut shared, mine)
}

/// As [`over_rows()`], in shared memory that the caller may have used before.
#[cube]
pub(crate) fn over_rows_in<N: Size>(shared: &mut Shared<[Vector<f32, N>]>, mine: Vector<f32, N>) -> Vector<f32, N> {
    let at = UNIT_POS as usize;
    sync_cube();
    shared[at] = mine;
    sync_cube();
    let mut rows = CUBE_DIM_Y;
    while rows > 1 {
        // The upper half of the rows is added to the lower half. If their number is odd, the middle row waits for the next round.
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
