//! Burn's AdamW, in one pass over the weights where the device can.

use burn::optim::{AdamW, AdamWConfig, AdamWState, AdaptiveMomentumState, LearningRate, Optimizer};
use burn::tensor::{Device, Tensor};
use kindling_ops::{AdamWStep, AdamWTensors, adamw, adamw_serves};

use crate::update_rule::{Parameter, Rule, Updated, one_after_the_other};

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

    fn numbers(&self, rate: LearningRate, scale: f64, time: usize) -> AdamWStep {
        AdamWStep {
            scale: scale as f32,
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
        self.rule.step(rate, tensor, gradient, state)
    }

    fn to_device<const D: usize>(state: AdamWState<D>, device: &Device) -> AdamWState<D> {
        AdamW::to_device(state, device)
    }
}

impl Rule for OnePassAdamW {
    fn update(&self, rate: f64, scale: f64, parameters: Vec<Parameter<Self>>) -> Vec<Updated<Self>> {
        if !parameters.iter().all(|parameter| adamw_serves(&parameter.weight)) {
            return one_after_the_other(self, rate, scale, parameters);
        }
        // Parameters that were frozen for a while have taken fewer updates than others.
        let time = |parameter: &Parameter<Self>| parameter.state.as_ref().map_or(0, |state| state.momentum.time) + 1;
        let mut left = parameters.into_iter().peekable();
        let mut updated = Vec::new();
        while let Some(this) = left.peek().map(time) {
            let mut some = Vec::new();
            while let Some(parameter) = left.next_if(|parameter| time(parameter) == this) {
                let Parameter { weight, gradient, state } = parameter;
                let moments = state.map(|state| [state.momentum.moment_1, state.momentum.moment_2]);
                some.push(AdamWTensors { weight, gradient, moments });
            }
            let new = adamw(some, self.numbers(rate, scale, this)).into_iter();
            updated.extend(new.map(|[weight, first, second]| {
                (weight, Some(AdamWState::new(AdaptiveMomentumState::new(this, first, second))))
            }));
        }
        updated
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::TensorData;
    use kindling_random::{Purpose, rng};
    use rand::RngExt;

    type Step<'a> = &'a dyn Fn(f64, Parameter<OnePassAdamW>) -> Updated<OnePassAdamW>;

    /// Twenty steps of one tensor, gradients of all sizes and exact zeros among them.
    fn after(step: Step<'_>) -> Tensor<1> {
        const LENGTH: usize = 40_000;
        let device = Device::flex();
        let numbers = |seed: u64, size: f32| {
            let mut rng = rng(seed, Purpose::MadeUp, 0, 0);
            let values: Vec<f32> = (0..LENGTH).map(|_| (rng.random::<f32>() - 0.5) * size).collect();
            Tensor::<1>::from_data(TensorData::new(values, [LENGTH]), &device)
        };
        let (mut tensor, mut state) = (numbers(1, 2.0), None);
        for number in 0..20 {
            let gradient =
                numbers(number + 2, 10f32.powi(number as i32 % 9 - 6)).mul_scalar(f32::from(number % 7 != 3));
            (tensor, state) = step(1e-3 * (number + 1) as f64, Parameter { weight: tensor, gradient, state });
        }
        tensor
    }

    #[test]
    fn one_pass_is_burns_rule_to_the_bit() {
        const SCALE: f64 = 0.37;
        for (betas, decay) in [([0.9, 0.999], 0.05), ([0.5, 0.99], 0.0)] {
            let one = OnePassAdamW::new(betas, 1e-8, decay);
            let in_one_pass = |rate, parameter| one.update(rate, SCALE, vec![parameter]).remove(0);
            let by_burn = |rate, Parameter { weight, gradient, state }: Parameter<OnePassAdamW>| {
                one.rule.step(rate, weight, gradient.mul_scalar(SCALE), state)
            };
            let [found, expected] = [after(&in_one_pass), after(&by_burn)].map(Tensor::into_data);
            assert_eq!(found.as_bytes(), expected.as_bytes());
        }
    }
}
