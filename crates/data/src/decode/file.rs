//! Image files to [`Image`], within limits: a hostile header cannot make us allocate.

use std::io::{BufReader, Cursor, Read};
use std::path::Path;

use image::error::LimitErrorKind;
use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader, Limits};
use kindling_files as files;

use super::limits::{
    Input, MAX_DECODER_BYTES, MAX_FILE_BYTES, MAX_PNG_EXTRAS, check_size, too_much_memory, unreadable,
};
use super::png_rows::{self, PngRows};
use super::reserve::reserve;
use super::samples::{STRIP, Samples};
use super::{Image, Preprocess, frames, tiff};
use crate::error::DataError;

/// What the decoder of TIFF works with besides, in bytes.
const DECODER_WORK: u64 = 64 << 10;
/// What is read.
const READ: [ImageFormat; 6] =
    [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Tiff, ImageFormat::Gif, ImageFormat::Bmp, ImageFormat::WebP];
/// How much of a file is read to find whether it has several pages.
const PAGES_BYTES: u64 = 4 << 10;
/// How much of a file is read to find its header, before the whole file is tried.
pub(super) const HEADER_BYTES: u64 = 64 << 10;

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

/// Reads a PNG, JPEG, TIFF, GIF, BMP or WebP of 8 or 16 bits, grey or RGB; alpha is dropped. The format is recognised by content.
/// Of several pages or frames the first is read.
///
/// The image is turned and mirrored as its orientation tag (Exif) says. Values are divided by the largest of their depth (255
/// or 65 535); floating point TIFFs must hold `[0, 1]` already.
///
/// # Errors
/// [`DataError::Io`], [`DataError::TooLarge`] (beyond [`MAX_SIDE`](super::MAX_SIDE), [`MAX_PIXELS`](super::MAX_PIXELS) or
/// [`MAX_FILE_BYTES`]) and
/// [`DataError::Unreadable`] (unknown format, damaged or truncated), each with the path.
pub fn read_image(path: &Path) -> Result<Image, DataError> {
    read_as(path, None, |samples| samples.into_image())
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
    make: impl FnOnce(Samples<'_>) -> Result<Image, DataError>,
) -> Result<Image, DataError> {
    let start = read_bytes(path, HEADER_BYTES)?;
    let _held = reserve(path, look(path, &start)?.bytes_to_read(preprocess))?;
    // A small file is here already.
    if !is_part(&start) {
        return make(samples(path, &start)?);
    }
    if is_jpeg(&start) {
        return make(samples(path, &read_bytes(path, MAX_FILE_BYTES)?)?);
    }
    make(samples_from(path, &start, open(path)?)?)
}

/// As [`read_image`], of page or frame `page` of a file that [`count_pages`] has found several in; fitted where `preprocess` is
/// given.
///
/// # Errors
/// As [`read_image`], and [`DataError::Unreadable`] if there is no such page.
pub(crate) fn read_page(path: &Path, page: usize, preprocess: Option<&Preprocess>) -> Result<Image, DataError> {
    let start = read_bytes(path, HEADER_BYTES)?;
    let contents = look_at_page(path, &start, page)?;
    let header = contents.header;
    let samples = if is_tiff(&start) {
        let _held = reserve(path, contents.bytes_to_read(preprocess))?;
        decode_from(path, &start, open_page(path, page)?)?
    } else {
        // Frames are drawn onto each other, with alpha.
        let drawn = 4 * header.width as u64 * header.height as u64;
        let _held = reserve(path, contents.bytes_to_read(preprocess) + 3 * drawn)?;
        let frame = frames::read(path, &start, page, open(path)?)?;
        Samples::of(path, if header.channels == 1 { frame.into_luma8().into() } else { frame })?
    };
    match preprocess {
        None => samples.into_image(),
        Some(preprocess) => preprocess.fit_samples(samples),
    }
}

/// How many pages or frames a file has: one where its structure does not tell.
///
/// # Errors
/// [`DataError::Io`].
pub(crate) fn count_pages(path: &Path) -> Result<usize, DataError> {
    let start = read_bytes(path, PAGES_BYTES)?;
    Ok(frames::count(&start, &mut open(path)?))
}

/// What the header of each page or frame says.
///
/// # Errors
/// As [`read_header`].
pub(crate) fn headers_of_pages(path: &Path) -> Result<Vec<Header>, DataError> {
    let start = read_bytes(path, HEADER_BYTES)?;
    let count = frames::count(&start, &mut open(path)?);
    if !is_tiff(&start) || count == 1 {
        return Ok(vec![look(path, &start)?.header; count]);
    }
    (0..count).map(|page| Ok(look_at_page(path, &start, page)?.header)).collect()
}

/// What the header of a page says, and what that takes to be read.
fn look_at_page(path: &Path, start: &[u8], page: usize) -> Result<Contents, DataError> {
    if is_tiff(start) {
        return Contents::of(path, start, open_page(path, page)?, file_bytes(path)?);
    }
    look(path, start)
}

/// A TIFF that begins with this page.
pub(super) fn open_page(path: &Path, page: usize) -> Result<impl Input + use<>, DataError> {
    let io = |cause| DataError::Io { path: path.to_owned(), cause };
    let mut file = open(path)?;
    let pages = tiff::pages(&mut file).map_err(io)?;
    let place = pages.get(page).ok_or_else(|| unreadable(path, &format!("it has no page {page}")))?;
    tiff::beginning_with(*place, file).map_err(io)
}

fn is_tiff(start: &[u8]) -> bool {
    image::guess_format(start).ok() == Some(ImageFormat::Tiff)
}

/// As [`read_image`], from bytes; errors name `path`.
///
/// # Errors
/// As [`read_image`].
pub fn decode_image(path: &Path, bytes: &[u8]) -> Result<Image, DataError> {
    let _held = reserve(path, Contents::of(path, bytes, Cursor::new(bytes), 0)?.bytes_to_read(None))?;
    samples(path, bytes)?.into_image()
}

/// As [`read_fitted`], from bytes; errors name `path`.
///
/// # Errors
/// As [`read_image`].
pub(crate) fn decode_fitted(path: &Path, bytes: &[u8], preprocess: &Preprocess) -> Result<Image, DataError> {
    let _held = reserve(path, Contents::of(path, bytes, Cursor::new(bytes), 0)?.bytes_to_read(Some(preprocess)))?;
    preprocess.fit_samples(samples(path, bytes)?)
}

/// What the header says about an image, and the memory that reading it takes.
struct Contents {
    header: Header,
    /// Held of the file itself, in bytes.
    file: u64,
    /// Held of the samples, and of what gives them, while floats are made of them, in bytes.
    samples: u64,
    /// Held of a strip of samples while its floats are made, in bytes, where they are not all here.
    strip: u64,
    /// Held beside the samples only while the decoder makes them, in bytes.
    decoder: u64,
}

impl Contents {
    /// Of a file that starts so, and of which `size` bytes are held.
    fn of(path: &Path, start: &[u8], mut file: impl Input, size: u64) -> Result<Self, DataError> {
        if let Some((width, height)) = float_size(path, start, &mut file)? {
            let header = Header { width: width as usize, height: height as usize, channels: 1 };
            let all = u64::from(width) * u64::from(height) * size_of::<f32>() as u64;
            return Ok(Self {
                header,
                file: size.min(HEADER_BYTES),
                samples: all,
                strip: 0,
                decoder: all + DECODER_WORK,
            });
        }
        let mut decoder = decoder_for(path, start, file)?;
        let (width, height) = decoder.dimensions();
        let channels = if decoder.color_type().has_color() { 3 } else { 1 };
        let all = decoder.total_bytes();
        let turned = orientation_of(&mut decoder);
        let (columns, rows) = if swaps_sides(turned) { (height, width) } else { (width, height) };
        let header = Header { width: columns as usize, height: rows as usize, channels };
        // An image that is turned lies there twice.
        let copy = if turned == Orientation::NoTransforms { 0 } else { all };
        if png_rows::has_rows_in_order(start) {
            return Ok(Self::in_rows(header, size.min(HEADER_BYTES), all / u64::from(height)));
        }
        if is_jpeg(start) {
            // Its decoder has a copy of the file, and of several passes it keeps 16 bits for each number of each block.
            let rows = if jpeg_has_one_pass(start) { 16 } else { height.next_multiple_of(16) };
            let blocks = u64::from(rows) * u64::from(width.next_multiple_of(16));
            let numbers = 2 * blocks * u64::from(decoder.original_color_type().channel_count());
            let started = if size > HEADER_BYTES { HEADER_BYTES } else { 0 };
            let decoder = (size + numbers).max(copy);
            return Ok(Self { header, file: size + started, samples: all, strip: 0, decoder });
        }
        // The decoder makes all of it in a buffer of its own before it hands it over.
        let raw = u64::from(width) * u64::from(height) * u64::from(decoder.original_color_type().bits_per_pixel());
        let whole = if is_tiff(start) || is_png(start) { raw / 8 } else { 2 * (raw / 8) + size };
        let decoder = (whole + DECODER_WORK).max(copy);
        Ok(Self { header, file: size.min(HEADER_BYTES), samples: all, strip: 0, decoder })
    }

    /// Of a PNG whose rows of `row` bytes are read one after another.
    fn in_rows(header: Header, file: u64, row: u64) -> Self {
        let strip = header.height.min(STRIP) as u64 * row;
        Self { header, file, samples: png_rows::bytes_held(row), strip, decoder: 0 }
    }

    /// The most memory that reading holds at once, in bytes: the file, and the larger of two. One is the samples with the decoder's
    /// buffers, or with the floats that are made of them strip by strip; the other is the floats while the image is fitted.
    fn bytes_to_read(&self, preprocess: Option<&Preprocess>) -> u64 {
        let Header { width, height, channels } = self.header;
        let bytes = |floats: usize| (floats * size_of::<f32>()) as u64;
        let [making, shortening, fitting] = match preprocess {
            None => [bytes(width * (height + STRIP.min(height)) * channels), 0, 0],
            Some(preprocess) => preprocess.floats_to_fit(width, height, channels).map(bytes),
        };
        self.file + (self.samples + (self.strip + making).max(shortening).max(self.decoder)).max(fitting)
    }
}

/// What the header of the file `path` says, of which `start` is here. Only of a JPEG more is read into memory.
fn look(path: &Path, start: &[u8]) -> Result<Contents, DataError> {
    let size = file_bytes(path)?;
    if is_part(start) && !is_jpeg(start) {
        return Contents::of(path, start, open(path)?, size);
    }
    match Contents::of(path, start, Cursor::new(start), size) {
        // The header lies behind a long colour profile.
        Err(DataError::Unreadable { .. }) if is_part(start) => {
            let _held = reserve(path, 2 * size)?;
            let whole = read_bytes(path, MAX_FILE_BYTES)?;
            Contents::of(path, &whole, Cursor::new(&whole), size)
        }
        result => result,
    }
}

/// Whether there may be more of a file than this, its first bytes.
fn is_part(start: &[u8]) -> bool {
    start.len() as u64 >= HEADER_BYTES
}

/// What a loader's thread takes to read a PNG of 8 bits, not interlaced, and to fit it, in bytes. A JPEG or a TIFF takes the
/// bytes of its pixels more, or twice as many.
pub fn decoding_bytes(header: Header, preprocess: &Preprocess) -> u64 {
    Contents::in_rows(header, HEADER_BYTES, (header.width * header.channels) as u64).bytes_to_read(Some(preprocess))
}

/// What reading a file and fitting its image takes, in bytes, by its header; none if that cannot be read.
pub(crate) fn bytes_to_read(path: &Path, preprocess: &Preprocess) -> Option<u64> {
    let start = read_bytes(path, HEADER_BYTES).ok()?;
    Some(look(path, &start).ok()?.bytes_to_read(Some(preprocess)))
}

/// The samples of bytes that hold a whole file: of most kinds of PNG they are decoded when they are taken.
///
/// # Errors
/// As [`read_image`].
fn samples<'a>(path: &'a Path, bytes: &'a [u8]) -> Result<Samples<'a>, DataError> {
    check_end(path, bytes)?;
    samples_from(path, bytes, Cursor::new(bytes))
}

/// Decodes all of the bytes of a whole file.
///
/// # Errors
/// As [`read_image`].
pub(crate) fn decode(path: &Path, bytes: &[u8]) -> Result<Samples<'static>, DataError> {
    check_end(path, bytes)?;
    decode_from(path, bytes, Cursor::new(bytes))
}

fn samples_from<'a>(path: &'a Path, start: &[u8], file: impl Input + 'a) -> Result<Samples<'a>, DataError> {
    if png_rows::has_rows_in_order(start) {
        return Ok(Samples::of_png(PngRows::open(path, Box::new(file))?));
    }
    decode_from(path, start, file)
}

fn decode_from(path: &Path, start: &[u8], file: impl Input) -> Result<Samples<'static>, DataError> {
    let mut file = file;
    if let Some((width, height)) = float_size(path, start, &mut file)? {
        return Samples::of_floats(path, width, height, tiff::read_grey_float(path, file)?);
    }
    let mut decoder = decoder_for(path, start, file)?;
    let turned = orientation_of(&mut decoder);
    let mut image = DynamicImage::from_decoder(decoder).map_err(|error| name_error(path, error))?;
    image.apply_orientation(turned);
    Samples::of(path, image)
}

/// The size of a grey TIFF in floating point, and the file at its start again.
fn float_size(path: &Path, start: &[u8], file: &mut impl Input) -> Result<Option<(u32, u32)>, DataError> {
    if !is_tiff(start) {
        return Ok(None);
    }
    let size = tiff::grey_float(path, &mut *file)?;
    file.rewind().map_err(|cause| DataError::Io { path: path.to_owned(), cause })?;
    Ok(size)
}

/// How an image has to be turned and mirrored to be seen as it was meant. A tag that cannot be read turns nothing.
fn orientation_of(decoder: &mut impl ImageDecoder) -> Orientation {
    decoder.orientation().unwrap_or(Orientation::NoTransforms)
}

fn swaps_sides(turned: Orientation) -> bool {
    use Orientation::{Rotate90, Rotate90FlipH, Rotate270, Rotate270FlipH};
    matches!(turned, Rotate90 | Rotate90FlipH | Rotate270 | Rotate270FlipH)
}

pub(super) fn is_png(start: &[u8]) -> bool {
    image::guess_format(start).ok() == Some(ImageFormat::Png)
}

/// The decoder of JPEG fills what is missing with grey and says nothing.
fn check_end(path: &Path, bytes: &[u8]) -> Result<(), DataError> {
    if is_jpeg(bytes) && !jpeg_is_complete(bytes) {
        return Err(unreadable(path, "the file ends before the image does"));
    }
    Ok(())
}

fn is_jpeg(start: &[u8]) -> bool {
    image::guess_format(start).ok() == Some(ImageFormat::Jpeg)
}

/// Reads the size and the channels of an image file without decoding its pixels.
///
/// # Errors
/// As [`read_image`], except for damage beyond the header.
pub fn read_header(path: &Path) -> Result<Header, DataError> {
    Ok(look(path, &read_bytes(path, HEADER_BYTES)?)?.header)
}

pub(crate) fn header_of(path: &Path, bytes: &[u8]) -> Result<Header, DataError> {
    Ok(Contents::of(path, bytes, Cursor::new(bytes), 0)?.header)
}

/// A file, to be read a little at a time.
pub(super) fn open(path: &Path) -> Result<impl Input + use<>, DataError> {
    let io = |cause| DataError::Io { path: path.to_owned(), cause };
    Ok(BufReader::new(files::open(path).map_err(io)?))
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
pub(super) fn read_bytes(path: &Path, limit: u64) -> Result<Vec<u8>, DataError> {
    let io = |cause| DataError::Io { path: path.to_owned(), cause };
    let mut bytes = Vec::with_capacity(file_bytes(path)?.min(limit) as usize);
    files::open(path).map_err(io)?.take(limit).read_to_end(&mut bytes).map_err(io)?;
    Ok(bytes)
}

/// A decoder that has read the header and accepted its size. The first bytes of the file tell its format.
pub(super) fn decoder_for<'a>(
    path: &Path,
    start: &[u8],
    file: impl Input + 'a,
) -> Result<impl ImageDecoder + 'a, DataError> {
    let format = match image::guess_format(start) {
        Ok(format) if READ.contains(&format) => format,
        _ if start.is_empty() => return Err(unreadable(path, "the file is empty")),
        _ => return Err(unreadable(path, "it is not a PNG, JPEG, TIFF, GIF, BMP or WebP")),
    };
    let mut limits = Limits::default();
    // For PNG this is what its decoder allocates besides the image, whose size is checked below.
    limits.max_alloc = Some(if format == ImageFormat::Png { MAX_PNG_EXTRAS } else { MAX_DECODER_BYTES });
    let mut reader = ImageReader::with_format(Box::new(file) as Box<dyn Input + 'a>, format);
    reader.limits(limits);
    let decoder = reader.into_decoder().map_err(|error| name_error(path, error))?;

    let (width, height) = decoder.dimensions();
    check_size(path, width, height, decoder.total_bytes())?;
    Ok(decoder)
}

/// Whether all components of a JPEG are in its first scan, from top to bottom (ITU-T T.81, B.2.2 and B.2.3).
fn jpeg_has_one_pass(bytes: &[u8]) -> bool {
    let word = |at: usize| bytes.get(at..at + 2).map(|word| usize::from(u16::from_be_bytes([word[0], word[1]])));
    let (mut at, mut components) = (2, None);
    // A marker is 0xFF and a letter, and its length follows.
    while let (Some([0xFF, marker]), Some(length)) = (bytes.get(at..at + 2), word(at + 2)) {
        match marker {
            // Baseline and extended frames.
            0xC0 | 0xC1 => components = bytes.get(at + 9).copied(),
            0xDA => return components.is_some() && components == bytes.get(at + 4).copied(),
            _ => {}
        }
        at += 2 + length;
    }
    false
}

/// Whether an end-of-image marker follows the last scan.
/// Inside a scan 0xFF is always followed by 0x00 or a restart marker, so the marker cannot be a coincidence.
fn jpeg_is_complete(bytes: &[u8]) -> bool {
    let find_last =
        |marker: [u8; 2], from: usize| bytes[from..].windows(2).rposition(|pair| pair == marker).map(|at| from + at);
    find_last([0xFF, 0xDA], 0).is_some_and(|scan| find_last([0xFF, 0xD9], scan).is_some())
}

pub(super) fn name_error(path: &Path, error: ImageError) -> DataError {
    match error {
        ImageError::Limits(limit) if limit.kind() == LimitErrorKind::InsufficientMemory => too_much_memory(path),
        ImageError::Unsupported(_) => unreadable(
            path,
            "its kind of pixels is not read; save it with 8 or 16 bits a channel, or as floating point from 0 to 1",
        ),
        other => unreadable(path, &other.to_string()),
    }
}
