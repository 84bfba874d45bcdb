//! The scores of a class over cases.

use serde::{Deserialize, Serialize};

use super::error::SegmentationError;
use super::scorer::ClassMaskScores;
use crate::Quartiles;

/// How a score is spread over the cases in which it is defined.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Median and quartiles; `None` if it is defined in no case.
    pub quartiles: Option<Quartiles>,
    /// Cases in which it is defined.
    pub defined: usize,
    /// Cases in which it is NaN, because a mask is empty.
    pub undefined: usize,
}

impl Spread {
    pub(super) fn of(values: impl Iterator<Item = f64> + Clone) -> Self {
        let (defined, undefined) = values
            .clone()
            .fold((0, 0), |(yes, no), value| if value.is_finite() { (yes + 1, no) } else { (yes, no + 1) });
        Self { quartiles: Quartiles::of(values), defined, undefined }
    }
}

/// The scores of one class over all cases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassSummary {
    /// Label of the class in the maps.
    pub class: u32,
    /// Dice of the cases, 0 to 1.
    pub dice: Spread,
    /// IoU of the cases, 0 to 1.
    pub iou: Spread,
    /// The 95th percentile of the Hausdorff distance, in mm.
    pub hausdorff_95: Spread,
    /// The normalised surface Dice, 0 to 1.
    pub surface_dice: Spread,
}

impl ClassSummary {
    /// Summarises cases, class by class, in the order of the classes.
    ///
    /// # Errors
    /// [`SegmentationError::NoCases`]; [`SegmentationError::Classes`] if a case was scored for other classes than the first.
    pub fn of(cases: &[Vec<ClassMaskScores>]) -> Result<Vec<Self>, SegmentationError> {
        let first = cases.first().ok_or(SegmentationError::NoCases)?;
        let classes = |case: &[ClassMaskScores]| case.iter().map(|scores| scores.class).collect::<Vec<_>>();
        let expected = classes(first);
        if let Some(case) = cases.iter().position(|case| classes(case) != expected) {
            return Err(SegmentationError::Classes { case });
        }
        let summary = |(place, class)| {
            let spread = |score: fn(&ClassMaskScores) -> f64| Spread::of(cases.iter().map(|case| score(&case[place])));
            Self {
                class,
                dice: spread(|scores| scores.dice),
                iou: spread(|scores| scores.iou),
                hausdorff_95: spread(|scores| scores.hausdorff_95),
                surface_dice: spread(|scores| scores.surface_dice),
            }
        };
        Ok(expected.into_iter().enumerate().map(summary).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::counts::VoxelCounts;
    use super::*;

    fn scores(class: u32, dice: f64, hausdorff_95: f64) -> ClassMaskScores {
        ClassMaskScores {
            class,
            voxels: VoxelCounts::default(),
            dice,
            iou: dice / 2.0,
            hausdorff_95,
            surface_dice: 1.0,
        }
    }

    #[test]
    fn cases_without_a_score_are_counted_and_left_out() {
        let cases: Vec<Vec<ClassMaskScores>> = [(0.2, f64::NAN), (0.4, 3.0), (f64::NAN, f64::NAN), (0.8, 5.0)]
            .map(|(dice, distance)| vec![scores(1, dice, distance), scores(2, 1.0, f64::NAN)])
            .to_vec();
        let found = ClassSummary::of(&cases).unwrap();
        assert_eq!((found.len(), found[0].class, found[1].class), (2, 1, 2));
        let spread = found[0].dice;
        assert_eq!((spread.defined, spread.undefined), (3, 1));
        let quartiles = spread.quartiles.unwrap();
        assert_eq!(quartiles.median, 0.4);
        assert!((quartiles.q1 - 0.3).abs() < 1e-12 && (quartiles.q3 - 0.6).abs() < 1e-12);
        assert_eq!(found[0].iou.quartiles.unwrap().median, 0.2);
        assert_eq!(found[0].hausdorff_95.quartiles.unwrap().median, 4.0);
        assert_eq!(found[1].hausdorff_95, Spread { quartiles: None, defined: 0, undefined: 4 });
    }

    #[test]
    fn only_cases_of_the_same_classes_are_summarised() {
        assert_eq!(ClassSummary::of(&[]), Err(SegmentationError::NoCases));
        let cases = [vec![scores(1, 0.5, 1.0)], vec![scores(2, 0.5, 1.0)]];
        assert_eq!(ClassSummary::of(&cases), Err(SegmentationError::Classes { case: 1 }));
    }
}
