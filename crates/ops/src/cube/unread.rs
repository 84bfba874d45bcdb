//! Launches of the kernels in [`super::norm`].

use std::ops::Range;

use burn::tensor::DType;
use burn_cubecl::cubecl;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::layout::{Flat, Groups, Spread, addresses, alongside, dims, element, empty, empty_map, nothing, width_of};
use super::norm;
use super::read::Read;
use crate::Normalisation;
use crate::activation::Activation;

/// Pixels of a unit that writes a map, and of one that adds up, at most.
const EACH_WRITTEN: usize = 8;
const EACH_SUMMED: usize = 32;

/// A map that is only read ([`crate::UnreadOps`]), or a whole one.
#[derive(Clone)]
pub(super) struct Source {
    pub(super) x: CubeTensor,
    weight: CubeTensor,
    bias: CubeTensor,
    statistics: CubeTensor,
    gate: CubeTensor,
    pub(super) epsilon: f32,
    pub(super) groups: Groups,
    pub(super) read: Read,
}

/// The numbers of a [`Source`] as arguments of a kernel.
pub(super) struct Arguments {
    pub(super) weight: TensorArg,
    pub(super) bias: TensorArg,
    pub(super) statistics: TensorArg,
    pub(super) gate: TensorArg,
}

/// The gradients of map, scale, shift and gate.
pub(super) type OfMap = (CubeTensor, CubeTensor, CubeTensor, CubeTensor);

impl Source {
    pub(super) fn unread(
        x: CubeTensor,
        weight: CubeTensor,
        bias: CubeTensor,
        statistics: CubeTensor,
        gate: CubeTensor,
        how: &Normalisation,
    ) -> Self {
        assert!(how.again.is_none(), "a tensor is dropped on a device's thread");
        let gated = gate.meta.shape().num_elements() > 0;
        let weight = into_contiguous(weight);
        Self {
            x,
            bias: into_contiguous(bias),
            statistics: into_contiguous(statistics),
            gate: if gated { into_contiguous(gate) } else { weight.clone() },
            weight,
            epsilon: how.epsilon as f32,
            groups: Groups::of(&how.groups),
            read: Read { norm: true, activation: how.activation, gated },
        }
    }

    /// A map as it is, each plane times its number in `gate` if there is one.
    pub(super) fn whole(x: CubeTensor, gate: Option<CubeTensor>) -> Self {
        let gated = gate.is_some();
        // Kernels want something in every place.
        let gate = into_contiguous(gate.unwrap_or_else(|| empty(&x, [dims(&x)[1]], DType::F32)));
        Self {
            x,
            weight: gate.clone(),
            bias: gate.clone(),
            statistics: gate.clone(),
            gate,
            epsilon: 0.0,
            groups: Groups::of(&[1]),
            read: Read { gated, ..Read::WHOLE },
        }
    }

    pub(super) fn arguments(&self) -> Arguments {
        let arg = |tensor: &CubeTensor| tensor.clone().into_tensor_arg();
        Arguments {
            weight: arg(&self.weight),
            bias: arg(&self.bias),
            statistics: arg(&self.statistics),
            gate: arg(&self.gate),
        }
    }

    /// The map itself.
    pub(super) fn applied(&self) -> CubeTensor {
        self.launch_apply(None, None)
    }

    /// An activation of the sum with a shortcut.
    pub(super) fn added_to(&self, shortcut: CubeTensor, activation: Activation) -> CubeTensor {
        self.launch_apply(Some(shortcut), Some(activation))
    }

    fn launch_apply(&self, shortcut: Option<CubeTensor>, join: Option<Activation>) -> CubeTensor {
        let y = empty_map(&self.x, dims(&self.x), self.x.dtype);
        let (x, out) = (Flat::of(self.x.clone()), Flat::of(y.clone()));
        let shortcut = shortcut.map_or_else(|| x.clone(), |shortcut| Flat::of(alongside(shortcut, &self.x)));
        let width = width_of(&[&x, &out, &shortcut]);
        let spread = Spread::of(x.channels, width, x.pixels, EACH_WRITTEN);
        let Arguments { weight, bias, statistics, gate } = self.arguments();
        norm::apply::launch(
            &x.tensor.client,
            spread.count(x.samples),
            spread.dim(),
            addresses(&[&x.tensor, &y, &shortcut.tensor]),
            width,
            x.arg(),
            weight,
            bias,
            statistics,
            gate,
            shortcut.arg(),
            out.arg(),
            self.epsilon,
            self.groups.size,
            self.groups.larger,
            spread.each,
            self.read,
            join,
            element(x.tensor.dtype),
        );
        y
    }

    /// The mean of each plane, `[n, c]` float32.
    pub(super) fn means(&self) -> CubeTensor {
        let x = Flat::of(self.x.clone());
        let width = width_of(&[&x]);
        let spread = Spread::of(x.channels, width, x.pixels, EACH_SUMMED);
        let blocks = spread.over_pixels as usize;
        let sums = empty(&x.tensor, [x.samples, blocks, x.channels], DType::F32);
        let Arguments { weight, bias, statistics, gate } = self.arguments();
        norm::sums_of_planes::launch(
            &x.tensor.client,
            spread.count(x.samples),
            spread.dim(),
            addresses(&[&x.tensor, &sums]),
            width,
            x.arg(),
            weight,
            bias,
            statistics,
            gate,
            sums.clone().into_tensor_arg(),
            self.epsilon,
            self.groups.size,
            self.groups.larger,
            spread.each,
            self.read,
            element(x.tensor.dtype),
        );
        let means = empty(&x.tensor, [x.samples, x.channels], DType::F32);
        over_blocks(&sums, &means, 0..x.samples, spread, width, 1.0 / x.pixels as f32);
        means
    }

    /// The gradient of the gate, `[n, c]` float32, from that of what was read.
    pub(super) fn of_gate(&self, dy: CubeTensor) -> CubeTensor {
        let (x, dy) = (Flat::of(self.x.clone()), Flat::of(alongside(dy, &self.x)));
        let (_, of_gate) = self.sums_of_gradients(&x, &dy, true);
        of_gate
    }

    /// The gradients of map, scale, shift and gate, from that of what was read.
    pub(super) fn backward(&self, dy: CubeTensor, wanted: [bool; 4]) -> OfMap {
        let (x, dy) = (Flat::of(self.x.clone()), Flat::of(alongside(dy, &self.x)));
        let (sums, of_gate) = self.sums_of_gradients(&x, &dy, wanted[3]);
        let of_groups = empty(&x.tensor, [2, self.groups.count, x.channels], DType::F32);
        let of_shift = empty(&x.tensor, [x.channels], DType::F32);
        let of_scale = empty(&x.tensor, [x.channels], DType::F32);
        let width = width_of(&[&x, &dy]);
        let spread = Spread::of(x.channels, width, 1, 1);
        norm::over_groups::launch(
            &x.tensor.client,
            CubeCount::Static(spread.over_channels, 2, 1),
            spread.dim(),
            addresses(&[&sums]),
            width,
            sums.into_tensor_arg(),
            of_groups.clone().into_tensor_arg(),
            of_shift.clone().into_tensor_arg(),
            of_scale.clone().into_tensor_arg(),
            self.groups.size,
            self.groups.larger,
        );
        let if_wanted = |wanted: bool, tensor: CubeTensor| if wanted { tensor } else { nothing(&x.tensor) };
        let dx = if wanted[0] { self.of_map(&x, dy, of_groups) } else { nothing(&x.tensor) };
        (dx, if_wanted(wanted[1], of_scale), if_wanted(wanted[2], of_shift), of_gate)
    }

    /// Sums over the pixels of each plane, `[2, samples, channels]`, and the gate's gradient `[samples, channels]`, if it is
    /// wanted; see [`norm::sums_of_gradients`].
    fn sums_of_gradients(&self, x: &Flat, dy: &Flat, gate_wanted: bool) -> (CubeTensor, CubeTensor) {
        let width = width_of(&[x, dy]);
        let kinds = if self.read.gated { 3 } else { 2 };
        let spread = Spread::of(x.channels, width, x.pixels, EACH_SUMMED);
        let blocks = spread.over_pixels as usize;
        let sums = empty(&x.tensor, [kinds * x.samples, blocks, x.channels], DType::F32);
        let Arguments { weight, bias, statistics, gate } = self.arguments();
        norm::sums_of_gradients::launch(
            &x.tensor.client,
            spread.count(x.samples),
            spread.dim(),
            addresses(&[&x.tensor, &dy.tensor, &sums]),
            width,
            x.arg(),
            dy.arg(),
            weight,
            bias,
            statistics,
            gate,
            sums.clone().into_tensor_arg(),
            self.epsilon,
            self.groups.size,
            self.groups.larger,
            spread.each,
            self.read,
            element(x.tensor.dtype),
        );
        let of_planes = empty(&x.tensor, [2, x.samples, x.channels], DType::F32);
        over_blocks(&sums, &of_planes, 0..2 * x.samples, spread, width, 1.0);
        if !gate_wanted || !self.read.gated {
            return (of_planes, nothing(&x.tensor));
        }
        let of_gate = empty(&x.tensor, [x.samples, x.channels], DType::F32);
        over_blocks(&sums, &of_gate, 2 * x.samples..3 * x.samples, spread, width, 1.0);
        (of_planes, of_gate)
    }

    /// The gradient of the map, written over that of what was read if nobody else needs it.
    fn of_map(&self, x: &Flat, dy: Flat, of_groups: CubeTensor) -> CubeTensor {
        const PLACE: usize = 1; // of `dy` among the arguments
        let (dx, out) = if dy.is_free() {
            (dy.tensor.clone(), dy.written_over(PLACE))
        } else {
            let dx = empty_map(&self.x, dims(&self.x), self.x.dtype);
            (dx.clone(), Flat::of(dx).arg())
        };
        let width = width_of(&[x, &dy]);
        let spread = Spread::of(x.channels, width, x.pixels, EACH_WRITTEN);
        let Arguments { weight, bias, statistics, gate } = self.arguments();
        norm::backward::launch(
            &x.tensor.client,
            spread.count(x.samples),
            spread.dim(),
            addresses(&[&x.tensor, &dy.tensor, &dx]),
            width,
            x.arg(),
            dy.arg(),
            weight,
            bias,
            statistics,
            gate,
            of_groups.into_tensor_arg(),
            out,
            self.epsilon,
            self.groups.size,
            self.groups.larger,
            spread.each,
            self.read,
            element(x.tensor.dtype),
        );
        dx
    }
}

/// Adds up blocks, see [`norm::over_blocks`], for some places of the first axis.
pub(super) fn over_blocks(
    sums: &CubeTensor,
    out: &CubeTensor,
    places: Range<usize>,
    spread: Spread,
    width: usize,
    factor: f32,
) {
    norm::over_blocks::launch(
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

/// The gradient of a sum behind a ReLU, from that of its output `y`.
pub(super) fn of_sum(y: CubeTensor, dy: CubeTensor) -> CubeTensor {
    let sum = empty_map(&y, dims(&y), y.dtype);
    let dy = alongside(dy, &y);
    let (y, dy, out) = (Flat::of(y), Flat::of(dy), Flat::of(sum.clone()));
    let width = width_of(&[&y, &dy, &out]);
    let spread = Spread::of(y.channels, width, y.pixels, EACH_WRITTEN);
    norm::of_sum::launch(
        &y.tensor.client,
        spread.count(y.samples),
        spread.dim(),
        addresses(&[&y.tensor, &dy.tensor, &sum]),
        width,
        y.arg(),
        dy.arg(),
        out.arg(),
        spread.each,
        element(y.tensor.dtype),
    );
    sum
}
