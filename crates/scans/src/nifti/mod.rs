//! NIfTI-1 volumes and the slices through them.

mod axes;
pub mod blocks;
mod fetched;
mod file;
mod grid;
mod labels;
mod plane;
#[doc(hidden)]
pub mod synthetic;
mod volume;
mod volume_mask;
mod voxels;

use std::path::Path;
use std::sync::Arc;

use kindling_data::{DataError, Format, Image, MaskValues, Part, Slice};

use self::file::{read_grid, read_labels};
use self::grid::Grid;
use self::labels::mismatch;
use crate::kept::Kept;

pub use axes::Axis;
pub use fetched::{Fetched, FetchedError};
pub use file::{Loaded, ReadError, read_volume};
pub use labels::Labels;
pub use plane::{AXIS_NAMES, CLASSES, Plane};
pub use volume::Volume;
pub use volume_mask::VolumeMask;

/// Slices with a smaller share of foreground are left out, because slices beyond the body all look alike.
const LEAST_FOREGROUND: f64 = 0.1;

/// NIfTI files (`.nii`, `.nii.gz`): each axial slice is a sample, the file its group.
///
/// Slices are oriented by the affine of the file, with the superior slice first and the subject's right on the left. Intensities are scaled
/// by quantiles of the volume. Volumes without orientation are refused, and slices with less than 10 % of foreground are left out. The
/// volumes that were used last are kept in memory, so slices are best read volume by volume.
///
/// As a mask a file holds whole numbers, in the same places as the voxels of its image. Slices of the two are paired, and those in which
/// anything is marked are never left out.
#[derive(Default)]
pub struct Nifti {
    volumes: Kept<Volume>,
    labels: Kept<Labels>,
    grids: Kept<Grid>,
}

impl Nifti {
    fn volume(&self, path: &Path) -> Result<Arc<Volume>, DataError> {
        self.volumes.get(path, read, Volume::voxels)
    }

    fn labels(&self, path: &Path) -> Result<Arc<Labels>, DataError> {
        let not_a_mask = |error| match error {
            ReadError::Nonsense(reason) => DataError::NotAMask { path: path.to_owned(), reason },
            ReadError::Io(cause) => DataError::Io { path: path.to_owned(), cause },
        };
        self.labels.get(path, |path| read_labels(path).map_err(not_a_mask), |labels| labels.values.len())
    }
}

fn read(path: &Path) -> Result<Volume, DataError> {
    read_volume(path, &path.display().to_string()).map(|loaded| loaded.volume).map_err(|error| unread(path, error))
}

fn unread(path: &Path, error: ReadError) -> DataError {
    match error {
        ReadError::Io(cause) => DataError::Io { path: path.to_owned(), cause },
        ReadError::Nonsense(reason) => DataError::Unreadable { path: path.to_owned(), reason },
    }
}

/// An axial slice of a file.
fn part(path: &Path, slice: usize) -> Part {
    Part { path: path.to_owned(), frame: Some(slice), channels: 1, group: Some(path.display().to_string()) }
}

impl Format for Nifti {
    fn claims(&self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        name.ends_with(".nii") || name.ends_with(".nii.gz")
    }

    fn list(&self, path: &Path) -> Result<Vec<Part>, DataError> {
        let [_, _, shares] = read(path)?.foreground();
        let kept = shares.iter().enumerate().filter(|(_, share)| **share >= LEAST_FOREGROUND);
        Ok(kept.map(|(slice, _)| part(path, slice)).collect())
    }

    fn list_with_masks(&self, image: &Path, mask: &Path, _masks: &dyn Format) -> Result<Vec<(Part, Part)>, DataError> {
        let not_a_mask = |reason| DataError::NotAMask { path: mask.to_owned(), reason };
        if !self.claims(mask) {
            return Err(not_a_mask(format!(
                "its image {image:?} is a volume, and the mask of a volume is one (.nii, .nii.gz)"
            )));
        }
        let (volume, labels) = (self.volume(image)?, self.labels(mask)?);
        if let Some(difference) = labels.grid.difference(&volume.grid) {
            return Err(not_a_mask(mismatch(image, &difference)));
        }
        let [_, _, shares] = volume.foreground();
        let is_kept = |slice: &usize| shares[*slice] >= LEAST_FOREGROUND || labels.is_marked(Plane::Axial, *slice);
        Ok((0..shares.len()).filter(is_kept).map(|slice| (part(image, slice), part(mask, slice))).collect())
    }

    fn read(&self, part: &Part) -> Result<Image, DataError> {
        let volume = self.volume(&part.path)?;
        let (slice, len) = (part.frame.unwrap_or(0), volume.normal(Plane::Axial).len);
        if slice >= len {
            return Err(DataError::OutOfRange { index: slice, len });
        }
        Ok(volume.slice(Plane::Axial, slice))
    }

    fn slice(&self, part: &Part) -> Result<Option<Slice>, DataError> {
        // Grids are small: as many are kept as there can be volumes, and none is read for each of its slices.
        let grid = self.grids.get(&part.path, |path| read_grid(path).map_err(|error| unread(path, error)), |_| 1)?;
        let normal = &grid.axes[Plane::Axial.normal()];
        Ok(Some(Slice {
            volume: None,
            position: normal.position(part.frame.unwrap_or(0)),
            normal: [0.0, 0.0, 1.0],
            apart: Some(normal.spacing),
            pixel: grid.square_spacing(Plane::Axial),
        }))
    }

    fn read_mask_values(&self, part: &Part) -> Result<MaskValues, DataError> {
        let labels = self.labels(&part.path)?;
        let (slice, len) = (part.frame.unwrap_or(0), labels.grid.axes[Plane::Axial.normal()].len);
        if slice >= len {
            return Err(DataError::OutOfRange { index: slice, len });
        }
        Ok(labels.slice(Plane::Axial, slice))
    }

    fn is_sequential(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::synthetic::ramp;
    use super::*;

    #[test]
    fn slices_lie_where_the_affine_has_them_however_the_volume_is_stored() {
        let dir = tempfile::tempdir().unwrap();
        let base = synthetic::Nifti { spacing: [1.0, 3.0, 2.0], ..ramp() };
        for (number, order) in [[0, 1, 2], [2, 0, 1], [1, 2, 0]].into_iter().enumerate() {
            let path = dir.path().join(format!("{number}.nii.gz"));
            std::fs::write(&path, base.stored_as(order, [number == 1, number > 0, number == 0]).packed()).unwrap();
            let slice = |index| Nifti::default().slice(&part(&path, index)).unwrap().unwrap();
            let (first, last) = (slice(0), slice(4));
            assert_eq!((first.volume, first.apart, first.normal), (None, Some(2.0), [0.0, 0.0, 1.0]));
            // 3 x 4 voxels of 1 x 3 mm are 3 x 12 square pixels.
            assert_eq!(first.pixel, [1.0, 1.0], "{order:?}");
            assert!((last.position - first.position - 8.0).abs() < 1e-6, "{order:?}");
        }
        let missing = part(&dir.path().join("no.nii"), 0);
        assert!(matches!(Nifti::default().slice(&missing), Err(DataError::Io { .. })));
    }
}
