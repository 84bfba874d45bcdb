//! The volumes in the cache folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kindling_scans::nifti::{Fetched, FetchedError, Labels, Volume};

use crate::heads::Heads;

const FETCHED: Fetched = Fetched {
    name: "brain-parts",
    script: "scripts/fetch-brain-parts.sh",
    cost: "downloads 28 MB, or less beside brain-mri-orientation, and keeps 7 MB",
    sums: include_str!("../SHA256SUMS"),
};

/// The file of the atlas.
const ATLAS: &str = "aal.nii";
/// Files and names of the training subject: the head and its brain.
const TRAINING: [(&str, &str); 2] = [("ch2.nii", "ch2"), ("ch2bet.nii", "ch2bet")];
/// Those of the average of 152 other people.
const TEST: [(&str, &str); 1] = [("mni_icbm152_t1_tal_nlin_sym_09a_converted.nii", "mni152")];

/// Where the volumes are in Kindling's cache folder.
pub fn folder(cache: &Path) -> PathBuf {
    cache.join("brain-parts")
}

/// The heads to learn from and the heads of the test, on the grid of the atlas.
pub(crate) fn load(cache: &Path) -> Result<(Heads, Heads), FetchedError> {
    let folder = folder(cache);
    let atlas = Arc::new(FETCHED.labels(&folder, ATLAS)?);
    let heads = |stored: &[(&'static str, &'static str)]| -> Result<Heads, FetchedError> {
        let volumes = stored.iter().map(|(file, name)| volume(&folder, file, name, &atlas));
        Ok(Heads { volumes: volumes.collect::<Result<_, _>>()?, atlas: Arc::clone(&atlas) })
    };
    Ok((heads(&TRAINING)?, heads(&TEST)?))
}

/// The part of a volume that lies on the grid of the atlas.
fn volume(folder: &Path, file: &str, name: &str, atlas: &Labels) -> Result<Volume, FetchedError> {
    let whole = FETCHED.volume(folder, file, name)?;
    let script = FETCHED.script;
    let path = folder.join(format!("{file}.gz"));
    whole.cropped_to(atlas).map_err(|reason| FetchedError::Damaged { script, path, reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_volume_has_a_sum() {
        for file in TRAINING.iter().chain(&TEST).map(|(file, _)| *file).chain([ATLAS]) {
            let sum = FETCHED.sum(file).unwrap();
            assert!(sum.len() == 64 && sum.bytes().all(|byte| byte.is_ascii_hexdigit()), "{file}: {sum}");
        }
    }

    #[test]
    fn a_missing_volume_names_the_script_and_the_folder() {
        let cache = tempfile::tempdir().unwrap();
        let error = crate::dataset(cache.path()).unwrap_err().to_string();
        let folder = format!("{:?}", folder(cache.path()));
        for part in ["brain-parts is not here", "run scripts/fetch-brain-parts.sh", "aal.nii.gz", folder.as_str()] {
            assert!(error.contains(part), "{error}");
        }
    }
}
