//! A folder of images, one sub-folder a class, with or without `train/`, `val/` and `test/`.

use std::collections::BTreeMap;
use std::fs::DirEntry;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kindling_random::{Purpose, rng};

use crate::order::shuffle;
use crate::{Augment, DataError, Dataset, Image, Source, Split, Task, read_header, read_image};

/// The share of a class that goes to `val`, and again to `test`, where the folder does not say.
const HELD_OUT: f64 = 0.15;
/// What counts as an image, by name.
const EXTENSIONS: [&str; 5] = ["png", "jpg", "jpeg", "tif", "tiff"];

/// Files by class, sorted.
type Classes = BTreeMap<String, Vec<PathBuf>>;

/// Opens an image folder: PNG, JPEG and TIFF of 8 or 16 bits, grey or RGB, in one sub-folder a class; folders inside
/// a class belong to it.
///
/// With `train/` on top, `val/` and `test/` are taken as they are; one that is missing is carved out of `train/`.
/// Without, the images are split 70/15/15. Both are done class by class, from the seed and the sorted names. Every
/// header is read, so that a file that is no image is found before the run and not in its middle.
///
/// # Errors
/// Any [`DataError`] of folders and files, with the path.
pub fn open_folder(dir: &Path, seed: u64) -> Result<Dataset, DataError> {
    if !dir.is_dir() {
        return Err(DataError::MissingFolder { dir: dir.to_owned() });
    }
    let folders = sub_folders(dir)?;
    if folders.is_empty() {
        return Err(DataError::NoClasses { dir: dir.to_owned() });
    }
    let given = given_splits(dir, &folders)?;
    let train_dir = if given.contains(&Split::Train) { dir.join(Split::Train.name()) } else { dir.to_owned() };
    let train = list_classes(&train_dir)?;
    let classes: Vec<String> = train.keys().cloned().collect();
    if let [class] = classes.as_slice() {
        return Err(DataError::OneClass { dir: train_dir, class: class.clone() });
    }

    let mut files: [Vec<(PathBuf, usize)>; 3] = Default::default();
    let missing: Vec<Split> = [Split::Val, Split::Test].into_iter().filter(|split| !given.contains(split)).collect();
    for (label, (class, paths)) in train.into_iter().enumerate() {
        for (split, paths) in carve(&train_dir, &class, paths, &missing, seed, label as u64)? {
            files[split as usize].extend(paths.into_iter().map(|path| (path, label)));
        }
    }
    for &split in given.iter().filter(|&&split| split != Split::Train) {
        let split_dir = dir.join(split.name());
        for (class, paths) in list_classes(&split_dir)? {
            let Ok(label) = classes.binary_search(&class) else {
                return Err(DataError::UnknownClass { class, dir: split_dir });
            };
            files[split as usize].extend(paths.into_iter().map(|path| (path, label)));
        }
    }

    let mut channels = 1;
    for (path, _) in files.iter().flatten() {
        channels = channels.max(read_header(path)?.channels);
    }
    let [train, val, test] = files.map(|files| Arc::new(Folder { files }) as Arc<dyn Source>);
    let name = dir.canonicalize().ok().and_then(|full| Some(full.file_name()?.to_string_lossy().into_owned()));
    Ok(Dataset {
        name: name.unwrap_or_else(|| dir.display().to_string()),
        about: about(dir, &missing, seed),
        classes,
        task: Task::OneOf,
        channels,
        train,
        val,
        test,
        normalisation: None,
        augment: Augment::Light,
    })
}

fn about(dir: &Path, missing: &[Split], seed: u64) -> String {
    let origin = match missing {
        [] => "split as the folder says".to_owned(),
        [one] => format!("{one} carved out of train with seed {seed}, class by class"),
        _ => format!("val and test split off with seed {seed}, class by class"),
    };
    format!("Images in {}, one sub-folder a class; {origin}.", dir.display())
}

/// The splits the folder has on top: empty if its sub-folders are classes.
fn given_splits(dir: &Path, folders: &[PathBuf]) -> Result<Vec<Split>, DataError> {
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
    if !given.contains(&Split::Train) {
        return Err(DataError::NoTrain { dir: dir.to_owned() });
    }
    match folders.iter().find(|path| !Split::ALL.iter().any(|split| path.ends_with(split.name()))) {
        Some(stray) => Err(DataError::StrayFolder { dir: dir.to_owned(), name: name_of(stray) }),
        None => Ok(given),
    }
}

/// Divides the files of a class among train and the splits that are missing.
fn carve(
    dir: &Path,
    class: &str,
    mut paths: Vec<PathBuf>,
    missing: &[Split],
    seed: u64,
    label: u64,
) -> Result<Vec<(Split, Vec<PathBuf>)>, DataError> {
    let needed = 1 + missing.len();
    if paths.len() < needed {
        let (class, dir) = (class.to_owned(), dir.join(class));
        return Err(DataError::TooFewSamples { class, dir, found: paths.len(), needed });
    }
    let mut parts = Vec::with_capacity(needed);
    let held_out = ((paths.len() as f64 * HELD_OUT).round() as usize).max(1);
    if !missing.is_empty() {
        shuffle(&mut paths, &mut rng(seed, Purpose::Split, 0, label));
    }
    for &split in missing {
        let mut part = paths.split_off(paths.len() - held_out);
        part.sort();
        parts.push((split, part));
    }
    paths.sort();
    parts.push((Split::Train, paths));
    Ok(parts)
}

/// The classes of a folder, by name, with their files.
fn list_classes(dir: &Path) -> Result<Classes, DataError> {
    let mut classes = Classes::new();
    for folder in sub_folders(dir)? {
        let class = name_of(&folder);
        let mut paths = Vec::new();
        collect_images(&folder, &mut paths)?;
        if paths.is_empty() {
            return Err(DataError::EmptyClass { class, dir: folder });
        }
        paths.sort();
        classes.insert(class, paths);
    }
    if classes.is_empty() {
        return Err(DataError::NoClasses { dir: dir.to_owned() });
    }
    Ok(classes)
}

/// The images of a folder and of the folders in it. Links to folders are not followed: they may lead in a circle.
pub(crate) fn collect_images(dir: &Path, paths: &mut Vec<PathBuf>) -> Result<(), DataError> {
    for entry in entries(dir)? {
        let path = entry.path();
        let kind = entry.file_type().map_err(|cause| DataError::Io { path: path.clone(), cause })?;
        if kind.is_dir() {
            collect_images(&path, paths)?;
        } else if is_image_name(&path) && !path.is_dir() {
            paths.push(path);
        }
    }
    Ok(())
}

fn is_image_name(path: &Path) -> bool {
    path.extension().is_some_and(|have| EXTENSIONS.iter().any(|known| have.eq_ignore_ascii_case(known)))
}

/// The folders in a folder, links to folders included, sorted.
fn sub_folders(dir: &Path) -> Result<Vec<PathBuf>, DataError> {
    let mut folders: Vec<PathBuf> = entries(dir)?.iter().map(DirEntry::path).filter(|path| path.is_dir()).collect();
    folders.sort();
    Ok(folders)
}

/// What is in a folder, but for hidden things.
fn entries(dir: &Path) -> Result<Vec<DirEntry>, DataError> {
    let io = |cause| DataError::Io { path: dir.to_owned(), cause };
    let mut entries = std::fs::read_dir(dir).map_err(io)?.collect::<Result<Vec<_>, _>>().map_err(io)?;
    entries.retain(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."));
    Ok(entries)
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Files with their labels.
pub(crate) struct Folder {
    pub(crate) files: Vec<(PathBuf, usize)>,
}

impl Source for Folder {
    fn len(&self) -> usize {
        self.files.len()
    }

    fn label(&self, index: usize) -> usize {
        self.files[index].1
    }

    fn read(&self, index: usize) -> Result<Image, DataError> {
        let (path, _) = self.files.get(index).ok_or(DataError::OutOfRange { index, len: self.files.len() })?;
        read_image(path)
    }

    fn name_of(&self, index: usize) -> String {
        self.files[index].0.display().to_string()
    }
}
