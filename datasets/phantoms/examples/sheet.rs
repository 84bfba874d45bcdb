//! Draws a contact sheet and times the making of images: `cargo run --release -p kindling-phantoms --example sheet`.

use std::path::PathBuf;
use std::time::Instant;

use kindling_data::{DataError, Split, sheet};

fn main() -> Result<(), DataError> {
    let path = std::env::args().nth(1).map_or_else(|| PathBuf::from("phantoms.png"), PathBuf::from);
    let side = std::env::args().nth(2).and_then(|side| side.parse().ok()).unwrap_or(256);
    let dataset = kindling_phantoms::dataset(0);
    let groups = sheet::groups_of(&**dataset.source(Split::Train), &dataset.classes, 5, side)?;
    sheet::write_png(&sheet::draw(&groups, 5), &path)?;

    let start = Instant::now();
    let images = 100;
    let sum: f32 = (0..images).map(|index| kindling_phantoms::image(1, index).pixels[0]).sum();
    let each = start.elapsed().as_secs_f64() * 1e3 / images as f64;
    println!("{} written; {each:.2} ms an image (corners sum to {sum:.2})", path.display());
    Ok(())
}
