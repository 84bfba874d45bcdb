//! Dropout whose masks belong to samples.

use burn::tensor::{Tensor, TensorData};
use kindling_random::{Purpose, rng_stream};
use rand::RngExt;

use crate::{pass, precision};

/// While training, zeroes a share of the features of each sample and scales the rest up; otherwise does nothing.
///
/// The mask of a sample depends on (seed, epoch, sample, layer) alone, so it is the same in any micro-batch and in a repeated
/// forward pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropout {
    /// Share of features that is zeroed, in `[0, 1)`.
    pub probability: f64,
    /// Number of this layer among the model's dropout layers, each of which draws from a stream of its own.
    pub layer: u64,
}

impl Dropout {
    /// `[batch, features]` or `[batch, channels, height, width]` in and out; of a map each value is dropped by itself.
    ///
    /// # Panics
    /// If the number of samples of the current pass is not the size of the batch.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let Some(pass) = pass::current() else { return x };
        if self.probability == 0.0 {
            return x;
        }
        let shape = x.dims();
        let (batch, features) = (shape[0], shape[1..].iter().product::<usize>());
        assert_eq!(pass.samples.len(), batch, "a pass over {} samples for a batch of {batch}", pass.samples.len());
        let keep = 1.0 - self.probability;
        let scale = (1.0 / keep) as f32;
        let mut mask = Vec::with_capacity(batch * features);
        for &sample in &pass.samples {
            let mut rng = rng_stream(pass.seed, Purpose::Dropout, pass.epoch, sample, self.layer);
            mask.extend((0..features).map(|_| if rng.random::<f64>() < keep { scale } else { 0.0 }));
        }
        let mask = Tensor::<D>::from_data(TensorData::new(mask, shape), &x.device());
        let mask = precision::like(mask, &x);
        x * mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pass::{TrainingPass, training};
    use burn::tensor::Device;

    fn drop(samples: Vec<u64>, layer: u64) -> Vec<f32> {
        let x = Tensor::<2>::ones([samples.len(), 64], &Device::flex());
        let pass = TrainingPass { groups: vec![samples.len()], seed: 9, epoch: 2, samples };
        let (y, _) = training(pass, || Dropout { probability: 0.25, layer }.forward(x));
        y.into_data().convert::<f32>().try_to_vec().expect("float data")
    }

    #[test]
    fn a_sample_is_dropped_alike_in_any_micro_batch() {
        let whole = drop(vec![5, 6, 7, 8], 0);
        let halves = [drop(vec![5, 6], 0), drop(vec![7, 8], 0)].concat();
        assert_eq!(whole, halves);
        assert_ne!(whole, drop(vec![5, 6, 7, 8], 1), "layers draw from streams of their own");
    }

    #[test]
    fn dropout_keeps_its_share_and_the_mean() {
        let values = drop((0..200).collect(), 0);
        let kept = values.iter().filter(|&&v| v > 0.0).count() as f64 / values.len() as f64;
        assert!((kept - 0.75).abs() < 0.02, "kept {kept}");
        assert!(values.iter().all(|&v| v == 0.0 || (v - 1.0 / 0.75).abs() < 1e-6));
    }

    #[test]
    fn without_a_pass_nothing_is_dropped() {
        let x = Tensor::<2>::ones([2, 8], &Device::flex());
        let y = Dropout { probability: 0.9, layer: 0 }.forward(x.clone());
        y.into_data().assert_eq(&x.into_data(), true);
    }
}
