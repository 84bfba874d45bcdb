//! NumPy's archives: a zip file of arrays, packed or not.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use flate2::read::DeflateDecoder;
use kindling_files as files;
use kindling_given::in_units;
use zip::{CompressionMethod, ZipArchive};

use crate::error::DataError;
use crate::source::{ImageStack, NpyHeader};

/// Packed arrays of images are unpacked in memory up to this many bytes, and beside the archive beyond.
const IN_MEMORY: u64 = 1 << 30;
/// The largest array that is unpacked, in bytes.
const MAX_UNPACKED: u64 = 1 << 37;
/// Enough for a header.
const HEADER_BYTES: u64 = 16 << 10;

/// An open archive of `.npy` arrays.
pub struct Npz {
    path: PathBuf,
    archive: ZipArchive<BufReader<File>>,
}

/// Where an array is in the archive.
struct Place {
    start: u64,
    packed: u64,
    unpacked: u64,
    method: CompressionMethod,
}

impl Npz {
    /// Opens an archive.
    ///
    /// # Errors
    /// [`DataError::Io`] and [`DataError::Unreadable`], with the path.
    pub fn open(path: &Path) -> Result<Self, DataError> {
        let file = files::open(path).map_err(|cause| DataError::Io { path: path.to_owned(), cause })?;
        let archive = ZipArchive::new(BufReader::new(file)).map_err(|error| DataError::Unreadable {
            path: path.to_owned(),
            reason: format!("it is no .npz: {error}"),
        })?;
        Ok(Self { path: path.to_owned(), archive })
    }

    /// Whole numbers of one byte to eight, `[rows][columns]`; an array of one dimension has one column.
    ///
    /// # Errors
    /// [`DataError::Unreadable`] with the path and the array, also if it has more than `most` values.
    pub fn numbers(&mut self, name: &str, most: usize) -> Result<Vec<Vec<i64>>, DataError> {
        let (header, stream) = self.array(name)?;
        let wrong = |reason: String| unreadable(&self.path, name, &reason);
        let (rows, columns) = match header.shape.as_slice() {
            [rows] => (*rows, 1),
            [rows, columns] if *columns > 0 => (*rows, *columns),
            other => return Err(wrong(format!("its shape is {other:?}, where rows and columns are expected"))),
        };
        let count = header.count().map_err(&wrong)?;
        if count > most {
            return Err(wrong(format!("it has {count} values, where at most {most} are expected")));
        }
        let (size, signed) = match header.kind.as_str() {
            "|u1" | "|b1" => (1, false),
            "|i1" => (1, true),
            "<u2" => (2, false),
            "<i2" => (2, true),
            "<u4" => (4, false),
            "<i4" => (4, true),
            "<i8" | "<u8" => (8, true),
            other => return Err(wrong(format!("its values are of type {other:?}, not whole numbers"))),
        };
        // What is there is read, and no more than the header says: neither can be used to make us allocate.
        let mut bytes = Vec::new();
        let needed = count as u64 * size as u64;
        stream.take(needed).read_to_end(&mut bytes).map_err(|cause| wrong(cause.to_string()))?;
        if bytes.len() as u64 != needed {
            return Err(wrong("it ends too early".to_owned()));
        }
        let value = |bytes: &[u8]| {
            let negative = signed && bytes.last().is_some_and(|last| last & 0x80 != 0);
            let mut word = [if negative { 0xFF } else { 0 }; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            i64::from_le_bytes(word)
        };
        let values: Vec<i64> = bytes.chunks_exact(size).map(value).collect();
        Ok(values.chunks(columns).map(<[i64]>::to_vec).take(rows).collect())
    }

    /// Images of 8 bits, `[count, height, width]` or `[count, height, width, 3]`. They stay in the archive where they are
    /// not packed; otherwise they are unpacked, large ones into a folder beside the archive.
    ///
    /// # Errors
    /// [`DataError::Io`] and [`DataError::Unreadable`] with the path and the array.
    pub fn images(&mut self, name: &str) -> Result<ImageStack, DataError> {
        let place = self.place(name)?;
        let path = self.path.clone();
        let wrong = |reason: String| unreadable(&path, name, &reason);
        let (header, mut stream) = self.array(name)?;
        let shape = match header.shape.as_slice() {
            [count, height, width] => [*count, *height, *width, 1],
            [count, height, width, channels] => [*count, *height, *width, *channels],
            other => return Err(wrong(format!("its shape is {other:?}, which is not that of images"))),
        };
        if header.kind != "|u1" {
            return Err(wrong(format!("its values are of type {:?}, not bytes", header.kind)));
        }
        let count = header.count().map_err(&wrong)? as u64;
        if (header.start as u64).checked_add(count).is_none_or(|needed| needed > place.unpacked) {
            return Err(wrong(format!("{count} values do not fit into its {}", in_units(place.unpacked))));
        }
        if place.method == CompressionMethod::Stored {
            return ImageStack::in_file(shape, &path, place.start + header.start as u64).map_err(wrong);
        }
        if count <= IN_MEMORY {
            let mut bytes = Vec::new();
            stream.take(count).read_to_end(&mut bytes).map_err(|cause| wrong(cause.to_string()))?;
            return ImageStack::in_memory(shape, bytes).map_err(wrong);
        }
        let folder = path.with_extension("unpacked");
        let file = folder.join(format!("{name}.u8"));
        let io = |cause| DataError::Io { path: file.clone(), cause };
        let newer = |file: &Path| {
            let modified = |path: &Path| std::fs::metadata(path).and_then(|meta| Ok((meta.len(), meta.modified()?)));
            Some(modified(file).ok()?.0 == count && modified(file).ok()?.1 >= modified(&path).ok()?.1)
        };
        if newer(&file) != Some(true) {
            std::fs::create_dir_all(&folder).map_err(io)?;
            let partial = file.with_extension("partial");
            let mut out = File::create(&partial).map_err(io)?;
            let copied = std::io::copy(&mut stream.by_ref().take(count), &mut out).map_err(io)?;
            if copied != count {
                return Err(wrong("it ends too early".to_owned()));
            }
            std::fs::rename(&partial, &file).map_err(io)?;
        }
        ImageStack::in_file(shape, &file, 0).map_err(wrong)
    }

    /// The header of an array, and its values.
    fn array(&mut self, name: &str) -> Result<(NpyHeader, Box<dyn Read>), DataError> {
        let place = self.place(name)?;
        let start = |path: &Path| -> std::io::Result<Box<dyn Read>> {
            let mut file = files::open(path)?;
            file.seek(SeekFrom::Start(place.start))?;
            let packed = file.take(place.packed);
            // What unpacks to more than it says is cut off.
            Ok(match place.method {
                CompressionMethod::Stored => Box::new(packed.take(place.unpacked)),
                _ => Box::new(DeflateDecoder::new(packed).take(place.unpacked)),
            })
        };
        let io = |cause| DataError::Io { path: self.path.clone(), cause };
        let wrong = |reason: String| unreadable(&self.path, name, &reason);
        let mut first = Vec::new();
        start(&self.path).map_err(io)?.take(HEADER_BYTES).read_to_end(&mut first).map_err(|e| wrong(e.to_string()))?;
        let header = NpyHeader::parse(&first).map_err(wrong)?;
        let mut stream = start(&self.path).map_err(io)?;
        std::io::copy(&mut stream.by_ref().take(header.start as u64), &mut std::io::sink())
            .map_err(|cause| unreadable(&self.path, name, &cause.to_string()))?;
        Ok((header, stream))
    }

    fn place(&mut self, name: &str) -> Result<Place, DataError> {
        let wrong = |reason: String| unreadable(&self.path, name, &reason);
        let index =
            self.archive.index_for_name(&format!("{name}.npy")).ok_or_else(|| wrong("it is missing".to_owned()))?;
        let entry = self.archive.by_index_raw(index).map_err(|error| wrong(error.to_string()))?;
        let method = entry.compression();
        let start = entry.data_start().ok_or_else(|| wrong("it has no data".to_owned()))?;
        let place = Place { start, packed: entry.compressed_size(), unpacked: entry.size(), method };
        match method {
            CompressionMethod::Stored | CompressionMethod::DEFLATE if place.unpacked <= MAX_UNPACKED => Ok(place),
            CompressionMethod::Stored | CompressionMethod::DEFLATE => {
                Err(wrong(format!("it says that it unpacks to {}", in_units(place.unpacked))))
            }
            other => Err(wrong(format!("it is packed with {other}, which is not supported"))),
        }
    }
}

fn unreadable(path: &Path, name: &str, reason: &str) -> DataError {
    DataError::Unreadable { path: path.to_owned(), reason: format!("the array {name}: {reason}") }
}
