//! Label maps.

use super::error::SegmentationError;

/// The class of every pixel of an image, or of every voxel of a volume.
///
/// Labels are class indices of the types `u8`, `u16` or `u32`.
#[derive(Clone, Copy, Debug)]
pub struct LabelMap<'a, L> {
    labels: &'a [L],
    shape: &'a [usize],
}

impl<'a, L: Copy + Into<u32> + Sync> LabelMap<'a, L> {
    /// A label map of the shape `[height, width]` or `[depth, height, width]`; the labels of the last axis lie next to each other.
    ///
    /// # Errors
    /// [`SegmentationError::Axes`] for another number of axes; [`SegmentationError::Labels`] if the labels do not fill the shape, or if
    /// there are none.
    pub fn new(labels: &'a [L], shape: &'a [usize]) -> Result<Self, SegmentationError> {
        if !matches!(shape.len(), 2 | 3) {
            return Err(SegmentationError::Axes(shape.to_vec()));
        }
        let voxels = shape.iter().try_fold(1_usize, |product, &size| product.checked_mul(size));
        if labels.is_empty() || voxels != Some(labels.len()) {
            return Err(SegmentationError::Labels { found: labels.len(), shape: shape.to_vec() });
        }
        Ok(Self { labels, shape })
    }

    /// The number of voxels along each axis.
    pub fn shape(&self) -> &[usize] {
        self.shape
    }

    /// The label of a voxel.
    pub(super) fn label(&self, index: usize) -> u32 {
        self.labels[index].into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_do_not_fill_the_shape_are_refused() {
        let labels = [0_u8; 12];
        assert!(LabelMap::new(&labels, &[3, 4]).is_ok() && LabelMap::new(&labels, &[1, 3, 4]).is_ok());
        for shape in [&[12][..], &[1, 1, 3, 4], &[]] {
            assert_eq!(LabelMap::new(&labels, shape).unwrap_err(), SegmentationError::Axes(shape.to_vec()));
        }
        for shape in [&[3, 5][..], &[0, 4], &[usize::MAX, 2, 6]] {
            let expected = SegmentationError::Labels { found: 12, shape: shape.to_vec() };
            assert_eq!(LabelMap::new(&labels, shape).unwrap_err(), expected);
        }
        assert!(LabelMap::<u8>::new(&[], &[0, 4]).is_err());
    }
}
