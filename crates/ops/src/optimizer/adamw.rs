//! AdamW's update of one tensor in one pass over memory.
//!
//! Burn's rule allocates a tensor for each of some twenty operations. On a CPU these are bound by memory, and for millions of
//! weights they take longer than the gradients of small images. The arithmetic here is in the order of Burn's, so the results
//! have the same bits.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, Flex, backend_extension};
use burn::tensor::{DType, Tensor};
use burn_flex::FlexTensor;
use rayon::prelude::*;

use crate::cpu::lanes::vectorised;
use crate::cpu::values::{tensor, values};
use crate::device::on_cpu;

/// Weights that one thread updates at a time.
const PIECE: usize = 1 << 14;

/// The coefficients of one update, the same for every weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamWStep {
    /// Decay rates of the first and the second moment.
    pub betas: [f32; 2],
    /// Bias corrections of the moments, which start at zero: `1 - beta^t`.
    pub corrections: [f32; 2],
    /// Added to the square root of the second moment.
    pub epsilon: f32,
    /// Factor of weight decay: `1 - decay * rate`.
    pub keep: f32,
    /// Learning rate.
    pub rate: f32,
}

/// Updates that are made in one pass, on the CPU only.
#[backend_extension(Flex)]
pub(crate) trait Updates: Backend {
    /// The new weights and their first and second moments, all `[n]` float32.
    fn adamw(
        weight: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        first: FloatTensor<Self>,
        second: FloatTensor<Self>,
        step: AdamWStep,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);
}

/// The weights and their two moments after an update; before the first update `moments` are zeros. `None` unless the tensors are
/// float32 and on the CPU: elsewhere the caller uses Burn's own rule.
pub fn adamw(
    weight: &Tensor<1>,
    gradient: &Tensor<1>,
    moments: [&Tensor<1>; 2],
    step: AdamWStep,
) -> Option<[Tensor<1>; 3]> {
    if weight.dtype() != DType::F32 || gradient.dtype() != DType::F32 || !on_cpu(weight) {
        return None;
    }
    let [first, second] = moments.map(|moment| moment.clone().into_dispatch());
    let (weight, gradient) = (weight.clone().into_dispatch(), gradient.clone().into_dispatch());
    let (weight, first, second) = <Dispatch as Updates>::adamw(weight, gradient, first, second, step);
    Some([weight, first, second].map(Tensor::from_dispatch))
}

impl Updates for Flex {
    fn adamw(
        weight: FlexTensor,
        gradient: FlexTensor,
        first: FlexTensor,
        second: FlexTensor,
        step: AdamWStep,
    ) -> (FlexTensor, FlexTensor, FlexTensor) {
        let (old, gradient) = (values::<f32>(&weight), values::<f32>(&gradient));
        let (old_first, old_second) = (values::<f32>(&first), values::<f32>(&second));
        let length = old.len();
        let (mut weight, mut first, mut second) = (vec![0.0; length], vec![0.0; length], vec![0.0; length]);
        let new = weight.par_chunks_mut(PIECE).zip(first.par_chunks_mut(PIECE)).zip(second.par_chunks_mut(PIECE));
        let from = old.par_chunks(PIECE).zip(gradient.par_chunks(PIECE));
        let from = from.zip(old_first.par_chunks(PIECE)).zip(old_second.par_chunks(PIECE));
        new.zip(from).for_each(|(((weight, first), second), (((old, gradient), old_first), old_second))| {
            vectorised(
                #[inline(always)]
                || {
                    let old = old.iter().zip(gradient).zip(old_first).zip(old_second);
                    for (((weight, first), second), (((old, gradient), old_first), old_second)) in
                        weight.iter_mut().zip(first).zip(second).zip(old)
                    {
                        (*weight, *first, *second) = step.of(*old, *gradient, *old_first, *old_second);
                    }
                },
            );
        });
        let made = |values| tensor(values, [length], DType::F32);
        (made(weight), made(first), made(second))
    }
}

impl AdamWStep {
    /// The update of one weight and its moments.
    #[inline(always)]
    fn of(&self, weight: f32, gradient: f32, first: f32, second: f32) -> (f32, f32, f32) {
        let first = first * self.betas[0] + gradient * (1.0 - self.betas[0]);
        let second = second * self.betas[1] + gradient * gradient * (1.0 - self.betas[1]);
        let way = first / self.corrections[0] / ((second / self.corrections[1]).sqrt() + self.epsilon);
        (weight * self.keep - way * self.rate, first, second)
    }
}
