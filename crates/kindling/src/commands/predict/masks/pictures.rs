//! Masks as PNG, one for each image.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, anyhow};
use kindling_data::{Format, Image, Part, mask_png};
use kindling_trainer::Ranks;

use super::divided::{Masks, Subject};
use super::{MaskOutput, stem};
use crate::commands::predict::format_of;
use crate::dataset::HowToOpen;
use crate::segmenter::Segmenter;

/// Draws every image of the files.
pub(super) fn draw(
    segmenter: &mut Segmenter<'_>,
    ranks: &Ranks,
    files: &[PathBuf],
    out: &mut MaskOutput<'_>,
) -> Result<()> {
    let config = segmenter.config;
    let pages = files.iter().flat_map(|file| pages_of(&config.data.opening, file));
    let mut masks = Masks::of(pages, segmenter, ranks);
    while let Some((page, mask)) = masks.next_mask()? {
        let part = match page.part {
            Ok(part) => part,
            Err(error) => {
                out.fail(error);
                continue;
            }
        };
        let target = out.target(&mask_name(page.file, page.number), files)?;
        match mask {
            Ok(mask) => out.write(&part.name(), &target, &out.counts(&mask.classes), || Ok(mask_png(&mask)?))?,
            Err(error) => out.fail(error),
        }
    }
    Ok(())
}

/// An image of a file.
struct Page<'a> {
    file: &'a Path,
    /// Which it is of several.
    number: Option<usize>,
    format: Arc<dyn Format>,
    /// Or why nobody knows what the file holds.
    part: Result<Part>,
}

impl Subject for Page<'_> {
    fn name(&self) -> String {
        self.part.as_ref().map_or_else(|error| format!("{error:#}"), Part::name)
    }

    fn read(&self) -> Result<Image> {
        let part = self.part.as_ref().map_err(|error| anyhow!("{error:#}"))?;
        Ok(self.format.read(part)?)
    }
}

/// The images of a file, from its header.
fn pages_of<'a>(opening: &HowToOpen, file: &'a Path) -> Vec<Page<'a>> {
    let format = format_of(opening, file);
    let page = |number, part| Page { file, number, format: Arc::clone(&format), part };
    match format.list(file) {
        Ok(parts) => {
            let are_several = parts.len() > 1;
            let numbered = parts.into_iter().enumerate();
            numbered.map(|(number, part)| page(are_several.then_some(number), Ok(part))).collect()
        }
        Err(error) => vec![page(None, Err(error.into()))],
    }
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
