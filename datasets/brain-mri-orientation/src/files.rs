//! The volumes in the cache folder.

use std::io;
use std::path::{Path, PathBuf};

use kindling_data::DataError;
use kindling_scans::nifti::{ReadError, Volume, read_volume};

use crate::BrainMriOrientationError;

/// The list of checksums, which the fetch script uses too.
const SUMS: &str = include_str!("../SHA256SUMS");

/// A volume of the list.
#[derive(Debug)]
pub(crate) struct Stored {
    /// The name of the volume in the names of its slices.
    name: &'static str,
    /// Name of the unpacked file.
    file: &'static str,
}

/// The training subject in three pictures: the head, its brain at twice the resolution, and its brain.
pub(crate) const TRAINING: [Stored; 3] = [
    Stored { name: "ch2", file: "ch2.nii" },
    Stored { name: "ch2better", file: "ch2better.nii" },
    Stored { name: "ch2bet", file: "ch2bet.nii" },
];
/// The average of 152 other people.
pub(crate) const TEST: Stored = Stored { name: "mni152", file: "mni_icbm152_t1_tal_nlin_sym_09a_converted.nii" };

/// Where the volumes are in Kindling's cache folder: in `brain-mri-orientation` or, where only that is there, in `brain-planes`,
/// to which earlier versions fetched them.
pub fn folder(cache: &Path) -> PathBuf {
    let (today, earlier) = (cache.join("brain-mri-orientation"), cache.join("brain-planes"));
    if !today.exists() && earlier.is_dir() { earlier } else { today }
}

fn path_of(folder: &Path, stored: &Stored) -> PathBuf {
    folder.join(format!("{}.gz", stored.file))
}

/// Reads a volume and checks that it is the one that the fetch script downloads.
pub(crate) fn load(cache: &Path, stored: &Stored) -> Result<Volume, BrainMriOrientationError> {
    load_checked(cache, stored, listed_sum(stored.file))
}

/// The SHA-256 of an unpacked volume in the list.
fn listed_sum(file: &str) -> Option<&'static str> {
    SUMS.lines().filter_map(|line| line.split_once("  ")).find_map(|(sum, name)| (name == file).then_some(sum))
}

fn load_checked(cache: &Path, stored: &Stored, wanted: Option<&str>) -> Result<Volume, BrainMriOrientationError> {
    let folder = folder(cache);
    let path = path_of(&folder, stored);
    let loaded = read_volume(&path, stored.name).map_err(|error| match error {
        ReadError::Io(error) if error.kind() == io::ErrorKind::NotFound => {
            BrainMriOrientationError::NotFetched { folder, missing: format!("{}.gz", stored.file) }
        }
        ReadError::Io(cause) => DataError::Io { path: path.clone(), cause }.into(),
        ReadError::Nonsense(reason) => BrainMriOrientationError::Damaged { path: path.clone(), reason },
    })?;
    if wanted != Some(loaded.sha256.as_str()) {
        return Err(BrainMriOrientationError::Damaged { path, reason: "its SHA-256 is not the listed one".into() });
    }
    Ok(loaded.volume)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kindling_scans::nifti::synthetic::ramp;

    fn sum_of(bytes: &[u8]) -> String {
        use sha2::{Digest, Sha256};
        Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn every_volume_has_a_sum() {
        for stored in TRAINING.iter().chain([&TEST]) {
            let sum = listed_sum(stored.file).unwrap();
            assert!(sum.len() == 64 && sum.bytes().all(|byte| byte.is_ascii_hexdigit()), "{stored:?}: {sum}");
        }
        assert_eq!(listed_sum("ch"), None);
    }

    #[test]
    fn a_missing_volume_names_the_script_and_the_folder() {
        let cache = tempfile::tempdir().unwrap();
        let error = crate::dataset(cache.path()).unwrap_err().to_string();
        let folder = format!("{:?}", folder(cache.path()));
        for part in ["brain-mri-orientation is not here", "run scripts/fetch-brain-mri-orientation.sh", folder.as_str()]
        {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn volumes_that_an_earlier_version_fetched_are_found() {
        let cache = tempfile::tempdir().unwrap();
        let (today, earlier) = (cache.path().join("brain-mri-orientation"), cache.path().join("brain-planes"));
        assert_eq!(folder(cache.path()), today);
        std::fs::create_dir(&earlier).unwrap();
        assert_eq!(folder(cache.path()), earlier);
        std::fs::create_dir(&today).unwrap();
        assert_eq!(folder(cache.path()), today);
    }

    #[test]
    fn a_volume_with_the_right_sum_is_read() {
        let cache = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder(cache.path())).unwrap();
        let stored = Stored { name: "a", file: "long-name-of-a.nii" };
        std::fs::write(path_of(&folder(cache.path()), &stored), ramp().packed()).unwrap();
        let sum = sum_of(&ramp().unpacked());
        assert_eq!(load_checked(cache.path(), &stored, Some(&sum)).unwrap().name(), "a");
    }

    #[test]
    fn a_damaged_or_foreign_file_is_named() {
        let cache = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder(cache.path())).unwrap();
        let path = path_of(&folder(cache.path()), &TRAINING[0]);
        for (bytes, says) in [
            (ramp().packed(), "SHA-256"),
            (ramp().packed()[..100].to_vec(), "ends too early"),
            (b"<html>not found</html>".to_vec(), "gzip"),
        ] {
            std::fs::write(&path, bytes).unwrap();
            let error = crate::dataset(cache.path()).unwrap_err();
            assert!(matches!(error, BrainMriOrientationError::Damaged { .. }));
            let error = error.to_string();
            assert!(error.contains(says) && error.contains("ch2.nii.gz"), "{error}");
        }
    }

    #[test]
    fn a_folder_in_place_of_a_volume_is_an_error() {
        let cache = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(path_of(&folder(cache.path()), &TRAINING[0])).unwrap();
        let error = crate::dataset(cache.path()).unwrap_err().to_string();
        assert!(error.contains("ch2.nii.gz"), "{error}");
    }
}
