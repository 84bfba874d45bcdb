//! Pictures of masks: as they are, to lie over an image, and where two differ.

use image::{DynamicImage, GrayImage, RgbaImage};

use super::mask::{IGNORED, Mask};
use super::picture::{encoded, shrunk};
use crate::error::DataError;

/// Colours that people who do not see all colours can tell apart too (Okabe and Ito 2008), without the black one.
const COLOURS: [[u8; 3]; 7] = [
    [0xE6, 0x9F, 0x00],
    [0x56, 0xB4, 0xE9],
    [0x00, 0x9E, 0x73],
    [0xF0, 0xE4, 0x42],
    [0x00, 0x72, 0xB2],
    [0xD5, 0x5E, 0x00],
    [0xCC, 0x79, 0xA7],
];
/// How much of an area is its colour, of 255; its outline is nothing else.
const FILL: u8 = 88;

/// What [`difference_overlay_png`] shows in which colour (red, green, blue).
pub const DIFFERENCE_COLOURS: [(&str, [u8; 3]); 3] =
    [("missed", COLOURS[5]), ("falsely found", COLOURS[4]), ("wrong class", COLOURS[6])];

/// The colour (red, green, blue) that a class has in pictures, another one for each; of class 0 there is nothing to be seen.
pub fn class_colour(class: u8) -> [u8; 3] {
    let place = class.saturating_sub(1);
    let (colour, round) = (COLOURS[usize::from(place) % COLOURS.len()], place / COLOURS.len() as u8);
    // After the first round they are paler and darker by turns, each time halfway between what was (van der Corput's sequence).
    let share = f32::from(round.reverse_bits()) / 256.0;
    let to = if round % 2 == 1 { 255.0 } else { 60.0 };
    colour.map(|value| (f32::from(value) + share * (to - f32::from(value))) as u8)
}

/// The mask as an 8-bit grey PNG of class indices, which says exactly what it is and looks black.
///
/// # Errors
/// [`DataError::Encode`], for a mask whose size and classes disagree.
pub fn mask_png(mask: &Mask) -> Result<Vec<u8>, DataError> {
    let picture = GrayImage::from_raw(mask.width as u32, mask.height as u32, mask.classes.clone());
    encoded(picture.map(DynamicImage::ImageLuma8))
}

/// The mask as an RGBA picture to lie over its image, its longer side scaled down to `side` pixels if it is longer: each class an area of
/// its colour with an outline, and nothing where there is background or nothing counts.
///
/// # Errors
/// [`DataError::Encode`], for a mask whose size and classes disagree.
pub fn mask_overlay_png(mask: &Mask, side: usize) -> Result<Vec<u8>, DataError> {
    overlay(&[mask], side, |[class]| if class == 0 || class == IGNORED { None } else { Some(class_colour(class)) })
}

/// Where a prediction differs from the truth, as [`mask_overlay_png`], in the colours of [`DIFFERENCE_COLOURS`]. Nothing where they agree,
/// and where the truth is not to count.
///
/// # Errors
/// [`DataError::Encode`], for masks whose sizes differ or disagree with their classes.
pub fn difference_overlay_png(truth: &Mask, prediction: &Mask, side: usize) -> Result<Vec<u8>, DataError> {
    let [missed, false_alarm, confused] = DIFFERENCE_COLOURS.map(|(_, colour)| colour);
    overlay(&[truth, prediction], side, |[truth, prediction]| match (truth, prediction) {
        (IGNORED, _) => None,
        _ if truth == prediction => None,
        (_, 0 | IGNORED) => Some(missed),
        (0, _) => Some(false_alarm),
        _ => Some(confused),
    })
}

/// Areas of one colour with outlines, where `colour` of the classes of masks of one size gives any.
fn overlay<const M: usize>(
    masks: &[&Mask; M],
    side: usize,
    colour: impl Fn([u8; M]) -> Option<[u8; 3]>,
) -> Result<Vec<u8>, DataError> {
    let (width, height) = (masks[0].width, masks[0].height);
    let is_whole = |mask: &&Mask| (mask.width, mask.height, mask.classes.len()) == (width, height, width * height);
    if !masks.iter().all(is_whole) || width * height == 0 {
        return Err(DataError::Encode { reason: "the sizes of masks and their pixels disagree".to_owned() });
    }
    let (width, height) = shrunk(width, height, side.max(1));
    let scaled = masks.map(|mask| mask.scaled(width, height));
    let colours: Vec<Option<[u8; 3]>> =
        (0..width * height).map(|at| colour(scaled.each_ref().map(|mask| mask.classes[at]))).collect();
    let mut pixels = Vec::with_capacity(4 * width * height);
    for (at, colour) in colours.iter().enumerate() {
        let [red, green, blue] = colour.unwrap_or_default();
        let alpha = match colour {
            None => 0,
            Some(_) if is_outline(&colours, width, at) => 255,
            Some(_) => FILL,
        };
        pixels.extend([red, green, blue, alpha]);
    }
    encoded(RgbaImage::from_raw(width as u32, height as u32, pixels).map(DynamicImage::ImageRgba8))
}

/// Whether one of the four neighbours of a place, of rows of `width`, has something else. The edge of the picture is no neighbour.
pub(crate) fn is_outline<T: PartialEq>(values: &[T], width: usize, at: usize) -> bool {
    let x = at % width;
    let neighbours = [
        (x > 0).then(|| at - 1),
        (x + 1 < width).then_some(at + 1),
        at.checked_sub(width),
        Some(at + width).filter(|below| *below < values.len()),
    ];
    neighbours.into_iter().flatten().any(|neighbour| values[neighbour] != values[at])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;

    use super::*;

    fn read(png: &[u8]) -> RgbaImage {
        image::load_from_memory_with_format(png, image::ImageFormat::Png).unwrap().to_rgba8()
    }

    /// A square of a class in the middle of background.
    fn square(side: usize, class: u8) -> Mask {
        let inside = |at: usize| [at % side, at / side].iter().all(|place| (side / 4..side * 3 / 4).contains(place));
        Mask { width: side, height: side, classes: (0..side * side).map(|at| u8::from(inside(at)) * class).collect() }
    }

    #[test]
    fn a_mask_comes_back_from_its_picture() {
        let mask = Mask { width: 5, height: 2, classes: vec![0, 1, 2, 3, 254, IGNORED, 0, 9, 8, 7] };
        let back = image::load_from_memory(&mask_png(&mask).unwrap()).unwrap();
        assert_eq!((back.color(), back.into_luma8().into_raw()), (image::ColorType::L8, mask.classes.clone()));
        assert!(matches!(mask_png(&Mask { width: 9, ..mask }), Err(DataError::Encode { .. })));
    }

    #[test]
    fn every_class_has_a_colour_of_its_own() {
        let colours: BTreeSet<[u8; 3]> = (1..IGNORED).map(class_colour).collect();
        assert_eq!(colours.len(), 254);
        assert_eq!(class_colour(1), COLOURS[0]);
    }

    #[test]
    fn an_overlay_shows_areas_with_outlines_and_nothing_of_the_background() {
        let picture = read(&mask_overlay_png(&square(16, 2), 100).unwrap());
        let [red, green, blue] = class_colour(2);
        assert_eq!(picture.dimensions(), (16, 16));
        assert_eq!(picture.get_pixel(0, 0).0, [0; 4]);
        assert_eq!(picture.get_pixel(3, 8).0, [0; 4], "the outline lies inside");
        assert_eq!(picture.get_pixel(4, 8).0, [red, green, blue, 255]);
        assert_eq!(picture.get_pixel(8, 8).0, [red, green, blue, FILL]);
        let ignored = read(&mask_overlay_png(&square(16, IGNORED), 100).unwrap());
        assert!(ignored.pixels().all(|pixel| pixel.0 == [0; 4]));
        let whole = read(&mask_overlay_png(&Mask::filled(4, 4, 1), 9).unwrap());
        assert!(whole.pixels().all(|pixel| pixel.0[3] == FILL), "the edge of the picture is no outline");
        let small = read(&mask_overlay_png(&Mask::filled(300, 100, 1), 60).unwrap());
        assert_eq!(small.dimensions(), (60, 20));
        assert!(mask_overlay_png(&Mask { height: 3, ..square(4, 1) }, 9).is_err());
    }

    #[test]
    fn a_difference_shows_what_was_missed_and_falsely_found_and_confused() {
        let of = |classes: &[u8]| Mask { width: 6, height: 1, classes: classes.to_vec() };
        let picture = read(&difference_overlay_png(&of(&[0, 1, 1, 0, 1, 255]), &of(&[0, 1, 0, 2, 2, 1]), 9).unwrap());
        let found: Vec<Option<[u8; 3]>> =
            picture.pixels().map(|pixel| (pixel.0[3] > 0).then(|| [pixel.0[0], pixel.0[1], pixel.0[2]])).collect();
        let [missed, false_alarm, confused] = DIFFERENCE_COLOURS.map(|(_, colour)| Some(colour));
        assert_eq!(found, [None, None, missed, false_alarm, confused, None]);
        assert!(difference_overlay_png(&square(4, 1), &square(8, 1), 9).is_err());
    }
}
