//! Masks as PNG, one for each image.

use std::path::{Path, PathBuf};

use anyhow::Result;
use kindling_data::mask_png;
use kindling_runs::write_atomically;

use super::{MaskOutput, stem};
use crate::commands::predict::format_of;
use crate::segmenter::Segmenter;

/// Draws every image of the files.
pub(super) fn draw(segmenter: &mut Segmenter, files: &[PathBuf], out: &mut MaskOutput) -> Result<()> {
    for path in files {
        let format = format_of(&segmenter.config.data.opening, path);
        let parts = match format.list(path) {
            Ok(parts) => parts,
            Err(error) => {
                out.fail(error);
                continue;
            }
        };
        for (number, part) in parts.iter().enumerate() {
            let target = out.target(&mask_name(path, (parts.len() > 1).then_some(number)), files)?;
            match format.read(part).map_err(Into::into).and_then(|image| segmenter.of(image)) {
                Ok(mask) => {
                    write_atomically(&target, &mask_png(&mask)?)?;
                    out.say(&part.name(), &target, &out.counts(&mask.classes))?;
                }
                Err(error) => out.fail(error),
            }
        }
    }
    Ok(())
}

/// The name of the mask of an image, or of one of several in a file.
fn mask_name(image: &Path, number: Option<usize>) -> String {
    let stem = stem(image);
    match number {
        None => format!("{stem}.png"),
        Some(number) => format!("{stem}_{number:04}.png"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_has_a_number_where_a_file_has_several_images() {
        assert_eq!(mask_name(Path::new("a/b.c.jpg"), None), "b.c.png");
        assert_eq!(mask_name(Path::new("scan.nii.gz"), Some(7)), "scan_0007.png");
    }
}
