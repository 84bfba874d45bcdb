//! `fashion-mnist`: grey pictures of clothes, 28 x 28 pixels, ten classes.
//!
//! README.md in this folder describes the origin of the files, their licence and the splits; `scripts/fetch-fashion-mnist.sh` downloads
//! them.

#![cfg_attr(test, allow(clippy::unwrap_used))]

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kindling_data::{Augment, DataError, Dataset, Idx, ImageStack, StackSource, Task, read_idx};
use sha2::{Digest, Sha256};

/// The classes, by label.
pub const CLASSES: [&str; 10] =
    ["t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle-boot"];
/// The last pictures of each class in the training files are the validation split.
const VAL_OF_EACH_CLASS: usize = 500;
/// The list of checksums, which the fetch script uses too.
const SUMS: &str = include_str!("../SHA256SUMS");
/// The folder of Debian's package.
const INSTALLED: &str = "/usr/share/datasets/fashion-mnist";

const ABOUT: &str = "Fashion-MNIST (Xiao, Rasul and Vollgraf, 2017): grey pictures of clothes, 28 x 28 pixels, ten \
    classes of equal size. 55 000 for training, 5000 for validation (the last 500 of each class of the training file) \
    and the published 10 000 for testing. Not medical: it is here because everybody knows what a model should reach.";

/// An error while opening the data set.
#[derive(Debug, thiserror::Error)]
pub enum FashionMnistError {
    /// A file is missing.
    #[error(
        "fashion-mnist is not here ({missing} is missing): run scripts/fetch-fashion-mnist.sh (it downloads 31 MB into \
         {folder:?}), or install Debian's package dataset-fashion-mnist"
    )]
    NotFetched {
        /// The first folder in which the files are searched.
        folder: PathBuf,
        /// The first one that is missing.
        missing: String,
    },
    /// A file exists, but is not the published one.
    #[error("{path:?} is damaged ({reason}): run scripts/fetch-fashion-mnist.sh again, it replaces damaged files")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A file cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
}

/// Opens the data set in the sub-folder `fashion-mnist` of Kindling's cache folder or, if that does not exist, in the folder of Debian's
/// package. All pictures are read into memory, 55 MB, and checked.
///
/// # Errors
/// If the files were not fetched, are damaged, or cannot be read.
pub fn dataset(cache: &Path) -> Result<Dataset, FashionMnistError> {
    let fetched = cache.join("fashion-mnist");
    let installed = Path::new(INSTALLED);
    let folder = if !fetched.exists() && installed.is_dir() { installed } else { &fetched };
    open(folder, true)
}

fn open(folder: &Path, checked: bool) -> Result<Dataset, FashionMnistError> {
    let (images, labels) = part(folder, "train", checked)?;
    let (test_images, test_labels) = part(folder, "t10k", checked)?;
    let (train, val) = hold_back(&labels);
    let source = |stack: &Arc<ImageStack>, name: &str, samples: Vec<(usize, Vec<usize>)>| {
        Arc::new(StackSource { stack: stack.clone(), samples, name: format!("fashion-mnist/{name}") })
    };
    let all = test_labels.iter().map(|&label| vec![label]).enumerate().collect();
    Ok(Dataset {
        name: "fashion-mnist".into(),
        about: ABOUT.into(),
        classes: CLASSES.map(String::from).into(),
        task: Task::MultiClass,
        channels: 1,
        train: source(&images, "train", train),
        val: source(&images, "train", val),
        test: source(&test_images, "t10k", all),
        normalisation: None,
        augment: Augment::Light,
    })
}

/// Positions in a file with their classes.
type Places = Vec<(usize, Vec<usize>)>;

/// Separates the last pictures of each class from the others; both keep the order of the file.
fn hold_back(labels: &[usize]) -> (Places, Places) {
    let mut left = [0; CLASSES.len()];
    labels.iter().for_each(|&label| left[label] += 1);
    let (mut train, mut val) = (Vec::new(), Vec::new());
    for (place, &label) in labels.iter().enumerate() {
        let part = if left[label] > VAL_OF_EACH_CLASS { &mut train } else { &mut val };
        part.push((place, vec![label]));
        left[label] -= 1;
    }
    (train, val)
}

/// Reads the images and the labels of a published part.
fn part(folder: &Path, name: &str, checked: bool) -> Result<(Arc<ImageStack>, Vec<usize>), FashionMnistError> {
    let damaged = |file: &str, reason: String| FashionMnistError::Damaged { path: packed(folder, file), reason };
    let (image_file, label_file) = (format!("{name}-images-idx3-ubyte"), format!("{name}-labels-idx1-ubyte"));
    let images = load(folder, &image_file, checked)?;
    let labels = load(folder, &label_file, checked)?;
    let ([count, height, width], [labelled]) = (images.sizes.as_slice(), labels.sizes.as_slice()) else {
        return Err(damaged(&image_file, format!("its sizes are {:?} and {:?}", images.sizes, labels.sizes)));
    };
    if count != labelled {
        return Err(damaged(&label_file, format!("{count} images have {labelled} labels")));
    }
    if let Some(label) = labels.values.iter().find(|&&label| usize::from(label) >= CLASSES.len()) {
        return Err(damaged(&label_file, format!("it has the label {label}")));
    }
    let stack = ImageStack::in_memory([*count, *height, *width, 1], images.values)
        .map_err(|reason| damaged(&image_file, reason))?;
    Ok((Arc::new(stack), labels.values.into_iter().map(usize::from).collect()))
}

fn packed(folder: &Path, file: &str) -> PathBuf {
    folder.join(format!("{file}.gz"))
}

fn load(folder: &Path, file: &str, checked: bool) -> Result<Idx, FashionMnistError> {
    let path = packed(folder, file);
    let idx = match read_idx(&path) {
        Err(DataError::Io { cause, .. }) if cause.kind() == ErrorKind::NotFound => {
            return Err(FashionMnistError::NotFetched { folder: folder.to_owned(), missing: format!("{file}.gz") });
        }
        Err(DataError::Unreadable { path, reason }) => return Err(FashionMnistError::Damaged { path, reason }),
        other => other?,
    };
    if checked && Some(sum_of(&idx).as_str()) != listed_sum(file) {
        return Err(FashionMnistError::Damaged { path, reason: "its SHA-256 is not the listed one".into() });
    }
    Ok(idx)
}

/// The SHA-256 of the unpacked file of an array, since every release of Debian compresses it anew.
fn sum_of(idx: &Idx) -> String {
    let mut sum = Sha256::new();
    sum.update([0, 0, 8, idx.sizes.len() as u8]);
    idx.sizes.iter().for_each(|&size| sum.update((size as u32).to_be_bytes()));
    sum.update(&idx.values);
    sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn listed_sum(file: &str) -> Option<&'static str> {
    SUMS.lines().filter_map(|line| line.split_once("  ")).find_map(|(sum, name)| (name == file).then_some(sum))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};
    use kindling_data::Split;

    use super::*;

    fn write(folder: &Path, file: &str, sizes: &[u32], values: &[u8]) {
        let mut packer = GzEncoder::new(std::fs::File::create(packed(folder, file)).unwrap(), Compression::fast());
        packer.write_all(&[0, 0, 8, sizes.len() as u8]).unwrap();
        sizes.iter().for_each(|size| packer.write_all(&size.to_be_bytes()).unwrap());
        packer.write_all(values).unwrap();
        packer.finish().unwrap();
    }

    /// `count` pictures of 2 x 2 pixels of their own number, labels in turn.
    fn write_part(folder: &Path, name: &str, count: usize) {
        let pixels: Vec<u8> = (0..count).flat_map(|i| [(i % 251) as u8; 4]).collect();
        let labels: Vec<u8> = (0..count).map(|i| (i % 10) as u8).collect();
        write(folder, &format!("{name}-images-idx3-ubyte"), &[count as u32, 2, 2], &pixels);
        write(folder, &format!("{name}-labels-idx1-ubyte"), &[count as u32], &labels);
    }

    #[test]
    fn the_last_500_of_each_class_are_held_back_for_validation() {
        let folder = tempfile::tempdir().unwrap();
        write_part(folder.path(), "train", 6000);
        write_part(folder.path(), "t10k", 30);
        let dataset = open(folder.path(), false).unwrap();
        assert_eq!(dataset.class_counts(Split::Train), [100; 10]);
        assert_eq!(dataset.class_counts(Split::Val), [500; 10]);
        assert_eq!(dataset.class_counts(Split::Test), [3; 10]);
        assert_eq!(dataset.train.name_of(999), "fashion-mnist/train#999");
        assert_eq!(dataset.val.name_of(0), "fashion-mnist/train#1000");
        let image = dataset.val.read(7).unwrap();
        assert_eq!((image.width, image.height, image.channels), (2, 2, 1));
        assert_eq!(image.pixels, [(1007 % 251) as f32 / 255.0; 4]);
    }

    #[test]
    fn a_missing_file_names_the_script_and_a_foreign_one_its_path() {
        let cache = tempfile::tempdir().unwrap();
        let folder = cache.path().join("fashion-mnist");
        std::fs::create_dir(&folder).unwrap();
        let error = dataset(cache.path()).unwrap_err().to_string();
        assert!(error.contains("run scripts/fetch-fashion-mnist.sh") && error.contains("train-images"), "{error}");
        write_part(&folder, "train", 10);
        let error = dataset(cache.path()).unwrap_err().to_string();
        assert!(error.contains("SHA-256") && error.contains("train-images-idx3-ubyte.gz"), "{error}");
        std::fs::write(packed(&folder, "train-images-idx3-ubyte"), b"<html>").unwrap();
        let error = dataset(cache.path()).unwrap_err().to_string();
        assert!(error.contains("not an IDX file") && error.contains("train-images-idx3-ubyte.gz"), "{error}");
    }
}
