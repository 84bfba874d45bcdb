//! What a generator made, as pictures.

use std::path::Path;

use anyhow::{Context, Result};
use kindling_data::{Image, grid, png_of};
use kindling_gan_training::Images;
use kindling_runs::write_atomically;

/// Longer side of the grids that a run keeps, in pixels: eight images of 512 beside each other would be 20 MB a grid.
const GRID_SIDE: usize = 1100;
/// Between images, in pixels.
const GAP: usize = 2;

/// Made images, `[-1, 1]`, as pictures.
pub(super) fn of(fakes: &Images) -> Vec<Image> {
    let [_, channels, height, width] = fakes.shape;
    let pixels = height * width;
    let picture = |values: &[f32]| {
        let interleaved = (0..pixels).flat_map(|place| (0..channels).map(move |channel| channel * pixels + place));
        let values = interleaved.map(|index| (values[index] + 1.0) / 2.0).collect();
        Image::from_f32(width, height, channels, values)
    };
    fakes.values.chunks_exact((channels * pixels).max(1)).map(picture).collect()
}

/// The columns of a grid: as near to a square as whole rows are.
pub(super) fn columns(count: usize) -> usize {
    (count as f64).sqrt().ceil().max(1.0) as usize
}

/// A grid as PNG, small enough to be kept many times.
pub(super) fn small_grid(images: &[Image]) -> Result<Vec<u8>> {
    Ok(png_of(&grid(images, columns(images.len()), GAP, 0.1), GRID_SIDE)?)
}

/// Writes a grid at its full size.
pub(super) fn write_grid(images: &[Image], columns: usize, path: &Path) -> Result<()> {
    write_png(&grid(images, columns, GAP, 0.1), path)
}

/// Writes one picture at its full size.
pub(super) fn write_png(image: &Image, path: &Path) -> Result<()> {
    let png = png_of(image, usize::MAX)?;
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    }
    Ok(write_atomically(path, &png)?)
}
