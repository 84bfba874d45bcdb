//! PNG files, a few rows at a time: all samples of a scan would be the largest thing that is held beside a training step.

use std::path::Path;

use image::metadata::Orientation;
use image::{DynamicImage, ImageBuffer};
use png::{BitDepth, ColorType, Decoder, DecodingError, Limits, Reader, Transformations};

use super::limits::{Input, MAX_DECODER_BYTES, MAX_PNG_EXTRAS, too_much_memory, unreadable};
use crate::error::DataError;

/// What the decoder works with, in bytes, besides four rows: the window of what was inflated last, which grows by halves, and
/// what is read of the file.
const WORK: u64 = 288 << 10;
/// Where the header says whether the rows are interlaced, counted from the start of the file (PNG, 5.2, 5.3 and 11.2.1).
const INTERLACE_AT: usize = 28;

/// Whether a file that starts like this is a PNG whose rows lie one after another, as they are to be seen.
pub(crate) fn has_rows_in_order(start: &[u8]) -> bool {
    start.starts_with(b"\x89PNG\r\n\x1a\n") && start.get(INTERLACE_AT) == Some(&0) && !is_turned(start)
}

/// Whether an Exif chunk before the pixels (PNG 3, 11.3.4.5) says that the image is to be turned or mirrored.
fn is_turned(start: &[u8]) -> bool {
    let mut at = 8;
    // Length, name, contents, checksum.
    while let Some(&[a, b, c, d, ref name @ ..]) = start.get(at..at + 8) {
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        match name {
            b"IDAT" => return false,
            b"eXIf" => {
                let exif = start.get(at + 8..(at + 8).saturating_add(length)).unwrap_or_default();
                let told = Orientation::from_exif_chunk(exif).unwrap_or(Orientation::NoTransforms);
                return told != Orientation::NoTransforms;
            }
            _ => at = at.saturating_add(length).saturating_add(12),
        }
    }
    false
}

/// What is held besides the rows that are asked for, of `row` bytes each, in bytes.
pub(crate) fn bytes_held(row: u64) -> u64 {
    WORK + 4 * row
}

/// The rows of a PNG that are not read yet, from the top.
pub(crate) struct PngRows<'a> {
    path: &'a Path,
    reader: Reader<Box<dyn Input + 'a>>,
    /// Rows that are not read yet.
    left: u32,
}

impl<'a> PngRows<'a> {
    /// Reads up to the first row. The size in the header was looked at before.
    ///
    /// # Errors
    /// [`DataError::Unreadable`] and [`DataError::TooLarge`].
    pub(crate) fn open(path: &'a Path, file: Box<dyn Input + 'a>) -> Result<Self, DataError> {
        let name = |error| name_error(path, error);
        let mut decoder = Decoder::new_with_limits(file, Limits { bytes: MAX_PNG_EXTRAS as usize });
        // Palettes become colours and fewer than 8 bits become 8; 16 stay 16.
        decoder.set_transformations(Transformations::EXPAND);
        let reader = decoder.read_info().map_err(name)?;
        let (width, height) = reader.info().size();
        // An animation starts with the whole image (PNG, 11.3.2.2).
        if reader.info().frame_control.is_some_and(|frame| (frame.width, frame.height) != (width, height)) {
            return Err(unreadable(path, "the first frame of its animation is smaller than the image"));
        }
        Ok(Self { path, reader, left: height })
    }

    /// Columns and rows of the whole image.
    pub(crate) fn dimensions(&self) -> (u32, u32) {
        self.reader.info().size()
    }

    /// 1 (grey) or 3 (colour, palettes included), without alpha.
    pub(crate) fn channels(&self) -> usize {
        if matches!(self.reader.output_color_type().0, ColorType::Rgb | ColorType::Rgba) { 3 } else { 1 }
    }

    /// The next rows, at most as many as there are left. Behind the last one, the end of the pixels is looked at too.
    ///
    /// # Errors
    /// [`DataError::Unreadable`] if the file is damaged or ends early.
    pub(crate) fn next(&mut self, count: usize) -> Result<DynamicImage, DataError> {
        let (width, height) = (self.dimensions().0, (count as u64).min(u64::from(self.left)) as u32);
        let line = self.reader.output_line_size(width).filter(|line| (*line as u64) < MAX_DECODER_BYTES);
        let line = line.ok_or_else(|| too_much_memory(self.path))?;
        let bytes = line * height as usize;
        let strip = match self.reader.output_color_type() {
            (kind, BitDepth::Sixteen) => {
                let mut words = vec![0; bytes / 2];
                self.fill(line, bytemuck::cast_slice_mut(&mut words))?;
                // The words of a PNG have their high byte first.
                words.iter_mut().for_each(|word| *word = u16::from_be(*word));
                strip_of_words(kind, width, height, words)
            }
            (kind, BitDepth::Eight) => {
                let mut bytes = vec![0; bytes];
                self.fill(line, &mut bytes)?;
                strip_of_bytes(kind, width, height, bytes)
            }
            _ => None,
        };
        self.left -= height;
        if self.left == 0 {
            self.fill(line, &mut vec![0; line])?;
        }
        strip.ok_or_else(|| unreadable(self.path, "its kind of pixels is not supported"))
    }

    /// Reads rows of `line` bytes, or nothing behind the last one.
    fn fill(&mut self, line: usize, rows: &mut [u8]) -> Result<(), DataError> {
        rows.chunks_exact_mut(line).try_for_each(|row| match self.reader.read_row(row) {
            Ok(_) => Ok(()),
            Err(error) => Err(name_error(self.path, error)),
        })
    }
}

/// Rows of 8 bits as an image; none for palettes, which are colours by now.
fn strip_of_bytes(kind: ColorType, width: u32, height: u32, bytes: Vec<u8>) -> Option<DynamicImage> {
    Some(match kind {
        ColorType::Grayscale => DynamicImage::ImageLuma8(ImageBuffer::from_raw(width, height, bytes)?),
        ColorType::GrayscaleAlpha => DynamicImage::ImageLumaA8(ImageBuffer::from_raw(width, height, bytes)?),
        ColorType::Rgb => DynamicImage::ImageRgb8(ImageBuffer::from_raw(width, height, bytes)?),
        ColorType::Rgba => DynamicImage::ImageRgba8(ImageBuffer::from_raw(width, height, bytes)?),
        ColorType::Indexed => return None,
    })
}

/// Rows of 16 bits, as [`strip_of_bytes`].
fn strip_of_words(kind: ColorType, width: u32, height: u32, words: Vec<u16>) -> Option<DynamicImage> {
    Some(match kind {
        ColorType::Grayscale => DynamicImage::ImageLuma16(ImageBuffer::from_raw(width, height, words)?),
        ColorType::GrayscaleAlpha => DynamicImage::ImageLumaA16(ImageBuffer::from_raw(width, height, words)?),
        ColorType::Rgb => DynamicImage::ImageRgb16(ImageBuffer::from_raw(width, height, words)?),
        ColorType::Rgba => DynamicImage::ImageRgba16(ImageBuffer::from_raw(width, height, words)?),
        ColorType::Indexed => return None,
    })
}

fn name_error(path: &Path, error: DecodingError) -> DataError {
    match error {
        DecodingError::LimitsExceeded => too_much_memory(path),
        other => unreadable(path, &other.to_string()),
    }
}
