//! Changes of values where they are: blur, brightness, contrast, gamma, noise, and a square without content.

use kindling_random::Rng;
use rand::RngExt;

use super::{Blur, Cutout, Noise};
use crate::decode::Image;

/// Entries of the table that a power is looked up in.
const TABLE: usize = 1 << 14;

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

/// Adds a slice, weighted.
fn add(to: &mut [f32], from: &[f32], weight: f32) {
    for (to, from) in to.iter_mut().zip(from) {
        *to += weight * from;
    }
}

/// `mean + (value - mean) * contrast + brightness`, within `[0, 1]`.
pub(super) fn stretch(image: &mut Image, contrast: f32, brightness: f32) {
    let mean = mean(image);
    for value in &mut image.pixels {
        *value = (mean + (*value - mean) * contrast + brightness).clamp(0.0, 1.0);
    }
}

/// The mean of all values of an image.
pub(super) fn mean(image: &Image) -> f32 {
    // Eight sums at a time: one alone would wait for each addition. In double precision the order of additions is lost in
    // the rounding of the mean to single precision, but for one image in a million.
    let (eights, rest) = image.pixels.as_chunks::<8>();
    let mut sums = [0.0f64; 8];
    for values in eights {
        sums.iter_mut().zip(values).for_each(|(sum, &value)| *sum += f64::from(value));
    }
    let sum = sums.iter().sum::<f64>() + rest.iter().map(|&value| f64::from(value)).sum::<f64>();
    (sum / image.pixels.len().max(1) as f64) as f32
}

/// `value ^ exponent`, by a table with straight lines between its entries: a power of each value would take longer than
/// all other changes together.
pub(super) fn gamma(image: &mut Image, exponent: f32) {
    let steps = (TABLE - 1) as f32;
    let table: Vec<f32> = (0..TABLE).map(|entry| (entry as f32 / steps).powf(exponent)).collect();
    for value in &mut image.pixels {
        let at = value.clamp(0.0, 1.0) * steps;
        let entry = (at as usize).min(TABLE - 2);
        *value = table[entry] + (at - entry as f32) * (table[entry + 1] - table[entry]);
    }
}

impl Noise {
    /// Noise on every value.
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

impl Cutout {
    /// A square of the image's mean.
    pub(super) fn apply(&self, image: &mut Image, rng: &mut Rng) {
        let [chance, across, down] = [(); 3].map(|()| rng.random::<f32>());
        if chance >= self.probability {
            return;
        }
        let mean = mean(image);
        // Its centre is anywhere, so a part of it may lie outside.
        let span = |centre: f32, side: usize| {
            let (side, half) = (side as f32, self.size * side as f32 / 2.0);
            let clamp = |at: f32| at.round().clamp(0.0, side) as usize;
            clamp(centre * side - half)..clamp(centre * side + half)
        };
        let (columns, lines) = (span(across, image.width), span(down, image.height));
        for y in lines {
            let start = (y * image.width + columns.start) * image.channels;
            image.pixels[start..start + columns.len() * image.channels].fill(mean);
        }
    }
}
