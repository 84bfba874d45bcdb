//! The area of the surface around a corner, where eight voxels of a volume meet (or four pixels of an image).
//!
//! Which of them belong to the mask is written as a number: one bit each, the first voxel the highest. Each number stands for at most four
//! triangles of the surface that marching cubes draws there. The tables are those of MONAI 1.6.1 (`monai/metrics/utils.py`), which has them
//! from DeepMind's `surface-distance` ("Deep learning to achieve clinically applicable segmentation of head and neck anatomy for
//! radiotherapy", Nikolov et al. 2018).

use super::grid::Grid;

/// The triangles that occur, as the normals whose length is the area, in eighths. Signs are left out: they do not change the length.
const TRIANGLES: [[f64; 3]; 9] = [
    [4.0, 0.0, 0.0],
    [0.0, 4.0, 0.0],
    [0.0, 0.0, 4.0],
    [2.0, 2.0, 0.0],
    [2.0, 0.0, 2.0],
    [0.0, 2.0, 2.0],
    [1.0, 1.0, 1.0],
    [2.0, 2.0, 2.0],
    [3.0, 3.0, 3.0],
];

/// The triangles around a corner, as digits that are indices of [`TRIANGLES`], for the numbers below 128. The surface does not depend on
/// which side of it is the mask, so the others mirror them.
#[rustfmt::skip]
const AROUND_A_CORNER: [&str; 128] = [
    "", "6", "6", "33", "6", "44", "66", "067", "6", "66", "44", "067", "33", "067", "067", "00",
    "6", "55", "66", "167", "66", "267", "666", "6677", "66", "556", "446", "4568", "336", "3568", "0667", "067",
    "6", "66", "55", "167", "66", "446", "556", "4568", "66", "666", "267", "6677", "336", "0667", "3568", "067",
    "33", "167", "167", "11", "336", "3468", "1667", "167", "336", "1667", "3468", "167", "3333", "336", "336", "33",
    "6", "66", "66", "336", "55", "267", "556", "3568", "66", "666", "446", "0667", "167", "6677", "4568", "067",
    "44", "267", "446", "3468", "267", "22", "2667", "267", "446", "2667", "4444", "446", "3468", "267", "446", "44",
    "66", "666", "556", "1667", "556", "2667", "5555", "556", "666", "6666", "2667", "666", "1667", "666", "556", "66",
    "067", "6677", "4568", "167", "3568", "267", "556", "55", "0667", "666", "446", "66", "336", "66", "66", "6",
];

/// The area in mm squared for each of the 256 numbers of a volume; the length in mm for each of the 16 of an image.
pub(super) fn areas(grid: &Grid) -> Vec<f64> {
    if grid.flat { lengths(grid) } else { surfaces(grid) }
}

fn surfaces(grid: &Grid) -> Vec<f64> {
    let [through, down, along] = grid.spacing;
    // A face across an axis is as large as the product of the other two spacings.
    let faces = [down * along, through * along, through * down];
    let area = |triangle: [f64; 3]| {
        let square: f64 = (0..3).map(|axis| (triangle[axis] / 8.0 * faces[axis]).powi(2)).sum();
        square.sqrt()
    };
    let around = |digits: &str| digits.bytes().map(|digit| area(TRIANGLES[usize::from(digit - b'0')])).sum::<f64>();
    let half: Vec<f64> = AROUND_A_CORNER.iter().map(|digits| around(digits)).collect();
    half.iter().chain(half.iter().rev()).copied().collect()
}

fn lengths(grid: &Grid) -> Vec<f64> {
    let [_, down, along] = grid.spacing;
    // One pixel, or all but one, is cut off across a corner; two opposite ones are cut off twice.
    let across = down.hypot(along) / 2.0;
    let half = [0.0, across, across, along, across, down, 2.0 * across, across];
    half.iter().chain(half.iter().rev()).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flat_face_has_the_area_of_a_voxel_face() {
        let grid = Grid { size: [1; 3], spacing: [5.0, 0.5, 2.0], flat: false };
        let areas = areas(&grid);
        assert_eq!(areas.len(), 256);
        // The first four voxels lie in one plane; then those of one row of both planes; then those of one column.
        assert_eq!((areas[0b1111_0000], areas[0b1100_1100], areas[0b1010_1010]), (1.0, 10.0, 2.5));
        assert_eq!((areas[0], areas[255]), (0.0, 0.0));
        assert!(areas[1..255].iter().all(|&area| area > 0.0));
    }

    #[test]
    fn a_straight_line_has_the_length_of_a_pixel() {
        let grid = Grid { size: [1; 3], spacing: [1.0, 3.0, 4.0], flat: true };
        let lengths = areas(&grid);
        assert_eq!(lengths.len(), 16);
        assert_eq!((lengths[0b1100], lengths[0b1010], lengths[0b1000], lengths[0b1001]), (4.0, 3.0, 2.5, 5.0));
    }
}
