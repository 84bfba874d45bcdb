//! A global batch in host memory.

use std::ops::Range;

/// A global batch: images ready for upload, labels, and the batch's position in the run.
#[derive(Clone, Debug, PartialEq)]
pub struct HostBatch {
    /// `[batch, channels, height, width]`, normalised.
    pub images: Vec<f32>,
    /// `[batch, channels, height, width]`.
    pub shape: [usize; 4],
    /// The class of each sample.
    pub labels: Vec<usize>,
    /// The index of each sample in its source.
    pub samples: Vec<u64>,
    /// The epoch, from 0.
    pub epoch: u64,
    /// The number of the batch in the epoch, from 0.
    pub index: usize,
}

impl HostBatch {
    /// The number of samples.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The images of some samples, `[range, channels, height, width]`. Panics beyond the batch.
    pub fn images_of(&self, range: Range<usize>) -> &[f32] {
        let image = self.shape[1..].iter().product::<usize>();
        &self.images[range.start * image..range.end * image]
    }

    /// The memory of the images, in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(self.images.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_a_batch_is_the_images_of_its_samples() {
        let batch = HostBatch {
            images: (0..24).map(|v| v as f32).collect(),
            shape: [3, 2, 2, 2],
            labels: vec![0, 1, 0],
            samples: vec![5, 6, 7],
            epoch: 0,
            index: 0,
        };
        assert_eq!(batch.images_of(1..3), &batch.images[8..]);
        assert_eq!(batch.images_of(1..1), &[] as &[f32]);
        assert_eq!((batch.len(), batch.bytes(), batch.is_empty()), (3, 96, false));
    }
}
