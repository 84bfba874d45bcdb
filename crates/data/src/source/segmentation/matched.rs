//! Which mask is that of which image, by their names.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};

use crate::error::DataError;

/// Names without endings, and the paths of these files; sorted by name.
pub(super) type Keyed = Vec<(String, PathBuf)>;

/// The folders of both sides, which errors name.
pub(super) struct Sides<'a> {
    pub(super) images: &'a Path,
    pub(super) masks: &'a Path,
}

/// Every image with its mask, in the order of the images. A mask has the name of its image, or that name with one of the
/// suffixes. With `keep_going`, a file without a counterpart is left out and becomes a problem.
///
/// # Errors
/// [`DataError::SameName`], [`DataError::MaskWithoutImage`] and [`DataError::ImageWithoutMask`].
pub(super) fn matched(
    images: Keyed,
    masks: Keyed,
    suffixes: &[&str],
    sides: &Sides<'_>,
    keep_going: bool,
    problems: &mut Vec<DataError>,
) -> Result<Vec<(String, PathBuf, PathBuf)>, DataError> {
    let mut problem = |error: DataError| {
        if !keep_going {
            return Err(error);
        }
        problems.push(error);
        Ok(())
    };
    let mut by_name: BTreeMap<String, PathBuf> = BTreeMap::new();
    for (name, path) in images {
        unique(&mut by_name, name, path).or_else(&mut problem)?;
    }
    let mut mask_of: BTreeMap<String, PathBuf> = BTreeMap::new();
    let mut lonely = Vec::new();
    for (name, path) in masks {
        let without = || suffixes.iter().filter_map(|suffix| name.strip_suffix(suffix));
        match [name.as_str()].into_iter().chain(without()).find(|name| by_name.contains_key(*name)) {
            Some(image) => unique(&mut mask_of, image.to_owned(), path).or_else(&mut problem)?,
            None => lonely.push(path),
        }
    }
    let more = |all: &[PathBuf]| if keep_going { 0 } else { all.len() - 1 };
    for mask in &lonely {
        let (mask, dir) = (mask.clone(), sides.images.to_owned());
        problem(DataError::MaskWithoutImage { mask, dir, more: more(&lonely) })?;
    }
    let without: Vec<PathBuf> =
        by_name.iter().filter(|(name, _)| !mask_of.contains_key(*name)).map(|(_, path)| path.clone()).collect();
    for image in &without {
        let (image, dir) = (image.clone(), sides.masks.to_owned());
        problem(DataError::ImageWithoutMask { image, dir, more: more(&without) })?;
    }
    let pair = |(name, image): (String, PathBuf)| {
        let mask = mask_of.remove(&name)?;
        Some((name, image, mask))
    };
    Ok(by_name.into_iter().filter_map(pair).collect())
}

/// Adds a file, whose name must be new.
fn unique(files: &mut BTreeMap<String, PathBuf>, name: String, path: PathBuf) -> Result<(), DataError> {
    match files.entry(name) {
        Entry::Vacant(place) => drop(place.insert(path)),
        Entry::Occupied(known) => return Err(DataError::SameName { one: known.get().clone(), other: path }),
    }
    Ok(())
}
