//! Pictures to look at: small PNGs for reports, and many images as one.

use std::io::Cursor;

use image::{DynamicImage, GrayImage, ImageFormat, RgbImage, RgbaImage};

use super::Image;
use super::preprocess::{Interpolation, scale};
use crate::error::DataError;

/// The image as an 8-bit PNG, grey or RGB, with its longer side scaled down to `max_side` pixels if it is longer.
///
/// # Errors
/// [`DataError::Encode`], for an image whose shape and pixels disagree.
pub fn png_of(image: &Image, max_side: usize) -> Result<Vec<u8>, DataError> {
    encoded(to_8_bit(&shrink(image, max_side)))
}

/// A picture as PNG; none is one whose shape and pixels disagree.
///
/// # Errors
/// [`DataError::Encode`].
pub(super) fn encoded(picture: Option<DynamicImage>) -> Result<Vec<u8>, DataError> {
    let refused = |reason| DataError::Encode { reason };
    let picture = picture.ok_or_else(|| refused("the picture's shape and pixels disagree".to_owned()))?;
    let mut png = Vec::new();
    picture.write_to(&mut Cursor::new(&mut png), ImageFormat::Png).map_err(|error| refused(error.to_string()))?;
    Ok(png)
}

/// A map of shares, 0 to 1, as an RGBA picture to lie over an image: nothing where they are 0, yellow, and red where they are 1. It has
/// a pixel a place; whoever shows it stretches it.
///
/// # Errors
/// [`DataError::Encode`], for a map whose shape and values disagree.
pub fn overlay_png(width: usize, height: usize, shares: &[f32]) -> Result<Vec<u8>, DataError> {
    let colour = |share: &f32| {
        let share = share.clamp(0.0, 1.0);
        [255, byte(0.8 * (1.0 - share)), 0, byte(0.75 * share)]
    };
    let pixels = shares.iter().flat_map(colour).collect();
    encoded(RgbaImage::from_raw(width as u32, height as u32, pixels).map(DynamicImage::ImageRgba8))
}

/// The image with its longer side at most `max_side`.
fn shrink(image: &Image, max_side: usize) -> Image {
    let (width, height) = shrunk(image.width, image.height, max_side);
    scale(image, width, height, Interpolation::Bilinear)
}

/// The size of a picture whose longer side is to be at most `max_side`.
pub(super) fn shrunk(width: usize, height: usize, max_side: usize) -> (usize, usize) {
    let longer = width.max(height);
    if longer <= max_side {
        return (width, height);
    }
    let side = |pixels: usize| ((pixels * max_side) as f64 / longer as f64).round().max(1.0) as usize;
    (side(width), side(height))
}

fn to_8_bit(image: &Image) -> Option<DynamicImage> {
    let (width, height) = (image.width as u32, image.height as u32);
    let bytes = image.pixels.iter().map(|&value| byte(value)).collect();
    match image.channels {
        1 => GrayImage::from_raw(width, height, bytes).map(DynamicImage::ImageLuma8),
        _ => RgbImage::from_raw(width, height, bytes).map(DynamicImage::ImageRgb8),
    }
}

/// A value in `[0, 1]` as the nearest of 256 levels.
pub(crate) fn byte(value: f32) -> u8 {
    (value * 255.0).round() as u8
}

/// Images of one size and colour side by side, `columns` in a row, `gap` pixels of `paper` between them and around.
///
/// # Panics
/// If there are none, or they are not all alike.
pub fn grid(images: &[Image], columns: usize, gap: usize, paper: f32) -> Image {
    let first = images.first().expect("a grid has images");
    let (side_x, side_y, channels) = (first.width, first.height, first.channels);
    let columns = columns.clamp(1, images.len());
    let rows = images.len().div_ceil(columns);
    let (width, height) = (gap + columns * (side_x + gap), gap + rows * (side_y + gap));
    let mut sheet = Image::filled(width, height, channels, paper);
    for (place, image) in images.iter().enumerate() {
        assert_eq!(
            (image.width, image.height, image.channels),
            (side_x, side_y, channels),
            "images of a grid are alike"
        );
        let (left, top) = (gap + place % columns * (side_x + gap), gap + place / columns * (side_y + gap));
        for (y, line) in image.pixels.chunks_exact(side_x * channels).enumerate() {
            let start = ((top + y) * width + left) * channels;
            sheet.pixels[start..start + line.len()].copy_from_slice(line);
        }
    }
    sheet
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn thumbnails_are_small_pngs_of_the_same_shape_and_colour() {
        for (channels, value) in [(1, 0.2), (3, 0.6)] {
            let png = png_of(&Image::filled(300, 100, channels, value), 96).unwrap();
            let back = image::load_from_memory_with_format(&png, ImageFormat::Png).unwrap();
            assert_eq!((back.width(), back.height()), (96, 32));
            assert_eq!(usize::from(back.color().channel_count()), channels);
            assert!(back.to_rgb8().pixels().all(|pixel| pixel.0 == [byte(value); 3]));
        }
        let small = png_of(&Image::filled(5, 4, 1, 0.0), 96).unwrap();
        assert_eq!(image::load_from_memory(&small).unwrap().width(), 5);
        let broken = Image { width: 9, ..Image::filled(5, 4, 1, 0.0) };
        assert!(matches!(png_of(&broken, 96), Err(DataError::Encode { .. })));
    }

    #[test]
    fn a_map_covers_what_it_is_sure_of_and_leaves_the_rest_to_be_seen() {
        let png = overlay_png(3, 1, &[0.0, 0.5, 1.0]).unwrap();
        let back = image::load_from_memory_with_format(&png, ImageFormat::Png).unwrap().to_rgba8();
        let pixels: Vec<[u8; 4]> = back.pixels().map(|pixel| pixel.0).collect();
        assert_eq!(pixels, [[255, 204, 0, 0], [255, 102, 0, 96], [255, 0, 0, 191]]);
        assert!(matches!(overlay_png(2, 2, &[0.5]), Err(DataError::Encode { .. })));
    }

    #[test]
    fn every_image_is_in_its_place() {
        let images: Vec<Image> = [0.1, 0.2, 0.3].map(|value| Image::filled(2, 1, 3, value)).into();
        let sheet = grid(&images, 2, 1, 0.9);
        assert_eq!((sheet.width, sheet.height, sheet.channels), (7, 5, 3));
        assert_eq!((sheet.at(1, 1, 0), sheet.at(2, 1, 2), sheet.at(4, 1, 1), sheet.at(1, 3, 0)), (0.1, 0.1, 0.2, 0.3));
        assert_eq!((sheet.at(0, 0, 0), sheet.at(3, 1, 0), sheet.at(4, 3, 0)), (0.9, 0.9, 0.9));
    }
}
