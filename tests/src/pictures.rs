//! Small image folders, made on the spot and the same every time.

use std::path::Path;

use image::GrayImage;

/// The classes of [`picture_folder`], in the order the command numbers them.
pub const CLASSES: [&str; 3] = ["bright", "dark", "striped"];

const WIDTH: u32 = 48;
const HEIGHT: u32 = 40;

/// The `index`-th picture of a class: bright, dark or striped, with noise; 48 x 40 grey pixels.
///
/// # Panics
/// If there is no such class.
pub fn picture(class: &str, index: usize) -> GrayImage {
    GrayImage::from_fn(WIDTH, HEIGHT, |x, y| {
        let base = match class {
            "bright" => 190,
            "dark" => 50,
            "striped" => 50 + 140 * ((x / 6 + index as u32) % 2),
            _ => panic!("there is no class `{class}`"),
        };
        image::Luma([(base + noise(x, y, index as u32) % 40) as u8])
    })
}

/// Numbers without a pattern, the same every time.
fn noise(x: u32, y: u32, index: u32) -> u32 {
    let mut state = (x << 16) ^ (y << 8) ^ index.wrapping_mul(0x9E37_79B9) ^ 0x5BD1_E995;
    for _ in 0..3 {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
    }
    state >> 8
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
