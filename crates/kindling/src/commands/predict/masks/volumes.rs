//! Masks of volumes as NIfTI, one for each volume.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use kindling_data::Format;
use kindling_runs::write_atomically;
use kindling_scans::Nifti;
use kindling_scans::nifti::VolumeMask;

use super::{MaskOutput, stem};
use crate::segmenter::Segmenter;

/// Draws every slice of the volumes.
pub(super) fn draw(segmenter: &mut Segmenter, files: &[PathBuf], out: &mut MaskOutput) -> Result<()> {
    for path in files {
        let target = out.target(&format!("{}.nii.gz", stem(path)), files)?;
        match mask_of(segmenter, path) {
            Ok(mask) => {
                write_atomically(&target, &mask.packed()?)?;
                out.say(&path.display().to_string(), &target, &out.counts(mask.classes()))?;
            }
            Err(error) => out.fail(error),
        }
    }
    Ok(())
}

/// The classes of all voxels of a volume, also of those slices that training leaves out because they show next to nothing.
fn mask_of(segmenter: &mut Segmenter, path: &Path) -> Result<VolumeMask> {
    let nifti = Nifti::default();
    if !nifti.claims(path) {
        bail!(
            "{} is no NIfTI volume; --mask-format nifti is for volumes, and --mask-format png gives other images their masks",
            path.display()
        );
    }
    let mut mask = VolumeMask::like(path)?;
    for (slice, part) in mask.slices().iter().enumerate() {
        mask.set(slice, &segmenter.of(nifti.read(part)?)?)?;
    }
    Ok(mask)
}
