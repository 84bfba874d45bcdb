//! Mixup and CutMix: images and targets of a batch mixed with each other.
//!
//! Who is mixed with whom, and how much, depends on the samples of the global batch alone: every sample draws a number
//! under its own key, the numbers put the samples in a ring, and each takes from the next in the ring.

use kindling_random::{Purpose, Rng, rng_stream};
use rand::RngExt;

use super::{Draw, Policy};

/// What one image of a batch gets of another.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Mixing {
    /// The image it gets it from.
    partner: usize,
    /// The share of itself that it keeps.
    share: f32,
    /// The pixels that are replaced, columns and lines; without it all are blended.
    patch: Option<[(usize, usize); 2]>,
}

/// Mixes a batch: `images` are planes of `size` x `size` pixels, `channels` an image, `targets` have one row of
/// `classes` an image.
pub(crate) fn mix(
    policy: &Policy,
    draws: &[Draw],
    images: &mut [f32],
    targets: &mut [f32],
    (channels, size): (usize, usize),
) {
    let (ring, mixings) = plan(policy, draws, size);
    let Some(&first) = ring.first() else { return };
    let (image, classes) = (channels * size * size, targets.len() / draws.len());
    // Each takes from the next before that one changes, and the last from the first as it was.
    let before = images[first * image..(first + 1) * image].to_vec();
    let pure = targets.to_vec();
    for &row in &ring {
        let Some(mixing) = mixings[row] else { continue };
        let from = mixing.partner;
        let (own, other): (&mut [f32], &[f32]) = if from == first {
            (&mut images[row * image..(row + 1) * image], &before)
        } else if row < from {
            let (low, high) = images.split_at_mut(from * image);
            (&mut low[row * image..(row + 1) * image], &high[..image])
        } else {
            let (low, high) = images.split_at_mut(row * image);
            (&mut high[..image], &low[from * image..(from + 1) * image])
        };
        match mixing.patch {
            None => blend(own, other, mixing.share),
            Some([(left, right), (top, bottom)]) => {
                let planes = own.chunks_exact_mut(size * size).zip(other.chunks_exact(size * size));
                for (own, other) in planes {
                    for line in top..bottom {
                        let range = line * size + left..line * size + right;
                        own[range.clone()].copy_from_slice(&other[range]);
                    }
                }
            }
        }
        let other = &pure[from * classes..(from + 1) * classes];
        blend(&mut targets[row * classes..(row + 1) * classes], other, mixing.share);
    }
}

fn blend(own: &mut [f32], other: &[f32], share: f32) {
    for (own, other) in own.iter_mut().zip(other) {
        *own = share * *own + (1.0 - share) * other;
    }
}

/// The samples in their ring, and what each gets of the next.
fn plan(policy: &Policy, draws: &[Draw], size: usize) -> (Vec<usize>, Vec<Option<Mixing>>) {
    let count = draws.len();
    if count < 2 {
        return (Vec::new(), vec![None; count]);
    }
    let mut rngs: Vec<Rng> =
        draws.iter().map(|draw| rng_stream(draw.seed, Purpose::Mix, draw.epoch, draw.sample, draw.showing)).collect();
    let numbers: Vec<u64> = rngs.iter_mut().map(|rng| rng.random()).collect();
    let mut ring: Vec<usize> = (0..count).collect();
    ring.sort_by_key(|&row| (numbers[row], row));
    let mut mixings = vec![None; count];
    for (place, &row) in ring.iter().enumerate() {
        mixings[row] = one(policy, &mut rngs[row], ring[(place + 1) % count], size);
    }
    (ring, mixings)
}

fn one(policy: &Policy, rng: &mut Rng, partner: usize, size: usize) -> Option<Mixing> {
    let [chance, which, across, down] = [(); 4].map(|()| rng.random::<f32>());
    if chance >= policy.mix_probability.unwrap_or(1.0) {
        return None;
    }
    let cut = policy.cutmix > 0.0 && (policy.mixup == 0.0 || which < 0.5);
    let alpha = if cut { policy.cutmix } else { policy.mixup };
    let share = beta(rng, f64::from(alpha)) as f32;
    if !cut {
        // The pair is mixed both ways round, so nothing is lost by leaving each image the larger part of its place.
        return Some(Mixing { partner, share: share.max(1.0 - share), patch: None });
    }
    let half = (1.0 - share).sqrt() * size as f32 / 2.0;
    let span = |centre: f32| {
        let clamp = |at: f32| at.round().clamp(0.0, size as f32) as usize;
        (clamp(centre * size as f32 - half), clamp(centre * size as f32 + half))
    };
    let patch @ [columns, lines] = [span(across), span(down)];
    let area = (columns.1 - columns.0) * (lines.1 - lines.0);
    Some(Mixing { partner, share: 1.0 - area as f32 / (size * size) as f32, patch: Some(patch) })
}

/// A number of the beta distribution with both parameters `alpha`: the share of one of two gamma numbers.
fn beta(rng: &mut Rng, alpha: f64) -> f64 {
    let (a, b) = (log_gamma_number(rng, alpha), log_gamma_number(rng, alpha));
    // By logarithms, because for a small alpha both numbers can be too small to be told from zero.
    1.0 / (1.0 + (b - a).exp())
}

/// The logarithm of a number of the gamma distribution, by Marsaglia and Tsang (2000); for `alpha` below 1 by their
/// remark 6.
fn log_gamma_number(rng: &mut Rng, alpha: f64) -> f64 {
    if alpha < 1.0 {
        let boost = open(rng).ln() / alpha;
        return log_gamma_number(rng, alpha + 1.0) + boost;
    }
    let d = alpha - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        // Box and Muller's normal number.
        let x = (-2.0 * open(rng).ln()).sqrt() * (std::f64::consts::TAU * open(rng)).cos();
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && open(rng).ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return (d * v).ln();
        }
    }
}

/// A number between 0 and 1, neither of them.
fn open(rng: &mut Rng) -> f64 {
    ((rng.random::<u64>() >> 12) as f64 + 0.5) / (1u64 << 52) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(samples: &[u64]) -> Vec<Draw> {
        samples.iter().map(|&sample| Draw { seed: 3, epoch: 1, sample, showing: 0 }).collect()
    }

    /// Every image is flat, of its sample's number; every sample is a class of its own.
    fn mixed(policy: &Policy, samples: &[u64], size: usize) -> (Vec<f32>, Vec<f32>) {
        let plane = 3 * size * size;
        let mut images: Vec<f32> = samples.iter().flat_map(|&s| vec![s as f32; plane]).collect();
        let mut targets = vec![0.0; samples.len() * samples.len()];
        (0..samples.len()).for_each(|row| targets[row * samples.len() + row] = 1.0);
        mix(policy, &draws(samples), &mut images, &mut targets, (3, size));
        (images, targets)
    }

    #[test]
    fn images_and_targets_are_mixed_in_the_same_shares() {
        let samples: Vec<u64> = (0..9).collect();
        for policy in [Policy { mixup: 0.4, ..Policy::none() }, Policy { cutmix: 1.0, ..Policy::none() }] {
            let size = 20;
            let (images, targets) = mixed(&policy, &samples, size);
            let mut touched = 0;
            for (row, target) in targets.chunks_exact(9).enumerate() {
                assert!((target.iter().sum::<f32>() - 1.0).abs() < 1e-6);
                assert!(target.iter().filter(|share| **share > 0.0).count() <= 2);
                touched += usize::from(target[row] < 1.0);
                let plane = &images[row * 3 * size * size..(row + 1) * 3 * size * size];
                let mean = plane.iter().sum::<f32>() / plane.len() as f32;
                let expected: f32 = target.iter().zip(&samples).map(|(share, &s)| share * s as f32).sum();
                assert!((mean - expected).abs() < 1e-3, "row {row}: {mean} for {expected}");
                let pure = plane.iter().all(|v| v.fract() == 0.0);
                assert_eq!(pure, policy.cutmix > 0.0 || target[row] == 1.0, "a patch is cut, mixup blends");
            }
            assert!(touched >= 7, "{touched} of 9 were mixed");
        }
    }

    #[test]
    fn the_partner_of_a_sample_depends_on_the_batch_and_not_on_its_order() {
        let policy = Policy { mixup: 0.4, cutmix: 1.0, ..Policy::none() };
        let (_, mixings) = plan(&policy, &draws(&[5, 9, 2, 7]), 16);
        let (_, other) = plan(&policy, &draws(&[7, 2, 9, 5]), 16);
        for (row, mixing) in mixings.iter().enumerate() {
            let (a, b) = (mixing.unwrap(), other[3 - row].unwrap());
            assert_eq!((a.share, a.patch, a.partner), (b.share, b.patch, 3 - b.partner));
        }
        // In a ring every sample gives to exactly one.
        let mut givers: Vec<usize> = mixings.iter().map(|mixing| mixing.unwrap().partner).collect();
        givers.sort_unstable();
        assert_eq!(givers, [0, 1, 2, 3]);
    }

    #[test]
    fn one_alone_is_not_mixed_and_a_probability_leaves_some_as_they_are() {
        let policy = Policy { mixup: 1.0, mix_probability: Some(0.5), ..Policy::none() };
        assert_eq!(mixed(&policy, &[4], 4).1, [1.0]);
        let mixings = plan(&policy, &draws(&(0..1000).collect::<Vec<_>>()), 8).1;
        let count = mixings.iter().flatten().count();
        assert!((430..570).contains(&count), "{count} of 1000");
    }

    /// The beta distribution of equal parameters has mean 1/2 and variance `1 / (4 (2 alpha + 1))`.
    #[test]
    fn beta_numbers_have_the_mean_and_the_variance_of_the_distribution() {
        for alpha in [0.1, 0.2, 1.0, 2.5] {
            let mut rng = kindling_random::rng(1, Purpose::Mix, 0, 0);
            let numbers: Vec<f64> = (0..20_000).map(|_| beta(&mut rng, alpha)).collect();
            let mean = numbers.iter().sum::<f64>() / 20_000.0;
            let variance = numbers.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 20_000.0;
            let expected = 1.0 / (4.0 * (2.0 * alpha + 1.0));
            assert!(
                (mean - 0.5).abs() < 0.012 && (variance / expected - 1.0).abs() < 0.04,
                "{alpha}: {mean} {variance}"
            );
        }
    }
}
