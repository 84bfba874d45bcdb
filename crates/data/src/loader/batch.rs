//! A global batch in host memory.

use std::ops::Range;

use crate::source::BadSample;

/// A global batch: images ready for upload, labels, and the batch's position in the run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostBatch {
    /// `[rows, channels, height, width]`, normalised: of all rows from [`HostBatch::first_row`] on that are there. Where several
    /// processes train, each has the images of those rows alone that it computes.
    pub images: Vec<f32>,
    /// `[rows, height, width]`: the class of every pixel of [`HostBatch::images`], an index into the classes or
    /// [`IGNORED`](crate::IGNORED). Absent but for a segmentation.
    pub masks: Option<Vec<u8>>,
    /// `[batch][classes]`: how many pixels of each sample are of each class, those that are ignored left out. Empty but for a
    /// segmentation, and of a sample whose mask is not here until the processes have told each other.
    pub pixels: Vec<Vec<u64>>,
    /// Row of the batch, from 0, that the first of [`HostBatch::images`] is of.
    pub first_row: usize,
    /// `[batch, channels, height, width]`.
    pub shape: [usize; 4],
    /// The class of each sample; of several the first, of a mixed image the one it has most of.
    pub labels: Vec<usize>,
    /// `[batch, classes]`: how much each sample is of each class. Absent where each is wholly of its label's. Rows add up
    /// to 1 where a sample is of one class, mixed or not; where it may be of several they hold zeros and ones, and what
    /// is between where images are mixed.
    pub targets: Option<Vec<f32>>,
    /// The index of each sample in its source.
    pub samples: Vec<u64>,
    /// What could not be read, in the order of the batch.
    pub bad: Vec<BadSample>,
    /// The epoch, from 0.
    pub epoch: u64,
    /// The number of the batch in the epoch, from 0.
    pub index: usize,
}

impl HostBatch {
    /// Counts the pixels of the masks that are here, each of which is of one of `classes` or ignored.
    pub(super) fn count_pixels(&mut self, classes: usize) {
        let Some(masks) = &self.masks else { return };
        let size: usize = self.shape[2..].iter().product();
        self.pixels = vec![Vec::new(); self.len()];
        for (counts, mask) in self.pixels.iter_mut().skip(self.first_row).zip(masks.chunks_exact(size.max(1))) {
            *counts = vec![0; classes];
            for class in mask {
                if let Some(count) = counts.get_mut(usize::from(*class)) {
                    *count += 1;
                }
            }
        }
    }

    /// How many samples the batch has; the last of an epoch may have fewer.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The rows whose images are there.
    pub fn rows(&self) -> Range<usize> {
        let image = self.shape[1..].iter().product::<usize>().max(1);
        self.first_row..self.first_row + self.images.len() / image
    }

    /// The images of some samples, `[range, channels, height, width]`. Panics where images are not there.
    pub fn images_of(&self, range: Range<usize>) -> &[f32] {
        let image = self.shape[1..].iter().product::<usize>();
        &self.images[(range.start - self.first_row) * image..(range.end - self.first_row) * image]
    }

    /// The masks of some samples, `[range, height, width]`, if there are any. Panics where images are not there.
    pub fn masks_of(&self, range: Range<usize>) -> Option<&[u8]> {
        let masks = self.masks.as_deref()?;
        let mask = self.shape[2..].iter().product::<usize>();
        Some(&masks[(range.start - self.first_row) * mask..(range.end - self.first_row) * mask])
    }

    /// The targets of some samples, `[range, classes]`, if there are any. Panics beyond the batch.
    pub fn targets_of(&self, range: Range<usize>) -> Option<&[f32]> {
        let targets = self.targets.as_deref()?;
        let classes = targets.len() / self.len().max(1);
        Some(&targets[range.start * classes..range.end * classes])
    }

    /// The memory of images and masks, in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(self.images.as_slice()) + self.masks.as_ref().map_or(0, Vec::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_a_batch_is_the_images_and_targets_of_its_samples() {
        let batch = HostBatch {
            images: (0..24).map(|v| v as f32).collect(),
            shape: [3, 2, 2, 2],
            labels: vec![0, 1, 0],
            samples: vec![5, 6, 7],
            ..HostBatch::default()
        };
        assert_eq!(batch.images_of(1..3), &batch.images[8..]);
        assert_eq!(batch.images_of(1..1), &[] as &[f32]);
        assert_eq!((batch.len(), batch.bytes(), batch.is_empty()), (3, 96, false));
        assert_eq!(batch.targets_of(0..1), None);
        assert_eq!(batch.masks_of(0..1), None);
        let masked = HostBatch { masks: Some((0..8).collect()), first_row: 1, ..batch.clone() };
        assert_eq!((masked.masks_of(2..3), masked.bytes()), (Some([4, 5, 6, 7].as_slice()), 104));
        let part = HostBatch { images: batch.images[8..16].to_vec(), first_row: 1, ..batch.clone() };
        assert_eq!((part.rows(), part.images_of(1..2)), (1..2, batch.images_of(1..2)));
        let soft = HostBatch { targets: Some(vec![1.0, 0.0, 0.25, 0.75, 0.0, 1.0]), ..batch };
        assert_eq!(soft.targets_of(1..2), Some([0.25, 0.75].as_slice()));
    }
}
