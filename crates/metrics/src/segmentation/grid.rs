//! The grid of a volume.

use super::error::SegmentationError;

/// Voxels along each axis, and the distance between neighbours in mm. An image is a volume of one plane.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    /// Voxels along each axis, as `[depth, height, width]`; the depth of an image is 1.
    pub(super) size: [usize; 3],
    /// Distance between neighbouring voxels along each of these axes, in mm.
    pub(super) spacing: [f64; 3],
    /// Whether this is an image. Its pixels have no neighbours above and below, so that nothing ends there.
    pub(super) flat: bool,
}

impl Grid {
    /// The grid of a shape of 2 or 3 axes.
    pub(super) fn new(shape: &[usize], spacing: &[f64]) -> Result<Self, SegmentationError> {
        if spacing.len() != shape.len() {
            return Err(SegmentationError::Spacings { axes: shape.len(), found: spacing.len() });
        }
        // Distances are compared by their squares, so these must be numbers too.
        let usable = |spacing: f64| spacing > 0.0 && (spacing * spacing).is_normal();
        if let Some(axis) = spacing.iter().position(|&spacing| !usable(spacing)) {
            return Err(SegmentationError::Spacing { axis, spacing: spacing[axis] });
        }
        match (shape, spacing) {
            (&[height, width], &[down, along]) => {
                Ok(Self { size: [1, height, width], spacing: [1.0, down, along], flat: true })
            }
            (&[depth, height, width], &[through, down, along]) => {
                Ok(Self { size: [depth, height, width], spacing: [through, down, along], flat: false })
            }
            _ => Err(SegmentationError::Axes(shape.to_vec())),
        }
    }

    /// Voxels of the whole grid: depth times height times width.
    pub(super) fn voxels(&self) -> usize {
        self.size.iter().product()
    }

    /// The number of voxels of a plane.
    pub(super) fn plane(&self) -> usize {
        self.size[1] * self.size[2]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spacings_are_distances() {
        let of = |spacing: &[f64]| Grid::new(&[4, 5], spacing).map(|grid| (grid.voxels(), grid.plane(), grid.flat));
        assert_eq!(of(&[0.5, 2.0]), Ok((20, 20, true)));
        assert_eq!(of(&[0.5]), Err(SegmentationError::Spacings { axes: 2, found: 1 }));
        for spacing in [0.0, -1.0, f64::INFINITY, 1e-200, 1e200] {
            assert_eq!(of(&[1.0, spacing]), Err(SegmentationError::Spacing { axis: 1, spacing }));
        }
        assert!(of(&[f64::NAN, 1.0]).is_err());
    }
}
