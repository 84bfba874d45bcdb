//! Rician noise: the magnitude of a complex signal with Gaussian noise in both parts, as in magnitude MR images.

use kindling_random::Rng;
use rand::Rng as _;

use crate::canvas::{Canvas, draw as uniform};
use crate::{SIZE, difficulty};

/// Adds the noise, and clips to `[0, 1]`.
pub(crate) fn add(canvas: &mut Canvas, rng: &mut Rng) {
    let deviation = uniform(rng, difficulty::NOISE);
    // The sum of four random bytes is close enough to a Gaussian, and far cheaper: variance 4 (256^2 - 1) / 12.
    let scale = deviation / (4.0f32 * 65_535.0 / 12.0).sqrt();
    let mut bytes = [0u8; SIZE * 8];
    for row in canvas.rows_mut() {
        rng.fill_bytes(&mut bytes);
        for (pixel, word) in row.iter_mut().zip(bytes.as_chunks::<8>().0) {
            let [a, b, c, d, e, f, g, h] = *word;
            let real = *pixel + scale * sum([a, b, c, d]);
            let imaginary = scale * sum([e, f, g, h]);
            *pixel = (real * real + imaginary * imaginary).sqrt().clamp(0.0, 1.0);
        }
    }
}

/// The sum of four bytes, less its mean. Two bytes at a time, in a form that becomes vector instructions.
#[inline(always)]
fn sum(four: [u8; 4]) -> f32 {
    let word = u32::from_le_bytes(four);
    let pairs = (word & 0x00FF_00FF) + (word >> 8 & 0x00FF_00FF);
    ((pairs + (pairs >> 16)) & 0xFFFF) as i32 as f32 - 510.0
}
