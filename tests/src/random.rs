//! Random numbers that are the same in every run of a test.

use rand_chacha::rand_core::SeedableRng;

/// The generator behind every draw.
pub type Rng = rand_chacha::ChaCha8Rng;

/// The generator of a seed. Near seeds give unrelated numbers.
pub fn rng(seed: u64) -> Rng {
    Rng::seed_from_u64(seed)
}
