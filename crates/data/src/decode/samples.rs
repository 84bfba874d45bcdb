//! An image file that is read from the top, its samples still as the file holds them.

use std::ops::Range;
use std::path::Path;

use image::DynamicImage;

use super::Image;
use super::limits::unreadable;
use super::png_rows::PngRows;
use crate::error::DataError;

/// Rows that are read, and made floats of, at a time. Filters go over four rows at once, so that a multiple of four gives the
/// same bits.
pub(crate) const STRIP: usize = 64;

/// What is said of floating point that is no share.
const OUTSIDE: &str = "its floating point values lie outside 0 to 1, which is what is read; divide them by the largest there can be, \
                       or save them as whole numbers of 16 bits";

fn outside(values: &[f32]) -> bool {
    !values.iter().all(|value| (0.0..=1.0).contains(value))
}

/// An image whose samples have the depth that its file gives them. Floats of all of it would take four times the bytes of
/// 8-bit samples; [`Samples::next_rows`] makes them of a few rows at a time.
pub(crate) struct Samples<'a> {
    rows: Rows<'a>,
    /// Columns.
    pub(crate) width: usize,
    /// Rows.
    pub(crate) height: usize,
    /// 1 (grey) or 3 (RGB).
    pub(crate) channels: usize,
}

/// Where rows come from.
enum Rows<'a> {
    /// The whole image is here already, and so many rows of it were given out.
    Decoded(DynamicImage, usize),
    /// Grey floating point, which images have no type for.
    Floats(Vec<f32>, usize),
    /// They are decoded when they are asked for.
    Png(Box<PngRows<'a>>),
}

impl<'a> Samples<'a> {
    /// What a decoder made of the file `path`.
    ///
    /// # Errors
    /// [`DataError::Unreadable`] for a type of pixels that is not supported, and floats outside 0 to 1.
    pub(crate) fn of(path: &Path, decoded: DynamicImage) -> Result<Self, DataError> {
        use DynamicImage as Of;
        let (channels, wrong) = match &decoded {
            Of::ImageLuma8(_) | Of::ImageLumaA8(_) | Of::ImageLuma16(_) | Of::ImageLumaA16(_) => (1, false),
            Of::ImageRgb8(_) | Of::ImageRgba8(_) | Of::ImageRgb16(_) | Of::ImageRgba16(_) => (3, false),
            Of::ImageRgb32F(image) => (3, outside(image.as_raw())),
            Of::ImageRgba32F(image) => (3, image.pixels().any(|pixel| outside(&pixel.0[..3]))),
            other => return Err(unreadable(path, &format!("pixels of type {:?} are not supported", other.color()))),
        };
        if wrong {
            return Err(unreadable(path, OUTSIDE));
        }
        let (width, height) = (decoded.width() as usize, decoded.height() as usize);
        Ok(Self { width, height, channels, rows: Rows::Decoded(decoded, 0) })
    }

    /// Grey values in floating point.
    ///
    /// # Errors
    /// [`DataError::Unreadable`] for values outside 0 to 1.
    pub(crate) fn of_floats(path: &Path, width: u32, height: u32, values: Vec<f32>) -> Result<Self, DataError> {
        let (width, height) = (width as usize, height as usize);
        if values.len() != width * height {
            return Err(unreadable(path, "it has another number of values than its header says"));
        }
        if outside(&values) {
            return Err(unreadable(path, OUTSIDE));
        }
        Ok(Self { width, height, channels: 1, rows: Rows::Floats(values, 0) })
    }

    /// What a PNG will give.
    pub(crate) fn of_png(rows: PngRows<'a>) -> Self {
        let (width, height) = rows.dimensions();
        Self {
            width: width as usize,
            height: height as usize,
            channels: rows.channels(),
            rows: Rows::Png(Box::new(rows)),
        }
    }

    /// The next [`STRIP`] rows, or as many as there are left, without alpha.
    ///
    /// # Errors
    /// [`DataError::Unreadable`] if a file that is read meanwhile is damaged or ends early.
    pub(crate) fn next_rows(&mut self) -> Result<Image, DataError> {
        let (width, channels) = (self.width, self.channels);
        let (height, pixels) = match &mut self.rows {
            Rows::Decoded(image, given) => {
                let from = *given;
                *given = self.height.min(from + STRIP);
                (*given - from, floats(image, from * width..*given * width))
            }
            Rows::Floats(values, given) => {
                let from = *given;
                *given = self.height.min(from + STRIP);
                (*given - from, values[from * width..*given * width].to_vec())
            }
            Rows::Png(rows) => {
                let strip = rows.next(STRIP)?;
                let height = strip.height() as usize;
                (height, floats(&strip, 0..height * width))
            }
        };
        Ok(Image { width, height, channels, pixels })
    }

    /// All of it, if none was taken.
    ///
    /// # Errors
    /// As [`Samples::next_rows`].
    pub(crate) fn into_image(mut self) -> Result<Image, DataError> {
        let Self { width, height, channels, .. } = self;
        let mut pixels = Vec::with_capacity(width * height * channels);
        for _ in 0..height.div_ceil(STRIP) {
            pixels.extend(self.next_rows()?.pixels);
        }
        Ok(Image { width, height, channels, pixels })
    }
}

/// A stretch of the pixels of an image that [`Samples`] takes, without alpha.
fn floats(image: &DynamicImage, pixels: Range<usize>) -> Vec<f32> {
    use DynamicImage as Of;
    let byte = |value: u8| f32::from(value) / 255.0;
    let word = |value: u16| f32::from(value) / 65_535.0;
    match image {
        Of::ImageLuma8(image) => kept::<1, 1, _>(image.as_raw(), pixels, byte),
        Of::ImageLumaA8(image) => kept::<2, 1, _>(image.as_raw(), pixels, byte),
        Of::ImageRgb8(image) => kept::<3, 3, _>(image.as_raw(), pixels, byte),
        Of::ImageRgba8(image) => kept::<4, 3, _>(image.as_raw(), pixels, byte),
        Of::ImageLuma16(image) => kept::<1, 1, _>(image.as_raw(), pixels, word),
        Of::ImageLumaA16(image) => kept::<2, 1, _>(image.as_raw(), pixels, word),
        Of::ImageRgb16(image) => kept::<3, 3, _>(image.as_raw(), pixels, word),
        Of::ImageRgba16(image) => kept::<4, 3, _>(image.as_raw(), pixels, word),
        Of::ImageRgb32F(image) => kept::<3, 3, _>(image.as_raw(), pixels, |value| value),
        Of::ImageRgba32F(image) => kept::<4, 3, _>(image.as_raw(), pixels, |value| value),
        other => unreachable!("{:?} is refused by Samples::of", other.color()),
    }
}

/// The first `KEPT` of every `STORED` values of a stretch of pixels.
fn kept<const STORED: usize, const KEPT: usize, T: Copy>(
    raw: &[T],
    pixels: Range<usize>,
    float: impl Fn(T) -> f32,
) -> Vec<f32> {
    let raw = &raw[pixels.start * STORED..pixels.end * STORED];
    if STORED == KEPT {
        return raw.iter().map(|value| float(*value)).collect();
    }
    // A length that is known before keeps the vector from growing by halves.
    let mut values = Vec::with_capacity(raw.len() / STORED * KEPT);
    values.extend(raw.as_chunks::<STORED>().0.iter().flat_map(|pixel| &pixel[..KEPT]).map(|value| float(*value)));
    values
}
