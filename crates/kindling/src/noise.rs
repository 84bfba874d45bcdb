//! Random images for measurements, which need something to compute and nothing to learn.

use kindling_random::{Purpose, rng};
use rand::RngExt;

/// The numbers of image or batch `index`, in `[0, 1)`.
pub(crate) fn noise(count: usize, seed: u64, index: u64) -> Vec<f32> {
    let mut rng = rng(seed, Purpose::MadeUp, 0, index);
    (0..count).map(|_| rng.random()).collect()
}
