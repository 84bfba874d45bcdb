//! The scores of a case.

use serde::{Deserialize, Serialize};

use super::agreement::{EdgeDistances, area_within};
use super::counts::VoxelCounts;
use super::error::SegmentationError;
use super::grid::Grid;
use super::label_map::LabelMap;
use super::masks::Masks;

/// A class that is scored, with its tolerance.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SegmentedClass {
    /// Its label in the maps.
    pub index: u32,
    /// How far, in mm, a surface may be off and still count as right in the normalised surface Dice.
    pub tolerance: f64,
}

/// What the normalised surface Dice adds up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SurfaceDice {
    /// Edge voxels, each worth the same whatever the spacing: MONAI's default.
    #[default]
    Voxels,
    /// The area of the surface (in images the length of the outline) around the corners between voxels: MONAI with
    /// `use_subvoxels=True`, and DeepMind's `surface-distance`.
    Subvoxels,
}

/// The scores of one class in one case.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassMaskScores {
    /// Label of the class in the maps.
    pub class: u32,
    /// Numbers of voxels by where the class is: in the truth, the prediction, both or neither.
    pub voxels: VoxelCounts,
    /// [`VoxelCounts::dice`].
    #[serde(with = "crate::number")]
    pub dice: f64,
    /// [`VoxelCounts::iou`].
    #[serde(with = "crate::number")]
    pub iou: f64,
    /// The 95th percentile of the Hausdorff distance in mm: of the distances from each edge voxel of one mask to the nearest of the other,
    /// the 95th percentile, in the direction where it is larger. NaN if either mask is empty, as in MONAI.
    #[serde(with = "crate::number")]
    pub hausdorff_95: f64,
    /// The normalised surface Dice: the share of both surfaces that lies within the tolerance of the other, 0 to 1. NaN if both masks are
    /// empty, and 0 if only one of them is, as in MONAI.
    #[serde(with = "crate::number")]
    pub surface_dice: f64,
}

/// Scores segmentations by the same rules, case by case.
#[derive(Clone, Debug)]
pub struct SegmentationScorer {
    classes: Vec<SegmentedClass>,
    ignored: Option<u32>,
    surface_dice: SurfaceDice,
}

impl SegmentationScorer {
    /// A scorer of these classes. Other labels count as background. Voxels where the truth has the `ignored` label count for no class; in
    /// surfaces they are background.
    ///
    /// # Errors
    /// [`SegmentationError::NoClasses`], [`SegmentationError::Twice`], [`SegmentationError::Ignored`], [`SegmentationError::Tolerance`].
    pub fn new(
        classes: Vec<SegmentedClass>,
        ignored: Option<u32>,
        surface_dice: SurfaceDice,
    ) -> Result<Self, SegmentationError> {
        if classes.is_empty() {
            return Err(SegmentationError::NoClasses);
        }
        for (place, &SegmentedClass { index, tolerance }) in classes.iter().enumerate() {
            if classes[..place].iter().any(|earlier| earlier.index == index) {
                return Err(SegmentationError::Twice(index));
            }
            if ignored == Some(index) {
                return Err(SegmentationError::Ignored(index));
            }
            if !(tolerance.is_finite() && tolerance >= 0.0) {
                return Err(SegmentationError::Tolerance { class: index, tolerance });
            }
        }
        Ok(Self { classes, ignored, surface_dice })
    }

    /// The scores of one case, a class each, in the order of the classes. `spacing` is the distance between neighbours in mm along
    /// each axis.
    ///
    /// An image is better given with 2 axes than as a volume of one plane: in a volume every voxel of a single plane lies on the surface.
    ///
    /// # Errors
    /// [`SegmentationError::Shapes`], [`SegmentationError::Spacings`], [`SegmentationError::Spacing`].
    pub fn case<P, T>(
        &self,
        prediction: &LabelMap<P>,
        truth: &LabelMap<T>,
        spacing: &[f64],
    ) -> Result<Vec<ClassMaskScores>, SegmentationError>
    where
        P: Copy + Into<u32> + Sync,
        T: Copy + Into<u32> + Sync,
    {
        if prediction.shape() != truth.shape() {
            let (prediction, truth) = (prediction.shape().to_vec(), truth.shape().to_vec());
            return Err(SegmentationError::Shapes { prediction, truth });
        }
        let grid = Grid::new(truth.shape(), spacing)?;
        Ok(self.classes.iter().map(|class| self.class(class, &grid, prediction, truth)).collect())
    }

    fn class<P, T>(
        &self,
        &SegmentedClass { index: class, tolerance }: &SegmentedClass,
        grid: &Grid,
        prediction: &LabelMap<P>,
        truth: &LabelMap<T>,
    ) -> ClassMaskScores
    where
        P: Copy + Into<u32> + Sync,
        T: Copy + Into<u32> + Sync,
    {
        let voxels = VoxelCounts::of(prediction, truth, class, self.ignored);
        let (hausdorff_95, surface_dice) = match Masks::of(grid, prediction, truth, class, self.ignored) {
            None => (f64::NAN, f64::NAN),
            Some(masks) => {
                let distances = EdgeDistances::of(&masks);
                let surface_dice = match self.surface_dice {
                    SurfaceDice::Voxels => distances.share_within(tolerance),
                    SurfaceDice::Subvoxels => area_within(&masks, tolerance),
                };
                (distances.hausdorff_95(), surface_dice)
            }
        };
        ClassMaskScores { class, voxels, dice: voxels.dice(), iou: voxels.iou(), hausdorff_95, surface_dice }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(index: u32, tolerance: f64) -> SegmentedClass {
        SegmentedClass { index, tolerance }
    }

    #[test]
    fn rules_that_make_no_sense_are_refused() {
        let of = |classes: &[SegmentedClass]| {
            SegmentationScorer::new(classes.to_vec(), Some(9), SurfaceDice::Voxels).map(|_| ()).unwrap_err()
        };
        assert_eq!(of(&[]), SegmentationError::NoClasses);
        assert_eq!(of(&[class(1, 1.0), class(2, 1.0), class(1, 2.0)]), SegmentationError::Twice(1));
        assert_eq!(of(&[class(9, 1.0)]), SegmentationError::Ignored(9));
        assert_eq!(of(&[class(1, -0.5)]), SegmentationError::Tolerance { class: 1, tolerance: -0.5 });
        assert!(matches!(of(&[class(1, f64::NAN)]), SegmentationError::Tolerance { class: 1, .. }));
    }

    #[test]
    fn maps_that_do_not_fit_are_refused() {
        let scorer = SegmentationScorer::new(vec![class(1, 1.0)], None, SurfaceDice::Voxels).unwrap();
        let (labels, shape, turned) = ([0_u8; 6], [2, 3], [3, 2]);
        let map = LabelMap::new(&labels, &shape).unwrap();
        let other = LabelMap::new(&labels, &turned).unwrap();
        let expected = SegmentationError::Shapes { prediction: vec![3, 2], truth: vec![2, 3] };
        assert_eq!(scorer.case(&other, &map, &[1.0, 1.0]).unwrap_err(), expected);
        assert_eq!(scorer.case(&map, &map, &[1.0]).unwrap_err(), SegmentationError::Spacings { axes: 2, found: 1 });
        let expected = SegmentationError::Spacing { axis: 0, spacing: 0.0 };
        assert_eq!(scorer.case(&map, &map, &[0.0, 1.0]).unwrap_err(), expected);
    }

    #[test]
    fn a_shifted_square_is_as_far_as_its_shift() {
        let square = |from: usize| -> Vec<u32> {
            (0..400)
                .map(|index| u32::from((5..10).contains(&(index / 20)) && (from..from + 5).contains(&(index % 20))))
                .collect()
        };
        let (truth, prediction, shape) = (square(4), square(6), [20, 20]);
        let (truth, prediction) = (LabelMap::new(&truth, &shape).unwrap(), LabelMap::new(&prediction, &shape).unwrap());
        let scorer = SegmentationScorer::new(vec![class(1, 0.5)], None, SurfaceDice::Voxels).unwrap();
        let found = scorer.case(&prediction, &truth, &[1.0, 0.5]).unwrap();
        assert_eq!((found[0].dice, found[0].hausdorff_95), (0.6, 1.0));
        let same = scorer.case(&truth, &truth, &[1.0, 0.5]).unwrap();
        assert_eq!((same[0].dice, same[0].iou, same[0].hausdorff_95, same[0].surface_dice), (1.0, 1.0, 0.0, 1.0));
    }

    #[test]
    fn scores_that_are_not_defined_survive_a_file() {
        let scorer = SegmentationScorer::new(vec![class(3, 1.0)], None, SurfaceDice::Voxels).unwrap();
        let map = LabelMap::new(&[0_u8; 4], &[2, 2]).unwrap();
        let text = serde_json::to_string(&scorer.case(&map, &map, &[1.0, 1.0]).unwrap()).unwrap();
        let found: Vec<ClassMaskScores> = serde_json::from_str(&text).unwrap();
        assert!(found[0].dice.is_nan() && found[0].hausdorff_95.is_nan() && found[0].surface_dice.is_nan());
    }
}
