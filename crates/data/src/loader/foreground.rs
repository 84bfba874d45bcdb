//! Places of a batch that are kept for images with something in their masks, so that rare classes are seen in every batch.

use kindling_random::{Purpose, rng};
use rand::RngExt;

use super::LoaderConfig;
use crate::error::DataError;
use crate::source::{Source, classes_in_masks};

/// The share of a batch that is drawn from images with a foreground class: nnU-Net's `oversample_foreground_percent`.
pub const FOREGROUND_SHARE: f64 = 0.33;

/// The samples that show each class but the background. Made once.
#[derive(Debug, PartialEq)]
pub(crate) struct Foreground {
    /// Of each class that some mask has, the samples whose masks have it, in their order.
    by_class: Vec<Vec<u64>>,
}

impl Foreground {
    /// Finds out which classes each mask has. `progress` is called after every sample.
    ///
    /// # Errors
    /// [`DataError::Foreground`] where nothing is in the masks, and those of masks.
    pub(crate) fn of(
        source: &dyn Source,
        config: &LoaderConfig,
        progress: impl Fn() + Sync,
    ) -> Result<Self, DataError> {
        let mut by_class: Vec<Vec<u64>> = Vec::new();
        for (sample, classes) in (0..).zip(classes_in_masks(source, config.on_bad, progress)?) {
            for class in classes.into_iter().filter(|class| *class > 0) {
                if by_class.len() < class {
                    by_class.resize(class, Vec::new());
                }
                by_class[class - 1].push(sample);
            }
        }
        by_class.retain(|samples| !samples.is_empty());
        if by_class.is_empty() && !source.is_empty() {
            let what = "all training masks are nothing but background; give masks with something in them, or take --sampling even";
            return Err(DataError::Foreground { what });
        }
        Ok(Self { by_class })
    }

    /// The sample at a place of an epoch: a class is drawn, each as likely as any other, and then one of the images that show it. `None`
    /// where there are no samples.
    pub(super) fn at(&self, seed: u64, epoch: u64, place: usize) -> Option<u64> {
        let mut rng = rng(seed, Purpose::Sampling, epoch, place as u64);
        // The high half of the product is uniform below `len`, but for a bias of at most len / 2^64.
        let mut below = |len: usize| ((u128::from(rng.random::<u64>()) * len as u128) >> 64) as usize;
        let class = below(self.by_class.len());
        let samples = self.by_class.get(class)?;
        samples.get(below(samples.len())).copied()
    }
}

/// The first place of a batch of `rows` that is drawn from the foreground; those behind it are, too. nnU-Net's rule, halves to the even
/// number as in Python. Of a batch of one no place is.
pub(super) fn first_drawn(rows: usize) -> usize {
    (rows as f64 * (1.0 - FOREGROUND_SHARE)).round_ties_even() as usize
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// What nnU-Net's loader says, computed by Python:
    /// `[sum(not at < round(rows * (1 - 0.33)) for at in range(rows)) for rows in (1, 2, 3, 4, 5, 6, 7, 8, 12, 49, 50, 1550)]`.
    #[test]
    fn as_many_places_are_drawn_as_by_nnu_net() {
        let drawn = [1, 2, 3, 4, 5, 6, 7, 8, 12, 49, 50, 1550].map(|rows| rows - first_drawn(rows));
        assert_eq!(drawn, [0, 1, 1, 1, 2, 2, 2, 3, 4, 16, 16, 512]);
    }

    #[test]
    fn classes_are_drawn_evenly_however_rare_and_then_their_images() {
        // Ten images of a common class, the last of which also has the rare one.
        let foreground = Foreground { by_class: vec![(0..10).collect(), vec![9]] };
        let mut counts = [0usize; 10];
        (0..20_000).for_each(|place| counts[foreground.at(3, 0, place).unwrap() as usize] += 1);
        // 10000 of the rare class and 1000 of each image of the other: standard deviations 71 and 31.
        assert!((10_700..11_300).contains(&counts[9]), "{counts:?}");
        assert!(counts[..9].iter().all(|count| (870..1130).contains(count)), "{counts:?}");
        assert_eq!(Foreground { by_class: vec![] }.at(3, 0, 1), None);
    }
}
