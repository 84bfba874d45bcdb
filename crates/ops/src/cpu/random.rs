//! Numbers for tests.

use kindling_random::{Purpose, rng};
use rand::RngExt;

/// Numbers between -0.5 and 0.5, the same for the same seed.
pub(super) fn random(seed: u64, count: usize) -> Vec<f32> {
    let mut rng = rng(seed, Purpose::Display, 0, 0);
    (0..count).map(|_| rng.random::<f32>() - 0.5).collect()
}
