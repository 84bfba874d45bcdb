//! Stochastic depth whose random draws belong to samples.

use burn::tensor::{Tensor, TensorData};
use kindling_random::{Purpose, rng_stream};
use rand::RngExt;

use crate::pass;
use crate::precision;

/// While training, leaves out a residual branch for some samples and scales it up for the others; otherwise does nothing
/// ("Deep Networks with Stochastic Depth", Huang et al. 2016, with the scaling of torchvision and timm).
///
/// Whether a sample skips the branch depends on (seed, epoch, sample, layer) alone, as in [`crate::Dropout`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DropPath {
    /// Share of samples whose branch is left out, in `[0, 1)`.
    pub probability: f64,
    /// Number of this layer among the model's residual branches.
    pub layer: u64,
}

impl DropPath {
    /// The branch's output `[batch, channels, height, width]`, zero for the samples that skip.
    ///
    /// # Panics
    /// If the number of samples of the current pass is not the size of the batch.
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let batch = x.dims()[0];
        match self.factors(batch) {
            Some(factors) => {
                let mask = Tensor::<4>::from_data(TensorData::new(factors, [batch, 1, 1, 1]), &x.device());
                let mask = precision::like(mask, &x);
                x * mask
            }
            None => x,
        }
    }

    /// The factor of each sample of the batch; `None` if all are 1.
    ///
    /// # Panics
    /// As [`DropPath::forward`].
    pub(crate) fn factors(&self, batch: usize) -> Option<Vec<f32>> {
        let pass = pass::current().filter(|_| self.probability > 0.0)?;
        assert_eq!(pass.samples.len(), batch, "a pass over {} samples for a batch of {batch}", pass.samples.len());
        let keep = 1.0 - self.probability;
        let of_sample = |&sample: &u64| {
            let mut rng = rng_stream(pass.seed, Purpose::DropPath, pass.epoch, sample, self.layer);
            if rng.random::<f64>() < keep { (1.0 / keep) as f32 } else { 0.0 }
        };
        Some(pass.samples.iter().map(of_sample).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pass::{TrainingPass, training};
    use burn::tensor::Device;

    fn drop(samples: Vec<u64>) -> Vec<f32> {
        let x = Tensor::<4>::ones([samples.len(), 2, 1, 1], &Device::flex());
        let pass = TrainingPass { groups: vec![samples.len()], seed: 4, epoch: 1, samples };
        let (y, _) = training(pass, || DropPath { probability: 0.25, layer: 3 }.forward(x));
        y.into_data().try_to_vec().expect("float data")
    }

    #[test]
    fn a_sample_skips_alike_in_any_micro_batch_and_with_all_its_channels() {
        let whole = drop((0..400).collect());
        assert_eq!(whole, [drop((0..150).collect()), drop((150..400).collect())].concat());
        let (pairs, _) = whole.as_chunks::<2>();
        assert!(pairs.iter().all(|[a, b]| a == b && (*a == 0.0 || (a - 4.0 / 3.0).abs() < 1e-6)));
        let kept = pairs.iter().filter(|[a, _]| *a > 0.0).count();
        assert!((270..330).contains(&kept), "kept {kept} of 400");
    }

    #[test]
    fn without_a_pass_nothing_is_left_out() {
        let x = Tensor::<4>::ones([2, 1, 1, 1], &Device::flex());
        let y = DropPath { probability: 0.9, layer: 0 }.forward(x.clone());
        y.into_data().assert_eq(&x.into_data(), true);
    }
}
