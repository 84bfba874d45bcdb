//! Files of masks: pictures whose pixels are numbers and not light.

use std::io::Cursor;
use std::path::Path;

use image::metadata::Orientation;
use image::{DynamicImage, GrayImage, ImageDecoder, ImageFormat};
use png::{BitDepth, Decoder, Limits};

use super::file::{self, HEADER_BYTES};
use super::limits::{Input, MAX_PNG_EXTRAS};
use super::reserve::reserve;
use crate::error::DataError;

/// Where a PNG says what its samples are, counted from the start of the file (PNG, 11.2.1), and what it says for a palette.
const COLOUR_TYPE_AT: usize = 25;
const PALETTE: u8 = 3;

/// The numbers in a file of a mask, one a pixel. What they stand for is said elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaskValues {
    /// Columns.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Rows from the top, pixels from the left: `height * width` numbers.
    pub values: Vec<u16>,
}

/// Reads the numbers of a PNG, a TIFF or a BMP: grey of 8 or 16 bits as they are stored, the index and not the colour where a PNG has a
/// palette. Grey of fewer bits is spread over 8, as the formats say, so that black and white are 0 and 255. Colours are taken for what
/// they are where red, green and blue are the same in every pixel. `page` is one of a TIFF with several.
///
/// # Errors
/// [`DataError::NotAMask`] for colours and for files that change numbers (JPEG), and those of [`read_image`](super::read_image).
pub(crate) fn read_mask_values(path: &Path, page: Option<usize>) -> Result<MaskValues, DataError> {
    let start = file::read_bytes(path, HEADER_BYTES)?;
    values_of(path, &start, || {
        Ok(match page {
            None => Box::new(file::open(path)?),
            Some(page) => Box::new(file::open_page(path, page)?),
        })
    })
}

/// As [`read_mask_values`], from bytes; errors name `path`.
///
/// # Errors
/// As [`read_mask_values`].
pub(crate) fn decode_mask_values(path: &Path, bytes: &[u8]) -> Result<MaskValues, DataError> {
    values_of(path, bytes, || Ok(Box::new(Cursor::new(bytes))))
}

/// The numbers of a file that starts so. Of some kinds it is opened twice.
fn values_of<'a>(
    path: &Path,
    start: &[u8],
    open: impl Fn() -> Result<Box<dyn Input + 'a>, DataError>,
) -> Result<MaskValues, DataError> {
    check_kind(path, start)?;
    let mut decoder = file::decoder_for(path, start, open()?)?;
    let (width, height) = decoder.dimensions();
    // The decoder's buffer and the image, and then the image and its numbers.
    let numbers = u64::from(width) * u64::from(height) * size_of::<u16>() as u64;
    let _held = reserve(path, 2 * decoder.total_bytes().max(numbers))?;
    let turned = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let mut image = if file::is_png(start) && start.get(COLOUR_TYPE_AT) == Some(&PALETTE) {
        indices(path, open()?)?
    } else {
        DynamicImage::from_decoder(decoder).map_err(|error| file::name_error(path, error))?
    };
    image.apply_orientation(turned);
    let (width, height) = (image.width() as usize, image.height() as usize);
    Ok(MaskValues { width, height, values: numbers_of(path, image)? })
}

fn not_a_mask(path: &Path, reason: &str) -> DataError {
    DataError::NotAMask { path: path.to_owned(), reason: reason.to_owned() }
}

/// Masks are kept in few kinds of files.
fn check_kind(path: &Path, start: &[u8]) -> Result<(), DataError> {
    match image::guess_format(start) {
        Ok(ImageFormat::Png | ImageFormat::Tiff | ImageFormat::Bmp) => Ok(()),
        Ok(ImageFormat::Jpeg | ImageFormat::WebP) => {
            Err(not_a_mask(path, "JPEG and WebP change the numbers of pixels; save masks as PNG"))
        }
        _ => Err(not_a_mask(path, "it is not a PNG, TIFF or BMP; save masks as PNG")),
    }
}

/// The indices of a PNG with a palette, of 1 to 8 bits each. The size in the header was looked at before.
fn indices(path: &Path, file: Box<dyn Input + '_>) -> Result<DynamicImage, DataError> {
    let wrong =
        |error: png::DecodingError| not_a_mask(path, &format!("it cannot be decoded ({error}); replace or remove it"));
    let decoder = Decoder::new_with_limits(file, Limits { bytes: MAX_PNG_EXTRAS as usize });
    let mut reader = decoder.read_info().map_err(wrong)?;
    let (width, height) = reader.info().size();
    let size = reader.output_buffer_size().ok_or_else(|| not_a_mask(path, "it is too large"))?;
    let mut packed = vec![0; size];
    let frame = reader.next_frame(&mut packed).map_err(wrong)?;
    if (frame.width, frame.height) != (width, height) {
        return Err(not_a_mask(path, "the first frame of its animation is smaller than the image"));
    }
    let bits = match frame.bit_depth {
        BitDepth::One => 1,
        BitDepth::Two => 2,
        BitDepth::Four => 4,
        BitDepth::Eight | BitDepth::Sixteen => 8,
    };
    let mut indices = Vec::with_capacity(width as usize * height as usize);
    for row in packed.chunks_exact(frame.line_size).take(height as usize) {
        // The first pixel is in the highest bits of its byte (PNG, 7.2).
        let index = |x: usize| (row[x * bits / 8] >> (8 - bits - x * bits % 8)) & (0xFF >> (8 - bits));
        indices.extend((0..width as usize).map(index));
    }
    let image = GrayImage::from_raw(width, height, indices);
    image.map(DynamicImage::ImageLuma8).ok_or_else(|| not_a_mask(path, "it ends early; replace or remove it"))
}

/// The numbers of an image, whose alpha says nothing.
fn numbers_of(path: &Path, image: DynamicImage) -> Result<Vec<u16>, DataError> {
    use DynamicImage as Of;
    match image {
        Of::ImageLuma8(image) => Some(firsts::<1, _>(image.as_raw())),
        Of::ImageLumaA8(image) => Some(firsts::<2, _>(image.as_raw())),
        Of::ImageLuma16(image) => Some(image.into_raw()),
        Of::ImageLumaA16(image) => Some(firsts::<2, _>(image.as_raw())),
        Of::ImageRgb8(image) => greys::<3, _>(image.as_raw()),
        Of::ImageRgba8(image) => greys::<4, _>(image.as_raw()),
        Of::ImageRgb16(image) => greys::<3, _>(image.as_raw()),
        Of::ImageRgba16(image) => greys::<4, _>(image.as_raw()),
        _ => return Err(not_a_mask(path, "its numbers are not whole; save it with 8 or 16 bits a pixel")),
    }
    .ok_or_else(|| {
        let reason = "its pixels are colours, and a mask has one number a pixel; give each colour its number and save it grey, in Python \
                      `PIL.Image.fromarray(numbers.astype(\"uint8\")).save(path)`";
        not_a_mask(path, reason)
    })
}

/// The first of every `C` values.
fn firsts<const C: usize, T: Copy + Into<u16>>(raw: &[T]) -> Vec<u16> {
    raw.as_chunks::<C>().0.iter().map(|pixel| pixel[0].into()).collect()
}

/// The first of every `C` values where the first three are the same.
fn greys<const C: usize, T: Copy + Into<u16> + PartialEq>(raw: &[T]) -> Option<Vec<u16>> {
    let grey = raw.as_chunks::<C>().0.iter().all(|pixel| pixel[0] == pixel[1] && pixel[1] == pixel[2]);
    grey.then(|| firsts::<C, T>(raw))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;

    use image::{ImageBuffer, Luma, LumaA, Rgb, RgbImage, Rgba};
    use png::ColorType;

    use super::*;

    /// A PNG as it is stored.
    fn png(path: &Path, kind: ColorType, depth: BitDepth, size: (u32, u32), rows: &[u8]) {
        let mut encoder = png::Encoder::new(fs::File::create(path).unwrap(), size.0, size.1);
        encoder.set_color(kind);
        encoder.set_depth(depth);
        if kind == ColorType::Indexed {
            // Colours that are no indices.
            encoder.set_palette([[200, 10, 30], [1, 2, 3], [0, 0, 0], [255, 255, 255]].concat());
        }
        encoder.write_header().unwrap().write_image_data(rows).unwrap();
    }

    fn values(path: &Path) -> Result<Vec<u16>, String> {
        let found = read_mask_values(path, None).map_err(|error| error.to_string())?;
        assert_eq!(found.width * found.height, found.values.len());
        Ok(found.values)
    }

    #[test]
    fn a_palette_gives_indices_and_not_colours() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.png");
        png(&path, ColorType::Indexed, BitDepth::Eight, (3, 2), &[0, 1, 2, 3, 3, 1]);
        assert_eq!(values(&path).unwrap(), [0, 1, 2, 3, 3, 1]);
        png(
            &path,
            ColorType::Indexed,
            BitDepth::Two,
            (5, 2),
            &[0b00_01_10_11, 0b01_000000, 0b11_11_00_00, 0b10_000000],
        );
        assert_eq!(values(&path).unwrap(), [0, 1, 2, 3, 1, 3, 3, 0, 0, 2]);
        png(&path, ColorType::Indexed, BitDepth::Four, (3, 1), &[0x12, 0x30]);
        assert_eq!(values(&path).unwrap(), [1, 2, 3]);
        png(&path, ColorType::Indexed, BitDepth::One, (3, 1), &[0b1010_0000]);
        assert_eq!(values(&path).unwrap(), [1, 0, 1]);
    }

    #[test]
    fn grey_of_any_depth_gives_the_numbers_that_are_stored() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        png(&at("a.png"), ColorType::Grayscale, BitDepth::Eight, (3, 1), &[0, 1, 255]);
        assert_eq!(values(&at("a.png")).unwrap(), [0, 1, 255]);
        png(&at("b.png"), ColorType::Grayscale, BitDepth::Sixteen, (3, 1), &[0, 1, 1, 0, 255, 255]);
        assert_eq!(values(&at("b.png")).unwrap(), [1, 256, 65_535]);
        png(&at("c.png"), ColorType::Grayscale, BitDepth::One, (3, 1), &[0b0100_0000]);
        assert_eq!(values(&at("c.png")).unwrap(), [0, 255, 0]);
        for name in ["d.tif", "d.bmp"] {
            ImageBuffer::from_fn(3, 1, |x, _| Luma([x as u8 * 7])).save(at(name)).unwrap();
            assert_eq!(values(&at(name)).unwrap(), [0, 7, 14], "{name}");
        }
        ImageBuffer::from_fn(3, 1, |x, _| Luma([x as u16 * 700])).save(at("e.tif")).unwrap();
        assert_eq!(values(&at("e.tif")).unwrap(), [0, 700, 1400]);
        ImageBuffer::from_fn(2, 1, |x, _| LumaA([x as u8, 9])).save(at("f.png")).unwrap();
        assert_eq!(values(&at("f.png")).unwrap(), [0, 1]);
        ImageBuffer::from_fn(2, 1, |x, _| Rgba([x as u8, x as u8, x as u8, 255])).save(at("g.png")).unwrap();
        assert_eq!(values(&at("g.png")).unwrap(), [0, 1], "a grey picture that was saved as one of colours");
    }

    #[test]
    fn damaged_masks_are_errors_or_masks_but_never_crashes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.png");
        for (kind, depth, rows) in [
            (ColorType::Indexed, BitDepth::Two, vec![0b00_01_10_11; 12]),
            (ColorType::Grayscale, BitDepth::Sixteen, vec![7; 9 * 2 * 4]),
        ] {
            png(&path, kind, depth, (9, 4), &rows);
            let whole = fs::read(&path).unwrap();
            for at in 0..whole.len() {
                fs::write(&path, &whole[..at]).unwrap();
                let _ = values(&path);
                for bit in [0, 3, 7] {
                    let mut bytes = whole.clone();
                    bytes[at] ^= 1 << bit;
                    fs::write(&path, bytes).unwrap();
                    let _ = values(&path);
                }
            }
        }
        // An animation whose first frame is a part of the image.
        let mut encoder = png::Encoder::new(fs::File::create(&path).unwrap(), 8, 8);
        encoder.set_color(ColorType::Indexed);
        encoder.set_palette(vec![0; 12]);
        encoder.set_animated(1, 0).unwrap();
        let mut writer = encoder.write_header().unwrap();
        let _ = writer.set_frame_dimension(4, 4);
        let _ = writer.write_image_data(&[1; 16]);
        drop(writer);
        let _ = values(&path);
    }

    #[test]
    fn what_is_no_mask_is_told_with_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        RgbImage::from_pixel(2, 2, Rgb([255, 0, 0])).save(at("a.png")).unwrap();
        RgbImage::from_pixel(2, 2, Rgb([0, 0, 0])).save(at("b.jpg")).unwrap();
        fs::write(at("c.png"), "text").unwrap();
        png(&at("d.png"), ColorType::Indexed, BitDepth::Eight, (300, 200), &[1; 60_000]);
        let whole = fs::read(at("d.png")).unwrap();
        fs::write(at("d.png"), &whole[..whole.len() - 60]).unwrap();
        ImageBuffer::from_pixel(2, 2, Rgb([0.5f32, 0.5, 0.5])).save(at("e.tif")).unwrap();
        for (name, says) in [
            ("a.png", "its pixels are colours"),
            ("b.jpg", "JPEG and WebP change"),
            ("c.png", "not a PNG, TIFF or BMP"),
            ("d.png", "cannot be decoded"),
            ("e.tif", "not whole"),
        ] {
            let error = values(&at(name)).unwrap_err();
            assert!(error.contains(says) && error.contains(name), "{error}");
        }
    }
}
