//! Many small pictures as one.

use crate::Image;

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
    use super::*;

    #[test]
    fn every_image_is_in_its_place() {
        let images: Vec<Image> = [0.1, 0.2, 0.3].map(|value| Image::filled(2, 1, 3, value)).into();
        let sheet = grid(&images, 2, 1, 0.9);
        assert_eq!((sheet.width, sheet.height, sheet.channels), (7, 5, 3));
        assert_eq!((sheet.at(1, 1, 0), sheet.at(2, 1, 2), sheet.at(4, 1, 1), sheet.at(1, 3, 0)), (0.1, 0.1, 0.2, 0.3));
        assert_eq!((sheet.at(0, 0, 0), sheet.at(3, 1, 0), sheet.at(4, 3, 0)), (0.9, 0.9, 0.9));
    }
}
