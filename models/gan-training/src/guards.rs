//! Signs that two networks do not train any more: told in the log, never acted upon.

use kindling_data::HostBatch;

/// What an iteration says about itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Indicators {
    /// Share of real images that the discriminator believed, 0 to 1.
    pub real_believed: f64,
    /// Share of fake images that it believed, 0 to 1.
    pub fake_believed: f64,
    /// Standard deviation of a pixel over the fake images of the batch, averaged over pixels, as a share of the real
    /// images': near 0 if all look alike.
    pub spread: f64,
}

/// Iterations in a row after which a sign is told.
const PATIENCE: u32 = 50;
/// A spread below this is a collapse.
const COLLAPSED: f64 = 0.1;
/// A discriminator that is right this often teaches nothing.
const DOMINANT: f64 = 0.999;

/// Counts how long signs have held.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Guards {
    collapsed: u32,
    dominant: u32,
}

impl Guards {
    /// What is worth telling after an iteration: each sign once, when it has held long enough.
    pub(crate) fn after(&mut self, of: &Indicators) -> Vec<String> {
        let count = |known: u32, holds: bool| if holds { known.saturating_add(1) } else { 0 };
        self.collapsed = count(self.collapsed, of.spread < COLLAPSED);
        let right = (of.real_believed + 1.0 - of.fake_believed) / 2.0;
        self.dominant = count(self.dominant, right >= DOMINANT);
        let mut told = Vec::new();
        if self.collapsed == PATIENCE {
            told.push(format!(
                "fake images differ from each other by {:.0} % of what real ones do: the generator may have collapsed",
                of.spread * 100.0
            ));
        }
        if self.dominant == PATIENCE {
            told.push(format!(
                "the discriminator was right about every image for {PATIENCE} iterations: the generator learns little"
            ));
        }
        told
    }
}

/// The standard deviation of a pixel over the images of a batch, averaged over pixels.
pub(crate) fn spread_of(batch: &HostBatch) -> f64 {
    let image = batch.shape[1..].iter().product::<usize>();
    let (mut sums, mut squares) = (vec![0.0f64; image], vec![0.0f64; image]);
    for pixels in batch.images.chunks_exact(image.max(1)) {
        for ((sum, square), &value) in sums.iter_mut().zip(&mut squares).zip(pixels) {
            let value = f64::from(value);
            *sum += value;
            *square += value * value;
        }
    }
    let count = batch.len().max(1) as f64;
    let deviation = |(sum, square): (&f64, &f64)| (square / count - (sum / count).powi(2)).max(0.0).sqrt();
    sums.iter().zip(&squares).map(deviation).sum::<f64>() / image.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_is_told_once_when_it_has_held() {
        let healthy = Indicators { real_believed: 0.7, fake_believed: 0.4, spread: 0.8 };
        let collapsed = Indicators { spread: 0.02, ..healthy };
        let mut guards = Guards::default();
        let told: Vec<usize> = (0..200).map(|_| guards.after(&collapsed).len()).collect();
        assert_eq!(told.iter().sum::<usize>(), 1);
        assert_eq!(told[PATIENCE as usize - 1], 1);
        assert!(guards.after(&healthy).is_empty());
        let dominated = Indicators { real_believed: 1.0, fake_believed: 0.0, spread: 0.5 };
        assert_eq!((0..60).map(|_| guards.after(&dominated).len()).sum::<usize>(), 1);
    }

    #[test]
    fn equal_images_have_no_spread() {
        let batch = |images: Vec<f32>| HostBatch {
            images,
            shape: [2, 1, 1, 2],
            labels: vec![0, 0],
            samples: vec![0, 1],
            ..HostBatch::default()
        };
        assert_eq!(spread_of(&batch(vec![0.5, -1.0, 0.5, -1.0])), 0.0);
        // Pixels of 1 and -1: a deviation of 1 in one pixel, 0 in the other.
        assert_eq!(spread_of(&batch(vec![1.0, 0.25, -1.0, 0.25])), 0.5);
    }
}
