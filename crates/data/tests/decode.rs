//! Image files of every kind, and files that are none.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use image::{DynamicImage, GrayAlphaImage, GrayImage, ImageBuffer, ImageFormat, Luma, Rgb, RgbImage, RgbaImage};
use kindling_data::{DataError, read_header, read_image};

fn save(dir: &Path, name: &str, image: impl Into<DynamicImage>) -> PathBuf {
    let path = dir.join(name);
    image.into().save(&path).unwrap();
    path
}

fn grey_16() -> ImageBuffer<Luma<u16>, Vec<u16>> {
    // Every low byte, so that any passage through 8 bits shows.
    ImageBuffer::from_fn(64, 32, |x, y| Luma([(y * 64 + x) as u16 * 32 + 7]))
}

#[test]
fn a_16_bit_png_keeps_its_16_bits() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["scan.png", "scan.tiff"] {
        let read = read_image(&save(dir.path(), name, grey_16())).unwrap();
        assert_eq!((read.width, read.height, read.channels), (64, 32, 1));
        for (value, original) in read.pixels.iter().zip(grey_16().as_raw()) {
            assert_eq!((value * 65_535.0).round() as u16, *original);
        }
        let colour = ImageBuffer::from_fn(9, 5, |x, y| Rgb([x as u16 * 257 + 1, y as u16 * 311, 65_535]));
        let read = read_image(&save(dir.path(), name, DynamicImage::ImageRgb16(colour.clone()))).unwrap();
        assert_eq!(read.channels, 3);
        let back: Vec<u16> = read.pixels.iter().map(|v| (v * 65_535.0).round() as u16).collect();
        assert_eq!(&back, colour.as_raw());
    }
}

#[test]
fn grey_and_colour_are_read_from_every_format_and_alpha_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let grey = GrayImage::from_fn(20, 10, |x, _| Luma([x as u8 * 12]));
    let colour = RgbImage::from_pixel(20, 10, Rgb([250, 128, 3]));
    for (name, tolerance) in [("a.png", 0.0), ("a.TIF", 0.0), ("a.jpg", 0.02)] {
        let path = save(dir.path(), name, grey.clone());
        let read = read_image(&path).unwrap();
        assert_eq!((read.width, read.height, read.channels), (20, 10, 1), "{name}");
        assert!((read.at(7, 3, 0) - 84.0 / 255.0).abs() <= tolerance);
        assert_eq!(read_header(&path).unwrap().channels, 1);

        let path = save(dir.path(), name, colour.clone());
        let read = read_image(&path).unwrap();
        assert_eq!(read.channels, 3, "{name}");
        assert!((read.at(7, 3, 0) - 250.0 / 255.0).abs() <= tolerance);
        let header = read_header(&path).unwrap();
        assert_eq!((header.width, header.height, header.channels), (20, 10, 3));
    }
    let alpha = RgbaImage::from_pixel(3, 3, image::Rgba([10, 20, 30, 0]));
    let read = read_image(&save(dir.path(), "alpha.png", alpha)).unwrap();
    assert_eq!(read.pixels, [10.0 / 255.0, 20.0 / 255.0, 30.0 / 255.0].repeat(9));
    let alpha = GrayAlphaImage::from_pixel(3, 3, image::LumaA([51, 0]));
    assert_eq!(read_image(&save(dir.path(), "la.png", alpha)).unwrap().pixels, [0.2; 9]);
}

#[test]
fn the_content_decides_the_format_not_the_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("really-a.jpg");
    grey_16().save_with_format(&path, ImageFormat::Png).unwrap();
    assert_eq!(read_image(&path).unwrap().width, 64);
}

#[test]
fn a_truncated_file_is_an_error_with_its_path() {
    let dir = tempfile::tempdir().unwrap();
    let noise = GrayImage::from_fn(200, 200, |x, y| Luma([(x * 31 + y * y * 17) as u8]));
    for name in ["cut.png", "cut.jpg", "cut.tif"] {
        let path = save(dir.path(), name, noise.clone());
        let bytes = fs::read(&path).unwrap();
        for share in [1, 5, 9] {
            fs::write(&path, &bytes[..bytes.len() * share / 10]).unwrap();
            let error = read_image(&path).expect_err(name);
            assert!(matches!(error, DataError::Unreadable { .. } | DataError::TooLarge { .. }), "{error}");
            assert!(error.to_string().contains(name));
        }
    }
}

#[test]
fn what_is_no_image_is_named_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let text = dir.path().join("a\nnewline.png");
    fs::write(&text, "hello").unwrap();
    let empty = dir.path().join("empty.png");
    fs::write(&empty, "").unwrap();
    let missing = dir.path().join("missing.png");
    for (path, reason) in [
        (&text, "it is not a PNG, JPEG, TIFF, GIF, BMP or WebP"),
        (&empty, "the file is empty"),
        (&missing, "No such file"),
        (&dir.path().to_owned(), "it is not a file"),
    ] {
        for error in [read_image(path).unwrap_err(), read_header(path).map(drop).unwrap_err()] {
            let error = error.to_string();
            assert!(error.contains(reason), "{error}");
            assert!(!error.contains('\n') && error.contains(&dir.path().display().to_string()), "{error}");
        }
    }
}

#[test]
fn floats_outside_0_to_1_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let float = |value| DynamicImage::ImageRgb32F(ImageBuffer::from_pixel(4, 4, Rgb([value, 0.5, 0.25])));
    assert_eq!(read_image(&save(dir.path(), "f.tif", float(1.0))).unwrap().at(0, 0, 0), 1.0);
    for value in [1200.0, -0.1, f32::NAN] {
        let error = read_image(&save(dir.path(), "f.tif", float(value))).unwrap_err();
        assert!(error.to_string().contains("outside 0 to 1"), "{error}");
    }
}

#[test]
fn damaged_files_are_errors_or_images_but_never_crashes() {
    use kindling_random::{Purpose, rng};
    use rand::RngExt;
    let dir = tempfile::tempdir().unwrap();
    let mut decoded = 0;
    for name in ["x.png", "x.jpg", "x.tif"] {
        let path = save(dir.path(), name, GrayImage::from_fn(24, 24, |x, y| Luma([(x * y) as u8])));
        let bytes = fs::read(&path).unwrap();
        for round in 0..400 {
            let mut rng = rng(0, Purpose::Display, 0, round);
            let mut damaged = bytes.clone();
            for _ in 0..1 + round % 4 {
                let at = rng.random::<u32>() as usize % damaged.len();
                damaged[at] = rng.random();
            }
            fs::write(&path, &damaged).unwrap();
            decoded += usize::from(read_image(&path).is_ok());
            let _ = read_header(&path);
        }
    }
    assert!(decoded < 1200, "damage was found in none");
}
