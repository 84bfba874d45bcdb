//! NIfTI-1 volumes and the slices through them.

mod axes;
mod file;
mod plane;
#[doc(hidden)]
pub mod synthetic;
mod volume;
mod voxels;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use kindling_data::{DataError, Format, Image, Part};

pub use axes::Axis;
pub use file::{Loaded, ReadError, read_volume};
pub use plane::{AXIS_NAMES, CLASSES, Plane};
pub use volume::Volume;

/// Slices with a smaller share of foreground are left out, because slices beyond the body all look alike.
const LEAST_FOREGROUND: f64 = 0.1;
/// The most voxels of volumes that are kept in memory for the next slices.
const KEPT_VOXELS: usize = 1 << 26;

/// NIfTI files (`.nii`, `.nii.gz`): each axial slice is a sample, the file its group.
///
/// Slices are oriented by the affine of the file, with the superior slice first and the subject's right on the left. Intensities are scaled
/// by quantiles of the volume. Volumes without orientation are refused, and slices with less than 10 % of foreground are left out. The
/// volumes that were used last are kept in memory, so slices are best read volume by volume.
#[derive(Default)]
pub struct Nifti {
    /// Recently used volumes; the last one was used last.
    kept: Mutex<Vec<(PathBuf, Arc<Volume>)>>,
}

impl Nifti {
    fn volume(&self, path: &Path) -> Result<Arc<Volume>, DataError> {
        {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(at) = kept.iter().position(|(known, _)| known == path) {
                let found = kept.remove(at);
                let volume = found.1.clone();
                kept.push(found);
                return Ok(volume);
            }
        }
        let volume = Arc::new(read(path)?);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push((path.to_owned(), volume.clone()));
        while kept.len() > 1 && kept.iter().map(|(_, volume)| volume.voxels()).sum::<usize>() > KEPT_VOXELS {
            kept.remove(0);
        }
        Ok(volume)
    }
}

fn read(path: &Path) -> Result<Volume, DataError> {
    match read_volume(path, &path.display().to_string()) {
        Ok(loaded) => Ok(loaded.volume),
        Err(ReadError::Io(cause)) => Err(DataError::Io { path: path.to_owned(), cause }),
        Err(ReadError::Nonsense(reason)) => Err(DataError::Unreadable { path: path.to_owned(), reason }),
    }
}

impl Format for Nifti {
    fn claims(&self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        name.ends_with(".nii") || name.ends_with(".nii.gz")
    }

    fn list(&self, path: &Path) -> Result<Vec<Part>, DataError> {
        let volume = read(path)?;
        let [_, _, shares] = volume.foreground();
        let group = path.display().to_string();
        let kept = shares.iter().enumerate().filter(|(_, share)| **share >= LEAST_FOREGROUND);
        let parts = kept.map(|(slice, _)| Part {
            path: path.to_owned(),
            frame: Some(slice),
            channels: 1,
            group: Some(group.clone()),
        });
        Ok(parts.collect())
    }

    fn read(&self, part: &Part) -> Result<Image, DataError> {
        let volume = self.volume(&part.path)?;
        let (slice, len) = (part.frame.unwrap_or(0), volume.normal(Plane::Axial).len);
        if slice >= len {
            return Err(DataError::OutOfRange { index: slice, len });
        }
        Ok(volume.slice(Plane::Axial, slice))
    }

    fn is_sequential(&self) -> bool {
        true
    }
}
