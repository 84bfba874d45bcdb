//! Initial weights, drawn on the host.
//!
//! Burn's initialisers draw from the device's shared generator; here a parameter's values come from (seed, its place
//! in the model), so a model starts from the same weights on every device and whatever else was drawn before.

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Tensor, TensorData};
use kindling_random::{Purpose, rng};
use rand::distr::Distribution;
use rand_distr::StandardNormal;

/// Fills the weights of a new model as torchvision does for the MobileNets: convolutions normal with variance
/// `2 / fan_out` (He et al. 2015), matrices normal with standard deviation 0.01; vectors (norm scales, biases and
/// running statistics) keep what their layer gave them.
pub fn initialise<M: Module>(model: M, seed: u64) -> M {
    model.map(&mut Initialise { seed, place: 0 })
}

struct Initialise {
    seed: u64,
    place: u64,
}

impl ModuleMapper for Initialise {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let place = self.place;
        self.place += 1;
        let shape = param.lazy_shape();
        let deviation = match *shape.as_slice() {
            [output, _, height, width] => (2.0 / (output * height * width) as f64).sqrt(),
            [_, _] => 0.01,
            _ => return param,
        };
        let mut rng = rng(self.seed, Purpose::Init, 0, place);
        let values: Vec<f32> = (0..shape.num_elements())
            .map(|_| {
                let normal: f64 = StandardNormal.sample(&mut rng);
                (normal * deviation) as f32
            })
            .collect();
        param.map(|old| {
            let new = Tensor::from_data(TensorData::new(values, shape), &old.device());
            if old.is_require_grad() { new.require_grad() } else { new }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Conv, ConvConfig};
    use burn::tensor::Device;

    fn weights(seed: u64) -> Vec<f32> {
        let config = ConvConfig { input: 16, output: 64, kernel: 3, stride: 1, depthwise: false };
        let conv: Conv = initialise(config.init(&Device::flex()), seed);
        conv.weight.val().into_data().try_to_vec().expect("float weights")
    }

    #[test]
    fn a_seed_decides_the_initial_weights_and_their_spread_is_he() {
        assert_eq!(weights(3), weights(3));
        assert_ne!(weights(3), weights(4));
        let values = weights(3);
        let variance = values.iter().map(|v| f64::from(v * v)).sum::<f64>() / values.len() as f64;
        let expected = 2.0 / (64.0 * 9.0);
        assert!((variance / expected - 1.0).abs() < 0.05, "variance {variance}, expected {expected}");
    }
}
