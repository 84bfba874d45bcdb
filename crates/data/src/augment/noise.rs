//! Noise on every pixel.

use kindling_random::Rng;
use rand::RngExt;

use super::Noise;
use crate::Image;

impl Noise {
    pub(super) fn apply(&self, image: &mut Image, rng: &mut Rng) {
        let (chance, share) = (rng.random::<f32>(), rng.random::<f32>());
        if chance >= self.probability {
            return;
        }
        // The sum of four even numbers of 16 bits is close to normal, its deviation is 2^16 / sqrt(3), and one word of
        // the generator makes it.
        let scale = share * self.deviation * 3f32.sqrt() / 65_536.0;
        for value in &mut image.pixels {
            let word = rng.random::<u64>();
            let sum = (word & 0xFFFF) + (word >> 16 & 0xFFFF) + (word >> 32 & 0xFFFF) + (word >> 48);
            *value = (*value + (sum as f32 - 131_070.0) * scale).clamp(0.0, 1.0);
        }
    }
}
