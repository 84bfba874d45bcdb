//! Image files to [`Image`], within limits: a hostile header cannot make us allocate.

use std::io::{BufRead, BufReader, Cursor, Read, Seek};
use std::path::Path;

use image::error::LimitErrorKind;
use image::{ColorType, DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader, Limits};
use kindling_files as files;

use crate::room::reserve;
use crate::samples::Samples;
use crate::{DataError, Dataset, Image, Preprocess};

/// The longest side of an image that is read, in pixels.
pub const MAX_SIDE: u32 = 32_768;
/// The largest image that is read, in pixels (8192 x 8192; 768 MiB as RGB in f32).
pub const MAX_PIXELS: u64 = 1 << 26;
/// The largest file that is read, in bytes.
pub const MAX_FILE_BYTES: u64 = 512 << 20;
/// What a decoder may allocate, its output included, in bytes.
const MAX_DECODER_BYTES: u64 = 768 << 20;
/// What a PNG may hold besides its pixels: text, profiles.
const MAX_PNG_EXTRAS: u64 = 32 << 20;
/// How much of a file is read to find its header, before the whole file is tried.
const HEADER_BYTES: u64 = 64 << 10;

/// What the header of an image file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Columns.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// 1 (grey) or 3 (colour, palettes included). Alpha is not counted: it is dropped.
    pub channels: usize,
}

/// Reads a PNG, JPEG or TIFF of 8 or 16 bits, grey or RGB; alpha is dropped. The format is recognised by content.
///
/// Orientation tags are not applied. Values are divided by the largest of their depth (255 or 65 535); floating point
/// TIFFs must hold `[0, 1]` already.
///
/// # Errors
/// [`DataError::Io`], [`DataError::TooLarge`] (beyond [`MAX_SIDE`], [`MAX_PIXELS`] or [`MAX_FILE_BYTES`]) and
/// [`DataError::Unreadable`] (unknown format, damaged or truncated), each with the path.
pub fn read_image(path: &Path) -> Result<Image, DataError> {
    read_as(path, None, Samples::into_image)
}

/// As [`read_image`], fitted. Floats are made of some rows at a time only.
///
/// # Errors
/// As [`read_image`].
pub(crate) fn read_fitted(path: &Path, preprocess: &Preprocess) -> Result<Image, DataError> {
    read_as(path, Some(preprocess), |samples| preprocess.fit_samples(samples))
}

fn read_as(
    path: &Path,
    preprocess: Option<&Preprocess>,
    make: impl FnOnce(Samples) -> Image,
) -> Result<Image, DataError> {
    let start = read_bytes(path, HEADER_BYTES)?;
    let size = file_bytes(path)?;
    let needed = match bytes_to_decode(path, &start, size, preprocess) {
        // The header lies farther behind, or there is none.
        Err(DataError::Unreadable { .. }) if start.len() as u64 >= HEADER_BYTES => {
            let held = reserve(path, size)?;
            let whole = read_bytes(path, MAX_FILE_BYTES)?;
            let needed = bytes_to_decode(path, &whole, size, preprocess)?;
            drop((held, whole));
            needed
        }
        result => result?,
    };
    let _held = reserve(path, needed)?;
    // A small file is here already.
    if (start.len() as u64) < HEADER_BYTES {
        return Ok(make(decode(path, &start)?));
    }
    if is_jpeg(&start) {
        return Ok(make(decode(path, &read_bytes(path, MAX_FILE_BYTES)?)?));
    }
    let file = files::open(path).map_err(|cause| DataError::Io { path: path.to_owned(), cause })?;
    Ok(make(samples_of(path, decoder_for(path, &start, BufReader::new(file))?)?))
}

/// As [`read_image`], from bytes that are called `path` in errors.
///
/// # Errors
/// As [`read_image`].
pub fn decode_image(path: &Path, bytes: &[u8]) -> Result<Image, DataError> {
    let _held = reserve(path, bytes_to_decode(path, bytes, 0, None)?)?;
    Ok(decode(path, bytes)?.into_image())
}

/// As [`read_fitted`], from bytes that are called `path` in errors.
///
/// # Errors
/// As [`read_image`].
pub(crate) fn decode_fitted(path: &Path, bytes: &[u8], preprocess: &Preprocess) -> Result<Image, DataError> {
    let _held = reserve(path, bytes_to_decode(path, bytes, 0, Some(preprocess))?)?;
    Ok(preprocess.fit_samples(decode(path, bytes)?))
}

/// What reading a file of `size` bytes takes at its fullest, by its header: what the decoder makes and works with, and the
/// floats that are made of it, of all of it unless it is fitted.
fn bytes_to_decode(path: &Path, bytes: &[u8], size: u64, preprocess: Option<&Preprocess>) -> Result<u64, DataError> {
    let decoder = decoder_for(path, bytes, Cursor::new(bytes))?;
    let (width, height) = decoder.dimensions();
    let channels = if decoder.color_type().has_color() { 3 } else { 1 };
    let header = Header { width: width as usize, height: height as usize, channels };
    // The decoder of JPEG reads all of the file, which lies here as well, and keeps the planes of an image beside it.
    let beside = if is_jpeg(bytes) { 2 * size + decoder.total_bytes() } else { 0 };
    Ok(decoder.total_bytes() + beside + floats_of(header, preprocess))
}

/// The floats that are made of an image while its samples are still there, in bytes.
fn floats_of(header: Header, preprocess: Option<&Preprocess>) -> u64 {
    let Header { width, height, channels } = header;
    let floats = preprocess
        .map_or(width * height * channels, |preprocess| preprocess.floats_beside_samples(width, height, channels));
    (floats * size_of::<f32>()) as u64
}

/// What a loader's thread takes to read an image of 8 bits and to fit it, in bytes: what the decoder makes of the file, and the
/// floats of some rows.
pub fn decoding_bytes(header: Header, preprocess: &Preprocess) -> u64 {
    let Header { width, height, channels } = header;
    (width * height * channels) as u64 + floats_of(header, Some(preprocess))
}

/// The most that reading a training image and fitting it takes, in bytes, by the headers of up to 64 that are spread over the
/// set. Samples that are no image file of their own do not count.
pub fn largest_decoding_bytes(dataset: &Dataset, preprocess: &Preprocess) -> u64 {
    const LOOKED_AT: usize = 64;
    let source = &dataset.train;
    let step = source.len().div_ceil(LOOKED_AT).max(1);
    let bytes = (0..source.len()).step_by(step).filter_map(|index| {
        let path = source.file(index)?;
        let start = read_bytes(path, HEADER_BYTES).ok()?;
        bytes_to_decode(path, &start, file_bytes(path).ok()?, Some(preprocess)).ok()
    });
    bytes.max().unwrap_or(0)
}

/// Decodes bytes that hold a whole file.
///
/// # Errors
/// As [`read_image`].
pub(crate) fn decode(path: &Path, bytes: &[u8]) -> Result<Samples, DataError> {
    let samples = samples_of(path, decoder_for(path, bytes, Cursor::new(bytes))?)?;
    if is_jpeg(bytes) && !jpeg_is_complete(bytes) {
        return Err(unreadable(path, "the file ends before the image does"));
    }
    Ok(samples)
}

fn samples_of(path: &Path, decoder: impl ImageDecoder) -> Result<Samples, DataError> {
    Samples::of(path, DynamicImage::from_decoder(decoder).map_err(|error| name_error(path, error))?)
}

fn is_jpeg(start: &[u8]) -> bool {
    image::guess_format(start).ok() == Some(ImageFormat::Jpeg)
}

/// Reads the size and the channels of an image file without decoding its pixels.
///
/// # Errors
/// As [`read_image`], except for damage beyond the header.
pub fn read_header(path: &Path) -> Result<Header, DataError> {
    let start = read_bytes(path, HEADER_BYTES)?;
    // A header can lie behind a long colour profile, or at the end of a TIFF: then the whole file is needed.
    let partial = start.len() as u64 >= HEADER_BYTES;
    match header_of(path, &start) {
        Err(DataError::Unreadable { .. }) if partial => header_of(path, &read_bytes(path, MAX_FILE_BYTES)?),
        result => result,
    }
}

pub(crate) fn header_of(path: &Path, bytes: &[u8]) -> Result<Header, DataError> {
    let decoder = decoder_for(path, bytes, Cursor::new(bytes))?;
    let (width, height) = decoder.dimensions();
    let channels = match decoder.color_type() {
        ColorType::L8 | ColorType::La8 | ColorType::L16 | ColorType::La16 => 1,
        _ => 3,
    };
    Ok(Header { width: width as usize, height: height as usize, channels })
}

/// The size of a regular file. Files beyond [`MAX_FILE_BYTES`] are refused.
fn file_bytes(path: &Path) -> Result<u64, DataError> {
    let io = |cause| DataError::Io { path: path.to_owned(), cause };
    let meta = std::fs::metadata(path).map_err(io)?;
    if !meta.is_file() {
        return Err(unreadable(path, "it is not a file"));
    }
    if meta.len() > MAX_FILE_BYTES {
        let megabytes = |bytes: u64| format!("{} MiB", bytes >> 20);
        return Err(DataError::TooLarge {
            path: path.to_owned(),
            what: megabytes(meta.len()),
            limit: megabytes(MAX_FILE_BYTES),
        });
    }
    Ok(meta.len())
}

/// The first `limit` bytes of a regular file. Files beyond [`MAX_FILE_BYTES`] are refused.
fn read_bytes(path: &Path, limit: u64) -> Result<Vec<u8>, DataError> {
    let io = |cause| DataError::Io { path: path.to_owned(), cause };
    let mut bytes = Vec::with_capacity(file_bytes(path)?.min(limit) as usize);
    files::open(path).map_err(io)?.take(limit).read_to_end(&mut bytes).map_err(io)?;
    Ok(bytes)
}

/// What decoders read from, of one type for all so that each of them is compiled once.
trait Input: BufRead + Seek {}

impl<T: BufRead + Seek> Input for T {}

/// A decoder that has read the header and accepted its size. The first bytes of the file tell its format.
fn decoder_for<'a>(path: &Path, start: &[u8], file: impl Input + 'a) -> Result<impl ImageDecoder + 'a, DataError> {
    let format = match image::guess_format(start) {
        Ok(format @ (ImageFormat::Png | ImageFormat::Jpeg | ImageFormat::Tiff)) => format,
        _ if start.is_empty() => return Err(unreadable(path, "the file is empty")),
        _ => return Err(unreadable(path, "it is not a PNG, JPEG or TIFF")),
    };
    let mut limits = Limits::default();
    // For PNG this is what its decoder allocates besides the image, whose size is checked below.
    limits.max_alloc = Some(if format == ImageFormat::Png { MAX_PNG_EXTRAS } else { MAX_DECODER_BYTES });
    let mut reader = ImageReader::with_format(Box::new(file) as Box<dyn Input + 'a>, format);
    reader.limits(limits);
    let decoder = reader.into_decoder().map_err(|error| name_error(path, error))?;

    let (width, height) = decoder.dimensions();
    if width == 0 || height == 0 {
        return Err(unreadable(path, "it has no pixels"));
    }
    let too_large = |limit| {
        let what = format!("{width} x {height} pixels");
        Err(DataError::TooLarge { path: path.to_owned(), what, limit })
    };
    if width.max(height) > MAX_SIDE {
        return too_large(format!("{MAX_SIDE} a side"));
    }
    if u64::from(width) * u64::from(height) > MAX_PIXELS {
        return too_large(format!("{MAX_PIXELS} pixels"));
    }
    if decoder.total_bytes() > MAX_DECODER_BYTES {
        return too_large(format!("{} MiB decoded", MAX_DECODER_BYTES >> 20));
    }
    Ok(decoder)
}

/// Whether an end-of-image marker follows the last scan. The decoder fills what is missing with grey and says nothing.
/// Inside a scan 0xFF is always followed by 0x00 or a restart marker, so the marker cannot be a coincidence.
fn jpeg_is_complete(bytes: &[u8]) -> bool {
    let find_last =
        |marker: [u8; 2], from: usize| bytes[from..].windows(2).rposition(|pair| pair == marker).map(|at| from + at);
    find_last([0xFF, 0xDA], 0).is_some_and(|scan| find_last([0xFF, 0xD9], scan).is_some())
}

pub(crate) fn unreadable(path: &Path, reason: &str) -> DataError {
    DataError::Unreadable { path: path.to_owned(), reason: reason.to_owned() }
}

fn name_error(path: &Path, error: ImageError) -> DataError {
    match error {
        ImageError::Limits(limit) if limit.kind() == LimitErrorKind::InsufficientMemory => DataError::TooLarge {
            path: path.to_owned(),
            what: "its decoder asks for too much memory".to_owned(),
            limit: format!("{} MiB", MAX_DECODER_BYTES >> 20),
        },
        other => unreadable(path, &other.to_string()),
    }
}
