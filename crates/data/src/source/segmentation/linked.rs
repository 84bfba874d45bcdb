//! Which mask is that of which image, where the masks say it themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::matched::{Keyed, Sides};
use super::wrong;
use crate::error::DataError;
use crate::source::Opening;

/// The pairs that the files of two folders make, and the files that are left.
pub(super) struct Linked {
    /// Names of images, with their images and masks.
    pub(super) pairs: Vec<(String, PathBuf, PathBuf)>,
    /// What is still to be matched by name.
    pub(super) images: Keyed,
    pub(super) masks: Keyed,
}

/// Pairs images with the masks that say which images they are of. With `keep_going`, what cannot be paired becomes a problem.
///
/// # Errors
/// [`DataError::MaskWithoutImage`] for a mask of none of the images, [`DataError::Segmentation`] for an image that two masks are of, and
/// those of files.
pub(super) fn linked(
    images: Keyed,
    masks: Keyed,
    sides: &Sides<'_>,
    opening: &Opening,
    problems: &mut Vec<DataError>,
) -> Result<Linked, DataError> {
    let mut problem = |error: DataError| {
        if !opening.keep_going {
            return Err(error);
        }
        problems.push(error);
        Ok(())
    };
    let (mut mask_of, mut named, mut lonely) = (BTreeMap::<String, PathBuf>::new(), Keyed::new(), BTreeSet::new());
    for (name, mask) in masks {
        let links = opening.format_of(&mask).map_or(Ok(None), |format| format.mask_links(&mask));
        match links {
            Ok(None) => named.push((name, mask)),
            Ok(Some(links)) => {
                for link in links.images {
                    match mask_of.get(&link) {
                        Some(other) => problem(twice(&mask, other))?,
                        None => drop(mask_of.insert(link, mask.clone())),
                    }
                }
                lonely.insert(mask);
            }
            Err(error) => problem(error)?,
        }
    }
    if mask_of.is_empty() {
        return Ok(Linked { pairs: Vec::new(), images, masks: named });
    }
    let (mut pairs, mut others) = (Vec::new(), Keyed::new());
    for (name, image) in images {
        let link = opening.format_of(&image).map_or(Ok(None), |format| format.link(&image));
        match link {
            Ok(link) => match link.and_then(|link| mask_of.get(&link)) {
                Some(mask) => {
                    lonely.remove(mask);
                    pairs.push((name, image, mask.clone()));
                }
                None => others.push((name, image)),
            },
            Err(error) => problem(error)?,
        }
    }
    let more = if opening.keep_going { 0 } else { lonely.len().saturating_sub(1) };
    for mask in lonely {
        problem(DataError::MaskWithoutImage { mask, dir: sides.images.to_owned(), more })?;
    }
    Ok(Linked { pairs, images: others, masks: named })
}

fn twice(mask: &Path, other: &Path) -> DataError {
    wrong(mask, format!("an image has two masks, in it and in {other:?}; keep one of them"))
}
