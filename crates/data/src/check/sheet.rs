//! Contact sheets: a grid of samples by class, to look at before training on them.

use std::path::Path;

use image::{ImageFormat, Rgb, RgbImage};

use super::outlines;
use crate::decode::{Image, Mask, Normalisation, Preprocess, byte};
use crate::error::DataError;
use crate::loader::Loader;
use crate::source::{Source, Task, guarded};

/// Between cells and at the edge, in pixels.
const GAP: u32 = 8;
/// The height of a caption, in pixels: a letter is 8 x 8.
const CAPTION: u32 = 20;
const PAPER: Rgb<u8> = Rgb([24, 24, 27]);
const INK: Rgb<u8> = Rgb([228, 228, 231]);

/// A row (or more) of a sheet: images under one caption.
#[derive(Clone, Debug)]
pub struct Group {
    /// Drawn above the images; what does not fit is cut off.
    pub caption: String,
    /// Square images of one size, in `[0, 1]`.
    pub images: Vec<Image>,
}

/// The first `per_class` samples of each class of a source, fitted to `side` pixels, captioned with the class and how
/// many samples it has.
///
/// # Errors
/// The first sample that cannot be read, or [`DataError::NoSamples`].
pub fn groups_of(
    source: &dyn Source,
    classes: &[String],
    per_class: usize,
    side: usize,
) -> Result<Vec<Group>, DataError> {
    if source.is_empty() {
        return Err(DataError::NoSamples { purpose: "draw" });
    }
    let fit = Preprocess::padded(side, 3, Normalisation::identity(3));
    let of_class = |label: usize| (0..source.len()).filter(move |&index| source.label(index) == label);
    let group = |(label, class): (usize, &String)| {
        let images = of_class(label)
            .take(per_class)
            .map(|index| guarded(source, index, || Ok(fit.fit(&source.read(index)?))))
            .collect::<Result<_, _>>()?;
        Ok(Group { caption: format!("{class} ({})", of_class(label).count()), images })
    };
    classes.iter().enumerate().map(group).collect()
}

/// The first `per_class` samples that each class but the background occurs in, with the outlines of all classes in their colours, fitted
/// to `side` pixels; those that are all background come last. Where it is not known which classes a mask has, the first samples.
///
/// # Errors
/// The first sample or mask that cannot be read, or [`DataError::NoSamples`].
pub fn masked_groups_of(
    source: &dyn Source,
    classes: &[String],
    per_class: usize,
    side: usize,
) -> Result<Vec<Group>, DataError> {
    if source.is_empty() {
        return Err(DataError::NoSamples { purpose: "draw" });
    }
    let fit = Preprocess::padded(side, 3, Normalisation::identity(3));
    let outlined = |index: usize| {
        guarded(source, index, || {
            let (mut image, mask) = source.read_with_mask(index, &fit)?;
            outlines::draw(&mut image, &mask);
            Ok(image)
        })
    };
    let mut groups = Vec::new();
    let mut add = |caption: &str, is_in: &dyn Fn(&[usize]) -> bool| {
        let found: Vec<usize> = (0..source.len()).filter(|&index| is_in(&source.labels(index))).collect();
        if !found.is_empty() {
            let images = found.iter().take(per_class).map(|&index| outlined(index)).collect::<Result<_, _>>()?;
            groups.push(Group { caption: format!("{caption} ({})", found.len()), images });
        }
        Ok::<(), DataError>(())
    };
    for (class, name) in classes.iter().enumerate().skip(1) {
        add(name, &|labels| labels.contains(&class))?;
    }
    add("all background", &|labels| labels == [0])?;
    add("all classes", &<[usize]>::is_empty)?;
    Ok(groups)
}

/// What the model will see: of each class the first `per_class` samples of a loader's source, one row a sample and one column
/// an epoch, augmented and mixed as in training, and put back into `[0, 1]`. Batches are those of the loader, so mixed images
/// are mixed with whom they will be mixed with. Of images with masks the first ones that have anything in them are shown, with outlines.
///
/// # Errors
/// The first sample that cannot be read.
pub fn augmented_groups(
    loader: &Loader,
    preprocess: &Preprocess,
    classes: &[String],
    per_class: usize,
    columns: usize,
    side: usize,
) -> Result<Vec<Group>, DataError> {
    let source = loader.source();
    let masked = loader.task() == Task::Segmentation;
    let is_shown = |index: &usize| !masked || source.labels(*index) != [0];
    let of_class = |label: usize| (0..source.len()).filter(move |&index| source.label(index) == label).filter(is_shown);
    let chosen: Vec<(usize, u64)> = (0..classes.len())
        .flat_map(|label| of_class(label).take(per_class).map(move |index| (label, index as u64)))
        .collect();
    let fit = Preprocess::padded(side, 3, Normalisation::identity(3));
    let mut rows: Vec<Vec<Image>> = vec![Vec::new(); chosen.len()];
    for epoch in 0..columns as u64 {
        for batch in loader.epoch(epoch, 0) {
            let batch = batch?;
            for (place, sample) in batch.samples.iter().enumerate() {
                let row = chosen.iter().position(|(_, index)| index == sample);
                // A sample that is drawn twice in an epoch is shown once.
                if let Some(row) = row.and_then(|row| rows.get_mut(row)).filter(|row| row.len() as u64 <= epoch) {
                    let mut image = fit.fit(&preprocess.to_image(batch.images_of(place..place + 1)));
                    if let Some(classes) = batch.masks_of(place..place + 1) {
                        let [_, _, height, width] = batch.shape;
                        let mask = Mask { width, height, classes: classes.to_vec() };
                        outlines::draw(&mut image, &fit.fit_mask(&mask));
                    }
                    row.push(image);
                }
            }
            if rows.iter().all(|row| row.len() as u64 > epoch) {
                break;
            }
        }
    }
    if masked {
        let caption = "with outlines: an epoch a column".to_owned();
        return Ok(vec![Group { caption, images: rows.concat() }]);
    }
    let group = |(label, class): (usize, &String)| {
        let own = chosen.iter().zip(&rows).filter(|((of, _), _)| *of == label);
        Group { caption: format!("{class}: an epoch a column"), images: own.flat_map(|(_, row)| row.clone()).collect() }
    };
    Ok(classes.iter().enumerate().map(group).collect())
}

/// Draws groups one below the other, `columns` images wide.
pub fn draw(groups: &[Group], columns: usize) -> RgbImage {
    let columns = columns.max(1);
    let side = groups.iter().flat_map(|group| &group.images).map(|image| image.width).max().unwrap_or(1) as u32;
    let rows = |group: &Group| group.images.len().div_ceil(columns) as u32;
    let width = GAP + columns as u32 * (side + GAP);
    let height = GAP + groups.iter().map(|group| CAPTION + rows(group) * (side + GAP)).sum::<u32>();

    let mut sheet = RgbImage::from_pixel(width, height, PAPER);
    let mut top = GAP;
    for group in groups {
        write_text(&mut sheet, GAP, top + 4, &group.caption);
        top += CAPTION;
        for (place, image) in group.images.iter().enumerate() {
            let (row, column) = ((place / columns) as u32, (place % columns) as u32);
            paste(&mut sheet, image, GAP + column * (side + GAP), top + row * (side + GAP));
        }
        top += rows(group) * (side + GAP);
    }
    sheet
}

/// Writes a sheet as PNG.
///
/// # Errors
/// [`DataError::Io`] with the path.
pub fn write_png(sheet: &RgbImage, path: &Path) -> Result<(), DataError> {
    sheet.save_with_format(path, ImageFormat::Png).map_err(|error| match error {
        image::ImageError::IoError(cause) => DataError::Io { path: path.to_owned(), cause },
        other => DataError::Encode { reason: other.to_string() },
    })
}

fn paste(sheet: &mut RgbImage, image: &Image, left: u32, top: u32) {
    for (place, pixel) in image.pixels.chunks_exact(image.channels).enumerate() {
        let (x, y) = (left + (place % image.width) as u32, top + (place / image.width) as u32);
        let of = |channel: usize| byte(pixel[channel.min(image.channels - 1)]);
        if let Some(target) = sheet.get_pixel_mut_checked(x, y) {
            *target = Rgb([of(0), of(1), of(2)]);
        }
    }
}

fn write_text(sheet: &mut RgbImage, left: u32, top: u32, text: &str) {
    for (place, letter) in text.chars().enumerate() {
        for (y, line) in glyph(letter).into_iter().enumerate() {
            for x in (0..8).filter(|bit| line >> bit & 1 == 1) {
                let at = (left + place as u32 * 8 + x, top + y as u32);
                if let Some(target) = sheet.get_pixel_mut_checked(at.0, at.1) {
                    *target = INK;
                }
            }
        }
    }
}

/// The bitmap of a letter, lowest bit leftmost; what the font lacks is a question mark.
fn glyph(letter: char) -> [u8; 8] {
    let (basic, latin) = (font8x8::legacy::BASIC_LEGACY, font8x8::legacy::LATIN_LEGACY);
    match letter as usize {
        code @ 0..0x80 => basic[code],
        code @ 0xA0..0x100 => latin[code - 0xA0],
        _ => basic[usize::from(b'?')],
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_sheet_has_a_caption_and_rows_for_each_group() {
        let group = |count, value| Group {
            caption: "näme (?) \u{4e2d}".to_owned(),
            images: vec![Image::filled(40, 40, 1, value); count],
        };
        let sheet = draw(&[group(5, 1.0), group(2, 0.5)], 3);
        assert_eq!(sheet.dimensions(), (8 + 3 * 48, 8 + 2 * 20 + 3 * 48));
        assert_eq!(sheet.get_pixel(8 + 48, 8 + 20).0, [255; 3]);
        assert_eq!(sheet.get_pixel(8, 8 + 2 * 20 + 2 * 48).0, [128; 3]);
        let caption = image::imageops::crop_imm(&sheet, 0, 0, 80, 28).to_image();
        assert!(caption.pixels().any(|pixel| *pixel == INK));
        assert_eq!(draw(&[], 0).dimensions(), (17, 8));
    }

    #[test]
    fn a_sheet_that_cannot_be_written_says_where() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("missing").join("sheet.png");
        let error = write_png(&draw(&[], 1), &path).unwrap_err().to_string();
        assert!(error.contains("sheet.png"), "{error}");
        write_png(&draw(&[], 1), &dir.path().join("sheet.png")).unwrap();
    }
}
