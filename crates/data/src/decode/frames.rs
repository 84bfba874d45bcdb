//! Files that hold several images: the pages of a TIFF, the frames of an animation.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use image::codecs::gif::GifDecoder;
use image::codecs::png::PngDecoder;
use image::codecs::webp::WebPDecoder;
use image::{AnimationDecoder, DynamicImage, Frames, ImageError, ImageFormat, Limits};

use super::limits::{Input, MAX_PNG_EXTRAS, unreadable};
use super::tiff;
use crate::error::DataError;

/// The most frames that are counted.
const MOST_FRAMES: usize = 1 << 16;
/// Before its first row a PNG says that it is animated (APNG, `acTL`): encoders write less than this before.
const PNG_START: u64 = 4 << 10;

/// How many images a file holds, by its structure alone. One where that cannot be told.
pub(super) fn count(start: &[u8], file: &mut impl Input) -> usize {
    let found = match image::guess_format(start) {
        Ok(ImageFormat::Tiff) => tiff::pages(file).map(|pages| pages.len()),
        Ok(ImageFormat::Png) => Ok(png_frames(start)),
        Ok(ImageFormat::Gif) => gif_frames(file),
        Ok(ImageFormat::WebP) => webp_frames(file),
        _ => Ok(1),
    };
    found.unwrap_or(1).max(1)
}

/// Frame `index` of an animation, from 0, as a whole image.
pub(super) fn read(path: &Path, start: &[u8], index: usize, file: impl Input) -> Result<DynamicImage, DataError> {
    let wrong = |error: ImageError| unreadable(path, &error.to_string());
    let frames: Frames<'_> = match image::guess_format(start) {
        Ok(ImageFormat::Gif) => GifDecoder::new(file).map_err(wrong)?.into_frames(),
        Ok(ImageFormat::WebP) => WebPDecoder::new(file).map_err(wrong)?.into_frames(),
        Ok(ImageFormat::Png) => {
            let mut limits = Limits::default();
            limits.max_alloc = Some(MAX_PNG_EXTRAS.saturating_mul(32));
            PngDecoder::with_limits(file, limits).and_then(PngDecoder::apng).map_err(wrong)?.into_frames()
        }
        _ => return Err(unreadable(path, "it holds one image only")),
    };
    match frames.into_iter().nth(index) {
        Some(frame) => Ok(DynamicImage::ImageRgba8(frame.map_err(wrong)?.into_buffer())),
        None => Err(unreadable(path, &format!("it has no frame {index}"))),
    }
}

/// What the chunk `acTL` says.
fn png_frames(start: &[u8]) -> usize {
    let start = &start[..start.len().min(PNG_START as usize)];
    let mut at = 8;
    // Length, name, contents, checksum.
    while let Some(head) = start.get(at..at + 8) {
        let length = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
        match &head[4..] {
            b"acTL" => {
                let count = start
                    .get(at + 8..at + 12)
                    .map(|count| u32::from_be_bytes([count[0], count[1], count[2], count[3]]));
                return count.map_or(1, |count| count as usize).min(MOST_FRAMES);
            }
            b"IDAT" => return 1,
            _ => at = at.saturating_add(length).saturating_add(12),
        }
    }
    1
}

/// Counts the image descriptors of a GIF (GIF89a, 20), whose blocks follow each other.
fn gif_frames(file: &mut impl Input) -> io::Result<usize> {
    file.seek(SeekFrom::Start(0))?;
    let mut header = [0; 13];
    file.read_exact(&mut header)?;
    skip(file, colours(header[10]))?;
    let mut frames = 0;
    while frames < MOST_FRAMES {
        match byte(file)? {
            // An extension: its label, then its blocks.
            0x21 => skip(file, 1)?,
            0x2C => {
                frames += 1;
                let mut about = [0; 9];
                file.read_exact(&mut about)?;
                // Colours of its own, and the size of its codes.
                skip(file, colours(about[8]) + 1)?;
            }
            _ => return Ok(frames),
        }
        loop {
            match byte(file)? {
                0 => break,
                length => skip(file, i64::from(length))?,
            }
        }
    }
    Ok(frames)
}

/// The bytes of a table of colours, by the byte that announces it.
fn colours(flags: u8) -> i64 {
    if flags & 0x80 == 0 { 0 } else { 3 << ((flags & 7) + 1) }
}

/// Counts the frames of a WebP (RIFF, `ANMF`).
fn webp_frames(file: &mut impl Input) -> io::Result<usize> {
    let end = file.seek(SeekFrom::End(0))?;
    let (mut at, mut frames) = (12u64, 0);
    while at.saturating_add(8) <= end && frames < MOST_FRAMES {
        file.seek(SeekFrom::Start(at))?;
        let mut head = [0; 8];
        file.read_exact(&mut head)?;
        frames += usize::from(head.starts_with(b"ANMF"));
        let length = u64::from(u32::from_le_bytes([head[4], head[5], head[6], head[7]]));
        at = at.saturating_add(8 + length + length % 2);
    }
    Ok(frames)
}

fn byte(file: &mut impl Read) -> io::Result<u8> {
    let mut byte = [0];
    file.read_exact(&mut byte)?;
    Ok(byte[0])
}

fn skip(file: &mut impl Seek, bytes: i64) -> io::Result<()> {
    file.seek_relative(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Cursor;

    use image::codecs::gif::GifEncoder;
    use image::{Frame, RgbaImage};

    use super::*;

    /// As [`count`], of bytes.
    fn count_of(bytes: &[u8]) -> usize {
        count(bytes, &mut Cursor::new(bytes))
    }

    #[test]
    fn frames_of_a_gif_are_counted_and_read() {
        let mut bytes = Vec::new();
        let picture = |value: u8| RgbaImage::from_pixel(7, 5, image::Rgba([value, value, value, 255]));
        let mut encoder = GifEncoder::new(&mut bytes);
        encoder.encode_frames([10, 120, 240].map(|value| Frame::new(picture(value)))).unwrap();
        drop(encoder);
        assert_eq!(count_of(&bytes), 3);
        let second = read(Path::new("a.gif"), &bytes, 1, Cursor::new(&bytes)).unwrap();
        assert_eq!(second.to_rgba8().get_pixel(3, 3).0, [120, 120, 120, 255]);
        assert!(read(Path::new("a.gif"), &bytes, 3, Cursor::new(&bytes)).is_err());
        for length in 0..bytes.len() {
            assert!(count_of(&bytes[..length]) <= 3);
        }
    }

    #[test]
    fn an_animated_png_says_how_many_frames_it_has() {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, 4, 4);
        encoder.set_color(png::ColorType::Grayscale);
        encoder.set_animated(2, 0).unwrap();
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(&[9; 16]).unwrap();
        writer.write_image_data(&[200; 16]).unwrap();
        writer.finish().unwrap();
        assert_eq!(count_of(&bytes), 2);
        let second = read(Path::new("a.png"), &bytes, 1, Cursor::new(&bytes)).unwrap();
        assert_eq!(second.to_luma8().get_pixel(0, 0).0, [200]);
    }
}
