//! WebDataset shards: tar files in which the parts of a sample lie one after another.
//!
//! A shard is read once from start to end to find what is where; the index is kept beside it. From then on any sample can
//! be read alone, so that the order of an epoch is the loader's and a run is resumed without reading what it has seen.
//! Labels come from `.cls` (a number or a name) or from `.json` (`label`, a text or a list; `group`; `weight`). A mask is a picture
//! `KEY.mask.png`; the names of its numbers (`labels`, as in a `labels.json`) and of the classes that occur in it (`present`) come from
//! `.json`. A shard belongs to the split that its folder or the beginning of its name says (`train/…`, `val-000.tar`).

mod index;
mod labels;
mod mask;
mod pack;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kindling_files as files;

pub use pack::{Packed, pack};

use self::index::{Index, Sample, file_name};
use crate::decode::{Image, MaskValues, Preprocess, decode_fitted, decode_image, decode_mask_values};
use crate::error::DataError;
use crate::source::asked::{in_order, task_of};
use crate::source::assemble::{Entry, Listed, assemble};
use crate::source::{Fingerprint, Format, Opened, Opening, Part, PassedOver, Purpose};
use crate::split::Split;

/// Whether a folder holds shards, or folders of splits that do.
pub fn are_in(folder: &Path) -> bool {
    std::iter::once(folder.to_owned())
        .chain(Split::ALL.map(|split| folder.join(split.name())))
        .any(|folder| tars_in(&folder).is_ok_and(|tars| !tars.is_empty()))
}

/// Checks the text of an index file, as [`open`] does before it believes it.
///
/// # Errors
/// What is wrong with it, in words.
pub fn check_index(text: &[u8]) -> Result<(), String> {
    Index::parse(text).map(drop)
}

/// Opens a shard, a folder of shards, or a folder with a folder of shards a split, for the classes of its images.
///
/// # Errors
/// [`DataError::Shard`] with the shard and the sample, and any [`DataError`] of images and splits.
pub fn open(path: &Path, opening: &Opening) -> Result<Opened, DataError> {
    let shards = stored(path, opening)?;
    let all = || shards.iter().flat_map(|shard| &shard.samples).map(|sample| &sample.labels);
    for shard in &shards {
        if let Some(Sample { key, mask, .. }) = shard.samples.iter().find(|sample| sample.labels.are_unsaid()) {
            return Err(shard.wrong(match mask {
                Some(_) => format!("the sample {key:?} has a mask and no label; --task segmentation learns from masks"),
                None => format!("the sample {key:?} has no label: there is neither a .cls nor a .json with a `label`"),
            }));
        }
    }
    let several = all().any(|labels| labels.several);
    let names: BTreeSet<&String> = all().flat_map(|labels| &labels.labels).collect();
    let mut classes: Vec<String> = names.into_iter().cloned().collect();
    if classes.iter().all(|name| name.parse::<u64>().is_ok()) {
        classes.sort_by_key(|name| name.parse::<u64>().unwrap_or(u64::MAX));
    }
    if classes.is_empty() {
        return Err(DataError::Shard { path: path.to_owned(), reason: "there are no samples in it".to_owned() });
    }
    let task = task_of(&opening.asked, several, path)?;
    let classes = in_order(classes, &opening.asked, path)?;
    if let ([class], true, Purpose::Learn) = (classes.as_slice(), task.is_single_label(), opening.purpose) {
        return Err(DataError::OneClass { dir: path.to_owned(), class: class.clone() });
    }
    let label_of: BTreeMap<&str, usize> = classes.iter().map(String::as_str).zip(0..).collect();
    let format: Arc<dyn Format> = Arc::new(Shards::of_images(&shards));
    let mut entries = Vec::new();
    for shard in &shards {
        for (frame, sample) in shard.samples.iter().enumerate() {
            let mut labels: Vec<usize> =
                sample.labels.labels.iter().filter_map(|name| label_of.get(&**name).copied()).collect();
            labels.sort_unstable();
            entries.push(Entry { labels, ..shard.entry(frame, sample, &format) });
        }
    }
    let about = format!("{} shards in {}", shards.len(), path.display());
    let root = root_of(path).to_owned();
    let (path, problems, passed_over) = (path.to_owned(), vec![], PassedOver::default());
    assemble(Listed { path, root, about, classes, task, entries, problems, passed_over }, opening)
}

/// The folder that names of samples begin in.
pub(super) fn root_of(path: &Path) -> &Path {
    if path.is_dir() { path } else { path.parent().unwrap_or(Path::new("")) }
}

/// A shard, and what is in it.
pub(super) struct Stored {
    pub(super) path: PathBuf,
    pub(super) split: Option<Split>,
    pub(super) samples: Vec<Sample>,
}

impl Stored {
    /// What is wrong with it.
    pub(super) fn wrong(&self, reason: String) -> DataError {
        DataError::Shard { path: self.path.clone(), reason }
    }

    /// A sample of it, its number being `frame`, without its classes.
    pub(super) fn entry(&self, frame: usize, sample: &Sample, format: &Arc<dyn Format>) -> Entry {
        let (path, group) = (self.path.clone(), sample.labels.group.clone());
        Entry {
            part: Part { path, frame: Some(frame), channels: sample.channels, group },
            format: format.clone(),
            below: PathBuf::from(&sample.key),
            labels: Vec::new(),
            mask: None,
            value: None,
            weight: sample.labels.weight,
            split: self.split,
        }
    }
}

/// The shards that a path leads to, by their indexes.
///
/// # Errors
/// As [`open`].
pub(super) fn stored(path: &Path, opening: &Opening) -> Result<Vec<Stored>, DataError> {
    let mut shards: Vec<(PathBuf, Option<Split>)> = Vec::new();
    if path.is_dir() {
        shards.extend(tars_in(path)?.into_iter().map(|shard| (shard.clone(), split_of(&file_name(&shard)))));
        for split in Split::ALL {
            let folder = path.join(split.name());
            if folder.is_dir() {
                shards.extend(tars_in(&folder)?.into_iter().map(|shard| (shard, Some(split))));
            }
        }
    } else {
        shards.push((path.to_owned(), None));
    }
    if let Some((with, _)) = shards.iter().find(|(_, split)| split.is_some())
        && let Some((without, _)) = shards.iter().find(|(_, split)| split.is_none())
    {
        let reason = format!("its name says no split, but that of {:?} does: all or none", file_name(with));
        return Err(DataError::Shard { path: without.clone(), reason });
    }

    let mut by_folder: BTreeMap<PathBuf, Vec<PathBuf>> = BTreeMap::new();
    for (shard, _) in &shards {
        by_folder.entry(shard.parent().unwrap_or(Path::new("")).to_owned()).or_default().push(shard.clone());
    }
    let mut samples: BTreeMap<PathBuf, Vec<Sample>> = BTreeMap::new();
    for (folder, shards) in by_folder {
        let mut index = Index::of(&folder, &shards, opening.cache.as_deref())?;
        for shard in shards {
            let found = index.shards.remove(&file_name(&shard)).map(|found| found.samples);
            samples.insert(shard, found.unwrap_or_default());
        }
    }
    let stored = shards.into_iter().map(|(path, split)| {
        let samples = samples.remove(&path).unwrap_or_default();
        Stored { path, split, samples }
    });
    Ok(stored.collect())
}

/// The tar files of a folder, sorted.
fn tars_in(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let io = |cause| DataError::Io { path: folder.to_owned(), cause };
    let mut tars = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        let hidden = file_name(&path).starts_with('.');
        if !hidden && path.extension().is_some_and(|have| have == "tar") && path.is_file() {
            tars.push(path);
        }
    }
    tars.sort();
    Ok(tars)
}

/// What the beginning of a shard's name says: `train-000000.tar`.
fn split_of(name: &str) -> Option<Split> {
    let word = name.split(['-', '_', '.']).next().unwrap_or("");
    if word == "valid" || word == "validation" { Some(Split::Val) } else { word.parse().ok() }
}

/// A part of a file. Its length was checked against the file's.
fn read_range(path: &Path, offset: u64, length: u64) -> Result<Vec<u8>, DataError> {
    let io = |cause| DataError::Io { path: path.to_owned(), cause };
    let mut file = files::open(path).map_err(io)?;
    file.seek(SeekFrom::Start(offset)).map_err(io)?;
    let mut bytes = vec![0; length as usize];
    file.read_exact(&mut bytes).map_err(io)?;
    Ok(bytes)
}

/// Where the images of open shards are, or the masks: key, offset and length of each sample's.
pub(super) struct Shards {
    places: BTreeMap<PathBuf, Vec<(String, u64, u64)>>,
}

impl Shards {
    pub(super) fn of_images(shards: &[Stored]) -> Self {
        Self::of(shards, |sample| (sample.key.clone(), sample.offset, sample.length))
    }

    /// Of samples that all have masks.
    pub(super) fn of_masks(shards: &[Stored]) -> Self {
        Self::of(shards, |sample| {
            // Nothing is read of what is not there.
            let (offset, length) = sample.mask.as_ref().map_or((0, 0), |mask| (mask.offset, mask.length));
            (sample.key.clone(), offset, length)
        })
    }

    fn of(shards: &[Stored], place: impl Fn(&Sample) -> (String, u64, u64)) -> Self {
        let places = |shard: &Stored| (shard.path.clone(), shard.samples.iter().map(&place).collect());
        Self { places: shards.iter().map(places).collect() }
    }

    /// The key of a sample, and where its picture lies.
    fn place_of(&self, part: &Part) -> Option<&(String, u64, u64)> {
        self.places.get(&part.path).and_then(|places| places.get(part.frame?))
    }

    /// Name of a sample for errors, and the bytes of its file.
    fn bytes_of(&self, part: &Part) -> Result<(PathBuf, Vec<u8>), DataError> {
        let (key, offset, length) = self.place_of(part).ok_or_else(|| DataError::Shard {
            path: part.path.clone(),
            reason: format!("it has no sample {:?}", part.frame),
        })?;
        Ok((part.path.join(key), read_range(&part.path, *offset, *length)?))
    }
}

impl Format for Shards {
    fn claims(&self, path: &Path) -> bool {
        self.places.contains_key(path)
    }

    fn list(&self, path: &Path) -> Result<Vec<Part>, DataError> {
        Err(DataError::Shard { path: path.to_owned(), reason: "a shard is opened alone".to_owned() })
    }

    fn read(&self, part: &Part) -> Result<Image, DataError> {
        let (name, bytes) = self.bytes_of(part)?;
        decode_image(&name, &bytes)
    }

    fn read_fitted(&self, part: &Part, preprocess: &Preprocess) -> Result<Image, DataError> {
        let (name, bytes) = self.bytes_of(part)?;
        decode_fitted(&name, &bytes, preprocess)
    }

    fn read_mask_values(&self, part: &Part) -> Result<MaskValues, DataError> {
        let (name, bytes) = self.bytes_of(part)?;
        decode_mask_values(&name, &bytes)
    }

    fn fingerprint(&self, part: &Part) -> std::io::Result<Fingerprint> {
        let (_, offset, length) = self.place_of(part).ok_or(std::io::ErrorKind::NotFound)?;
        Fingerprint::of_range(&part.path, *offset, *length)
    }

    fn is_sequential(&self) -> bool {
        true
    }
}
