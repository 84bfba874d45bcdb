//! The volumes in the cache folder.

use std::path::{Path, PathBuf};

use kindling_scans::nifti::{Fetched, FetchedError, Volume};

/// What the script fetches.
pub(crate) const FETCHED: Fetched = Fetched {
    name: "brain-mri-orientation",
    script: "scripts/fetch-brain-mri-orientation.sh",
    cost: "downloads 28 MB and keeps 17 MB",
    sums: include_str!("../SHA256SUMS"),
};

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

/// Reads a volume and checks that it is the one that the script fetches.
pub(crate) fn load(cache: &Path, stored: &Stored) -> Result<Volume, FetchedError> {
    FETCHED.volume(&folder(cache), stored.file, stored.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_volume_has_a_sum() {
        for stored in TRAINING.iter().chain([&TEST]) {
            let sum = FETCHED.sum(stored.file).unwrap();
            assert!(sum.len() == 64 && sum.bytes().all(|byte| byte.is_ascii_hexdigit()), "{stored:?}: {sum}");
        }
        assert_eq!(FETCHED.sum("ch"), None);
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
}
