//! Every random number of Kindling comes from (seed, purpose, epoch, sample index).
//!
//! The four numbers are the 32-byte key of a ChaCha8 stream. So micro-batches, the number of threads, the order of execution and retries
//! cannot change what is drawn, and no two keys share a stream. `rand_chacha` documents its ChaCha8 as portable: the same key gives the same
//! words on every platform.

use rand_chacha::rand_core::SeedableRng;

/// The generator behind every draw.
pub type Rng = rand_chacha::ChaCha8Rng;

/// The purpose of a random number. Each purpose has its own streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Purpose {
    /// The order of the samples in an epoch (index 0).
    Order = 1,
    /// The split of a folder into train, val and test (index: class).
    Split = 2,
    /// Augmentation of one sample.
    Augment = 3,
    /// The synthetic scans (index: image).
    Phantom = 4,
    /// Initial weights (index: the parameter's place in the model).
    Init = 5,
    /// Dropout masks of one sample; the layer selects the ChaCha stream.
    Dropout = 6,
    /// Choices that affect only pictures for people.
    Display = 7,
    /// Which residual branches one sample skips; the layer selects the ChaCha stream.
    DropPath = 8,
    /// Noise that a generator adds to one sample's feature maps; the layer selects the ChaCha stream.
    NoiseInjection = 9,
    /// Latent vectors in training (epoch: iteration; index: row); the half of the iteration selects the ChaCha stream.
    Latent = 20,
    /// Augmentation of an image for a discriminator; the kind of image selects the ChaCha stream.
    DiffAugment = 21,
    /// The latent vector of image `index` of a trained generator (epoch 0).
    Sample = 22,
    /// The initial vectors of spectral normalisation (index: the tensor's place in the model).
    Spectral = 23,
    /// The sample at a position of an epoch that draws with replacement (index: the position).
    Sampling = 30,
    /// The replacement of a sample that cannot be read.
    Replacement = 31,
    /// The samples of a batch that are mixed, and the shares of each.
    Mix = 32,
    /// The patients of a bootstrap's resample (index: the resample).
    Resample = 40,
    /// What tests and measurements make up.
    MadeUp = 50,
}

/// The generator of one (seed, purpose, epoch, sample index).
pub fn rng(seed: u64, purpose: Purpose, epoch: u64, index: u64) -> Rng {
    let mut key = [0u8; 32];
    for (slot, value) in key.chunks_exact_mut(8).zip([seed, purpose as u64, epoch, index]) {
        slot.copy_from_slice(&value.to_le_bytes());
    }
    Rng::from_seed(key)
}

/// Like [`rng`], on stream `stream` of that key: independent numbers for each layer of one sample.
pub fn rng_stream(seed: u64, purpose: Purpose, epoch: u64, index: u64, stream: u64) -> Rng {
    let mut rng = rng(seed, purpose, epoch, index);
    rng.set_stream(stream);
    rng
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::RngExt;
    use std::collections::HashSet;

    fn first(mut rng: Rng) -> u64 {
        rng.random()
    }

    #[test]
    fn every_part_of_the_key_changes_the_stream_and_none_depends_on_history() {
        let mut seen = HashSet::new();
        for seed in 0..3 {
            for purpose in [Purpose::Order, Purpose::Split, Purpose::Augment, Purpose::Dropout] {
                for epoch in 0..3 {
                    for index in 0..3 {
                        for stream in 0..2 {
                            let drawn = first(rng_stream(seed, purpose, epoch, index, stream));
                            assert!(seen.insert(drawn), "two keys share a stream");
                            assert_eq!(drawn, first(rng_stream(seed, purpose, epoch, index, stream)));
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn the_stream_is_chacha8_of_the_key() {
        // The all-zero key's first block, from the ChaCha8 test vectors of draft-strombergson-chacha-test-vectors-01,
        // TC1 (256-bit key): 3e00ef2f895f40d6.
        let mut rng = Rng::from_seed([0; 32]);
        let word: u64 = rng.random();
        assert_eq!(word.to_le_bytes(), [0x3e, 0x00, 0xef, 0x2f, 0x89, 0x5f, 0x40, 0xd6]);
    }
}
