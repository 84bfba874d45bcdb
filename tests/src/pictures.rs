//! Small image folders, made on the spot and the same every time.

use std::path::Path;

use image::GrayImage;
use rand::RngExt;

use crate::random::rng;

/// The classes of [`picture_folder`], in the order the command numbers them.
pub const CLASSES: [&str; 3] = ["bright", "dark", "striped"];

const WIDTH: u32 = 48;
const HEIGHT: u32 = 40;

/// The `index`-th picture of a class: bright, dark or striped, with noise; 48 x 40 grey pixels.
///
/// # Panics
/// If there is no such class.
pub fn picture(class: &str, index: usize) -> GrayImage {
    let mut rng = rng(index as u64);
    GrayImage::from_fn(WIDTH, HEIGHT, |x, _| {
        let base = match class {
            "bright" => 190,
            "dark" => 50,
            "striped" => 50 + 140 * ((x / 6 + index as u32) % 2),
            _ => panic!("there is no class `{class}`"),
        };
        image::Luma([(base + rng.random_range(0..40)) as u8])
    })
}

/// Makes a folder of PNGs, one sub-folder for each of [`CLASSES`] with `each` pictures in it. The command splits it
/// 70/15/15, class by class: of 12 pictures 8 are trained on, 2 validate and 2 test.
///
/// # Panics
/// If a file cannot be written.
pub fn picture_folder(folder: &Path, each: usize) {
    for class in CLASSES {
        std::fs::create_dir_all(folder.join(class)).expect("a folder of the test can be made");
        for index in 0..each {
            let path = folder.join(class).join(format!("{index:02}.png"));
            picture(class, index).save(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
    }
}

/// A picture with one bright disc on a dark ground with noise, and its mask: 255 where the disc is. In every fifth there is no disc.
pub fn disc(index: usize) -> (GrayImage, GrayImage) {
    let mut rng = rng(index as u64);
    let index = index as u32;
    let (x0, y0, radius) = (12 + (index * 7) % 24, 12 + (index * 5) % 16, 5 + index % 5);
    let is_inside = |x: u32, y: u32| {
        let square = |a: u32, b: u32| a.abs_diff(b).pow(2);
        index % 5 != 4 && square(x, x0) + square(y, y0) <= radius * radius
    };
    let image = GrayImage::from_fn(WIDTH, HEIGHT, |x, y| {
        let base = if is_inside(x, y) { 150 } else { 40 };
        image::Luma([(base + rng.random_range(0..60)) as u8])
    });
    let mask = GrayImage::from_fn(WIDTH, HEIGHT, |x, y| image::Luma([if is_inside(x, y) { 255 } else { 0 }]));
    (image, mask)
}

/// Makes a folder of so many PNGs in `images/` with their masks in `masks/`, see [`disc`].
///
/// # Panics
/// If a file cannot be written.
pub fn mask_folder(folder: &Path, count: usize) {
    for part in ["images", "masks"] {
        std::fs::create_dir_all(folder.join(part)).expect("a folder of the test can be made");
    }
    for index in 0..count {
        let (image, mask) = disc(index);
        for (part, picture) in [("images", image), ("masks", mask)] {
            let path = folder.join(part).join(format!("{index:02}.png"));
            picture.save(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
    }
}
