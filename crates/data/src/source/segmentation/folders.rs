//! Folders of images beside folders of masks.

use std::path::{Path, PathBuf};

use super::declared;
use super::linked::{Linked, linked};
use super::matched::{Keyed, Sides, matched};
use super::pairs::{self, Pair, Paired};
use super::wrong;
use crate::error::DataError;
use crate::source::folder::{Found, collect_images, sub_folders};
use crate::source::{Opened, Opening, PassedOver, Purpose};
use crate::split::Split;

/// The folder of the images.
const IMAGES: &str = "images";
/// The folder of the masks, by the first of these that is there.
const MASKS: [&str; 3] = ["masks", "labels", "annotations"];
/// What may follow the name of an image in that of its mask.
const SUFFIXES: [&str; 10] =
    ["_mask", "-mask", "_masks", "_seg", "-seg", "_segmentation", "_label", "-label", "_labels", "_gt"];

/// Two folders that belong together.
struct Place {
    split: Option<Split>,
    images: PathBuf,
    masks: PathBuf,
}

/// Whether a folder, or the folder of a split in it, has a folder of images.
pub(super) fn are_in(dir: &Path) -> bool {
    let of_splits = Split::ALL.map(|split| dir.join(split.name()));
    std::iter::once(dir).chain(of_splits.iter().map(PathBuf::as_path)).any(|dir| dir.join(IMAGES).is_dir())
}

/// Opens folders of images and masks.
pub(super) fn open(dir: &Path, opening: &Opening) -> Result<Opened, DataError> {
    let (mut pairs, mut problems, mut passed_over) = (Vec::new(), Vec::new(), PassedOver::default());
    for place in places(dir, opening)? {
        let mut keyed = |folder: &Path| keyed(folder, opening, &mut passed_over);
        let (images, masks) = (keyed(&place.images)?, keyed(&place.masks)?);
        if images.is_empty() {
            return Err(DataError::NoImages { dir: place.images });
        }
        if masks.is_empty() {
            return Err(wrong(&place.masks, "there are no masks in it; a mask has the name of its image".to_owned()));
        }
        let sides = Sides { images: &place.images, masks: &place.masks };
        let Linked { pairs: linked, images, masks } = linked(images, masks, &sides, opening, &mut problems)?;
        let mut found = matched(images, masks, &SUFFIXES, &sides, opening.keep_going, &mut problems)?;
        found.extend(linked);
        found.sort();
        pairs.extend(found.into_iter().map(|(case, image, mask)| Pair {
            below: image.strip_prefix(&place.images).unwrap_or(&image).to_owned(),
            image,
            mask,
            case,
            group: None,
            weight: 1.0,
            split: place.split,
        }));
    }
    let about = format!("Images with masks in {}", dir.display());
    let (path, root, numbers) = (dir.to_owned(), dir.to_owned(), declared::beside(dir)?);
    pairs::open(Paired { path, root, about, pairs, numbers, problems, passed_over }, opening, |_, error| error)
}

/// The folders that belong together, with the splits they are.
fn places(dir: &Path, opening: &Opening) -> Result<Vec<Place>, DataError> {
    let images = dir.join(IMAGES);
    let of = |dir: &Path, split: Option<Split>, images: PathBuf, below: &str| {
        let masks = MASKS.iter().map(|name| dir.join(name)).find(|masks| masks.is_dir());
        let masks = masks.ok_or_else(|| DataError::NoMasksFolder { dir: dir.to_owned() })?.join(below);
        if masks.is_dir() { Ok(Place { split, images, masks }) } else { Err(DataError::NoMasksFolder { dir: masks }) }
    };
    if images.is_dir() {
        return match splits(&images, opening, Path::is_dir)?.as_slice() {
            [] => Ok(vec![of(dir, None, images, "")?]),
            given => given.iter().map(|split| of(dir, Some(*split), images.join(split.name()), split.name())).collect(),
        };
    }
    let given = splits(dir, opening, |folder| folder.join(IMAGES).is_dir())?;
    if given.is_empty() {
        return Err(DataError::NoSegmentation { path: dir.to_owned() });
    }
    let place = |split: &Split| {
        let folder = dir.join(split.name());
        of(&folder, Some(*split), folder.join(IMAGES), "")
    };
    given.iter().map(place).collect()
}

/// The splits that a folder has folders of; empty if it has none. No other folder may stand beside them.
fn splits(dir: &Path, opening: &Opening, is_split: impl Fn(&Path) -> bool) -> Result<Vec<Split>, DataError> {
    let given: Vec<Split> = Split::ALL.into_iter().filter(|split| is_split(&dir.join(split.name()))).collect();
    if given.is_empty() {
        return Ok(given);
    }
    if !given.contains(&Split::Train) && opening.purpose == Purpose::Learn {
        return Err(DataError::NoTrain { dir: dir.to_owned() });
    }
    let is_stray = |folder: &PathBuf| !Split::ALL.iter().any(|split| folder.ends_with(split.name()));
    match sub_folders(dir)?.into_iter().find(is_stray) {
        Some(stray) => {
            let name = stray.file_name().unwrap_or_default().to_string_lossy().into_owned();
            Err(DataError::StrayFolder { dir: dir.to_owned(), name })
        }
        None => Ok(given),
    }
}

/// The files of a folder and of the folders in it, by their paths from there without endings.
fn keyed(dir: &Path, opening: &Opening, passed_over: &mut PassedOver) -> Result<Keyed, DataError> {
    let mut files = Vec::new();
    collect_images(dir, opening, &mut files, passed_over)?;
    let mut keyed: Keyed = files.into_iter().map(|Found { path, .. }| (key(dir, &path), path)).collect();
    keyed.sort();
    Ok(keyed)
}

/// The path of a file from a folder, with `/` between folders and without its ending.
fn key(dir: &Path, path: &Path) -> String {
    let below = path.strip_prefix(dir).unwrap_or(path);
    let mut parts: Vec<String> =
        below.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
    if let Some(last) = parts.last_mut() {
        *last = stem(last).to_owned();
    }
    parts.join("/")
}

/// A file's name without its ending, that of a packed file included.
pub(super) fn stem(name: &str) -> &str {
    let unpacked = name.strip_suffix(".gz").unwrap_or(name);
    unpacked.rsplit_once('.').map_or(unpacked, |(stem, _)| stem)
}
