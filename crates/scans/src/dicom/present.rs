//! Turns stored values into an image as a viewer would show it: grey or RGB, in `[0, 1]`.

use kindling_data::Image;

use super::codec::Stored;
use super::file::DicomFile;
use super::header::{Header, Photometric};
use super::tags::{self, Tag};
use crate::Window;

/// The shape of a window function (PS3.3, C.11.2.1.2 and C.11.2.1.3).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Shape {
    Linear,
    LinearExact,
    Sigmoid,
}

/// The image of stored values: they are rescaled, and then the window of the user, of the file, or, without one, the whole range of the
/// stored bits is mapped to `[0, 1]`.
pub(crate) fn present(
    file: &DicomFile,
    header: &Header,
    frame: usize,
    stored: &Stored,
    window: Option<Window>,
) -> Result<Image, String> {
    let (width, height) = (header.columns, header.rows);
    match header.photometric {
        Photometric::Monochrome1 | Photometric::Monochrome2 => {
            let grey = Grey::of(file, header, frame, window)?;
            let inverted = header.photometric == Photometric::Monochrome1;
            let pixels = stored.values().map(|value| grey.of_value(value));
            let pixels = pixels.map(|value| if inverted { 1.0 - value } else { value } as f32).collect();
            Ok(Image::from_f32(width, height, 1, pixels))
        }
        Photometric::Rgb | Photometric::YbrOfJpeg2000 => {
            let full = ((1u64 << header.stored) - 1) as f64;
            let pixels = stored.values().map(|value| (value as f64 / full) as f32).collect();
            Ok(Image::from_f32(width, height, 3, pixels))
        }
        Photometric::Ybr(_) => {
            let full = ((1u64 << header.stored) - 1) as f64;
            let values: Vec<f64> = stored.values().map(|value| value as f64 / full).collect();
            let half = (1u64 << (header.stored - 1)) as f64 / full;
            let pixels = values.chunks_exact(3).flat_map(|p| rgb_of(p[0], p[1] - half, p[2] - half)).collect();
            Ok(Image::from_f32(width, height, 3, pixels))
        }
        Photometric::Palette => palette(file, header, stored),
    }
}

/// RGB of luma and centred chroma (PS3.3, C.7.6.3.1.2).
fn rgb_of(y: f64, blue: f64, red: f64) -> [f32; 3] {
    [y + 1.402 * red, y - 0.344136 * blue - 0.714136 * red, y + 1.772 * blue].map(|value| value as f32)
}

/// Maps a stored value to `[0, 1]`.
struct Grey {
    slope: f64,
    intercept: f64,
    window: Window,
    shape: Shape,
}

impl Grey {
    fn of(file: &DicomFile, header: &Header, frame: usize, asked: Option<Window>) -> Result<Self, String> {
        let (elements, bytes) = (&file.elements, file.bytes.as_slice());
        if !elements.items(0, tags::MODALITY_LUT_SEQUENCE).is_empty() {
            return Err("it has a Modality LUT, which is not supported".to_owned());
        }
        let first = |item, tag| elements.decimals(bytes, item, tag).and_then(|numbers| numbers.first().copied());
        let scaled = place_of(file, frame, tags::PIXEL_VALUE_TRANSFORMATION_SEQUENCE, tags::RESCALE_SLOPE);
        let slope = first(scaled, tags::RESCALE_SLOPE).unwrap_or(1.0);
        let intercept = first(scaled, tags::RESCALE_INTERCEPT).unwrap_or(0.0);

        let windowed = place_of(file, frame, tags::FRAME_VOI_LUT_SEQUENCE, tags::WINDOW_CENTER);
        let own = first(windowed, tags::WINDOW_CENTER).zip(first(windowed, tags::WINDOW_WIDTH));
        let shape = match elements.text(bytes, windowed, tags::VOI_LUT_FUNCTION).as_deref() {
            Some("SIGMOID") => Shape::Sigmoid,
            Some("LINEAR_EXACT") => Shape::LinearExact,
            _ => Shape::Linear,
        };
        let valid = |shape: Shape, width: f64| if shape == Shape::Linear { width >= 1.0 } else { width > 0.0 };
        Ok(match (asked, own) {
            (Some(window), _) => Self { slope, intercept, window, shape: Shape::LinearExact },
            (None, Some((centre, width))) if valid(shape, width) => {
                Self { slope, intercept, window: Window { centre, width }, shape }
            }
            _ => {
                let levels = (1u64 << header.stored) as f64;
                let lowest = if header.signed { -levels / 2.0 } else { 0.0 };
                let (one, other) = (lowest * slope + intercept, (lowest + levels - 1.0) * slope + intercept);
                let window = Window { centre: (one + other) / 2.0, width: (other - one).abs().max(f64::MIN_POSITIVE) };
                Self { slope, intercept, window, shape: Shape::LinearExact }
            }
        })
    }

    fn of_value(&self, value: i64) -> f64 {
        self.window.apply(value as f64 * self.slope + self.intercept, self.shape)
    }
}

impl Window {
    /// A value in `[0, 1]`.
    pub(crate) fn apply(self, value: f64, shape: Shape) -> f64 {
        let Self { centre, width } = self;
        match shape {
            Shape::Sigmoid => 1.0 / (1.0 + (-4.0 * (value - centre) / width).exp()),
            Shape::LinearExact => ((value - centre) / width + 0.5).clamp(0.0, 1.0),
            Shape::Linear if width <= 1.0 => f64::from(u8::from(value > centre - 0.5)),
            Shape::Linear => ((value - (centre - 0.5)) / (width - 1.0) + 0.5).clamp(0.0, 1.0),
        }
    }
}

/// The item that describes an image: the functional group of the image, the shared one, or the data set.
pub(super) fn place_of(file: &DicomFile, frame: usize, sequence: Tag, tag: Tag) -> usize {
    let mut said = described_in(file, frame, sequence).into_iter().flatten().copied();
    said.find(|&item| file.elements.bytes(&file.bytes, item, tag).is_some()).unwrap_or(0)
}

/// The items of a sequence that describe an image: those of the functional group of the image, and those of the shared one.
pub(super) fn described_in(file: &DicomFile, frame: usize, sequence: Tag) -> [&[usize]; 2] {
    let elements = &file.elements;
    let own = elements.items(0, tags::PER_FRAME_FUNCTIONAL_GROUPS_SEQUENCE).get(frame);
    let shared = elements.items(0, tags::SHARED_FUNCTIONAL_GROUPS_SEQUENCE).first();
    [own, shared].map(|group| group.map_or(&[][..], |group| elements.items(*group, sequence)))
}

/// Colours from a palette (PS3.3, C.7.6.3.1.5).
fn palette(file: &DicomFile, header: &Header, stored: &Stored) -> Result<Image, String> {
    let (elements, bytes) = (&file.elements, file.bytes.as_slice());
    let mut tables = Vec::with_capacity(3);
    for colour in 0..3 {
        let next = |tag: Tag| Tag(tag.0, tag.1 + colour);
        let descriptor = elements.words(bytes, 0, next(tags::PALETTE_DESCRIPTOR));
        let Some([count, first, bits]) = descriptor.as_deref() else {
            return Err("its palette has no descriptor".to_owned());
        };
        let count = if *count == 0 { 65_536 } else { usize::from(*count) };
        let first = if header.signed { i64::from(*first as i16) } else { i64::from(*first) };
        let data = elements.bytes(bytes, 0, next(tags::PALETTE_DATA)).ok_or("its palette has no data")?;
        let words = elements.words(bytes, 0, next(tags::PALETTE_DATA)).unwrap_or_default();
        let full = if *bits == 8 { 255.0 } else { 65_535.0 };
        let table: Vec<f32> = if *bits == 8 && data.len() < 2 * count {
            data.iter().map(|&value| f32::from(value) / full).collect()
        } else {
            words.iter().map(|&value| f32::from(value) / full).collect()
        };
        if table.len() < count || count == 0 {
            return Err(format!("its palette has {} entries instead of {count}", table.len()));
        }
        tables.push((first, table, count));
    }
    let pixels = stored.values().flat_map(|value| {
        tables.iter().map(move |(first, table, count)| table[(value - first).clamp(0, *count as i64 - 1) as usize])
    });
    Ok(Image::from_f32(header.columns, header.rows, 3, pixels.collect()))
}
