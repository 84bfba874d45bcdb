//! A decoded image, its samples still as the file holds them.

use std::path::Path;

use image::DynamicImage;

use crate::decode::unreadable;
use crate::{DataError, Image};

/// An image whose samples have the depth that its file gives them. Floats of all of it would take four times the bytes of
/// 8-bit samples; [`Samples::rows`] makes them of a few rows at a time.
pub(crate) struct Samples {
    decoded: DynamicImage,
    /// Columns.
    pub(crate) width: usize,
    /// Rows.
    pub(crate) height: usize,
    /// 1 (grey) or 3 (RGB).
    pub(crate) channels: usize,
}

impl Samples {
    /// What a decoder made of the file `path`.
    ///
    /// # Errors
    /// [`DataError::Unreadable`] for a type of pixels that is not supported, and floats outside 0 to 1.
    pub(crate) fn of(path: &Path, decoded: DynamicImage) -> Result<Self, DataError> {
        use DynamicImage as Of;
        let outside = |values: &[f32]| !values.iter().all(|value| (0.0..=1.0).contains(value));
        let (channels, wrong) = match &decoded {
            Of::ImageLuma8(_) | Of::ImageLumaA8(_) | Of::ImageLuma16(_) | Of::ImageLumaA16(_) => (1, false),
            Of::ImageRgb8(_) | Of::ImageRgba8(_) | Of::ImageRgb16(_) | Of::ImageRgba16(_) => (3, false),
            Of::ImageRgb32F(image) => (3, outside(image.as_raw())),
            Of::ImageRgba32F(image) => (3, image.pixels().any(|pixel| outside(&pixel.0[..3]))),
            other => return Err(unreadable(path, &format!("pixels of type {:?} are not supported", other.color()))),
        };
        if wrong {
            return Err(unreadable(path, "its floating point values lie outside 0 to 1"));
        }
        Ok(Self { width: decoded.width() as usize, height: decoded.height() as usize, channels, decoded })
    }

    /// Some rows as an image of their own, without alpha. Panics if there are no such rows.
    pub(crate) fn rows(&self, first: usize, count: usize) -> Image {
        use DynamicImage as Of;
        let byte = |value: u8| f32::from(value) / 255.0;
        let word = |value: u16| f32::from(value) / 65_535.0;
        let pixels = (first * self.width)..((first + count) * self.width);
        let pixels = match &self.decoded {
            Of::ImageLuma8(image) => floats::<1, 1, _>(image.as_raw(), pixels, byte),
            Of::ImageLumaA8(image) => floats::<2, 1, _>(image.as_raw(), pixels, byte),
            Of::ImageRgb8(image) => floats::<3, 3, _>(image.as_raw(), pixels, byte),
            Of::ImageRgba8(image) => floats::<4, 3, _>(image.as_raw(), pixels, byte),
            Of::ImageLuma16(image) => floats::<1, 1, _>(image.as_raw(), pixels, word),
            Of::ImageLumaA16(image) => floats::<2, 1, _>(image.as_raw(), pixels, word),
            Of::ImageRgb16(image) => floats::<3, 3, _>(image.as_raw(), pixels, word),
            Of::ImageRgba16(image) => floats::<4, 3, _>(image.as_raw(), pixels, word),
            Of::ImageRgb32F(image) => floats::<3, 3, _>(image.as_raw(), pixels, |value| value),
            Of::ImageRgba32F(image) => floats::<4, 3, _>(image.as_raw(), pixels, |value| value),
            other => unreachable!("{:?} is refused by Samples::of", other.color()),
        };
        Image { width: self.width, height: count, channels: self.channels, pixels }
    }

    /// All of it.
    pub(crate) fn into_image(self) -> Image {
        self.rows(0, self.height)
    }
}

/// The first `KEPT` of every `STORED` values of a stretch of pixels.
fn floats<const STORED: usize, const KEPT: usize, T: Copy>(
    raw: &[T],
    pixels: std::ops::Range<usize>,
    float: impl Fn(T) -> f32,
) -> Vec<f32> {
    let raw = &raw[pixels.start * STORED..pixels.end * STORED];
    if STORED == KEPT {
        return raw.iter().map(|value| float(*value)).collect();
    }
    raw.as_chunks::<STORED>().0.iter().flat_map(|pixel| &pixel[..KEPT]).map(|value| float(*value)).collect()
}
