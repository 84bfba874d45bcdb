//! How well two surfaces agree, from the distances between them.

use super::area::areas;
use super::distance::nearest;
use super::masks::Masks;
use super::surface::{Corners, edge_voxels};

/// Distances in mm from each edge voxel of one mask to the nearest of the other, both ways.
pub(super) struct EdgeDistances {
    from_prediction: Vec<f64>,
    from_truth: Vec<f64>,
}

impl EdgeDistances {
    pub(super) fn of(masks: &Masks) -> Self {
        let (prediction, truth) = (edge_voxels(&masks.prediction, &masks.grid), edge_voxels(&masks.truth, &masks.grid));
        let between = |from: &[bool], to: &[bool]| {
            nearest(from, to, &masks.grid).into_iter().map(|(_, distance)| distance).collect()
        };
        Self { from_prediction: between(&prediction, &truth), from_truth: between(&truth, &prediction) }
    }

    /// The larger of the 95th percentiles of both directions, in mm; NaN if either mask is empty (`compute_hausdorff_distance` with
    /// `percentile=95` in `monai/metrics/hausdorff_distance.py`, MONAI 1.6.1).
    pub(super) fn hausdorff_95(&self) -> f64 {
        if self.from_prediction.is_empty() || self.from_truth.is_empty() {
            return f64::NAN;
        }
        percentile_95(&self.from_prediction).max(percentile_95(&self.from_truth))
    }

    /// The share of all edge voxels that lie within the tolerance of the other mask's edge, 0 to 1; NaN without any (`compute_surface_dice`
    /// in `monai/metrics/surface_dice.py`).
    pub(super) fn share_within(&self, tolerance: f64) -> f64 {
        let distances = || self.from_prediction.iter().chain(&self.from_truth);
        let close = distances().filter(|&&distance| within(distance, tolerance)).count();
        close as f64 / distances().count() as f64
    }
}

/// The share of the area of both surfaces that lies within the tolerance of the other, 0 to 1; NaN without any (the same function with
/// `use_subvoxels=True`, which follows DeepMind's `surface-distance`).
pub(super) fn area_within(masks: &Masks, tolerance: f64) -> f64 {
    let (prediction, truth) = (Corners::of(&masks.prediction, &masks.grid), Corners::of(&masks.truth, &masks.grid));
    let areas = areas(&masks.grid);
    let (mut close, mut all) = (0.0, 0.0);
    for (from, to) in [(&prediction, &truth), (&truth, &prediction)] {
        for (corner, distance) in nearest(&from.surface, &to.surface, &from.grid) {
            let area = areas[usize::from(from.around[corner])];
            all += area;
            close += if within(distance, tolerance) { area } else { 0.0 };
        }
    }
    close / all
}

/// Whether a distance is at most the tolerance in single precision, in which MONAI compares. Otherwise three voxels of 0.2 mm would be more
/// than 0.6 mm.
fn within(distance: f64, tolerance: f64) -> bool {
    distance as f32 <= tolerance as f32
}

/// The 95th percentile of at least one distance, interpolated between neighbours.
///
/// The share is 0.95 in single precision, as `torch.quantile` has it for MONAI: where distances lie apart, the last digits move the result by
/// more than the 1e-6 to which these scores are equal.
fn percentile_95(distances: &[f64]) -> f64 {
    let mut distances = distances.to_vec();
    let last = distances.len() - 1;
    let rank = f64::from(0.95_f32) * last as f64;
    let below = rank as usize;
    let (_, &mut lower, higher) = distances.select_nth_unstable_by(below, f64::total_cmp);
    let upper = higher.iter().copied().reduce(f64::min).unwrap_or(lower);
    lower + rank.fract() * (upper - lower)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_percentile_is_interpolated() {
        assert_eq!(percentile_95(&[4.0]), 4.0);
        assert!((percentile_95(&[3.0, 1.0]) - 2.9).abs() < 1e-6);
        // torch.quantile(torch.tensor([0.0] * 1897 + [1.0] * 100), 0.95), torch 2.15; in double precision the share would give 0.2.
        let far = [vec![1.0; 100], vec![0.0; 1897]].concat();
        assert!((percentile_95(&far) - 0.199_976_205_825_805_66).abs() < 1e-9);
    }

    #[test]
    fn a_tolerance_includes_its_own_distance() {
        assert!(0.2 * 3.0 > 0.6 && within(0.2 * 3.0, 0.6) && !within(0.61, 0.6));
        let distances = EdgeDistances { from_prediction: vec![0.0, 1.0, 2.0], from_truth: vec![0.0] };
        assert_eq!((distances.share_within(0.0), distances.share_within(1.0)), (0.5, 0.75));
    }

    #[test]
    fn an_empty_mask_has_no_distance_and_nothing_within() {
        let one = EdgeDistances { from_prediction: vec![f64::INFINITY; 3], from_truth: Vec::new() };
        assert!(one.hausdorff_95().is_nan());
        assert_eq!(one.share_within(5.0), 0.0);
    }
}
