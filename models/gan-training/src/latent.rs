//! Latent vectors by key.

use burn::tensor::{Device, Tensor, TensorData};
use kindling_random::{Purpose, Rng, rng, rng_stream};
use rand::distr::Distribution;
use rand_distr::StandardNormal;

/// The half of an iteration that images are made for; each draws its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    Discriminator,
    Generator,
}

impl Half {
    /// The ChaCha stream of this half.
    pub(crate) fn stream(self) -> u64 {
        match self {
            Self::Discriminator => 0,
            Self::Generator => 1,
        }
    }
}

/// The latent vectors of some rows of an iteration, `[rows, width]` on `device`.
pub(crate) fn latents(
    seed: u64,
    iteration: u64,
    half: Half,
    rows: std::ops::Range<usize>,
    width: usize,
    device: &Device,
) -> Tensor<2> {
    let shape = [rows.len(), width];
    let mut values = Vec::with_capacity(rows.len() * width);
    for row in rows {
        normal(rng_stream(seed, Purpose::Latent, iteration, row as u64, half.stream()), width, &mut values);
    }
    Tensor::from_data(TensorData::new(values, shape), device)
}

/// The latent vector of a trained generator's image `index`: it depends on (seed, index) alone.
pub fn sample_latent(seed: u64, index: u64, width: usize) -> Vec<f32> {
    let mut values = Vec::with_capacity(width);
    normal(rng(seed, Purpose::Sample, 0, index), width, &mut values);
    values
}

/// The latent vector at `place` in `[0, 1]` of the way from one to another along the sphere, which keeps its length
/// likely ("Sampling Generative Networks", White 2016).
pub fn between(from: &[f32], to: &[f32], place: f64) -> Vec<f32> {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    let lengths = (dot(from, from) * dot(to, to)).sqrt();
    let angle = (dot(from, to) / lengths.max(f64::MIN_POSITIVE)).clamp(-1.0, 1.0).acos();
    let weights = match angle.sin() {
        sine if sine < 1e-6 => [1.0 - place, place],
        sine => [((1.0 - place) * angle).sin() / sine, (place * angle).sin() / sine],
    };
    let mix = |(a, b): (&f32, &f32)| (weights[0] * f64::from(*a) + weights[1] * f64::from(*b)) as f32;
    from.iter().zip(to).map(mix).collect()
}

fn normal(mut rng: Rng, width: usize, values: &mut Vec<f32>) {
    values.extend((0..width).map(|_| -> f32 { StandardNormal.sample(&mut rng) }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_its_latent_whatever_it_is_computed_with() {
        let device = Device::flex();
        let of = |rows, half| -> Vec<f32> {
            latents(3, 7, half, rows, 16, &device).into_data().try_to_vec().expect("floats")
        };
        let whole = of(0..4, Half::Generator);
        assert_eq!(whole, [of(0..1, Half::Generator), of(1..4, Half::Generator)].concat());
        assert_ne!(whole, of(0..4, Half::Discriminator));
        assert_ne!(sample_latent(1, 0, 16), sample_latent(1, 1, 16));
        assert_eq!(sample_latent(1, 5, 16), sample_latent(1, 5, 16));
    }

    #[test]
    fn the_way_between_two_latents_keeps_their_length() {
        let (from, to) = (sample_latent(1, 0, 400), sample_latent(1, 1, 400));
        assert_eq!(between(&from, &to, 0.0), from);
        let length = |v: &[f32]| v.iter().map(|v| f64::from(v * v)).sum::<f64>().sqrt();
        let middle = length(&between(&from, &to, 0.5));
        assert!((middle - 20.0).abs() < 1.5, "{middle}");
        assert_eq!(between(&from, &from, 0.3), from);
    }
}
