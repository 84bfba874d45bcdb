//! A map, and what is applied to it while it is read, as arguments of kernels.

use burn::tensor::DType;
use burn_cubecl::cubecl;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::layout::{Groups, dims, empty};
use super::read::{AppliedLaunch, Read};

/// A map that kernels read through its normalisation, or as it is.
#[derive(Clone)]
pub(crate) struct Source {
    pub(crate) x: CubeTensor,
    pub(crate) weight: CubeTensor,
    pub(crate) bias: CubeTensor,
    pub(crate) statistics: CubeTensor,
    pub(crate) gate: CubeTensor,
    pub(crate) epsilon: f32,
    pub(crate) groups: Groups,
    pub(crate) read: Read,
}

impl Source {
    /// A map that is not normalised. If there is a `gate`, each plane is multiplied by its factor.
    pub(crate) fn whole(x: CubeTensor, gate: Option<CubeTensor>) -> Self {
        let gated = gate.is_some();
        // A kernel needs a tensor for every parameter, even those that it does not read.
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

    /// What is applied to the map, as an argument of a kernel.
    pub(crate) fn numbers<N: Size>(&self) -> AppliedLaunch<N> {
        let arg = |tensor: &CubeTensor| tensor.clone().into_tensor_arg();
        AppliedLaunch::new(
            arg(&self.weight),
            arg(&self.bias),
            arg(&self.statistics),
            arg(&self.gate),
            self.epsilon,
            self.groups.sizes(),
        )
    }
}
