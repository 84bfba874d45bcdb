//! Exact Euclidean distances on a grid.
//!
//! The distance to a set of points separates by axis: a first pass takes the nearest point of each column, and every further axis takes,
//! along its lines, the lower envelope of the parabolas that stand on the squared distances so far ("Distance Transforms of Sampled
//! Functions", Felzenszwalb and Huttenlocher 2012). The time grows with the number of voxels, whatever the distances are.

use rayon::prelude::*;

use super::grid::Grid;

/// For every point of `from`, its index in the grid and its distance in mm to the nearest point of `to`; infinite if `to` has none. The
/// order depends on the points alone.
pub(super) fn nearest(from: &[bool], to: &[bool], grid: &Grid) -> Vec<(usize, f64)> {
    let [_, height, width] = grid.size;
    let [_, down, along] = grid.spacing;
    let mut squares = vec![f64::INFINITY; grid.voxels()];
    let planes = squares.par_chunks_mut(grid.plane()).zip(to.par_chunks(grid.plane()));
    planes.for_each_init(Envelope::default, |envelope, (plane, points)| {
        within_columns(plane, points, width, down);
        for row in plane.chunks_exact_mut(width) {
            envelope.replace(row, along);
        }
    });
    // The last axis is finished only where somebody asks, which spares most lines: surfaces are thin.
    let rows = (0..height).into_par_iter();
    let found: Vec<_> =
        rows.map_init(Envelope::default, |envelope, row| through_planes(row, from, &squares, grid, envelope)).collect();
    found.concat()
}

/// Squared distances to the nearest point of the same column, within one plane.
fn within_columns(plane: &mut [f64], points: &[bool], width: usize, spacing: f64) {
    for (index, &point) in points.iter().enumerate() {
        plane[index] = match (point, index.checked_sub(width)) {
            (true, _) => 0.0,
            (false, Some(before)) => plane[before] + 1.0,
            (false, None) => f64::INFINITY,
        };
    }
    for index in (0..plane.len().saturating_sub(width)).rev() {
        plane[index] = plane[index].min(plane[index + width] + 1.0);
    }
    for steps in plane {
        *steps = (*steps * spacing).powi(2);
    }
}

/// The distances of all points of `from` that lie in this row of any plane.
fn through_planes(
    row: usize,
    from: &[bool],
    squares: &[f64],
    grid: &Grid,
    envelope: &mut Envelope,
) -> Vec<(usize, f64)> {
    let [depth, _, width] = grid.size;
    let start = |plane: usize| plane * grid.plane() + row * width;
    let asked: Vec<usize> = (0..width).filter(|column| (0..depth).any(|plane| from[start(plane) + column])).collect();
    // Gathered plane by plane, as they lie in memory.
    let mut lines = vec![0.0; asked.len() * depth];
    for plane in 0..depth {
        let values = &squares[start(plane)..][..width];
        for (place, &column) in asked.iter().enumerate() {
            lines[place * depth + plane] = values[column];
        }
    }
    let mut found = Vec::new();
    for (line, column) in lines.chunks_exact_mut(depth).zip(asked) {
        envelope.replace(line, grid.spacing[0]);
        let points = line.iter().enumerate().map(|(plane, square)| (start(plane) + column, square.sqrt()));
        found.extend(points.filter(|&(index, _)| from[index]));
    }
    found
}

/// The lower envelope of parabolas, kept to reuse its memory from line to line.
#[derive(Default)]
struct Envelope {
    parts: Vec<Part>,
}

/// A parabola, and where it begins to be the lowest.
#[derive(Clone, Copy)]
struct Part {
    /// The place of its vertex, in steps along the line.
    place: f64,
    /// The height of its vertex, in mm squared.
    height: f64,
    /// The place from which on it is the lowest, in steps.
    start: f64,
}

impl Envelope {
    /// Replaces squared distances so far by those that may also go along this line.
    fn replace(&mut self, line: &mut [f64], spacing: f64) {
        let square = spacing * spacing;
        self.build(line, square);
        let Some(&(mut part)) = self.parts.first() else { return };
        let mut later = self.parts[1..].iter().peekable();
        for (place, value) in line.iter_mut().enumerate() {
            let place = place as f64;
            while let Some(&next) = later.next_if(|next| next.start <= place) {
                part = next;
            }
            *value = (place - part.place).powi(2) * square + part.height;
        }
    }

    /// Finds the parts, from the first place to the last. Places without any point below them have no parabola.
    fn build(&mut self, heights: &[f64], square: f64) {
        self.parts.clear();
        for (place, &height) in heights.iter().enumerate().filter(|(_, height)| height.is_finite()) {
            let place = place as f64;
            let mut start = f64::NEG_INFINITY;
            while let Some(last) = self.parts.last() {
                let apart = place - last.place;
                start = f64::midpoint(place, last.place) + (height - last.height) / (2.0 * apart * square);
                if start > last.start {
                    break;
                }
                self.parts.pop();
            }
            self.parts.push(Part { place, height, start });
        }
    }
}

#[cfg(test)]
mod tests {
    use kindling_random::{Purpose, rng};
    use rand::RngExt;

    use super::*;

    /// The same by comparing every pair.
    fn by_pairs(from: &[bool], to: &[bool], grid: &Grid) -> Vec<(usize, f64)> {
        let [_, height, width] = grid.size;
        let place = |index: usize| [index / width / height, index / width % height, index % width];
        let apart = |one: usize, other: usize| {
            let (one, other) = (place(one), place(other));
            (0..3).map(|axis| (one[axis].abs_diff(other[axis]) as f64 * grid.spacing[axis]).powi(2)).sum::<f64>().sqrt()
        };
        let points = |mask: &[bool]| (0..mask.len()).filter(|&index| mask[index]).collect::<Vec<_>>();
        let targets = points(to);
        let shortest = |index: usize| targets.iter().map(|&to| apart(index, to)).fold(f64::INFINITY, f64::min);
        points(from).into_iter().map(|index| (index, shortest(index))).collect()
    }

    /// Masks with a few points, many, or all, on grids of one to three axes.
    fn cases() -> Vec<(Grid, Vec<bool>, Vec<bool>)> {
        let sizes = [[1, 1, 1], [1, 1, 40], [1, 23, 1], [17, 1, 1], [1, 19, 31], [9, 11, 13], [5, 2, 21]];
        let spacings = [[1.0, 1.0, 1.0], [5.0, 0.7, 0.31], [0.1, 30.0, 1.7]];
        let mut cases = Vec::new();
        for (index, (size, spacing)) in
            sizes.iter().flat_map(|size| spacings.map(|spacing| (*size, spacing))).enumerate()
        {
            for density in [0.02, 0.3, 1.0] {
                let grid = Grid { size, spacing, flat: size[0] == 1 };
                let mut rng = rng(3, Purpose::Split, (density * 100.0) as u64, index as u64);
                let mut mask = || (0..grid.voxels()).map(|_| rng.random::<f64>() < density).collect::<Vec<bool>>();
                cases.push((grid, mask(), mask()));
            }
        }
        cases
    }

    #[test]
    fn distances_equal_those_of_all_pairs() {
        let mut compared = 0;
        for (grid, from, to) in cases() {
            let mut found = nearest(&from, &to, &grid);
            found.sort_by_key(|&(index, _)| index);
            let expected = by_pairs(&from, &to, &grid);
            assert_eq!(found.len(), expected.len());
            for (&(index, found), &(at, expected)) in found.iter().zip(&expected) {
                assert_eq!(index, at);
                let same = found == expected || (found - expected).abs() <= 1e-12 * expected;
                assert!(same, "{grid:?}: {found} at {index}, and all pairs say {expected}");
                compared += usize::from(expected.is_finite() && expected > 0.0);
            }
        }
        assert!(compared > 1000, "only {compared} distances were compared");
    }

    #[test]
    fn without_a_point_to_reach_every_distance_is_infinite() {
        let grid = Grid { size: [2, 3, 4], spacing: [1.0; 3], flat: false };
        let found = nearest(&[true; 24], &[false; 24], &grid);
        assert!(found.len() == 24 && found.iter().all(|&(_, distance)| distance == f64::INFINITY));
        assert!(nearest(&[false; 24], &[true; 24], &grid).is_empty());
    }

    #[test]
    fn the_number_of_threads_changes_no_bit() {
        let with = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let bits = |(index, distance): (usize, f64)| (index, distance.to_bits());
            let of = |(grid, from, to): (Grid, Vec<bool>, Vec<bool>)| {
                nearest(&from, &to, &grid).into_iter().map(bits).collect::<Vec<_>>()
            };
            pool.install(|| cases().into_iter().map(of).collect::<Vec<_>>())
        };
        let one = with(1);
        assert!(one == with(2) && one == with(5));
    }
}
