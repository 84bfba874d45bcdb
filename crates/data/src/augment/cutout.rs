//! A square without content.

use kindling_random::Rng;
use rand::RngExt;

use super::Cutout;
use super::intensity::mean;
use crate::Image;

impl Cutout {
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
