//! Running statistics for an averaged generator.
//!
//! The average of many networks' weights is another network, whose maps have other means and variances than theirs had;
//! with the average of their statistics its images come out pale. So its statistics are measured, as "Large Scale GAN
//! Training for High Fidelity Natural Image Synthesis" (Brock et al. 2019, appendix C) does: some batches of latent
//! vectors are run through it. They come from the seed, so that equal weights have equal statistics.

use burn::tensor::{Device, Tensor, TensorData};
use kindling_layers::pass::{self, BatchStatistics, TrainingPass};
use kindling_layers::{Generator, host};
use kindling_trainer::TrainError;
use kindling_trainer::engine::once_more;

use crate::latent::sample_latent;

/// Images that the statistics are measured on; whole groups, and not less than this many.
const IMAGES: usize = 64;
/// Numbers of the latent vectors begin here, so that no sample anybody asks for is among them.
const FIRST: u64 = 1 << 62;

/// The generator with the statistics of normalisation groups of `group` images. It is on `device`, without gradients.
///
/// # Errors
/// [`TrainError::InferenceOutOfMemory`] if a group does not fit, [`TrainError::Device`].
pub fn calibrate<G: Generator>(
    generator: G,
    seed: u64,
    latent: usize,
    group: usize,
    device: &Device,
) -> Result<G, TrainError> {
    let group = group.clamp(2, IMAGES);
    let mut statistics = BatchStatistics::default();
    for first in (0..IMAGES).step_by(group) {
        statistics.merge(once_more(device, || measure(&generator, seed, latent, first..first + group, device))?);
    }
    // Nothing of what was there before is kept.
    Ok(statistics.commit(generator, 1.0))
}

fn measure<G: Generator>(
    generator: &G,
    seed: u64,
    latent: usize,
    rows: std::ops::Range<usize>,
    device: &Device,
) -> Result<BatchStatistics, TrainError> {
    let count = rows.len();
    let samples: Vec<u64> = rows.map(|row| FIRST + row as u64).collect();
    TrainError::caught(None, count, || {
        let values: Vec<f32> = samples.iter().flat_map(|&sample| sample_latent(seed, sample, latent)).collect();
        let latents = Tensor::<2>::from_data(TensorData::new(values, [count, latent]), device);
        let pass = TrainingPass { groups: vec![count], seed, epoch: 0, samples: samples.clone() };
        let (images, statistics) = pass::training(pass, || generator.forward(latents));
        // What failed on the device shows when something is read.
        let read = host::read(images.narrow(0, 0, 1).narrow(2, 0, 1).narrow(3, 0, 1));
        read.map(|_| statistics).map_err(|text| TrainError::of_device(None, count, &text))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::{LATENT, ToyGenerator};
    use kindling_layers::parameters;

    #[test]
    fn statistics_are_the_networks_own_and_nothing_else_changes() {
        let device = Device::flex();
        let toy = ToyGenerator::new(&device);
        let before = parameters::read(&toy).unwrap();
        let calibrated = calibrate(toy, 1, LATENT, 8, &device).unwrap();
        let after = parameters::read(&calibrated).unwrap();
        let changed: Vec<&String> = before.keys().filter(|name| before[*name] != after[*name]).collect();
        assert_eq!(changed, ["norm.running_mean", "norm.running_var"]);
        let again = parameters::read(&calibrate(calibrated, 1, LATENT, 8, &device).unwrap()).unwrap();
        assert_eq!(after, again, "what was there before is not kept");

        // The first layer is linear in standard normal numbers: the variance of its outputs is a sum of squares.
        let weight: Vec<f32> = after["project.weight"].clone().try_to_vec().unwrap();
        let of_channel = |channel: usize| -> f64 {
            let taps =
                (0..LATENT).flat_map(|input| &weight[(input * 8 + channel) * 16..(input * 8 + channel + 1) * 16]);
            taps.map(|tap| f64::from(tap * tap)).sum::<f64>() / 16.0
        };
        let found: Vec<f32> = after["norm.running_var"].clone().try_to_vec().unwrap();
        for (channel, found) in found.into_iter().enumerate() {
            let expected = of_channel(channel);
            assert!((f64::from(found) / expected - 1.0).abs() < 0.5, "channel {channel}: {found} for {expected}");
        }
    }
}
