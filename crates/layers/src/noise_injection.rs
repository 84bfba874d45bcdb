//! Noise that belongs to samples.

use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor, TensorData};
use kindling_random::{Purpose, rng_stream};
use rand::distr::Distribution;
use rand_distr::StandardNormal;
use rayon::prelude::*;

use crate::pass;
use crate::precision;
use crate::trace::{Describe, Op, Trace, Value};
use kindling_ops::Activation;

/// While training, adds one map of normal noise, times a learned strength, to all channels; otherwise does nothing ("A Style-Based
/// Generator Architecture for Generative Adversarial Networks", Karras et al. 2019, with one strength for all channels as in
/// FastGAN).
///
/// The noise of a sample depends on (seed, epoch, sample, layer) alone, as in [`crate::Dropout`]. The reference implementations
/// add noise when they generate as well; here, a trained generator is a function of its latent vector.
#[derive(Module, Debug)]
pub struct NoiseInjection {
    /// Strength, `[1]`; initially zero.
    pub weight: Param<Tensor<1>>,
    #[module(skip)]
    layer: u64,
}

impl NoiseInjection {
    /// A layer of strength zero. `layer` is its number among the model's noise layers.
    pub fn new(layer: u64, device: &Device) -> Self {
        Self { weight: Param::from_tensor(Tensor::zeros([1], device)), layer }
    }

    /// `[batch, channels, height, width]` in and out.
    ///
    /// # Panics
    /// If the number of samples of the current pass is not the size of the batch.
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let Some(pass) = pass::current() else { return x };
        let [batch, _, height, width] = x.dims();
        assert_eq!(pass.samples.len(), batch, "a pass over {} samples for a batch of {batch}", pass.samples.len());
        let pixels = height * width;
        let mut noise = vec![0.0f32; batch * pixels];
        noise.par_chunks_mut(pixels).zip(&pass.samples).for_each(|(noise, &sample)| {
            let mut rng = rng_stream(pass.seed, Purpose::NoiseInjection, pass.epoch, sample, self.layer);
            noise.fill_with(|| StandardNormal.sample(&mut rng));
        });
        let noise = TensorData::new(noise, [batch, 1, height, width]);
        let noise = Tensor::<4>::from_data(noise, (&x.device(), x.dtype()));
        let strength = precision::like(self.weight.val(), &x);
        x + noise * strength.reshape([1, 1, 1, 1])
    }
}

/// Described as in inference: the identity, with one parameter.
impl Describe for NoiseInjection {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        trace.push(Op::Activation(Activation::Identity), &[input], input.map, 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pass::{TrainingPass, training};

    fn inject(samples: Vec<u64>, layer: u64, strength: f32) -> Vec<f32> {
        let device = Device::flex();
        let mut noise = NoiseInjection::new(layer, &device);
        noise.weight = Param::from_tensor(Tensor::full([1], strength, &device));
        let x = Tensor::<4>::ones([samples.len(), 2, 32, 16], &device);
        let pass = TrainingPass { groups: vec![samples.len()], seed: 5, epoch: 1, samples };
        let (y, _) = training(pass, || noise.forward(x));
        y.into_data().try_to_vec().expect("float data")
    }

    #[test]
    fn a_sample_gets_the_same_noise_in_any_micro_batch_and_on_all_channels() {
        let whole = inject(vec![3, 4, 5], 0, 0.5);
        assert_eq!(whole, [inject(vec![3], 0, 0.5), inject(vec![4, 5], 0, 0.5)].concat());
        assert_ne!(whole, inject(vec![3, 4, 5], 1, 0.5), "layers draw from streams of their own");
        let (first, second) = whole[..1024].split_at(512);
        assert_eq!(first, second);
    }

    #[test]
    fn noise_is_standard_normal_times_the_strength() {
        let values: Vec<f64> = inject((0..40).collect(), 0, 0.5).into_iter().map(|v| f64::from(v) - 1.0).collect();
        let count = values.len() as f64;
        let (mean, square) = (values.iter().sum::<f64>() / count, values.iter().map(|v| v * v).sum::<f64>() / count);
        assert!(mean.abs() < 0.02 && (square - 0.25).abs() < 0.01, "mean {mean}, mean square {square}");
        assert!(inject(vec![0, 1], 0, 0.0).iter().all(|&v| v == 1.0));
    }

    #[test]
    fn without_a_pass_nothing_is_added() {
        let device = Device::flex();
        let mut noise = NoiseInjection::new(0, &device);
        noise.weight = Param::from_tensor(Tensor::ones([1], &device));
        let x = Tensor::<4>::ones([2, 3, 4, 4], &device);
        noise.forward(x.clone()).into_data().assert_eq(&x.into_data(), true);
    }
}
