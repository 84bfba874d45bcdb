//! The description of the pixels in the header of a DICOM file.

use kindling_data::{MAX_PIXELS, MAX_SIDE};

use super::elements::Elements;
use super::tags;

/// The most images in a file.
const MAX_FRAMES: u32 = 1 << 20;

/// What stored values mean as colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Photometric {
    /// Grey, the lowest value white.
    Monochrome1,
    /// Grey, the lowest value black.
    Monochrome2,
    Rgb,
    /// Luma and chroma; `true` if two pixels share their chroma.
    Ybr(bool),
    /// RGB that JPEG 2000 has transformed, and transforms back.
    YbrOfJpeg2000,
    Palette,
}

/// The image pixel module (PS3.3, C.7.6.3).
#[derive(Clone, Debug)]
pub(crate) struct Header {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    /// Values of a pixel: 1 or 3.
    pub(crate) samples: usize,
    pub(crate) frames: usize,
    /// Bits that a value takes in the file: 1, 8, 16 or 32.
    pub(crate) allocated: u32,
    pub(crate) stored: u32,
    pub(crate) high_bit: u32,
    pub(crate) signed: bool,
    /// Whether channels are stored one after the other, and not interleaved.
    pub(crate) planar: bool,
    pub(crate) photometric: Photometric,
}

impl Header {
    /// Reads and checks the module among the elements of `bytes`.
    pub(crate) fn of(elements: &Elements, bytes: &[u8]) -> Result<Self, String> {
        let number = |tag, name: &str| elements.number(bytes, tag).ok_or_else(|| format!("it has no {name}"));
        for tag in [tags::FLOAT_PIXEL_DATA, tags::DOUBLE_FLOAT_PIXEL_DATA] {
            if elements.bytes(bytes, 0, tag).is_some() {
                return Err("its pixels are floating point numbers, which is not supported".to_owned());
            }
        }
        let rows = number(tags::ROWS, "Rows (there are no images in it)")?;
        let columns = number(tags::COLUMNS, "Columns")?;
        let area = u64::from(rows) * u64::from(columns);
        if area == 0 {
            return Err("it has no pixels".to_owned());
        }
        if u32::from(rows.max(columns)) > MAX_SIDE || area > MAX_PIXELS {
            let limit = format!("{MAX_SIDE} a side, {MAX_PIXELS} pixels");
            return Err(format!("it is too large ({columns} x {rows} pixels, the limit is {limit})"));
        }
        let samples = elements.number(bytes, tags::SAMPLES_PER_PIXEL).unwrap_or(1);
        let photometric = match elements.text(bytes, 0, tags::PHOTOMETRIC_INTERPRETATION).as_deref() {
            Some("MONOCHROME1") => Photometric::Monochrome1,
            Some("MONOCHROME2") => Photometric::Monochrome2,
            Some("RGB") => Photometric::Rgb,
            Some("YBR_FULL") => Photometric::Ybr(false),
            Some("YBR_FULL_422") => Photometric::Ybr(true),
            Some("YBR_ICT" | "YBR_RCT") => Photometric::YbrOfJpeg2000,
            Some("PALETTE COLOR") => Photometric::Palette,
            Some(other) => return Err(format!("the photometric interpretation {other:?} is not supported")),
            None => return Err("it has no PhotometricInterpretation".to_owned()),
        };
        let colours =
            !matches!(photometric, Photometric::Monochrome1 | Photometric::Monochrome2 | Photometric::Palette);
        if samples != if colours { 3 } else { 1 } {
            return Err(format!("{photometric:?} with {samples} samples per pixel is not valid"));
        }
        let allocated = u32::from(number(tags::BITS_ALLOCATED, "BitsAllocated")?);
        let stored = elements.number(bytes, tags::BITS_STORED).map_or(allocated, u32::from);
        let high_bit = elements.number(bytes, tags::HIGH_BIT).map_or(stored.saturating_sub(1), u32::from);
        if ![1, 8, 16, 32].contains(&allocated) || stored == 0 || stored > high_bit + 1 || high_bit >= allocated {
            return Err(format!(
                "values in {stored} of {allocated} bits, the highest of them bit {high_bit}, are not supported"
            ));
        }
        if allocated == 1 && samples != 1 {
            return Err("1-bit colours are not supported".to_owned());
        }
        let frames = match elements.text(bytes, 0, tags::NUMBER_OF_FRAMES) {
            None => 1,
            // Some files have a zero that means one.
            Some(text) => text
                .parse::<u32>()
                .map_err(|_| format!("its number of frames is {text:?}, which is not a number"))?
                .max(1),
        };
        if frames > MAX_FRAMES {
            return Err(format!("it declares {frames} images, and at most {MAX_FRAMES} are read"));
        }
        Ok(Self {
            rows: rows.into(),
            columns: columns.into(),
            samples: samples.into(),
            frames: frames as usize,
            allocated,
            stored,
            high_bit,
            signed: elements.number(bytes, tags::PIXEL_REPRESENTATION) == Some(1),
            planar: samples == 3 && elements.number(bytes, tags::PLANAR_CONFIGURATION) == Some(1),
            photometric,
        })
    }

    /// Samples of an image, all channels together.
    pub(crate) fn len(&self) -> usize {
        self.rows * self.columns * self.samples
    }

    /// The number of channels of the resulting image.
    pub(crate) fn channels(&self) -> usize {
        if self.photometric == Photometric::Palette { 3 } else { self.samples }
    }
}
