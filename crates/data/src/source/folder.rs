//! A folder of images, one sub-folder a class, with or without `train/`, `val/` and `test/`.

use std::collections::BTreeMap;
use std::fs::DirEntry;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::asked::{in_order, task_of};
use super::assemble::{Listed, Named, assemble, list_all};
use super::{Dataset, Format, Opened, Opening, PassedOver, Purpose, Task};
use crate::decode::MAX_FILE_BYTES;
use crate::error::DataError;
use crate::split::Split;

/// The folder of images without a class, where images may have several.
const NO_CLASS: &str = "none";
/// The DICOM file that lists the files around it.
const INDEX: &str = "DICOMDIR";

/// A file that one of the formats claims.
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    pub(crate) format: Arc<dyn Format>,
}

impl Found {
    fn named(self, class_dir: &Path, labels: Vec<usize>, split: Option<Split>) -> Named {
        let below = self.path.strip_prefix(class_dir).unwrap_or(&self.path).to_owned();
        let (path, format) = (self.path, self.format);
        Named { below, path, format, labels, value: None, group: None, weight: 1.0, split }
    }
}

/// Files by class, sorted.
type Classes = BTreeMap<String, Vec<Found>>;

/// Opens an image folder: PNG, JPEG, TIFF, GIF, BMP and WebP of 8 or 16 bits, grey or RGB, in one sub-folder a class; folders inside
/// a class belong to it.
///
/// With `train/` on top, `val/` and `test/` are taken as they are; one that is missing is split off from `train/`.
/// Where images may have several classes ([`Asked::MultiLabel`](super::Asked::MultiLabel)), those of a folder `a+b` are of both, those of
/// a folder `none` of none, and a file that lies in several class folders under one name, with the same bytes, is one image of all of
/// these classes.
///
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
    // Only classes in train can be learnt. Scoring takes the classes of all splits and compares them with the model's elsewhere.
    let learnt = if opening.purpose == Purpose::Learn { 1 } else { listed.len() };
    let task = task_of(&opening.asked, false, dir)?;
    let folders = listed.iter().take(learnt).flat_map(|(.., classes)| classes.keys());
    let mut classes: Vec<String> = folders.flat_map(|folder| names_of(folder, task)).map(str::to_owned).collect();
    classes.sort();
    classes.dedup();
    let classes = in_order(classes, &opening.asked, dir)?;
    if let ([class], true, Purpose::Learn) = (classes.as_slice(), task.is_single_label(), opening.purpose) {
        return Err(DataError::OneClass { dir: listed.swap_remove(0).1, class: class.clone() });
    }
    let mut files = Vec::new();
    for (split, split_dir, found) in listed {
        let first = files.len();
        for (folder, paths) in found {
            let labels = labels_of(&folder, task, &classes)
                .map_err(|class| DataError::UnknownClass { class, dir: split_dir.clone() })?;
            let class_dir = split_dir.join(folder);
            files.extend(paths.into_iter().map(|found| found.named(&class_dir, labels.clone(), split)));
        }
        if task == Task::MultiLabel {
            let of_split = files.split_off(first);
            files.extend(merged(of_split)?);
        }
    }
    let (entries, problems) = list_all(files, opening, &mut passed_over, |_, error| error)?;
    let about = format!("Images in {}, one sub-folder a class", dir.display());
    let (path, root) = (dir.to_owned(), dir.to_owned());
    assemble(Listed { path, root, about, classes, task, entries, problems, passed_over }, opening)
}

/// The classes that a folder names: its name, or where images may have several those between `+`, and none of `none`.
fn names_of(folder: &str, task: Task) -> impl Iterator<Item = &str> {
    let several = task == Task::MultiLabel;
    let names = folder.split(move |letter| several && letter == '+').map(str::trim);
    names.filter(move |name| !(several && (name.is_empty() || *name == NO_CLASS)))
}

/// The classes of a folder's images, by their numbers.
///
/// # Errors
/// The first class that there is not.
fn labels_of(folder: &str, task: Task, classes: &[String]) -> Result<Vec<usize>, String> {
    let number = |name: &str| classes.iter().position(|class| class == name).ok_or_else(|| name.to_owned());
    let mut labels = names_of(folder, task).map(number).collect::<Result<Vec<_>, _>>()?;
    labels.sort_unstable();
    labels.dedup();
    Ok(labels)
}

/// The same files, where one that lies in several classes under one name, with the same bytes, is one with all their labels.
fn merged(files: Vec<Named>) -> Result<Vec<Named>, DataError> {
    let mut kept: Vec<Named> = Vec::with_capacity(files.len());
    let mut by_name: BTreeMap<PathBuf, Vec<usize>> = BTreeMap::new();
    for file in files {
        let alike = by_name.entry(file.below.clone()).or_default();
        let mut same = None;
        for &place in alike.iter() {
            if is_same_file(&kept[place].path, &file.path)? {
                same = Some(place);
                break;
            }
        }
        match same {
            Some(place) => {
                let labels = &mut kept[place].labels;
                labels.extend(file.labels);
                labels.sort_unstable();
                labels.dedup();
            }
            None => {
                alike.push(kept.len());
                kept.push(file);
            }
        }
    }
    Ok(kept)
}

/// Whether two files hold the same bytes.
fn is_same_file(one: &Path, other: &Path) -> Result<bool, DataError> {
    let size = |path: &Path| std::fs::metadata(path).map(|data| data.len());
    let io = |path: &Path| {
        let path = path.to_owned();
        move |cause| DataError::Io { path, cause }
    };
    if size(one).map_err(io(one))? != size(other).map_err(io(other))? {
        return Ok(false);
    }
    let read = |path: &Path| kindling_files::read(path, MAX_FILE_BYTES).map_err(io(path));
    Ok(read(one)? == read(other)?)
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
