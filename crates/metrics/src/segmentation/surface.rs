//! The surface of a mask, as MONAI 1.6.1 has it (`get_mask_edges` in `monai/metrics/utils.py`). What lies outside the volume does not
//! belong to the mask, so a mask that touches the border has its surface there.

use rayon::prelude::*;

use super::grid::Grid;

/// The voxels of a mask that share a face with a voxel outside it.
pub(super) fn edge_voxels(mask: &[bool], grid: &Grid) -> Vec<bool> {
    let [depth, height, width] = grid.size;
    let edge = |index: usize| {
        let (plane, row, column) = (index / grid.plane(), index / width % height, index % width);
        // Steps back are checked for the border first, so no index is negative; a step forward stays within the mask.
        let inner = |place: usize, size: usize, step: usize| {
            place > 0 && place + 1 < size && mask[index - step] && mask[index + step]
        };
        let enclosed =
            inner(column, width, 1) && inner(row, height, width) && (grid.flat || inner(plane, depth, grid.plane()));
        mask[index] && !enclosed
    };
    (0..mask.len()).into_par_iter().map(edge).collect()
}

/// The corners between voxels at which the surface passes.
pub(super) struct Corners {
    /// One more along each axis than voxels; an image stays one plane.
    pub(super) grid: Grid,
    /// Which voxels around the corner belong to the mask, one bit each, the first voxel the highest: 8 bits, 4 in an image.
    pub(super) around: Vec<u8>,
    /// Whether some of them do and some do not.
    pub(super) surface: Vec<bool>,
}

impl Corners {
    /// The corners of a mask.
    pub(super) fn of(mask: &[bool], grid: &Grid) -> Self {
        let mut corners = *grid;
        for size in &mut corners.size[usize::from(grid.flat)..] {
            *size += 1;
        }
        let [_, height, width] = corners.size;
        let around = |index: usize| {
            let (plane, row, column) = (index / corners.plane(), index / width % height, index % width);
            number(mask, grid, [plane, row, column])
        };
        let around: Vec<u8> = (0..corners.voxels()).into_par_iter().map(around).collect();
        let full = if grid.flat { 15 } else { 255 };
        let surface = around.iter().map(|&number| number != 0 && number != full).collect();
        Self { grid: corners, around, surface }
    }
}

/// The number of a corner, which lies before the voxel of the same index along each axis.
fn number(mask: &[bool], grid: &Grid, [plane, row, column]: [usize; 3]) -> u8 {
    let [depth, height, width] = grid.size;
    let both_sides = |place: usize, size: usize| [place.checked_sub(1), (place < size).then_some(place)];
    // The corners of an image lie within its plane.
    let planes = if grid.flat { &[Some(0)][..] } else { &both_sides(plane, depth) };
    let mut number = 0;
    for &plane in planes {
        for row in both_sides(row, height) {
            for column in both_sides(column, width) {
                let inside = match (plane, row, column) {
                    (Some(plane), Some(row), Some(column)) => mask[(plane * height + row) * width + column],
                    _ => false,
                };
                number = number << 1 | u8::from(inside);
            }
        }
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat(height: usize, width: usize) -> Grid {
        Grid { size: [1, height, width], spacing: [1.0; 3], flat: true }
    }

    #[test]
    fn a_mask_that_touches_the_border_ends_there() {
        let found = edge_voxels(&[true; 12], &flat(3, 4));
        let inner: Vec<usize> = (0..12).filter(|&index| !found[index]).collect();
        assert_eq!(inner, [5, 6]);
        // The only plane of a volume ends above and below.
        let volume = Grid { flat: false, ..flat(3, 4) };
        assert!(edge_voxels(&[true; 12], &volume).into_iter().all(|edge| edge));
        let cube = Grid { size: [3; 3], ..volume };
        let found = edge_voxels(&[true; 27], &cube);
        assert!((0..27).all(|index| found[index] == (index != 13)));
    }

    #[test]
    fn neighbours_across_an_edge_do_not_count() {
        let mut mask = [true; 25];
        mask[0] = false;
        let found = edge_voxels(&mask, &flat(5, 5));
        assert!(!found[0] && !found[6] && found[1] && found[5]);
        mask[7] = false;
        assert!(edge_voxels(&mask, &flat(5, 5))[6]);
    }

    #[test]
    fn one_pixel_has_four_corners_and_one_voxel_eight() {
        let corners = Corners::of(&[true], &flat(1, 1));
        assert_eq!((corners.grid.size, &corners.around[..]), ([1, 2, 2], &[1, 2, 4, 8][..]));
        let corners = Corners::of(&[true], &Grid { flat: false, ..flat(1, 1) });
        assert_eq!((corners.grid.size, &corners.around[..]), ([2, 2, 2], &[1, 2, 4, 8, 16, 32, 64, 128][..]));
        assert!(corners.surface.into_iter().all(|passes| passes));
        let corners = Corners::of(&[true; 4], &flat(2, 2));
        assert_eq!(corners.around, [1, 3, 2, 5, 15, 10, 4, 12, 8]);
        assert!(!corners.surface[4]);
    }
}
