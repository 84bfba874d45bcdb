//! The convolution of a map that is read through its normalisation, and what ends a block, on the CPU.

use burn::backend::Flex;
use burn_flex::FlexTensor;

use super::{Layer, NormedConvolutions, Shortcut};
use crate::convolution::Convolution;
use crate::convolution::cpu::Shape;
use crate::cpu::tensors::{Contiguous, computed_in, contiguous, tensor, values};
use crate::deferred::DeferredMap;
use crate::deferred::cpu::convolution;

impl NormedConvolutions for Flex {
    fn normed_convolution(
        x: DeferredMap<Self>,
        layer: Layer<Self>,
        convolution: Convolution,
        shortcut: Shortcut<Self>,
    ) -> FlexTensor {
        let shape = Shape::of(convolution, x.shape(), &layer.filters);
        let Shape::Dense(dense) = &shape else { unreachable!("the last convolution of a block is dense") };
        let shortcut = shortcut.contiguous();
        computed_in!(T = x.dtype(); {
            let epilogue = layer.epilogue(shape.output(), x.dtype(), shortcut.as_ref().map(Contiguous::source));
            let y = x.read::<T, _>(|reading| {
                convolution::forward_to_end(reading, &values(&layer.filters), dense, &epilogue)
            });
            tensor(y, shape.output())
        })
    }
}

impl Shortcut<Flex> {
    /// Its map, in row-major order.
    pub(crate) fn contiguous(&self) -> Option<Contiguous> {
        match self {
            Self::Of(map) => Some(contiguous(map)),
            Self::None => None,
        }
    }
}
