//! How much of a dense convolution is computed at a time on a GPU: asked by the kernels, and by whoever plans their memory.

/// The fewest and the most bytes of the rows that are written at a time. In between they are as many as those of the map, because pages
/// of memory are as large as the largest tensor, and small cards have few of them.
const FEWEST_BYTES: usize = 8 << 20;
const MOST_BYTES: usize = 32 << 20;
/// The number of rows written at a time is a multiple of this, so that every part of a map is aligned as its whole is.
const ROWS: usize = 256;

/// How many rows of so many bytes, what a kernel sees of a map of so many, are written at a time.
pub fn rows_at_once(map_bytes: usize, row_bytes: usize) -> usize {
    (map_bytes.clamp(FEWEST_BYTES, MOST_BYTES) / row_bytes / ROWS).max(1) * ROWS
}

/// The number of tiles of a matrix product that is taken to fill a device, and the rows and columns of a tile.
const TILES: usize = 1024;
const TILE: usize = 64;
/// The fewest rows of a stretch.
const STRETCH: usize = 256;
/// The most bytes of the products of all stretches.
const PRODUCTS_BYTES: usize = 8 << 20;

/// The most stretches that so many rows are divided into for the gradient of filters `[output, columns]`, each of which has a float32
/// product of its own.
pub fn most_stretches(output: usize, columns: usize, rows: usize) -> usize {
    let tiles = output.div_ceil(TILE) * columns.div_ceil(TILE);
    (TILES / tiles).min(PRODUCTS_BYTES / (output * columns * size_of::<f32>())).min(rows / STRETCH).max(1)
}
