//! Volumes that were used last, kept in memory for their next slices.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use kindling_data::DataError;

/// The most voxels that are kept.
const KEPT_VOXELS: usize = 1 << 26;

/// Volumes by their files; the last one was used last.
pub(crate) struct Kept<T>(Mutex<Vec<(PathBuf, Arc<T>)>>);

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Kept<T> {
    /// The volume of a file, which is read if it is not there. `voxels` says how many it has.
    pub(crate) fn get(
        &self,
        path: &Path,
        read: impl FnOnce(&Path) -> Result<T, DataError>,
        voxels: impl Fn(&T) -> usize,
    ) -> Result<Arc<T>, DataError> {
        {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(at) = kept.iter().position(|(known, _)| known == path) {
                let found = kept.remove(at);
                let volume = found.1.clone();
                kept.push(found);
                return Ok(volume);
            }
        }
        let volume = Arc::new(read(path)?);
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push((path.to_owned(), volume.clone()));
        while kept.len() > 1 && kept.iter().map(|(_, volume)| voxels(volume)).sum::<usize>() > KEPT_VOXELS {
            kept.remove(0);
        }
        Ok(volume)
    }
}
