//! Where samples come from: folders, manifests, shards and arrays, opened as a [`Dataset`] of three sources.

mod arrays;
mod asked;
mod assemble;
mod bad;
mod dataset;
mod entry_mask;
mod file_list;
mod fingerprint;
mod folder;
mod format;
mod images;
mod manifest;
mod manifest_out;
mod mask_numbers;
mod masks_seen;
mod measure;
mod opening;
mod passed_over;
mod segmentation;
pub mod shards;
mod stacks;
mod usual;
mod views;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use crate::decode::{Image, Mask, Preprocess};
use crate::error::DataError;

pub use arrays::{Idx, ImageStack, MAX_IDX_BYTES, NpyHeader, Npz, StackSource, parse_idx, read_idx};
pub use bad::{BadSample, MaxBad, OnBadSample};
pub use dataset::{Dataset, Task, ValueSummary, largest_decoding_bytes, majority_baseline};
pub use file_list::{Changes, FileList, ListedSample, Recorded};
pub use fingerprint::Fingerprint;
pub use folder::{images_in, open_folder, open_folder_with};
pub use format::{Format, MaskLinks, Pages, Part, Pictures, first_bytes, paired_in_order};
pub use images::open_images;
pub use manifest::{Row, open_manifest, parse_manifest};
pub use manifest_out::manifest_of;
pub(crate) use masks_seen::classes_in_masks;
pub use opening::{Asked, Opened, Opening, Purpose};
pub use passed_over::PassedOver;
pub use segmentation::open_segmentation;
pub use stacks::{Slice, Stack, Stacked};
pub use usual::Usual;

/// Labelled images by index. Reading is independent of order and may happen on several threads at once.
pub trait Source: Send + Sync {
    /// How many samples the source has; indices go from 0 to one less.
    fn len(&self) -> usize;

    /// Whether there are no samples.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The class of a sample, an index into [`Dataset::classes`](crate::Dataset::classes), without reading it; of
    /// several classes the first, of none 0, and 0 where every pixel has a class of its own ([`Task::Segmentation`]). Panics if
    /// `index >= len()`.
    fn label(&self, index: usize) -> usize;

    /// The classes of a sample where it may have several or none ([`Task::MultiLabel`]), sorted and without repetition. Of a mask
    /// ([`Task::Segmentation`]) those that occur in it, or none where that is not known without reading it. Panics if `index >= len()`.
    fn labels(&self, index: usize) -> Vec<usize> {
        vec![self.label(index)]
    }

    /// The number that a sample has, finite, where that is what is asked ([`Task::Regression`]). Panics if `index >= len()`.
    fn value(&self, index: usize) -> Option<f64> {
        let _ = index;
        None
    }

    /// The group that no split parts: the patient, usually. A sample without one is a group of its own.
    fn group(&self, index: usize) -> Option<String> {
        let _ = index;
        None
    }

    /// The file that holds this sample and nothing else, where there is one.
    fn file(&self, index: usize) -> Option<&Path> {
        let _ = index;
        None
    }

    /// Name of the sample within its data set, which does not depend on where the data set lies: a path from its folder, usually.
    /// `None` where samples are no files.
    fn name_within(&self, index: usize) -> Option<String> {
        let _ = index;
        None
    }

    /// The fingerprint of the sample's file, which another version of the file does not share. `None` where it is no file or cannot be read.
    fn fingerprint(&self, index: usize) -> Option<Fingerprint> {
        let _ = index;
        None
    }

    /// Where the sample lies in the volume that it is a slice of, from the header of its file; `None` if it is no slice.
    ///
    /// # Errors
    /// What kept the header from being read, with its path.
    fn slice(&self, index: usize) -> Result<Option<Slice>, DataError> {
        let _ = index;
        Ok(None)
    }

    /// The lengths of the stretches of samples that are best read one after another: the shards. Empty where any order
    /// is as good; otherwise they add up to `len()`.
    fn stretches(&self) -> Vec<usize> {
        Vec::new()
    }

    /// How often the sample is drawn relative to others where drawing is weighted: finite and not negative.
    fn weight(&self, index: usize) -> f32 {
        let _ = index;
        1.0
    }

    /// Reads a sample, always the same for the same index.
    ///
    /// # Errors
    /// What kept it from being read, with its path.
    fn read(&self, index: usize) -> Result<Image, DataError>;

    /// Reads a sample as a model is to see it, but for the normalisation: [`Preprocess::fit`] of [`Source::read`]. Where a file
    /// holds whole numbers this takes less memory.
    ///
    /// # Errors
    /// As [`Source::read`].
    fn read_fitted(&self, index: usize, preprocess: &Preprocess) -> Result<Image, DataError> {
        Ok(preprocess.fit_owned(self.read(index)?))
    }

    /// Reads the mask of a sample, the same size as its image.
    ///
    /// # Errors
    /// [`DataError::NoMask`] where samples have none, and what kept it from being read, with its path.
    fn read_mask(&self, index: usize) -> Result<Mask, DataError> {
        Err(DataError::NoMask { name: self.name_of(index) })
    }

    /// The mask that the place of a sample has by itself, where the source knows one: an atlas's, which has never seen the image. It is the
    /// same size as [`Source::read_mask`]'s. What a model adds is the difference to that. `None` where nothing is known.
    ///
    /// # Errors
    /// As [`Source::read_mask`].
    fn usual_mask(&self, index: usize) -> Result<Option<Mask>, DataError> {
        let _ = index;
        Ok(None)
    }

    /// Reads a sample as [`Source::read_fitted`] does, bit for bit, and its mask with the same geometry ([`Preprocess::fit_mask`]).
    ///
    /// # Errors
    /// As [`Source::read`] and [`Source::read_mask`], and [`DataError::MaskSize`] if the two are not of one size.
    fn read_with_mask(&self, index: usize, preprocess: &Preprocess) -> Result<(Image, Mask), DataError> {
        let image = self.read(index)?;
        let mask = self.read_mask(index)?;
        check_sizes(|| self.name_of(index), (image.width, image.height), (mask.width, mask.height))?;
        Ok((preprocess.fit_owned(image), preprocess.fit_mask(&mask)))
    }

    /// Name of the sample in messages: a path, usually.
    fn name_of(&self, index: usize) -> String;
}

/// Fails unless an image, of so many columns and rows, and its mask are of one size.
pub(crate) fn check_sizes(
    name: impl FnOnce() -> String,
    image: (usize, usize),
    mask: (usize, usize),
) -> Result<(), DataError> {
    if image == mask { Ok(()) } else { Err(DataError::MaskSize { name: name(), image, mask }) }
}

/// Reads a sample; a panic of a decoder becomes [`DataError::Panicked`] with the sample's name.
///
/// # Errors
/// As [`Source::read`], and [`DataError::Panicked`].
pub fn read_guarded(source: &dyn Source, index: usize) -> Result<Image, DataError> {
    guarded(source, index, || source.read(index))
}

/// Runs work on a sample; a panic becomes [`DataError::Panicked`] with the sample's name.
pub(crate) fn guarded<T>(
    source: &dyn Source,
    index: usize,
    work: impl FnOnce() -> Result<T, DataError>,
) -> Result<T, DataError> {
    caught(|| source.name_of(index), work)
}

/// Runs work on something that has a name; a panic becomes [`DataError::Panicked`].
pub(crate) fn caught<T>(
    name: impl FnOnce() -> String,
    work: impl FnOnce() -> Result<T, DataError>,
) -> Result<T, DataError> {
    // Sound to assert: what `work` was building is dropped with the panic.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| {
        let reason = payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "no reason given".to_owned());
        // The name is the source's code too, and the source has just shown that it may panic.
        let name = catch_unwind(AssertUnwindSafe(name)).unwrap_or_else(|_| "without a name".to_owned());
        Err(DataError::Panicked { name, reason })
    })
}

/// Opens whatever a path leads to: a manifest (`.csv`, `.jsonl`, `.ndjson`), a shard (`.tar`) or a folder of shards, or a
/// folder with one sub-folder a class.
///
/// # Errors
/// Any [`DataError`] of data sets, with the path.
pub fn open_path(path: &Path, opening: &Opening) -> Result<Opened, DataError> {
    let is = |extensions: &[&str]| {
        path.extension().is_some_and(|have| extensions.iter().any(|known| have.eq_ignore_ascii_case(known)))
    };
    if is(&["csv", "jsonl", "ndjson"]) && !path.is_dir() {
        open_manifest(path, opening)
    } else if is(&["tar"]) || (path.is_dir() && shards::are_in(path)) {
        shards::open(path, opening)
    } else if path.is_dir() || !path.exists() {
        open_folder_with(path, opening)
    } else {
        Err(DataError::NoDataset { path: path.to_owned() })
    }
}
