//! Burn's AdamW, in one pass over the weights where the device can.

use burn::optim::{AdamW, AdamWConfig, AdamWState, AdaptiveMomentumState, LearningRate, Optimizer};
use burn::tensor::{Device, Tensor};
use kindling_ops::{AdamWStep, adamw};

/// AdamW (Loshchilov and Hutter 2019) with its numbers.
#[derive(Clone)]
pub(crate) struct OnePassAdamW {
    rule: AdamW,
    betas: [f32; 2],
    epsilon: f32,
    weight_decay: f32,
}

impl OnePassAdamW {
    pub(crate) fn new(betas: [f32; 2], epsilon: f32, weight_decay: f32) -> Self {
        let [first, second] = betas;
        let rule = AdamWConfig::new().with_beta_1(first).with_beta_2(second).with_epsilon(epsilon);
        Self { rule: rule.with_weight_decay(weight_decay).build(), betas, epsilon, weight_decay }
    }

    fn numbers(&self, rate: LearningRate, time: usize) -> AdamWStep {
        AdamWStep {
            betas: self.betas,
            corrections: self.betas.map(|beta| 1.0 - beta.powi(time as i32)),
            epsilon: self.epsilon,
            keep: (1.0 - rate * f64::from(self.weight_decay)) as f32,
            rate: rate as f32,
        }
    }
}

impl Optimizer for OnePassAdamW {
    type State<const D: usize> = AdamWState<D>;

    fn step<const D: usize>(
        &self,
        rate: LearningRate,
        tensor: Tensor<D>,
        gradient: Tensor<D>,
        state: Option<AdamWState<D>>,
    ) -> (Tensor<D>, Option<AdamWState<D>>) {
        let shape = tensor.shape();
        let flat = |tensor: &Tensor<D>| tensor.clone().reshape([shape.num_elements()]);
        let (time, first, second) = match &state {
            Some(state) => (state.momentum.time + 1, flat(&state.momentum.moment_1), flat(&state.momentum.moment_2)),
            None => (1, flat(&tensor).zeros_like(), flat(&tensor).zeros_like()),
        };
        let numbers = self.numbers(rate, time);
        let Some(new) = adamw(&flat(&tensor), &flat(&gradient), [&first, &second], numbers) else {
            return self.rule.step(rate, tensor, gradient, state);
        };
        let [tensor, first, second] = new.map(|flat| flat.reshape(shape.clone()));
        (tensor, Some(AdamWState::new(AdaptiveMomentumState::new(time, first, second))))
    }

    fn to_device<const D: usize>(state: AdamWState<D>, device: &Device) -> AdamWState<D> {
        AdamW::to_device(state, device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::TensorData;

    /// Twenty steps of one tensor, gradients of all sizes and exact zeros among them.
    fn after<R: Optimizer>(rule: &R) -> [Tensor<1>; 1] {
        const LENGTH: usize = 40_000;
        let device = Device::flex();
        let numbers = |seed: u64, size: f32| {
            let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
            let draw = move || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                ((state >> 40) as f32 / (1u64 << 24) as f32 - 0.5) * size
            };
            let values: Vec<f32> = std::iter::repeat_with(draw).take(LENGTH).collect();
            Tensor::<1>::from_data(TensorData::new(values, [LENGTH]), &device)
        };
        let (mut tensor, mut state) = (numbers(1, 2.0), None);
        for step in 0..20 {
            let gradient = numbers(step + 2, 10f32.powi(step as i32 % 9 - 6)).mul_scalar(f32::from(step % 7 != 3));
            (tensor, state) = rule.step(1e-3 * (step + 1) as f64, tensor, gradient, state);
        }
        [tensor]
    }

    #[test]
    fn one_pass_is_burns_rule_to_the_bit() {
        for (betas, decay) in [([0.9, 0.999], 0.05), ([0.5, 0.99], 0.0)] {
            let one = OnePassAdamW::new(betas, 1e-8, decay);
            let [found, expected] = [after(&one), after(&one.rule)].map(|[tensor]| tensor.into_data());
            assert_eq!(found.as_bytes(), expected.as_bytes());
        }
    }
}
