//! Gaussian blur.

use kindling_random::Rng;
use rand::RngExt;

use super::Blur;
use crate::Image;

impl Blur {
    /// A standard deviation in pixels, or none.
    pub(super) fn draw(&self, rng: &mut Rng) -> Option<f32> {
        let (chance, share) = (rng.random::<f32>(), rng.random::<f32>());
        // Below a tenth of a pixel nothing is left of the neighbours.
        (chance < self.probability).then_some(share * self.sigma).filter(|sigma| *sigma > 0.1)
    }
}

/// Blurs rows, then columns, up to three deviations away; the edge pixels go on outside.
pub(super) fn blur(image: &mut Image, sigma: f32) {
    let radius = (3.0 * sigma).ceil() as usize;
    let mut kernel: Vec<f32> =
        (0..=2 * radius).map(|at| (-0.5 * ((at as f32 - radius as f32) / sigma).powi(2)).exp()).collect();
    let sum: f32 = kernel.iter().sum();
    kernel.iter_mut().for_each(|weight| *weight /= sum);

    let (row, channels) = (image.width * image.channels, image.channels);
    if row == 0 {
        return;
    }
    // A row with its edge pixels repeated on both sides: then each tap is one addition of two slices.
    let mut wide = Vec::with_capacity(row + 2 * radius * channels);
    for line in image.pixels.chunks_exact_mut(row) {
        wide.clear();
        (0..radius).for_each(|_| wide.extend_from_slice(&line[..channels]));
        wide.extend_from_slice(line);
        (0..radius).for_each(|_| wide.extend_from_slice(&line[row - channels..]));
        line.fill(0.0);
        for (tap, weight) in kernel.iter().enumerate() {
            add(line, &wide[tap * channels..tap * channels + row], *weight);
        }
    }
    let source = image.pixels.clone();
    for (y, line) in image.pixels.chunks_exact_mut(row).enumerate() {
        line.fill(0.0);
        for (tap, weight) in kernel.iter().enumerate() {
            let from = (y + tap).saturating_sub(radius).min(image.height - 1);
            add(line, &source[from * row..(from + 1) * row], *weight);
        }
    }
    // Rounding may leave the range by the last bit.
    image.pixels.iter_mut().for_each(|value| *value = value.clamp(0.0, 1.0));
}

fn add(to: &mut [f32], from: &[f32], weight: f32) {
    for (to, from) in to.iter_mut().zip(from) {
        *to += weight * from;
    }
}
