//! Everything that can go wrong with data, as one sentence each: what, where, what to do.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::split::{FEWEST_FOLDS, Fold, Split, SplitBy};
use kindling_given::UnknownName;

/// An error with data. Paths are quoted and escaped, so that a name with a newline cannot break the sentence in two.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The data folder does not exist, or is not a folder.
    #[error("{dir:?} is not a folder; give a folder with one sub-folder of images per class")]
    MissingFolder {
        /// The path that was given.
        dir: PathBuf,
    },
    /// The folder holds no images.
    #[error("{dir:?} holds no images: PNG, JPEG, TIFF, GIF, BMP, WebP and scans are read")]
    NoImages {
        /// The folder, searched with all folders in it.
        dir: PathBuf,
    },
    /// The data folder holds no sub-folders.
    #[error("{dir:?} has no sub-folders; put the images of each class into a sub-folder named after the class")]
    NoClasses {
        /// The path that was given.
        dir: PathBuf,
    },
    /// There is nothing to tell apart.
    #[error("{dir:?} holds the single class {class:?}; a classifier needs at least two")]
    OneClass {
        /// The folder of the classes.
        dir: PathBuf,
        /// The only class in it.
        class: String,
    },
    /// Numbers are asked for where there are classes.
    #[error(
        "{path:?} has classes and no numbers; --task regression takes a manifest (.csv, .jsonl) with a column of numbers, which --target names"
    )]
    NoNumbers {
        /// The folder or manifest that was opened.
        path: PathBuf,
    },
    /// One grade each is asked for, and images have several classes.
    #[error("{path:?} gives images several classes; --task ordinal takes one grade each")]
    SeveralGrades {
        /// The folder or manifest that was opened.
        path: PathBuf,
    },
    /// Classes are to have an order, which their names do not say.
    #[error(
        "the classes of {path:?} ({}) are not numbers, which would have an order; give the order, the least first, as in --class-order none,mild,severe",
        .classes.join(", ")
    )]
    NoOrder {
        /// The folder or manifest that was opened.
        path: PathBuf,
        /// Names of all its classes.
        classes: Vec<String>,
    },
    /// The order of the classes leaves a class out, or names one more than once.
    #[error("the class {class:?} of {path:?} stands {times} times in the order {}; each class stands there once", .order.join(","))]
    OutsideOrder {
        /// The folder or manifest that was opened.
        path: PathBuf,
        /// Name of the class, as it stands in the data.
        class: String,
        /// How often the order names it: 0, or 2 and more.
        times: usize,
        /// The order that was given, the least first.
        order: Vec<String>,
    },
    /// A class has no images.
    #[error(
        "class {class:?} is empty: {dir:?} holds no PNG, JPEG, TIFF, GIF, BMP, WebP or scan; add images or remove the folder"
    )]
    EmptyClass {
        /// Name of the class, as it stands in the data.
        class: String,
        /// The folder of the class.
        dir: PathBuf,
    },
    /// `val/` or `test/` has a class that `train/` has not.
    #[error("{dir:?} holds the class {class:?}, which train/ has not; classes must have the same names everywhere")]
    UnknownClass {
        /// Name of the class, as it stands in the data.
        class: String,
        /// The folder of the split.
        dir: PathBuf,
    },
    /// A folder has `val/` or `test/` but no `train/`.
    #[error("{dir:?} has val/ or test/ but no train/; add train/, built as they are")]
    NoTrain {
        /// The folder that was given.
        dir: PathBuf,
    },
    /// A folder stands beside `train/` that is no split.
    #[error("{dir:?} has train/ and also {name:?}; beside train/ only val/ and test/ are understood, so rename it")]
    StrayFolder {
        /// The folder that was given.
        dir: PathBuf,
        /// Name of the folder beside `train/`.
        name: String,
    },
    /// A class is too small to be split.
    #[error("class {class:?} in {dir:?} has {found} images, but splitting needs at least {needed}; add images")]
    TooFewSamples {
        /// Name of the class, as it stands in the data.
        class: String,
        /// The folder or manifest that was opened.
        dir: PathBuf,
        /// How many images the class has.
        found: usize,
        /// The fewest that can be split: one for each split.
        needed: usize,
    },
    /// Decoding takes more memory than there is.
    #[error("{path:?} cannot be decoded: that takes {} MiB, and {reason}; give more memory, or make the image smaller", bytes.div_ceil(1 << 20))]
    ReservationRefused {
        /// The image file.
        path: PathBuf,
        /// The memory that decoding takes, in bytes.
        bytes: u64,
        /// Who refused, and why.
        reason: String,
    },
    /// A source without samples was given where some are needed.
    #[error("there are no samples to {purpose}")]
    NoSamples {
        /// What they are needed for, as a verb: `train on`.
        purpose: &'static str,
    },
    /// A sample beyond the end of its source was asked for.
    #[error("sample {index} was asked for, but there are only {len}")]
    OutOfRange {
        /// The index that was asked for, from 0.
        index: usize,
        /// How many samples the source has.
        len: usize,
    },
    /// A file that cannot be decoded.
    #[error("cannot read the image {path:?}: {reason}; replace or remove the file")]
    Unreadable {
        /// The image file.
        path: PathBuf,
        /// The message of the decoder.
        reason: String,
    },
    /// An image beyond the limits of [`read_image`](crate::read_image).
    #[error("the image {path:?} is too large ({what}, the limit is {limit}); scale it down or remove it")]
    TooLarge {
        /// The image file.
        path: PathBuf,
        /// Its size, in words.
        what: String,
        /// The limit it exceeds, in words.
        limit: String,
    },
    /// A decoder, or a source, panicked on a sample.
    #[error("reading sample {name:?} crashed ({reason}); the file is probably damaged: replace or remove it")]
    Panicked {
        /// The sample, as its source names it.
        name: String,
        /// The message of the panic.
        reason: String,
    },
    /// The operating system refused to read or write.
    #[error("cannot access {path:?}: {}", advised(path, cause))]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        cause: std::io::Error,
    },
    /// More samples are bad than the user allows.
    #[error(
        "{bad} of {of} samples cannot be read, more than --max-bad {limit} allows; repair the data set or allow more; the last: \
         {reason}"
    )]
    TooManyBad {
        /// How many samples could not be read.
        bad: usize,
        /// How many samples there are.
        of: usize,
        /// What is allowed, as the user writes it.
        limit: String,
        /// What is wrong with the last one, with its path.
        reason: String,
    },
    /// A weight that samples cannot be drawn by.
    #[error("sample {name:?} has the weight {weight}; weights are finite and not negative")]
    Weight {
        /// The sample, as its source names it.
        name: String,
        /// The weight: negative, infinite or NaN.
        weight: f64,
    },
    /// No share of a batch can be drawn from images with a foreground class.
    #[error("--sampling foreground cannot be done: {what}")]
    Foreground {
        /// What is missing, and what to do.
        what: &'static str,
    },
    /// A value of an augmentation policy is outside its range.
    #[error("the augmentation policy cannot be used: {what}")]
    Policy {
        /// Which value, and what it takes.
        what: String,
    },
    /// A thread of the loader could not be started.
    #[error("cannot start a loader thread: {cause}; use fewer workers")]
    Thread {
        /// The system's reason.
        cause: std::io::Error,
    },
    /// A picture could not be encoded.
    #[error("cannot encode a PNG: {reason}")]
    Encode {
        /// The message of the encoder.
        reason: String,
    },
    /// A name that is not one of a fixed list.
    #[error(transparent)]
    UnknownName(#[from] UnknownName),
    /// A line of a manifest that cannot be used.
    #[error("{path:?}, line {line}: {reason}")]
    Manifest {
        /// The manifest that was opened.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// The path that was given leads to no data set.
    #[error(
        "{path:?} is no data set: give a folder with one sub-folder of images per class, a manifest (.csv, .jsonl) or \
         shards (.tar)"
    )]
    NoDataset {
        /// The path that was given.
        path: PathBuf,
    },
    /// A patient is on two sides of a split.
    #[error(
        "the group {group:?} is on two sides: {:?} is in {}, {:?} in {}; a score would be too good, so give all its \
         samples to one side (or say --split-by none)", .one.0, .one.1, .other.0, .other.1
    )]
    Leak {
        /// Name of the group: of a patient, usually.
        group: String,
        /// A sample of it and its split.
        one: (String, Split),
        /// A sample of it in another split.
        other: (String, Split),
    },
    /// Groups were asked for and there are none.
    #[error(
        "nothing in {path:?} says which samples belong together: give a manifest with a column `group`, DICOM files \
         with a PatientID, or say --split-by folder or --split-by none"
    )]
    NoGroups {
        /// The folder or manifest that was opened.
        path: PathBuf,
    },
    /// A file lies too high up to belong to a folder of the level asked for.
    #[error("{name:?} lies in no folder of the level that --split-by {split_by} asks for")]
    NoGroup {
        /// The file, below its class.
        name: String,
        /// What should have stayed together.
        split_by: SplitBy,
    },
    /// Fewer groups than splits.
    #[error("{path:?} has too few groups to be split by {split_by}: it needs at least {needed}")]
    TooFewGroups {
        /// The folder or manifest that was opened.
        path: PathBuf,
        /// The fewest groups that can be split: one for each split or fold.
        needed: usize,
        /// What should have stayed together.
        split_by: SplitBy,
    },
    /// Folds are for data without splits.
    #[error(
        "{path:?} says itself which samples are in train, val or test, so there is no fold {fold} of it; cross-validation \
         takes a folder or a manifest without splits"
    )]
    FoldOfSplits {
        /// The folder or manifest that was opened.
        path: PathBuf,
        /// The fold that was asked for.
        fold: Fold,
    },
    /// Too few folds for a split that is drawn.
    #[error(
        "there is no fold {fold} of {path:?}: it takes at least {} folds to have some to test, to validate and to learn from; \
         fewer are taken only from a splits_final.json that has them",
        FEWEST_FOLDS
    )]
    TooFewFolds {
        /// The folder or manifest that was opened.
        path: PathBuf,
        /// The fold that was asked for.
        fold: Fold,
    },
    /// Fewer samples than folds.
    #[error("{path:?} has too few samples for a cross-validation with {needed} folds")]
    TooFewForFolds {
        /// The folder or manifest that was opened.
        path: PathBuf,
        /// The number of folds.
        needed: usize,
    },
    /// A class without training samples.
    #[error("the class {class:?} of {path:?} has no sample in train, so it cannot be learnt")]
    NothingToLearn {
        /// Name of the class, as it stands in the data.
        class: String,
        /// The folder or manifest that was opened.
        path: PathBuf,
    },
    /// Samples are of classes that the model does not know.
    #[error(
        "{data} has samples of {}, which the run does not know; its classes are {}, and they are matched by name", .foreign.join(", "),
        .known.join(", ")
    )]
    ForeignClasses {
        /// Name of the data set, in words.
        data: String,
        /// Names of the classes that the run lacks.
        foreign: Vec<String>,
        /// Names of the run's classes, in the order of their indices.
        known: Vec<String>,
    },
    /// Samples may have several classes, and the model gives one.
    #[error("samples of {data} may have several classes, but the run gives each sample one")]
    SeveralClasses {
        /// Name of the data set, in words.
        data: String,
    },
    /// The data has another task than the run.
    #[error("{data} gives {has}, but the run gives {wanted}; take data of the run's task")]
    OtherTask {
        /// Name of the data set, in words.
        data: String,
        /// What its samples are given, in words.
        has: &'static str,
        /// What the run gives them, in words.
        wanted: &'static str,
    },
    /// A sample of a segmentation has no mask.
    #[error(
        "there is no mask for {name:?}; segmentation needs one for every image, with a class for each of its pixels"
    )]
    NoMask {
        /// The sample, as its source names it.
        name: String,
    },
    /// What was given holds no images with masks.
    #[error(
        "{path:?} holds no images with masks: give a folder with images/ and masks/, one with dataset.json (nnU-Net, Medical Segmentation \
         Decathlon), a manifest (.csv, .jsonl) with the columns path and mask, or shards (.tar) with masks"
    )]
    NoSegmentation {
        /// The path that was given.
        path: PathBuf,
    },
    /// There are images but no folder of masks.
    #[error(
        "there are images but no masks for them in {dir:?}; put these into masks/ (or labels/, annotations/) beside images/, named and \
         arranged as the images"
    )]
    NoMasksFolder {
        /// Where they should be.
        dir: PathBuf,
    },
    /// An image has no mask.
    #[error("the image {image:?} has no mask in {dir:?}{}; add it, named as the image, or remove the image", and_more(*.more))]
    ImageWithoutMask {
        /// The first of them.
        image: PathBuf,
        /// Where masks are.
        dir: PathBuf,
        /// How many more there are.
        more: usize,
    },
    /// A mask has no image.
    #[error("the mask {mask:?} is that of no image in {dir:?}{}; name it as its image, or remove it", and_more(*.more))]
    MaskWithoutImage {
        /// The first of them.
        mask: PathBuf,
        /// Where images are.
        dir: PathBuf,
        /// How many more there are.
        more: usize,
    },
    /// Two images, or two masks of an image, have one name.
    #[error("{one:?} and {other:?} have the same name but for what it ends in; keep one")]
    SameName {
        /// The file that was found first.
        one: PathBuf,
        /// The file that was found second.
        other: PathBuf,
    },
    /// A mask has a number that stands for no class.
    #[error(
        "the mask {path:?} has pixels of the number {number}, but what is known are {known}; declare it, or correct the mask"
    )]
    MaskNumber {
        /// The file of the mask.
        path: PathBuf,
        /// A number in it that stands for no class.
        number: u16,
        /// The first few numbers that are declared, in words.
        known: String,
    },
    /// Something else about images with masks cannot be used.
    #[error("{path:?}: {reason}")]
    Segmentation {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Too few images to be split.
    #[error("{dir:?} has {found} images, but splitting needs at least {needed}; add images")]
    TooFewImages {
        /// The folder or manifest that was opened.
        dir: PathBuf,
        /// How many images it has.
        found: usize,
        /// The fewest that can be split: one for each split.
        needed: usize,
    },
    /// A file that holds no mask.
    #[error("{path:?} is no mask: {reason}")]
    NotAMask {
        /// The file that was given as a mask.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        reason: String,
    },
    /// A mask and its image differ in size.
    #[error(
        "the image {name:?} is {} x {} pixels, but its mask is {} x {}; a mask has a pixel for each of its image", .image.0, .image.1,
        .mask.0, .mask.1
    )]
    MaskSize {
        /// The sample, as its source names it.
        name: String,
        /// Columns and rows of the image.
        image: (usize, usize),
        /// Columns and rows of the mask.
        mask: (usize, usize),
    },
    /// A mask has a class that the data set lacks.
    #[error(
        "the mask of {name:?} has pixels of class {class}, but there are {classes} classes, counted from 0 (255 is ignored)"
    )]
    MaskClass {
        /// The sample, as its source names it.
        name: String,
        /// The class of some of its pixels, neither ignored nor below `classes`.
        class: u8,
        /// How many classes the data set has.
        classes: usize,
    },
    /// A list of samples that is no manifest.
    #[error("{name:?} {reason}")]
    NotListed {
        /// The sample or the file, as its source names it.
        name: String,
        /// Why it cannot be listed, in words that follow its name.
        reason: String,
    },
    /// Shards cannot be read or written.
    #[error("{path:?}: {reason}")]
    Shard {
        /// The shard, or the folder of the shards.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

/// How many more there are of a kind, if any.
fn and_more(more: usize) -> String {
    if more == 0 { String::new() } else { format!(" (and {more} more like it)") }
}

/// What the system says about a file, and what can be done about it.
fn advised(path: &Path, cause: &io::Error) -> String {
    let leads_nowhere = path.symlink_metadata().is_ok_and(|meta| meta.is_symlink()) && !path.exists();
    match cause.kind() {
        ErrorKind::NotFound if leads_nowhere => {
            let target = std::fs::read_link(path).unwrap_or_default();
            format!("it is a link to {target:?}, which is not there; repair or remove the link")
        }
        ErrorKind::PermissionDenied => format!("{cause}; change its permissions (chmod), or ask its owner"),
        ErrorKind::NotFound => format!("{cause}; was it moved or removed?"),
        _ => cause.to_string(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn sentence(path: &Path, kind: ErrorKind) -> String {
        DataError::Io { path: path.to_owned(), cause: kind.into() }.to_string()
    }

    #[test]
    fn a_file_that_cannot_be_used_is_told_with_what_can_be_done() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.png");
        assert!(sentence(&path, ErrorKind::PermissionDenied).contains("chmod"));
        assert!(sentence(&path, ErrorKind::NotFound).contains("moved or removed"));
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("gone.png", &path).unwrap();
            let sentence = sentence(&path, ErrorKind::NotFound);
            assert!(sentence.contains("a link to \"gone.png\"") && sentence.contains("repair or remove"), "{sentence}");
        }
    }
}
