//! Launches of the kernels in [`super::kernels`].

use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{CubeBackend, cubecl};
use cubecl::prelude::*;

use super::{OfMap, Wanted, kernels};
use crate::activation::Activation;
use crate::cube::blocks::over_blocks;
use crate::cube::layout::{Flat, Spread, addresses, alongside, dims, element, empty, empty_map, width_of};
use crate::cube::source::Source;
use crate::graph::Gradient;

/// The most pixels of a unit that writes a map, and of one that computes a sum.
const EACH_WRITTEN: usize = 8;
const EACH_SUMMED: usize = 32;

impl Source {
    /// The normalised, activated and gated map.
    pub(crate) fn applied(&self) -> CubeTensor {
        self.launch_apply(None, None)
    }

    /// The sum with a shortcut, followed by an activation.
    pub(crate) fn residual_add(&self, shortcut: CubeTensor, activation: Activation) -> CubeTensor {
        self.launch_apply(Some(shortcut), Some(activation))
    }

    fn launch_apply(&self, shortcut: Option<CubeTensor>, sum_activation: Option<Activation>) -> CubeTensor {
        let y = empty_map(&self.x, dims(&self.x), self.x.dtype);
        let (x, out) = (Flat::of(self.x.clone()), Flat::of(y.clone()));
        let shortcut = shortcut.map_or_else(|| x.clone(), |shortcut| Flat::of(alongside(shortcut, &self.x)));
        let width = width_of(&[&x, &out, &shortcut]);
        let spread = Spread::of(x.channels, width, x.pixels, EACH_WRITTEN);
        kernels::apply::launch(
            &x.tensor.client,
            spread.count(x.samples),
            spread.dim(),
            addresses(&[&x.tensor, &y, &shortcut.tensor]),
            width,
            x.arg(),
            self.numbers(),
            shortcut.arg(),
            out.arg(),
            spread.each,
            self.read,
            sum_activation,
            element(x.tensor.dtype),
        );
        y
    }

    /// The mean of each plane, `[n, c]` float32.
    pub(crate) fn global_average_pool(&self) -> CubeTensor {
        let x = Flat::of(self.x.clone());
        let width = width_of(&[&x]);
        let spread = Spread::of(x.channels, width, x.pixels, EACH_SUMMED);
        let blocks = spread.over_pixels as usize;
        let sums = empty(&x.tensor, [x.samples, blocks, x.channels], DType::F32);
        kernels::sums_of_planes::launch(
            &x.tensor.client,
            spread.count(x.samples),
            spread.dim(),
            addresses(&[&x.tensor, &sums]),
            width,
            x.arg(),
            self.numbers(),
            sums.clone().into_tensor_arg(),
            spread.each,
            self.read,
            element(x.tensor.dtype),
        );
        let means = empty(&x.tensor, [x.samples, x.channels], DType::F32);
        over_blocks(&sums, &means, 0..x.samples, width, 1.0 / x.pixels as f32);
        means
    }

    /// The gradient of the gate, `[n, c]` float32, from the gradient of the values that were read.
    pub(crate) fn of_gate(&self, dy: CubeTensor) -> CubeTensor {
        let (x, dy) = (Flat::of(self.x.clone()), Flat::of(alongside(dy, &self.x)));
        let (sums, width) = self.sums_of_gradients(&x, &dy);
        of_gate(&x, &sums, width)
    }

    /// The gradients of map, scale, shift and gate, from the gradient of the values that were read.
    pub(crate) fn backward(&self, dy: CubeTensor, wanted: Wanted) -> OfMap<CubeBackend> {
        let (x, dy) = (Flat::of(self.x.clone()), Flat::of(alongside(dy, &self.x)));
        let (sums, width) = self.sums_of_gradients(&x, &dy);
        let of_planes = empty(&x.tensor, [2, x.samples, x.channels], DType::F32);
        over_blocks(&sums, &of_planes, 0..2 * x.samples, width, 1.0);
        let gate = Gradient::if_wanted(wanted.gate && self.read.gated, || of_gate(&x, &sums, width));
        let of_groups = empty(&x.tensor, [2, self.groups.count, x.channels], DType::F32);
        let of_shift = empty(&x.tensor, [x.channels], DType::F32);
        let of_scale = empty(&x.tensor, [x.channels], DType::F32);
        let spread = Spread::of(x.channels, width, 1, 1);
        kernels::over_groups::launch(
            &x.tensor.client,
            CubeCount::Static(spread.over_channels, 2, 1),
            spread.dim(),
            addresses(&[&of_planes]),
            width,
            of_planes.into_tensor_arg(),
            of_groups.clone().into_tensor_arg(),
            of_shift.clone().into_tensor_arg(),
            of_scale.clone().into_tensor_arg(),
            self.groups.sizes(),
        );
        OfMap {
            x: Gradient::if_wanted(wanted.x, || self.of_map(&x, dy, of_groups)),
            weight: Gradient::if_wanted(wanted.weight, || of_scale),
            bias: Gradient::if_wanted(wanted.bias, || of_shift),
            gate,
        }
    }

    /// Launches [`kernels::sums_of_gradients()`]: the sums, `[2 or 3 * samples, blocks, channels]`, and how many channels a unit took.
    fn sums_of_gradients(&self, x: &Flat, dy: &Flat) -> (CubeTensor, usize) {
        let width = width_of(&[x, dy]);
        let kinds = if self.read.gated { 3 } else { 2 };
        let spread = Spread::of(x.channels, width, x.pixels, EACH_SUMMED);
        let blocks = spread.over_pixels as usize;
        let sums = empty(&x.tensor, [kinds * x.samples, blocks, x.channels], DType::F32);
        kernels::sums_of_gradients::launch(
            &x.tensor.client,
            spread.count(x.samples),
            spread.dim(),
            addresses(&[&x.tensor, &dy.tensor, &sums]),
            width,
            x.arg(),
            dy.arg(),
            self.numbers(),
            sums.clone().into_tensor_arg(),
            spread.each,
            self.read,
            element(x.tensor.dtype),
        );
        (sums, width)
    }

    /// The gradient of the map. It overwrites `dy` if nothing else refers to that.
    fn of_map(&self, x: &Flat, dy: Flat, of_groups: CubeTensor) -> CubeTensor {
        const PLACE: usize = 1; // number of `dy` among the arguments
        let (dx, out) = if dy.is_free() {
            (dy.tensor.clone(), dy.written_over(PLACE))
        } else {
            let dx = empty_map(&self.x, dims(&self.x), self.x.dtype);
            (dx.clone(), Flat::of(dx).arg())
        };
        let width = width_of(&[x, &dy]);
        let spread = Spread::of(x.channels, width, x.pixels, EACH_WRITTEN);
        kernels::backward::launch(
            &x.tensor.client,
            spread.count(x.samples),
            spread.dim(),
            addresses(&[&x.tensor, &dy.tensor, &dx]),
            width,
            x.arg(),
            dy.arg(),
            self.numbers(),
            of_groups.into_tensor_arg(),
            out,
            spread.each,
            self.read,
            element(x.tensor.dtype),
        );
        dx
    }
}

/// The gradient of the gate, `[n, c]` float32, from the third kind of sums of [`kernels::sums_of_gradients()`].
fn of_gate(x: &Flat, sums: &CubeTensor, width: usize) -> CubeTensor {
    let of_gate = empty(&x.tensor, [x.samples, x.channels], DType::F32);
    over_blocks(sums, &of_gate, 2 * x.samples..3 * x.samples, width, 1.0);
    of_gate
}

/// The gradient of a sum that a ReLU follows, from the output `y` and its gradient.
pub(crate) fn of_sum(y: CubeTensor, dy: CubeTensor) -> CubeTensor {
    let sum = empty_map(&y, dims(&y), y.dtype);
    let dy = alongside(dy, &y);
    let (y, dy, out) = (Flat::of(y), Flat::of(dy), Flat::of(sum.clone()));
    let width = width_of(&[&y, &dy, &out]);
    let spread = Spread::of(y.channels, width, y.pixels, EACH_WRITTEN);
    kernels::of_sum::launch(
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
