//! AdamW's update in one pass over memory.
//!
//! Burn's rule allocates a tensor for each of some twenty operations. On a CPU these are bound by memory, and for millions of
//! weights they take longer than the gradients of small images. The arithmetic here is in the order of Burn's, so the results
//! have the same bits. On a GPU the rule is one fused kernel for each of hundreds of tensors, and each of its operations costs time on
//! the host; here one kernel updates eight tensors.

#[cfg(feature = "cube")]
use burn::backend::ExtensionType;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, Flex, backend_extension};
use burn::tensor::{DType, Tensor};
use burn_flex::FlexTensor;
use rayon::prelude::*;

#[cfg(feature = "cube")]
use super::state::{AT_ONCE, Eight, eight};
use crate::cpu::gemm::Threads;
use crate::cpu::lanes::vectorised;
use crate::cpu::making::Making;
use crate::cpu::room::Room;
use crate::cpu::tensors::{tensor, values};
use crate::cpu::values::Target;
#[cfg(feature = "cube")]
use crate::device::on_cpu;
use crate::device::serves;
use crate::reserve;

/// Weights that one thread updates at a time.
const PIECE: usize = 1 << 14;

/// The coefficients of one update, the same for every weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamWStep {
    /// Factor of every gradient.
    pub scale: f32,
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

/// A parameter with its gradient and moments, all `[n]` and not on a gradient graph.
#[derive(Clone, Debug)]
pub struct AdamWTensors {
    /// The parameter, before the update.
    pub weight: Tensor<1>,
    /// Their gradient.
    pub gradient: Tensor<1>,
    /// First and second moments; `None`, which means zeros, before the first update.
    pub moments: Option<[Tensor<1>; 2]>,
}

impl AdamWTensors {
    fn moments(&self) -> [Tensor<1>; 2] {
        self.moments.clone().unwrap_or_else(|| [self.weight.zeros_like(), self.weight.zeros_like()])
    }
}

/// Numbers allocated for each weight: its new value and two moments.
const NEW_NUMBERS: usize = 3;

/// Updates of one tensor, on the CPU only.
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

/// Eight parameters after an update.
#[cfg(feature = "cube")]
#[derive(ExtensionType)]
#[extension_type(fusion)]
pub(crate) struct Updated<B: Backend> {
    #[extension_type]
    pub(crate) weights: Eight<B>,
    #[extension_type]
    pub(crate) firsts: Eight<B>,
    #[extension_type]
    pub(crate) seconds: Eight<B>,
}

/// Updates of eight tensors in one launch.
#[cfg(feature = "cube")]
#[backend_extension(Cube, Fusion)]
pub(crate) trait UpdatesAtOnce: Backend {
    /// The new weights and moments of the first `count` parameters. The rest are placeholders.
    #[fusion(meta = |weights, _, firsts, seconds, _, _| UpdatedMetadata {
        weights: weights.clone(),
        firsts: firsts.clone(),
        seconds: seconds.clone(),
    })]
    fn adamw_at_once(
        #[extension_type] weights: Eight<Self>,
        #[extension_type] gradients: Eight<Self>,
        #[extension_type] firsts: Eight<Self>,
        #[extension_type] seconds: Eight<Self>,
        count: usize,
        step: AdamWStep,
    ) -> Updated<Self>;
}

/// Whether [`adamw`] supports these weights: float32, on the CPU or a device of CubeCL. Elsewhere the caller uses Burn's own rule.
pub fn adamw_serves(weight: &Tensor<1>) -> bool {
    serves(weight) && weight.dtype() == DType::F32
}

/// The new weights and moments of parameters that [`adamw_serves`], in their order. Gradients are freed as they are used.
pub fn adamw(parameters: Vec<AdamWTensors>, step: AdamWStep) -> Vec<[Tensor<1>; 3]> {
    #[cfg(feature = "cube")]
    if !parameters.iter().all(|parameter| on_cpu(&parameter.weight)) {
        let mut left = parameters.into_iter();
        let mut new = Vec::with_capacity(left.len());
        while left.len() > 0 {
            let some: Vec<AdamWTensors> = left.by_ref().take(AT_ONCE).collect();
            new.extend(updated_at_once(&some, step));
        }
        return new;
    }
    parameters.into_iter().map(|parameter| updated(parameter, step)).collect()
}

fn updated(parameter: AdamWTensors, step: AdamWStep) -> [Tensor<1>; 3] {
    let moments = parameter.moments();
    let AdamWTensors { weight, gradient, .. } = parameter;
    reserve::like(&weight, NEW_NUMBERS * weight.shape().num_elements());
    let [first, second] = moments.map(Tensor::into_dispatch);
    let (weight, gradient) = (weight.into_dispatch(), gradient.into_dispatch());
    let (weight, first, second) = <Dispatch as Updates>::adamw(weight, gradient, first, second, step);
    [weight, first, second].map(Tensor::from_dispatch)
}

#[cfg(feature = "cube")]
fn updated_at_once(parameters: &[AdamWTensors], step: AdamWStep) -> impl Iterator<Item = [Tensor<1>; 3]> {
    let weights = eight(parameters, |parameter| &parameter.weight);
    let gradients = eight(parameters, |parameter| &parameter.gradient);
    let moments: Vec<[Tensor<1>; 2]> = parameters.iter().map(AdamWTensors::moments).collect();
    let [firsts, seconds] = [0, 1].map(|moment| eight(&moments, |moments| &moments[moment]));
    let count = parameters.len();
    let new = <Dispatch as UpdatesAtOnce>::adamw_at_once(weights, gradients, firsts, seconds, count, step);
    let [weights, firsts, seconds] = [new.weights, new.firsts, new.seconds].map(|of| of.into_array().into_iter());
    let each = weights.zip(firsts).zip(seconds).take(count);
    each.map(|((weight, first), second)| [weight, first, second].map(Tensor::from_dispatch))
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
        let mut made = [(); 3].map(|()| Making::<f32>::wide(length));
        let [weight, first, second] = made.each_mut().map(|made| made.parts(PIECE).into_par_iter());
        let new = weight.zip(first).zip(second);
        let from = old.par_chunks(PIECE).zip(gradient.par_chunks(PIECE));
        let from = from.zip(old_first.par_chunks(PIECE)).zip(old_second.par_chunks(PIECE));
        new.zip(from).for_each(|(((weight, first), second), (((old, gradient), old_first), old_second))| {
            let new = [weight, first, second].map(|part| part.begin(Threads::One));
            // Numbers that are not of a half format.
            let [Target::Same(weight), Target::Same(first), Target::Same(second)] = new else { return };
            let [weight, first, second] = [weight, first, second].map(Room::into_numbers);
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
        let [weight, first, second] = made.map(|made| tensor(made.made(), [length]));
        (weight, first, second)
    }
}

impl AdamWStep {
    /// The update of one weight and its moments.
    #[inline(always)]
    fn of(&self, weight: f32, gradient: f32, first: f32, second: f32) -> (f32, f32, f32) {
        let gradient = gradient * self.scale;
        let first = first * self.betas[0] + gradient * (1.0 - self.betas[0]);
        let second = second * self.betas[1] + gradient * gradient * (1.0 - self.betas[1]);
        let way = first / self.corrections[0] / ((second / self.corrections[1]).sqrt() + self.epsilon);
        (weight * self.keep - way * self.rate, first, second)
    }
}
