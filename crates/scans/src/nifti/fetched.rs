//! Volumes that the script of a data set has fetched, checked against the list of their sums.

use std::io;
use std::path::{Path, PathBuf};

use kindling_data::DataError;

use crate::nifti::file::{ReadError, read_checked_labels, read_volume};
use crate::nifti::labels::Labels;
use crate::nifti::volume::Volume;

/// A data set whose volumes are fetched.
#[derive(Clone, Copy, Debug)]
pub struct Fetched {
    /// The name of the data set.
    pub name: &'static str,
    /// The script that brings its volumes, from the root of the repository.
    pub script: &'static str,
    /// What that costs, in words that follow "it": `downloads 28 MB and keeps 17 MB`.
    pub cost: &'static str,
    /// The SHA-256 of each unpacked volume, as `sha256sum` lists them. The script uses the same list.
    pub sums: &'static str,
}

/// An error while opening fetched volumes.
#[derive(Debug, thiserror::Error)]
pub enum FetchedError {
    /// A volume is not in the folder.
    #[error("{name} is not here ({missing} is missing): run {script} (it {cost} in {folder:?})")]
    NotFetched {
        /// The name of the data set.
        name: &'static str,
        /// The script that brings its volumes.
        script: &'static str,
        /// What that costs.
        cost: &'static str,
        /// The folder of the volumes.
        folder: PathBuf,
        /// The first one that is missing.
        missing: String,
    },
    /// A volume exists, but is not the one that the script brings.
    #[error("{path:?} is damaged ({reason}): run {script} again, it replaces damaged files and only those")]
    Damaged {
        /// The script that brings it.
        script: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A volume exists, but cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
}

impl Fetched {
    /// The sum of an unpacked file in the list.
    pub fn sum(&self, file: &str) -> Option<&'static str> {
        self.sums.lines().filter_map(|line| line.split_once("  ")).find_map(|(sum, name)| (name == file).then_some(sum))
    }

    /// Reads the volume whose unpacked file has this name, as the volume called `name`, and checks that it is the one in the list.
    ///
    /// # Errors
    /// [`FetchedError`].
    pub fn volume(&self, folder: &Path, file: &str, name: &str) -> Result<Volume, FetchedError> {
        self.checked(folder, file, |path| read_volume(path, name).map(|loaded| (loaded.volume, loaded.sha256)))
    }

    /// As [`Fetched::volume`], for a volume of numbers.
    ///
    /// # Errors
    /// [`FetchedError`].
    pub fn labels(&self, folder: &Path, file: &str) -> Result<Labels, FetchedError> {
        self.checked(folder, file, read_checked_labels)
    }

    /// What is read, with its sum, if the sum is the listed one.
    fn checked<T>(
        &self,
        folder: &Path,
        file: &str,
        read: impl FnOnce(&Path) -> Result<(T, String), ReadError>,
    ) -> Result<T, FetchedError> {
        let Self { name, script, cost, .. } = *self;
        let packed = format!("{file}.gz");
        let path = folder.join(&packed);
        let (found, sum) = read(&path).map_err(|error| match error {
            ReadError::Io(error) if error.kind() == io::ErrorKind::NotFound => {
                FetchedError::NotFetched { name, script, cost, folder: folder.to_owned(), missing: packed }
            }
            ReadError::Io(cause) => DataError::Io { path: path.clone(), cause }.into(),
            ReadError::Nonsense(reason) => FetchedError::Damaged { script, path: path.clone(), reason },
        })?;
        if self.sum(file) != Some(sum.as_str()) {
            return Err(FetchedError::Damaged { script, path, reason: "its SHA-256 is not the listed one".into() });
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nifti::plane::Plane;
    use crate::nifti::synthetic::ramp;

    const FILE: &str = "long-name-of-a.nii";

    fn sum_of(bytes: &[u8]) -> String {
        use sha2::{Digest, Sha256};
        Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// A list with the sum of the ramp.
    fn listed() -> Fetched {
        let sums: &'static str = format!("{}  {FILE}\n", sum_of(&ramp().unpacked())).leak();
        Fetched { name: "ramps", script: "scripts/fetch-ramps.sh", cost: "downloads and keeps 1 kB", sums }
    }

    #[test]
    fn a_missing_volume_names_the_script_and_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let error = listed().volume(folder.path(), FILE, "a").unwrap_err().to_string();
        let there = format!("{:?}", folder.path());
        for part in ["ramps is not here", "long-name-of-a.nii.gz", "run scripts/fetch-ramps.sh", there.as_str()] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_volume_with_the_right_sum_is_read() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(format!("{FILE}.gz")), ramp().packed()).unwrap();
        assert_eq!(listed().volume(folder.path(), FILE, "a").unwrap().name(), "a");
        let numbers = listed().labels(folder.path(), FILE).unwrap().slice(Plane::Axial, 0).values;
        assert_eq!(numbers, (0..12).rev().collect::<Vec<u16>>(), "the largest coordinates come first");
    }

    #[test]
    fn a_damaged_or_foreign_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let foreign = crate::nifti::synthetic::Nifti { slope: 2.0, ..ramp() };
        for (bytes, says) in [
            (foreign.packed(), "SHA-256"),
            (ramp().packed()[..100].to_vec(), "ends too early"),
            (b"<html>not found</html>".to_vec(), "gzip"),
        ] {
            std::fs::write(folder.path().join(format!("{FILE}.gz")), bytes).unwrap();
            let error = listed().volume(folder.path(), FILE, "a").unwrap_err();
            assert!(matches!(error, FetchedError::Damaged { .. }));
            let error = error.to_string();
            assert!(error.contains(says) && error.contains("long-name-of-a.nii.gz"), "{error}");
        }
    }

    #[test]
    fn a_folder_in_place_of_a_volume_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(format!("{FILE}.gz"))).unwrap();
        let error = listed().volume(folder.path(), FILE, "a").unwrap_err().to_string();
        assert!(error.contains("long-name-of-a.nii.gz"), "{error}");
    }
}
