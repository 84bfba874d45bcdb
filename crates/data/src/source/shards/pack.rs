//! Writes shards. The same samples, seed and size give the same bytes.

use std::fs::File;
use std::io::{BufWriter, Cursor, Write};
use std::path::{Path, PathBuf};

use image::{DynamicImage, ImageBuffer, ImageFormat, Luma, Rgb};
use kindling_files as files;
use serde_json::{Map, Value, json};
use tar::{Builder, Header};

use super::mask::{NUMBERS, PRESENT};
use crate::decode::{Depth, IGNORED, Image, MAX_FILE_BYTES, depth_of, mask_png};
use crate::error::DataError;
use crate::order::order;
use crate::source::mask_numbers::IGNORE;
use crate::source::{Dataset, Format, Pictures, Source, Task, check_sizes, guarded, read_guarded};
use crate::split::Split;

/// How much was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    /// Shards.
    pub shards: usize,
    /// Samples.
    pub samples: usize,
    /// Bytes of all shards.
    pub bytes: u64,
    /// Samples that 16 bits could not hold exactly: rounded.
    pub rounded: usize,
}

/// Writes every split of a data set as shards of at most `shard_bytes` (of one sample at least) into a new or empty
/// folder. Files of pictures go in as they are, everything else as PNG of the depth it needs, at most 16 bits. Masks go in as PNG of the
/// numbers of their classes, beside the names of these. Samples are in a random order of the seed, so that a shard holds all classes.
/// `progress` is called after every sample.
///
/// # Errors
/// [`DataError::Shard`] if the folder holds something, and whatever keeps a sample from being read or written; what was written until then
/// stays.
pub fn pack(
    dataset: &Dataset,
    folder: &Path,
    shard_bytes: u64,
    seed: u64,
    mut progress: impl FnMut(),
) -> Result<Packed, DataError> {
    let io = |cause| DataError::Io { path: folder.to_owned(), cause };
    std::fs::create_dir_all(folder).map_err(io)?;
    if std::fs::read_dir(folder).map_err(io)?.next().is_some() {
        let reason = "there is something in it already; give a new folder".to_owned();
        return Err(DataError::Shard { path: folder.to_owned(), reason });
    }
    let mut packed = Packed::default();
    for split in Split::ALL {
        let source = dataset.source(split).as_ref();
        let mut shard: Option<Shard> = None;
        let mut number = 0;
        for (place, index) in order(seed, 0, source.len()).into_iter().enumerate() {
            let sample = Sample::of(dataset, source, index as usize)?;
            packed.rounded += usize::from(sample.rounded);
            if let Some(full) = shard.take_if(|shard| shard.bytes + sample.size() + END > shard_bytes) {
                packed.bytes += full.finish()?;
            }
            if shard.is_none() {
                shard = Some(Shard::create(&folder.join(format!("{split}-{number:06}.tar")))?);
                number += 1;
            }
            if let Some(shard) = &mut shard {
                shard.append(&format!("{place:08}"), &sample)?;
            }
            packed.samples += 1;
            progress();
        }
        if let Some(last) = shard {
            packed.bytes += last.finish()?;
        }
        packed.shards += number;
    }
    Ok(packed)
}

/// Two empty blocks end a tar file.
const END: u64 = 1024;

/// A sample as it goes into a shard.
struct Sample {
    image: Vec<u8>,
    extension: String,
    mask: Option<Vec<u8>>,
    cls: Option<String>,
    json: String,
    rounded: bool,
}

impl Sample {
    fn of(dataset: &Dataset, source: &dyn Source, index: usize) -> Result<Self, DataError> {
        let mut about = Map::new();
        about.insert("name".into(), json!(source.name_of(index)));
        if let Some(group) = source.group(index) {
            about.insert("group".into(), json!(group));
        }
        if source.weight(index) != 1.0 {
            about.insert("weight".into(), json!(source.weight(index)));
        }
        // A file that cannot be read should be found now.
        let read = read_guarded(source, index)?;
        let size = (read.width, read.height);
        let (image, extension, rounded) = match source.file(index).filter(|file| Pictures.claims(file)) {
            Some(file) => {
                let bytes = files::read(file, MAX_FILE_BYTES)
                    .map_err(|cause| DataError::Io { path: file.to_owned(), cause })?;
                let extension = file.extension().unwrap_or_default().to_string_lossy().to_lowercase();
                (bytes, extension, false)
            }
            None => {
                let (png, rounded) = png_of(read)?;
                (png, "png".to_owned(), rounded)
            }
        };
        let (mut mask, mut cls) = (None, None);
        if dataset.task == Task::Segmentation {
            let (png, present) = mask_of(source, index, size, dataset.classes.len())?;
            mask = Some(png);
            about.insert(NUMBERS.into(), numbers_of(&dataset.classes));
            about.insert(PRESENT.into(), present.into_iter().map(|class| json!(dataset.classes[class])).collect());
        } else {
            let names: Vec<&String> = source.labels(index).iter().map(|&label| &dataset.classes[label]).collect();
            let label = match (dataset.task, names.as_slice()) {
                (Task::MultiClass, [name]) => json!(name),
                (_, names) => json!(names),
            };
            about.insert("label".into(), label);
            cls = (dataset.task == Task::MultiClass).then(|| source.label(index).to_string());
        }
        Ok(Self { image, extension, mask, cls, json: Value::Object(about).to_string(), rounded })
    }

    /// The bytes it takes in a tar file.
    fn size(&self) -> u64 {
        let blocks = |length: usize| 512 + (length as u64).next_multiple_of(512);
        let also = |bytes: Option<usize>| bytes.map_or(0, blocks);
        let (mask, cls) = (self.mask.as_ref().map(Vec::len), self.cls.as_ref().map(String::len));
        blocks(self.image.len()) + also(mask) + also(cls) + blocks(self.json.len())
    }
}

/// Names and numbers of the classes of masks, and of pixels that count for nothing.
fn numbers_of(classes: &[String]) -> Value {
    let named = classes.iter().map(String::as_str).zip(0..);
    let all = named.chain([(IGNORE, IGNORED.into())]);
    Value::Object(all.map(|(name, number): (&str, u64)| (name.to_owned(), json!(number))).collect())
}

/// The mask of a sample, whose image is of this size, as a PNG, and the classes that occur in it.
fn mask_of(
    source: &dyn Source,
    index: usize,
    image: (usize, usize),
    classes: usize,
) -> Result<(Vec<u8>, Vec<usize>), DataError> {
    let mask = guarded(source, index, || source.read_mask(index))?;
    check_sizes(|| source.name_of(index), image, (mask.width, mask.height))?;
    let present = mask.present();
    match present.last() {
        Some(&class) if class >= classes => {
            Err(DataError::MaskClass { name: source.name_of(index), class: class as u8, classes })
        }
        _ => Ok((mask_png(&mask)?, present)),
    }
}

/// The image as a PNG of 8 or 16 bits, and whether it had to be rounded.
fn png_of(image: Image) -> Result<(Vec<u8>, bool), DataError> {
    let (width, height, depth) = (image.width as u32, image.height as u32, depth_of(&image));
    let bytes = || image.pixels.iter().map(|value| (value * 255.0).round() as u8).collect();
    let words = || image.pixels.iter().map(|value| (value * 65_535.0).round() as u16).collect();
    let picture = match (image.channels, depth) {
        (1, Depth::Eight) => ImageBuffer::<Luma<u8>, _>::from_raw(width, height, bytes()).map(DynamicImage::from),
        (1, _) => ImageBuffer::<Luma<u16>, _>::from_raw(width, height, words()).map(DynamicImage::from),
        (_, Depth::Eight) => ImageBuffer::<Rgb<u8>, _>::from_raw(width, height, bytes()).map(DynamicImage::from),
        (_, _) => ImageBuffer::<Rgb<u16>, _>::from_raw(width, height, words()).map(DynamicImage::from),
    };
    let mut png = Cursor::new(Vec::new());
    let refused = |reason: String| DataError::Encode { reason };
    picture
        .ok_or_else(|| refused("the image has fewer pixels than its sides say".to_owned()))?
        .write_to(&mut png, ImageFormat::Png)
        .map_err(|error| refused(error.to_string()))?;
    Ok((png.into_inner(), depth == Depth::Float))
}

/// A shard that is being written; it has its name only when it is whole.
struct Shard {
    path: PathBuf,
    partial: PathBuf,
    tar: Builder<BufWriter<File>>,
    bytes: u64,
}

impl Shard {
    fn create(path: &Path) -> Result<Self, DataError> {
        let partial = path.with_extension("tar.partial");
        let file = File::create(&partial).map_err(|cause| DataError::Io { path: partial.clone(), cause })?;
        Ok(Self { path: path.to_owned(), partial, tar: Builder::new(BufWriter::new(file)), bytes: 0 })
    }

    fn append(&mut self, key: &str, sample: &Sample) -> Result<(), DataError> {
        let mut parts = vec![(sample.extension.as_str(), sample.image.as_slice())];
        if let Some(mask) = &sample.mask {
            parts.push(("mask.png", mask.as_slice()));
        }
        if let Some(cls) = &sample.cls {
            parts.push(("cls", cls.as_bytes()));
        }
        parts.push(("json", sample.json.as_bytes()));
        for (extension, bytes) in parts {
            let mut header = Header::new_ustar();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            header.set_mtime(0);
            self.tar
                .append_data(&mut header, format!("{key}.{extension}"), bytes)
                .map_err(|cause| DataError::Io { path: self.partial.clone(), cause })?;
        }
        self.bytes += sample.size();
        Ok(())
    }

    /// Ends the archive. Returns its size in bytes.
    fn finish(self) -> Result<u64, DataError> {
        let io = |cause| DataError::Io { path: self.path.clone(), cause };
        let mut file = self.tar.into_inner().map_err(io)?;
        file.flush().map_err(io)?;
        drop(file);
        std::fs::rename(&self.partial, &self.path).map_err(io)?;
        Ok(self.bytes + END)
    }
}
