//! Masks of volumes as NIfTI, one for each volume.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use kindling_data::Format;
use kindling_scans::Nifti;
use kindling_scans::nifti::VolumeMask;
use kindling_trainer::Ranks;

use super::divided::Masks;
use super::{MaskOutput, stem};
use crate::segmenter::Segmenter;

/// Draws every slice of the volumes.
pub(super) fn draw(
    segmenter: &mut Segmenter<'_>,
    ranks: &Ranks,
    files: &[PathBuf],
    out: &mut MaskOutput<'_>,
) -> Result<()> {
    for path in files {
        let target = out.target(&format!("{}.nii.gz", stem(path)), files)?;
        match mask_of(path, segmenter, ranks)? {
            Ok(mask) => {
                let counts = out.counts(mask.classes());
                out.write(&path.display().to_string(), &target, &counts, || Ok(mask.packed()?))?;
            }
            Err(error) => out.fail(error),
        }
    }
    Ok(())
}

/// The classes of all voxels of a volume, also of those slices that training leaves out because they show next to nothing. The inner error
/// is about this volume alone.
fn mask_of(path: &Path, segmenter: &mut Segmenter<'_>, ranks: &Ranks) -> Result<Result<VolumeMask>> {
    let nifti = Nifti::default();
    let mut mask = match empty_mask(&nifti, path) {
        Ok(mask) => mask,
        Err(error) => return Ok(Err(error)),
    };
    let slices = mask.slices();
    let format: &dyn Format = &nifti;
    let mut masks = Masks::of(slices.iter().map(|slice| (format, slice)), segmenter, ranks);
    let all = masks.next_case(slices.len(), |slice, found| mask.set(slice, found))?;
    Ok(all.map(|()| mask))
}

/// The mask of a volume before anything is drawn.
fn empty_mask(nifti: &Nifti, path: &Path) -> Result<VolumeMask> {
    if !nifti.claims(path) {
        bail!(
            "{} is no NIfTI volume; --mask-format nifti is for volumes, and --mask-format png gives other images their masks",
            path.display()
        );
    }
    Ok(VolumeMask::like(path)?)
}
