//! Images of one size that lie one behind the other, in memory or in a file.

use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kindling_files as files;
use kindling_given::in_units;

use crate::decode::{Image, MAX_PIXELS};
use crate::error::DataError;
use crate::source::Source;

/// Images of one size, 8 bits a sample, rows from the top, channels interleaved.
#[derive(Debug)]
pub struct ImageStack {
    /// Images.
    pub count: usize,
    /// Columns of each.
    pub width: usize,
    /// Rows of each.
    pub height: usize,
    /// 1 or 3.
    pub channels: usize,
    bytes: Bytes,
}

/// Where the samples are.
#[derive(Debug)]
enum Bytes {
    Memory(Vec<u8>),
    File { path: PathBuf, from: u64 },
}

impl ImageStack {
    /// Images in memory.
    ///
    /// # Errors
    /// In words, unless there are `count * width * height * channels` bytes and 1 or 3 channels.
    pub fn in_memory(shape: [usize; 4], bytes: Vec<u8>) -> Result<Self, String> {
        let stack = Self::of(shape, Bytes::Memory(vec![]))?;
        let needed = stack.image_bytes().checked_mul(stack.count);
        if needed != Some(bytes.len()) {
            return Err(format!("images of {shape:?} do not have {} bytes", bytes.len()));
        }
        Ok(Self { bytes: Bytes::Memory(bytes), ..stack })
    }

    /// Images in a file, from an offset on; each is read when it is asked for.
    ///
    /// # Errors
    /// In words, if the file is too short for `shape`, `[count, height, width, channels]`, or the shape makes no sense.
    pub fn in_file(shape: [usize; 4], path: &Path, from: u64) -> Result<Self, String> {
        let stack = Self::of(shape, Bytes::File { path: path.to_owned(), from })?;
        let have = std::fs::metadata(path).map_err(|cause| cause.to_string())?.len();
        let end = (stack.image_bytes() as u64).checked_mul(stack.count as u64).and_then(|all| all.checked_add(from));
        match end {
            Some(end) if end <= have => Ok(stack),
            _ => Err(format!("images of {shape:?} do not fit into {}", in_units(have))),
        }
    }

    fn of([count, height, width, channels]: [usize; 4], bytes: Bytes) -> Result<Self, String> {
        if channels != 1 && channels != 3 {
            return Err(format!("images have 1 or 3 channels, not {channels}"));
        }
        let area = width.checked_mul(height).and_then(|area| area.checked_mul(channels));
        if !area.is_some_and(|area| (1..=MAX_PIXELS as usize).contains(&area)) {
            return Err(format!("images of {width} x {height} are not read"));
        }
        Ok(Self { count, width, height, channels, bytes })
    }

    fn image_bytes(&self) -> usize {
        self.width * self.height * self.channels
    }

    /// The samples of an image.
    ///
    /// # Errors
    /// [`DataError::Io`] where the file cannot be read, [`DataError::OutOfRange`] beyond the last image.
    pub fn samples(&self, index: usize) -> Result<Vec<u8>, DataError> {
        if index >= self.count {
            return Err(DataError::OutOfRange { index, len: self.count });
        }
        let size = self.image_bytes();
        match &self.bytes {
            Bytes::Memory(bytes) => Ok(bytes[index * size..(index + 1) * size].to_vec()),
            Bytes::File { path, from } => {
                let io = |cause| DataError::Io { path: path.clone(), cause };
                let mut file = files::open(path).map_err(io)?;
                file.seek(SeekFrom::Start(from + index as u64 * size as u64)).map_err(io)?;
                let mut samples = vec![0; size];
                file.read_exact(&mut samples).map_err(io)?;
                Ok(samples)
            }
        }
    }
}

/// Some images of a stack, with their labels.
pub struct StackSource {
    /// The images, which several sources may share.
    pub stack: Arc<ImageStack>,
    /// The place in the stack and the classes of each sample.
    pub samples: Vec<(usize, Vec<usize>)>,
    /// Name of the stack; the name of a sample is `name#place`.
    pub name: String,
}

impl Source for StackSource {
    fn len(&self) -> usize {
        self.samples.len()
    }

    fn label(&self, index: usize) -> usize {
        self.samples[index].1.first().copied().unwrap_or(0)
    }

    fn labels(&self, index: usize) -> Vec<usize> {
        self.samples[index].1.clone()
    }

    fn read(&self, index: usize) -> Result<Image, DataError> {
        let len = self.samples.len();
        let (place, _) = self.samples.get(index).ok_or(DataError::OutOfRange { index, len })?;
        let ImageStack { width, height, channels, .. } = *self.stack;
        Ok(Image::from_u8(width, height, channels, self.stack.samples(*place)?))
    }

    fn name_of(&self, index: usize) -> String {
        format!("{}#{}", self.name, self.samples[index].0)
    }
}
