//! A folder of images, one sub-folder a class, with or without `train/`, `val/` and `test/`.

use std::collections::BTreeMap;
use std::fs::DirEntry;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::assemble::{Listed, Named, assemble, list_all};
use super::{Dataset, Format, Opened, Opening, PassedOver, Purpose, Task};
use crate::error::DataError;
use crate::split::Split;

/// The file that lists what lies around it.
const INDEX: &str = "DICOMDIR";

/// A file that somebody can read.
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    pub(crate) format: Arc<dyn Format>,
}

impl Found {
    fn named(self, class_dir: &Path, label: usize, split: Option<Split>) -> Named {
        let below = self.path.strip_prefix(class_dir).unwrap_or(&self.path).to_owned();
        Named { below, path: self.path, format: self.format, labels: vec![label], group: None, weight: 1.0, split }
    }
}

/// Files by class, sorted.
type Classes = BTreeMap<String, Vec<Found>>;

/// Opens an image folder: PNG, JPEG, TIFF, GIF, BMP and WebP of 8 or 16 bits, grey or RGB, in one sub-folder a class; folders inside
/// a class belong to it.
///
/// With `train/` on top, `val/` and `test/` are taken as they are; one that is missing is split off from `train/`.
/// Without, the images are split 70/15/15. Both are done class by class, from the seed and the names of the files
/// ([`SplitRule`](crate::SplitRule)). Every header is read, so that a file that is no image is found before the run and not in
/// its middle.
///
/// # Errors
/// Any [`DataError`] of folders and files, with the path.
pub fn open_folder(dir: &Path, seed: u64) -> Result<Dataset, DataError> {
    Ok(open_folder_with(dir, &Opening::new(seed))?.dataset)
}

/// As [`open_folder`], with other formats and splits. A folder inside a class that holds a DICOMDIR is read from that.
///
/// # Errors
/// Any [`DataError`] of folders, files and splits, with the path.
pub fn open_folder_with(dir: &Path, opening: &Opening) -> Result<Opened, DataError> {
    if !dir.is_dir() {
        return Err(DataError::MissingFolder { dir: dir.to_owned() });
    }
    let folders = sub_folders(dir)?;
    if folders.is_empty() {
        return Err(DataError::NoClasses { dir: dir.to_owned() });
    }
    let given = given_splits(dir, &folders, opening)?;
    let mut listed: Vec<(Option<Split>, PathBuf, Classes)> = Vec::new();
    let mut passed_over = PassedOver::default();
    match given.as_slice() {
        [] => listed.push((None, dir.to_owned(), list_classes(dir, opening, &mut passed_over)?)),
        given => {
            for &split in given {
                let split_dir = dir.join(split.name());
                let classes = list_classes(&split_dir, opening, &mut passed_over)?;
                listed.push((Some(split), split_dir, classes));
            }
        }
    }
    // What is not in train cannot be learnt; whoever only scores says elsewhere which classes there may be.
    let learnt = if opening.purpose == Purpose::Learn { 1 } else { listed.len() };
    let mut classes: Vec<String> =
        listed.iter().take(learnt).flat_map(|(.., classes)| classes.keys().cloned()).collect();
    classes.sort();
    classes.dedup();
    if let ([class], Purpose::Learn) = (classes.as_slice(), opening.purpose) {
        return Err(DataError::OneClass { dir: listed.swap_remove(0).1, class: class.clone() });
    }
    let mut files = Vec::new();
    for (split, split_dir, found) in listed {
        for (class, paths) in found {
            let Ok(label) = classes.binary_search(&class) else {
                return Err(DataError::UnknownClass { class, dir: split_dir });
            };
            let class_dir = split_dir.join(class);
            files.extend(paths.into_iter().map(|found| found.named(&class_dir, label, split)));
        }
    }
    let (entries, problems) = list_all(files, opening, &mut passed_over, |_, error| error)?;
    let about = format!("Images in {}, one sub-folder a class", dir.display());
    let (path, root) = (dir.to_owned(), dir.to_owned());
    let listed = Listed { path, root, about, classes, task: Task::MultiClass, entries, problems, passed_over };
    assemble(listed, opening)
}

/// The splits the folder has on top: empty if its sub-folders are classes.
fn given_splits(dir: &Path, folders: &[PathBuf], opening: &Opening) -> Result<Vec<Split>, DataError> {
    let mut given = Vec::new();
    for split in Split::ALL {
        let path = dir.join(split.name());
        // A class may be called "train", and holds images; a split holds classes.
        if folders.contains(&path) && !sub_folders(&path)?.is_empty() {
            given.push(split);
        }
    }
    if given.is_empty() {
        return Ok(given);
    }
    if !given.contains(&Split::Train) && opening.purpose == Purpose::Learn {
        return Err(DataError::NoTrain { dir: dir.to_owned() });
    }
    match folders.iter().find(|path| !Split::ALL.iter().any(|split| path.ends_with(split.name()))) {
        Some(stray) => Err(DataError::StrayFolder { dir: dir.to_owned(), name: name_of(stray) }),
        None => Ok(given),
    }
}

/// The classes of a folder, by name, with their files.
fn list_classes(dir: &Path, opening: &Opening, passed_over: &mut PassedOver) -> Result<Classes, DataError> {
    let mut classes = Classes::new();
    for folder in sub_folders(dir)? {
        let class = name_of(&folder);
        let mut files = Vec::new();
        collect_images(&folder, opening, &mut files, passed_over)?;
        if files.is_empty() {
            return Err(DataError::EmptyClass { class, dir: folder });
        }
        files.sort_by(|one, other| one.path.cmp(&other.path));
        classes.insert(class, files);
    }
    if classes.is_empty() {
        return Err(DataError::NoClasses { dir: dir.to_owned() });
    }
    Ok(classes)
}

/// The files in a folder and in the folders in it that hold images, sorted.
///
/// # Errors
/// [`DataError::NoImages`] if there is none, and those of folders, with the path.
pub fn images_in(dir: &Path, opening: &Opening) -> Result<Vec<PathBuf>, DataError> {
    let mut files = Vec::new();
    collect_images(dir, opening, &mut files, &mut PassedOver::default())?;
    if files.is_empty() {
        return Err(DataError::NoImages { dir: dir.to_owned() });
    }
    let mut paths: Vec<PathBuf> = files.into_iter().map(|found| found.path).collect();
    paths.sort();
    Ok(paths)
}

/// The images of a folder and of the folders in it. Links to folders are not followed: they may lead in a circle.
pub(crate) fn collect_images(
    dir: &Path,
    opening: &Opening,
    files: &mut Vec<Found>,
    passed_over: &mut PassedOver,
) -> Result<(), DataError> {
    let index = dir.join(INDEX);
    if index.is_file()
        && let Some(format) = opening.format_of(&index)
    {
        files.push(Found { path: index, format });
        return Ok(());
    }
    for entry in entries(dir)? {
        let path = entry.path();
        let kind = entry.file_type().map_err(|cause| DataError::Io { path: path.clone(), cause })?;
        if kind.is_dir() {
            collect_images(&path, opening, files, passed_over)?;
        } else if !path.is_dir() {
            match opening.format_of(&path) {
                Some(format) => files.push(Found { path, format }),
                None => passed_over.file(&path),
            }
        }
    }
    Ok(())
}

/// The folders in a folder, links to folders included, sorted.
pub(crate) fn sub_folders(dir: &Path) -> Result<Vec<PathBuf>, DataError> {
    let mut folders: Vec<PathBuf> = entries(dir)?.iter().map(DirEntry::path).filter(|path| path.is_dir()).collect();
    folders.sort();
    Ok(folders)
}

/// What is in a folder, but for hidden things.
pub(crate) fn entries(dir: &Path) -> Result<Vec<DirEntry>, DataError> {
    let io = |cause| DataError::Io { path: dir.to_owned(), cause };
    let mut entries = std::fs::read_dir(dir).map_err(io)?.collect::<Result<Vec<_>, _>>().map_err(io)?;
    entries.retain(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."));
    Ok(entries)
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
