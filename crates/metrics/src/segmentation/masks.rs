//! The masks of one class.

use rayon::prelude::*;

use super::grid::Grid;
use super::label_map::LabelMap;

/// Where the prediction and the truth have a class, cut to the smallest box that holds both. All surfaces lie in this box, so the
/// distances between them are the same as in the whole volume, and they cost less.
pub(super) struct Masks {
    pub(super) grid: Grid,
    pub(super) prediction: Vec<bool>,
    pub(super) truth: Vec<bool>,
}

impl Masks {
    /// The masks of a class in two maps that lie on `grid`; `None` if neither has it. Where the truth has the ignored label, both have
    /// nothing, as in MONAI's `create_ignore_mask`.
    pub(super) fn of<P, T>(
        grid: &Grid,
        prediction: &LabelMap<P>,
        truth: &LabelMap<T>,
        class: u32,
        ignored: Option<u32>,
    ) -> Option<Self>
    where
        P: Copy + Into<u32> + Sync,
        T: Copy + Into<u32> + Sync,
    {
        let counts = |index: usize| ignored.is_none_or(|ignored| truth.label(index) != ignored);
        let predicted = |index: usize| prediction.label(index) == class && counts(index);
        let labelled = |index: usize| truth.label(index) == class && counts(index);
        let part = bounds(grid, |index| predicted(index) || labelled(index))?;
        Some(Self { prediction: cut(grid, &part, predicted), truth: cut(grid, &part, labelled), grid: part.grid(grid) })
    }
}

/// A box of voxels.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bounds {
    /// The first voxel along each axis.
    first: [usize; 3],
    /// The last voxel along each axis.
    last: [usize; 3],
}

impl Bounds {
    /// The smallest box that holds both.
    fn union(self, other: Self) -> Self {
        Self {
            first: std::array::from_fn(|axis| self.first[axis].min(other.first[axis])),
            last: std::array::from_fn(|axis| self.last[axis].max(other.last[axis])),
        }
    }

    /// The grid of the box.
    fn grid(&self, whole: &Grid) -> Grid {
        Grid { size: std::array::from_fn(|axis| self.last[axis] - self.first[axis] + 1), ..*whole }
    }
}

/// The smallest box of all voxels that are `inside`.
fn bounds(grid: &Grid, inside: impl Fn(usize) -> bool + Sync) -> Option<Bounds> {
    let [depth, height, width] = grid.size;
    let of_row = |row: usize| {
        let first = (0..width).find(|column| inside(row * width + column))?;
        let last = (first..width).rfind(|column| inside(row * width + column))?;
        let (plane, line) = (row / height, row % height);
        Some(Bounds { first: [plane, line, first], last: [plane, line, last] })
    };
    (0..depth * height).into_par_iter().filter_map(of_row).reduce_with(Bounds::union)
}

/// Which voxels of a part of the volume are `inside`.
fn cut(grid: &Grid, part: &Bounds, inside: impl Fn(usize) -> bool + Sync) -> Vec<bool> {
    let [_, height, width] = grid.size;
    let size = part.grid(grid).size;
    let mut mask = vec![false; size.iter().product()];
    mask.par_chunks_mut(size[2]).enumerate().for_each(|(row, line)| {
        let (plane, down) = (part.first[0] + row / size[1], part.first[1] + row % size[1]);
        let start = (plane * height + down) * width + part.first[2];
        for (column, value) in line.iter_mut().enumerate() {
            *value = inside(start + column);
        }
    });
    mask
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_cut_to_the_box_that_holds_both() {
        let (mut prediction, mut truth) = ([0_u8; 60], [0_u8; 60]);
        let at = |plane: usize, row: usize, column: usize| (plane * 4 + row) * 5 + column;
        prediction[at(1, 1, 2)] = 7;
        prediction[at(0, 0, 0)] = 3;
        truth[at(2, 1, 4)] = 7;
        truth[at(0, 3, 3)] = 9;
        let shape = [3, 4, 5];
        let grid = Grid::new(&shape, &[1.0, 2.0, 3.0]).unwrap();
        let (prediction, truth) = (LabelMap::new(&prediction, &shape).unwrap(), LabelMap::new(&truth, &shape).unwrap());
        let masks = Masks::of(&grid, &prediction, &truth, 7, None).unwrap();
        assert_eq!((masks.grid.size, masks.grid.spacing), ([2, 1, 3], [1.0, 2.0, 3.0]));
        assert_eq!(masks.prediction, [true, false, false, false, false, false]);
        assert_eq!(masks.truth, [false, false, false, false, false, true]);
        assert!(Masks::of(&grid, &prediction, &truth, 8, None).is_none());
        // Only where the truth has the label is a voxel ignored.
        assert!(Masks::of(&grid, &prediction, &truth, 9, Some(9)).is_none());
        assert_eq!(Masks::of(&grid, &prediction, &truth, 3, Some(7)).unwrap().prediction, [true]);
    }
}
