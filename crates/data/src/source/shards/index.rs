//! What is where in a shard: built once, kept beside the shards, believed only while the shard is the same.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use data_encoding::HEXLOWER;
use kindling_files as files;
use kindling_given::in_units;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tar::Archive;

use super::labels::{Labels, of_cls, of_json};
use super::mask::{self, SampleMask};
use crate::decode::{Header, MAX_FILE_BYTES, header_of};
use crate::error::DataError;
use crate::source::{Format, Pictures, check_sizes};

/// The file the indexes of a folder are kept in.
pub(super) const NAME: &str = ".kindling-index.json";
/// Another one is built anew.
const VERSION: u32 = 1;
/// The longest `.cls` or `.json` that is read.
const MAX_LABEL_BYTES: u64 = 1 << 20;
/// How much of an image is read to find its header, before all of it is tried.
const HEADER_BYTES: usize = 64 << 10;

/// The indexes of the shards of a folder.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Index {
    version: u32,
    /// By file name.
    pub(super) shards: BTreeMap<String, ShardIndex>,
}

/// The index of a shard: where each of its samples lies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ShardIndex {
    /// Of the whole shard.
    bytes: u64,
    /// Nanoseconds since 1970.
    modified: u128,
    pub(super) samples: Vec<Sample>,
}

/// Where one sample lies in its shard, and what it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    pub(crate) key: String,
    /// Of the image, in the shard.
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) channels: usize,
    #[serde(flatten)]
    pub(super) labels: Labels,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mask: Option<SampleMask>,
}

impl Index {
    /// An index as it is written.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub(super) fn parse(text: &[u8]) -> Result<Self, String> {
        let index: Self = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        match index.version {
            VERSION => Ok(index),
            other => Err(format!("it is of version {other}")),
        }
    }

    /// The index of some shards of a folder: what was kept where it is still true, and built where it is not. What was
    /// built is kept beside the shards or, where that cannot be written to, in the cache folder; where neither can, it is
    /// built again next time.
    pub(super) fn of(folder: &Path, shards: &[PathBuf], cache: Option<&Path>) -> Result<Self, DataError> {
        let places: Vec<PathBuf> = std::iter::once(folder.join(NAME))
            .chain(cache.map(|cache| cache.join("shard-indexes").join(format!("{}.json", digest(folder)))))
            .collect();
        // Damaged or foreign: built anew.
        let kept = places.iter().find_map(|place| Self::parse(&files::read(place, files::MAX_LOG_BYTES).ok()?).ok());
        let mut index = kept.unwrap_or_default();
        index.version = VERSION;
        let mut built = false;
        for shard in shards {
            let name = file_name(shard);
            let (bytes, modified) = state_of(shard)?;
            let known = index.shards.get(&name);
            if known.is_some_and(|known| known.bytes == bytes && known.modified == modified && known.fits()) {
                continue;
            }
            let samples = build(shard)?;
            index.shards.insert(name, ShardIndex { bytes, modified, samples });
            built = true;
        }
        let gone = index.shards.len();
        index.shards.retain(|name, _| shards.iter().any(|shard| file_name(shard) == *name));
        if built || gone != index.shards.len() {
            let _ = places.iter().find(|place| index.write(place).is_ok());
        }
        Ok(index)
    }

    fn write(&self, place: &Path) -> std::io::Result<()> {
        if let Some(folder) = place.parent() {
            std::fs::create_dir_all(folder)?;
        }
        // Whole or not at all; two writers do not meet.
        let partial = place.with_extension(format!("{}.partial", std::process::id()));
        std::fs::write(&partial, serde_json::to_vec(self)?)?;
        std::fs::rename(&partial, place)
    }
}

impl ShardIndex {
    /// Whether every image and every mask lies in the shard.
    fn fits(&self) -> bool {
        let fits = |offset: u64, length: u64| {
            length <= MAX_FILE_BYTES && offset.checked_add(length).is_some_and(|end| end <= self.bytes)
        };
        self.samples.iter().all(|sample| {
            let mask = sample.mask.as_ref();
            fits(sample.offset, sample.length) && mask.is_none_or(|mask| fits(mask.offset, mask.length))
        })
    }
}

pub(super) fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn digest(folder: &Path) -> String {
    let full = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    HEXLOWER.encode(&Sha256::digest(full.as_os_str().as_encoded_bytes())[..16])
}

fn state_of(shard: &Path) -> Result<(u64, u128), DataError> {
    let io = |cause| DataError::Io { path: shard.to_owned(), cause };
    let meta = std::fs::metadata(shard).map_err(io)?;
    let modified = meta.modified().map_err(io)?.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    Ok((meta.len(), modified))
}

/// Where a file lies in a shard: offset and length, and its name.
type Member = (u64, u64, String);

/// Where the parts of a sample are.
#[derive(Default)]
struct Found {
    image: Option<Member>,
    mask: Option<Member>,
    cls: Option<Vec<u8>>,
    json: Option<Vec<u8>>,
}

/// Reads a shard once, from its start to its end.
fn build(shard: &Path) -> Result<Vec<Sample>, DataError> {
    let io = |cause| DataError::Io { path: shard.to_owned(), cause };
    let wrong = |reason: String| DataError::Shard { path: shard.to_owned(), reason };
    let broken = |cause: std::io::Error| wrong(format!("it is no tar file, or is damaged: {cause}"));
    let size = std::fs::metadata(shard).map_err(io)?.len();
    let mut archive = Archive::new(files::open(shard).map_err(io)?);
    let mut samples: Vec<Sample> = Vec::new();
    let mut keys = std::collections::HashSet::new();
    let mut open: Option<(String, Found)> = None;
    for entry in archive.entries_with_seek().map_err(broken)? {
        let mut entry = entry.map_err(broken)?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        // WebDataset's rule: the key ends at the first full stop of the file's name.
        let base = name.rfind('/').map_or(0, |slash| slash + 1);
        let Some(dot) = name[base..].find('.').filter(|dot| *dot > 0) else { continue };
        let (key, extension) = (name[..base + dot].to_owned(), name[base + dot + 1..].to_lowercase());
        if open.as_ref().is_some_and(|(before, _)| *before != key)
            && let Some((key, found)) = open.take()
        {
            samples.extend(finish(shard, key, found)?);
        }
        let (_, found) = open.get_or_insert_with(|| (key.clone(), Found::default()));
        let (offset, length) = (entry.raw_file_position(), entry.size());
        if offset.checked_add(length).is_none_or(|end| end > size) {
            return Err(wrong(format!("{name:?} says that it has {}, which are not there", in_units(length))));
        }
        if extension == "cls" || extension == "json" {
            if length > MAX_LABEL_BYTES {
                return Err(wrong(format!("{name:?} is too long for a label ({})", in_units(length))));
            }
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).map_err(broken)?;
            if extension == "cls" { found.cls = Some(bytes) } else { found.json = Some(bytes) }
        } else if Pictures.claims(Path::new(&format!("x.{extension}"))) {
            if length > MAX_FILE_BYTES {
                return Err(wrong(format!("{name:?} is too large ({} MiB)", length >> 20)));
            }
            if mask::is_one(&extension) {
                if found.mask.replace((offset, length, name)).is_some() {
                    return Err(wrong(format!("the sample {key:?} has two masks")));
                }
                continue;
            }
            if found.image.is_some() {
                return Err(wrong(format!("the sample {key:?} has two images")));
            }
            if !keys.insert(key.clone()) {
                return Err(wrong(format!("the key {key:?} is there twice")));
            }
            found.image = Some((offset, length, name));
        }
    }
    if let Some((key, found)) = open {
        samples.extend(finish(shard, key, found)?);
    }
    Ok(samples)
}

/// A sample of what was found under its key; `None` if there is no image among it.
fn finish(shard: &Path, key: String, found: Found) -> Result<Option<Sample>, DataError> {
    let wrong = |reason: String| DataError::Shard { path: shard.to_owned(), reason };
    let Some(image) = found.image else {
        return match found.mask {
            Some((.., name)) => Err(wrong(format!("there is no image for {name:?}, which it follows in a shard"))),
            None => Ok(None),
        };
    };
    let json: Option<Value> = found
        .json
        .map(|json| serde_json::from_slice(&json))
        .transpose()
        .map_err(|error| wrong(format!("the .json of {key:?} is none: {error}")))?;
    let labels = match (&json, &found.cls) {
        (Some(value), cls) => of_json(value, cls.as_deref()),
        (None, Some(cls)) => of_cls(cls),
        (None, None) => Ok(Labels::unsaid()),
    };
    let labels = labels.map_err(|reason| wrong(format!("the sample {key:?} has no label: {reason}")))?;
    let header = header(shard, &image)?;
    let mask = match &found.mask {
        None => None,
        Some(member) => {
            let of_mask = self::header(shard, member)?;
            let size = |header: Header| (header.width, header.height);
            check_sizes(|| shard.join(&image.2).display().to_string(), size(header), size(of_mask))?;
            let mask = SampleMask::of(member.0, member.1, json.as_ref());
            Some(mask.map_err(|reason| wrong(format!("the mask of {key:?} cannot be used: {reason}")))?)
        }
    };
    let (offset, length, _) = image;
    Ok(Some(Sample { key, offset, length, channels: header.channels, labels, mask }))
}

/// The header of a picture in a shard.
fn header(shard: &Path, (offset, length, name): &Member) -> Result<Header, DataError> {
    let called = shard.join(name);
    let start = super::read_range(shard, *offset, (*length).min(HEADER_BYTES as u64))?;
    match header_of(&called, &start) {
        Err(DataError::Unreadable { .. }) if *length > HEADER_BYTES as u64 => {
            header_of(&called, &super::read_range(shard, *offset, *length)?)
        }
        result => result,
    }
}
