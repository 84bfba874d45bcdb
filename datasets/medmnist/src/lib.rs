//! `medmnist`: the twelve two-dimensional sets of MedMNIST v2, from the published `.npz` files.
//!
//! The files are not downloaded: users put them into Kindling's cache folder, or leave them where the package `medmnist` stores them.
//! README.md in this folder describes origin, licence, checksums and splits.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod published;
#[cfg(test)]
mod tests;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use kindling_data::{Augment, DataError, Dataset, Npz, Source, StackSource, Task};
use kindling_files as files;
use md5::{Digest, Md5};

use published::{PUBLISHED, Published, SIZES};

/// An error while opening a set.
#[derive(Debug, thiserror::Error)]
pub enum MedMnistError {
    /// There is no such set.
    #[error(
        "there is no MedMNIST set {name:?}; say one of {known}, or with the side of the images as in pathmnist_128"
    )]
    Unknown {
        /// The unknown name.
        name: String,
        /// The known names.
        known: String,
    },
    /// The file is missing.
    #[error("{name} is not here: put the published {name}.npz into {folder:?} (MedMNIST v2, on Zenodo)")]
    NotThere {
        /// Name of the set and its size.
        name: String,
        /// The first folder in which it is searched.
        folder: PathBuf,
    },
    /// The file is not the published one.
    #[error(
        "{path:?} has the MD5 {found}, the published file has {wanted}: it is damaged or another version; replace it"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Its sum.
        found: String,
        /// The published sum.
        wanted: &'static str,
    },
    /// The file has the right name and not the right content.
    #[error("{path:?} is not laid out as published: {reason}")]
    Layout {
        /// The file.
        path: PathBuf,
        /// What is different.
        reason: String,
    },
    /// The file cannot be read, or it is not an archive.
    #[error(transparent)]
    Data(#[from] DataError),
}

/// Whether this is the name of a set, with or without a size: `pathmnist`, `pathmnist_28`, `pathmnist_224`.
pub fn knows(name: &str) -> bool {
    find(name).is_some()
}

/// The names of the sets.
pub fn names() -> impl Iterator<Item = &'static str> {
    PUBLISHED.iter().map(|set| set.name)
}

/// The set of a name, and the index of its size.
fn find(name: &str) -> Option<(&'static Published, usize)> {
    let (base, size) = match name.split_once('_') {
        None => (name, SIZES[0]),
        Some((base, size)) => (base, size.parse().ok()?),
    };
    let place = SIZES.iter().position(|known| *known == size)?;
    Some((PUBLISHED.iter().find(|set| set.name == base)?, place))
}

/// Opens a set by its name: the file `medmnist/<name>.npz` in Kindling's cache folder, or in `~/.medmnist`, where the package `medmnist`
/// stores it. The MD5 is computed once for a file and then stored beside it. Images of an uncompressed file are read when they are needed;
/// those of a compressed file are unpacked into memory.
///
/// # Errors
/// If there is no such set, its file is missing, or the file is not the published one.
pub fn dataset(name: &str, cache: &Path) -> Result<Dataset, MedMnistError> {
    let (set, place) = find(name).ok_or_else(|| MedMnistError::Unknown {
        name: name.to_owned(),
        known: names().collect::<Vec<_>>().join(", "),
    })?;
    // The smallest size has no number in its file's name.
    let file = if SIZES[place] == SIZES[0] { set.name.to_owned() } else { format!("{}_{}", set.name, SIZES[place]) };
    let folder = cache.join("medmnist");
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".medmnist"));
    let path = [Some(folder.clone()), home]
        .into_iter()
        .flatten()
        .map(|folder| folder.join(format!("{file}.npz")))
        .find(|path| path.is_file())
        .ok_or(MedMnistError::NotThere { name: file, folder })?;
    check_sum(&path, set.md5[place])?;
    open(&path, set, SIZES[place], true)
}

/// Fails unless the file has the published checksum. A correct checksum is stored with the size and modification time of the file.
fn check_sum(path: &Path, wanted: &'static str) -> Result<(), MedMnistError> {
    let io = |cause| DataError::Io { path: path.to_owned(), cause };
    let meta = std::fs::metadata(path).map_err(io)?;
    let modified = meta.modified().map_err(io)?.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let state = format!("{wanted} {} {modified}\n", meta.len());
    let seen = path.with_extension("npz.md5");
    if std::fs::read_to_string(&seen).is_ok_and(|text| text == state) {
        return Ok(());
    }
    let mut file = files::open(path).map_err(io)?;
    let (mut sum, mut buffer) = (Md5::new(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut buffer).map_err(io)? {
            0 => break,
            count => sum.update(&buffer[..count]),
        }
    }
    let found: String = sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    if found != wanted {
        return Err(MedMnistError::Damaged { path: path.to_owned(), found, wanted });
    }
    // If it cannot be stored, it is computed again the next time.
    let _ = std::fs::write(seen, state);
    Ok(())
}

/// Opens a file with the layout of a set. `whole` says that it must have all samples of the published one.
fn open(path: &Path, set: &Published, size: usize, whole: bool) -> Result<Dataset, MedMnistError> {
    let mut npz = Npz::open(path)?;
    let mut sources = Vec::with_capacity(3);
    for (part, published) in ["train", "val", "test"].into_iter().zip(set.samples) {
        sources.push(read_part(&mut npz, path, set, size, part, whole.then_some(published))?);
    }
    let Ok([train, val, test]) = <[Arc<dyn Source>; 3]>::try_from(sources) else {
        unreachable!("there are three parts");
    };
    Ok(Dataset {
        name: format!("{}_{size}", set.name),
        about: about(set, size),
        classes: set.classes.iter().map(|class| (*class).to_owned()).collect(),
        task: set.task,
        channels: set.channels,
        train,
        val,
        test,
        normalisation: None,
        augment: Augment::Light,
    })
}

fn read_part(
    npz: &mut Npz,
    path: &Path,
    set: &Published,
    size: usize,
    part: &str,
    published: Option<usize>,
) -> Result<Arc<dyn Source>, MedMnistError> {
    let layout = |reason: String| MedMnistError::Layout { path: path.to_owned(), reason };
    let stack = npz.images(&format!("{part}_images"))?;
    let shape = (stack.width, stack.height, stack.channels);
    if shape != (size, size, set.channels) {
        return Err(layout(format!("images of {part} are {shape:?} instead of {:?}", (size, size, set.channels))));
    }
    let columns = if set.task == Task::MultiLabel { set.classes.len() } else { 1 };
    let rows = npz.numbers(&format!("{part}_labels"), stack.count.saturating_mul(columns))?;
    if rows.len() != stack.count || published.is_some_and(|count| count != stack.count) {
        let wanted = published.map_or(String::new(), |count| format!(", {count} were published"));
        return Err(layout(format!("{part} has {} images and {} labels{wanted}", stack.count, rows.len())));
    }
    let mut samples = Vec::with_capacity(rows.len());
    for (place, row) in rows.iter().enumerate() {
        samples
            .push((place, labels_of(set, row).map_err(|reason| layout(format!("{part}, sample {place}: {reason}")))?));
    }
    Ok(Arc::new(StackSource { stack: Arc::new(stack), samples, name: format!("{}_{size}/{part}", set.name) }))
}

/// The classes of a row of labels, which is a number, or 0 or 1 for each class.
fn labels_of(set: &Published, row: &[i64]) -> Result<Vec<usize>, String> {
    let classes = set.classes.len();
    match (set.task, row) {
        (Task::MultiClass, [label]) => match usize::try_from(*label) {
            Ok(label) if label < classes => Ok(vec![label]),
            _ => Err(format!("the label {label} is none of {classes} classes")),
        },
        (Task::MultiLabel, answers)
            if answers.len() == classes && answers.iter().all(|answer| matches!(answer, 0 | 1)) =>
        {
            Ok((0..classes).filter(|&class| answers[class] == 1).collect())
        }
        (_, other) => Err(format!("{other:?} are no labels of {classes} classes")),
    }
}

fn about(set: &Published, size: usize) -> String {
    let task = match (set.task, set.ordered) {
        (Task::MultiLabel, _) => "any number of classes a sample",
        (_, true) => "classes are steps of a scale, learnt here as classes of their own",
        _ => "one class a sample",
    };
    let licence = set.licence;
    format!(
        "MedMNIST v2's {} (Yang et al., 2023) at {size} x {size} pixels; {task}; split as published; {licence}.",
        set.name
    )
}
