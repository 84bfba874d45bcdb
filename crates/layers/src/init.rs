//! Initial weights, drawn on the host.
//!
//! Burn's initialisers draw from a generator that everything on a device shares. Here the values of a parameter depend on the seed and
//! its place in the model alone, so a model starts from the same weights on every device, whatever was drawn before.

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Tensor, TensorData};
use kindling_random::{Purpose, Rng, rng};
use rand::distr::Distribution;
use rand_distr::StandardNormal;

use crate::parameters::ModulePath;

/// Initialises the weights of a model as torchvision does for the MobileNets: convolutions are normal with variance
/// `2 / fan_out` (He et al. 2015), and matrices normal with standard deviation 0.01. Vectors (scales of normalisation, biases and
/// running statistics) keep the values that their layers set.
pub fn initialise<M: Module>(model: M, seed: u64) -> M {
    initialise_only(model, seed, |_| true)
}

/// [`initialise`] for the tensors whose name is wanted. They get the same values as in a call that initialises all.
pub fn initialise_only<M: Module>(model: M, seed: u64, wanted: impl Fn(&str) -> bool) -> M {
    model.map(&mut Initialise { seed, place: 0, path: ModulePath::default(), wanted })
}

/// Initialises the weights of a generator or discriminator as DCGAN does (Radford et al. 2015, section 3, and PyTorch's example):
/// convolutions and matrices are normal with standard deviation 0.02, and scales of batch normalisation normal around one with the
/// same deviation. Everything else keeps the values that its layer set.
///
/// `network` numbers the networks of one seed, so that each draws other values.
pub fn initialise_adversarial<M: Module>(model: M, seed: u64, network: u64) -> M {
    model.map(&mut InitialiseAdversarial { seed, network, place: 0, norm_scale: false })
}

struct Initialise<W> {
    seed: u64,
    place: u64,
    path: ModulePath,
    wanted: W,
}

impl<W: Fn(&str) -> bool> ModuleMapper for Initialise<W> {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, _name: &str, container: &str) {
        self.path.exit(container);
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let place = self.place;
        self.place += 1;
        if !(self.wanted)(&self.path.to_string()) {
            return param;
        }
        let shape = param.lazy_shape();
        let deviation = match *shape.as_slice() {
            [output, _, height, width] => (2.0 / (output * height * width) as f64).sqrt(),
            [_, _] => 0.01,
            _ => return param,
        };
        drawn(param, 0.0, deviation, rng(self.seed, Purpose::Init, 0, place))
    }
}

struct InitialiseAdversarial {
    seed: u64,
    network: u64,
    place: u64,
    norm_scale: bool,
}

impl ModuleMapper for InitialiseAdversarial {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.norm_scale = name == "weight" && container == "Struct:BatchNorm";
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        const DEVIATION: f64 = 0.02;
        let rng = rng(self.seed, Purpose::Init, self.network, self.place);
        self.place += 1;
        match D {
            1 if self.norm_scale => drawn(param, 1.0, DEVIATION, rng),
            1 => param,
            _ => drawn(param, 0.0, DEVIATION, rng),
        }
    }
}

/// Replaces the values of a parameter by normal ones.
fn drawn<const D: usize>(param: Param<Tensor<D>>, mean: f64, deviation: f64, mut rng: Rng) -> Param<Tensor<D>> {
    let shape = param.lazy_shape();
    let values: Vec<f32> = (0..shape.num_elements())
        .map(|_| {
            let normal: f64 = StandardNormal.sample(&mut rng);
            (mean + normal * deviation) as f32
        })
        .collect();
    param.map(|old| {
        let new = Tensor::from_data(TensorData::new(values, shape), &old.device());
        if old.is_require_grad() { new.require_grad() } else { new }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Activation, BatchNormConfig, Conv2d, Conv2dConfig, ConvNormConfig, parameters};
    use burn::tensor::Device;

    #[test]
    fn a_tensor_that_is_filled_alone_has_the_values_it_has_among_all() {
        let pair = || {
            let config = Conv2dConfig::new(4, 8, 3, 1);
            vec![config.init(&Device::flex()), config.init(&Device::flex())]
        };
        let read = |model: Vec<Conv2d>| parameters::read(&model).expect("readable");
        let (all, one) = (read(initialise(pair(), 3)), read(initialise_only(pair(), 3, |name| name.starts_with('1'))));
        assert_eq!(all["1.weight"], one["1.weight"]);
        assert!(one["0.weight"].iter::<f32>().all(|value| value == 0.0), "it was filled");
    }

    fn weights(seed: u64) -> Vec<f32> {
        let config = Conv2dConfig::new(16, 64, 3, 1);
        let conv: Conv2d = initialise(config.init(&Device::flex()), seed);
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

    #[test]
    fn adversarial_networks_draw_convolutions_around_zero_and_norm_scales_around_one() {
        let device = Device::flex();
        let norm = BatchNormConfig::default();
        let config = ConvNormConfig { conv: Conv2dConfig::new(16, 256, 3, 1), norm, activation: Activation::Relu };
        let draw =
            |network| parameters::read(&initialise_adversarial(config.init(&device), 3, network)).expect("readable");
        let (first, second) = (draw(0), draw(1));
        assert_eq!(first, draw(0));
        for (name, mean) in [("conv.weight", 0.0), ("norm.weight", 1.0)] {
            assert_ne!(first[name], second[name], "two networks share the draws of {name}");
            let values: Vec<f32> = first[name].clone().try_to_vec().expect("float weights");
            let (sum, squares) = values.iter().fold((0.0, 0.0), |(sum, squares), &v| {
                let v = f64::from(v) - mean;
                (sum + v, squares + v * v)
            });
            let count = values.len() as f64;
            let (offset, deviation) = (sum / count, (squares / count).sqrt());
            assert!(offset.abs() < 0.005 && (deviation - 0.02).abs() < 0.003, "{name}: {offset} {deviation}");
        }
        assert_eq!(first["norm.bias"], second["norm.bias"]);
    }
}
