//! All scores of a split's segmentations with their intervals, as they are stored, printed and drawn.

use serde::{Deserialize, Serialize};

use super::case::{LengthUnit, NamedClass, SegmentedCase};
use super::error::SegmentationError;
use super::scorer::ClassMaskScores;
use super::summary::{ClassSummary, Spread};
use crate::predictions::columns::Columns;
use crate::predictions::patients::Patients;
use crate::{Figure, FlowRow, Resampling};

/// All scores of the segmentations of a split.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SegmentationScores {
    /// `val`, `test` or what the caller calls it.
    pub split: String,
    /// Cases scored.
    pub cases: usize,
    /// Their patients: what is drawn for the intervals.
    pub patients: usize,
    /// Resamples that the intervals come from; 0 where there are none.
    pub resamples: usize,
    /// Seed that the resamples were drawn with.
    pub seed: u64,
    /// How far a surface may be off and still count as right in the surface Dice, in `unit`.
    pub tolerance: f64,
    /// What the tolerance and the Hausdorff distance are in.
    pub unit: LengthUnit,
    /// `mean_dice`, the mean foreground Dice, 0 to 1: for each class the mean over the cases in which it is defined, and of these means
    /// the mean over the classes (`foreground_mean` of `compute_metrics_on_folder` in `nnunetv2/evaluation/evaluate_predictions.py`,
    /// nnU-Net 2.8.1). As there, it is NaN if a class is defined in no case: if neither a truth nor a prediction has it.
    pub dice: Figure,
    /// `mean_iou`, by the same means.
    pub iou: Figure,
    /// The 95th percentile of the Hausdorff distance, over all classes of all cases alike.
    pub hausdorff_95: Spread,
    /// Each class, in the order in which cases are scored.
    pub classes: Vec<SegmentedClassScores>,
    /// Images and patients of every split that is known; empty until the caller says.
    #[serde(default)]
    pub flow: Vec<FlowRow>,
}

/// The scores of one class over the cases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SegmentedClassScores {
    /// Name of the class, as it stands in the data.
    pub name: String,
    /// Median and quartiles of each score, and in how many cases it is defined.
    pub summary: ClassSummary,
    /// `dice`: the mean over the cases in which it is defined; NaN if there are none.
    pub dice: Figure,
    /// `iou`, averaged in the same way.
    pub iou: Figure,
}

impl SegmentationScores {
    /// Scores the cases of a split; `cases` may hold others as well, which are left out. `classes` are those that the cases were
    /// scored for, in their order; `tolerance` is that of the [scorer](crate::SegmentationScorer), in `unit`.
    ///
    /// Intervals are 95 % percentile intervals of the bootstrap by patient. They do not depend on the number of threads.
    ///
    /// # Errors
    /// [`SegmentationError::NoClasses`], [`SegmentationError::NoCases`] if there are none of the split, and
    /// [`SegmentationError::Named`] if one was scored for other classes.
    pub fn of(
        split: &str,
        classes: &[NamedClass],
        (tolerance, unit): (f64, LengthUnit),
        cases: &[SegmentedCase],
        resampling: Resampling,
    ) -> Result<Self, SegmentationError> {
        let cases: Vec<&SegmentedCase> = cases.iter().filter(|case| case.split == split).collect();
        check(classes, &cases)?;
        let scores: Vec<Vec<ClassMaskScores>> = cases.iter().map(|case| case.scores.clone()).collect();
        let whose = Patients::named(cases.iter().map(|case| case.group.as_deref()));
        let means = Means::new(classes.len(), &cases);
        let point = means.row(&vec![1; cases.len()]);
        let rows = resampling.rows(&whose, |times| means.row(times));
        let mut columns = Columns::new(&point, &rows);
        let (dice, iou) = (columns.figure("mean_dice"), columns.figure("mean_iou"));
        let mut class = |(named, summary): (&NamedClass, ClassSummary)| SegmentedClassScores {
            name: named.name.clone(),
            summary,
            dice: columns.figure("dice"),
            iou: columns.figure("iou"),
        };
        Ok(Self {
            split: split.to_owned(),
            cases: cases.len(),
            patients: whose.count(),
            resamples: rows.len(),
            seed: resampling.seed,
            tolerance,
            unit,
            dice,
            iou,
            hausdorff_95: Spread::of(scores.iter().flatten().map(|of_class| of_class.hausdorff_95)),
            classes: classes.iter().zip(ClassSummary::of(&scores)?).map(&mut class).collect(),
            flow: Vec::new(),
        })
    }
}

/// Whether there is something to score, and all of it was scored for these classes.
pub(super) fn check(classes: &[NamedClass], cases: &[&SegmentedCase]) -> Result<(), SegmentationError> {
    if classes.is_empty() {
        return Err(SegmentationError::NoClasses);
    }
    if cases.is_empty() {
        return Err(SegmentationError::NoCases);
    }
    let named: Vec<u32> = classes.iter().map(|class| class.label).collect();
    for case in cases {
        let scored: Vec<u32> = case.scores.iter().map(|scores| scores.class).collect();
        if scored != named {
            return Err(SegmentationError::Named { sample: case.sample.clone(), named, scored });
        }
    }
    Ok(())
}

/// The means of all scores that have intervals.
pub(super) struct Means {
    classes: usize,
    /// Of each class Dice and IoU of every case.
    values: Vec<[Vec<f64>; 2]>,
}

impl Means {
    pub(super) fn new(classes: usize, cases: &[&SegmentedCase]) -> Self {
        let of = |class: usize, score: fn(&ClassMaskScores) -> f64| -> Vec<f64> {
            cases.iter().map(|case| score(&case.scores[class])).collect()
        };
        let values = (0..classes).map(|class| [of(class, |scores| scores.dice), of(class, |scores| scores.iou)]);
        Self { classes, values: values.collect() }
    }

    /// Mean Dice and IoU of all classes, and then of each, where case `i` counts `times[i]` times.
    pub(super) fn row(&self, times: &[u32]) -> Vec<f64> {
        let of_classes: Vec<f64> = self.values.iter().flatten().map(|values| mean(values, times)).collect();
        let over_classes = |score: usize| {
            let means = of_classes.iter().skip(score).step_by(2);
            means.sum::<f64>() / self.classes as f64
        };
        let mut row = vec![over_classes(0), over_classes(1)];
        row.extend(of_classes);
        row
    }
}

/// The mean of the values that are defined, each so many times; NaN without any.
fn mean(values: &[f64], times: &[u32]) -> f64 {
    let defined = values.iter().zip(times).filter(|(value, _)| value.is_finite());
    let (sum, count) = defined
        .fold((0.0, 0.0), |(sum, count), (value, &times)| (sum + value * f64::from(times), count + f64::from(times)));
    sum / count
}

#[cfg(test)]
mod tests {
    use super::super::counts::VoxelCounts;
    use super::*;

    const NAN: f64 = f64::NAN;

    /// A case of the test split with a Dice and a Hausdorff distance for each class, of which the first has the label 1.
    fn case(sample: &str, group: Option<&str>, scores: &[(f64, f64)]) -> SegmentedCase {
        let class = |(class, &(dice, hausdorff_95)): (u32, &(f64, f64))| ClassMaskScores {
            class,
            voxels: VoxelCounts::default(),
            dice,
            iou: dice / (2.0 - dice),
            hausdorff_95,
            surface_dice: dice,
        };
        SegmentedCase {
            sample: sample.into(),
            group: group.map(str::to_owned),
            split: "test".into(),
            scores: (1..).zip(scores).map(class).collect(),
        }
    }

    fn classes(names: &[&str]) -> Vec<NamedClass> {
        let named = |(label, name): (u32, &&str)| NamedClass { name: (*name).to_owned(), label };
        (1..).zip(names).map(named).collect()
    }

    fn scored(classes: &[NamedClass], cases: &[SegmentedCase]) -> Result<SegmentationScores, SegmentationError> {
        SegmentationScores::of("test", classes, (2.0, LengthUnit::Pixels), cases, Resampling::default())
    }

    fn close(found: f64, expected: f64) -> bool {
        (found - expected).abs() < 1e-12
    }

    #[test]
    fn the_mean_is_over_defined_cases_and_then_over_classes_as_in_nnu_net() {
        let mut other = case("w", None, &[(0.0, 90.0), (0.0, 90.0)]);
        other.split = "val".into();
        let cases = [
            case("x", None, &[(0.8, 1.0), (0.5, 7.0)]),
            case("y", None, &[(NAN, NAN), (1.0, 0.0)]),
            other,
            case("z", None, &[(0.4, 3.0), (0.0, NAN)]),
        ];
        let found = scored(&classes(&["liver", "lesion"]), &cases).unwrap();
        assert_eq!((found.cases, found.patients, found.resamples), (3, 3, 2000), "the other split is left out");
        // (0.8 + 0.4) / 2 and (0.5 + 1 + 0) / 3.
        assert!(close(found.classes[0].dice.value, 0.6) && close(found.classes[1].dice.value, 0.5), "{found:?}");
        assert!(
            close(found.dice.value, 0.55),
            "all five Dice scores in one heap would give 0.54: {}",
            found.dice.value
        );
        // IoU: (2/3 + 1/4) / 2 and (1/3 + 1 + 0) / 3.
        assert!(close(found.iou.value, (11.0 / 24.0 + 4.0 / 9.0) / 2.0), "{}", found.iou.value);
        let summary = found.classes[0].summary.dice;
        assert_eq!((summary.defined, summary.undefined), (2, 1));
        assert!(close(summary.quartiles.unwrap().median, 0.6));
        let distances = found.hausdorff_95;
        assert_eq!((distances.defined, distances.undefined, distances.quartiles.unwrap().median), (4, 2, 2.0));
        assert_eq!((found.classes[1].name.as_str(), found.classes[1].summary.class), ("lesion", 2));
    }

    #[test]
    fn a_class_that_is_nowhere_has_no_mean_and_neither_has_the_whole() {
        let cases = [case("x", None, &[(0.8, 1.0), (NAN, NAN)]), case("y", None, &[(0.6, 1.0), (NAN, NAN)])];
        let found = scored(&classes(&["a", "b"]), &cases).unwrap();
        assert!(found.dice.value.is_nan() && found.dice.interval.is_none(), "{:?}", found.dice);
        assert!(close(found.classes[0].dice.value, 0.7) && found.classes[0].dice.interval.is_some());
        let text = serde_json::to_string(&found).unwrap();
        let back: SegmentationScores = serde_json::from_str(&text).unwrap();
        assert!(back.dice.value.is_nan() && back.classes[0] == found.classes[0], "{text}");
    }

    #[test]
    fn patients_are_drawn_with_all_their_cases() {
        let cases = [
            case("x", Some("p"), &[(0.8, 1.0)]),
            case("y", Some("p"), &[(0.6, 1.0)]),
            case("z", Some("q"), &[(0.2, 1.0)]),
        ];
        let found = scored(&classes(&["a"]), &cases).unwrap();
        assert_eq!((found.cases, found.patients), (3, 2));
        assert!(close(found.dice.value, 1.6 / 3.0));
        // A quarter of the resamples is the one patient twice and a quarter the other, so these are the ends.
        let (low, high) = found.dice.interval.unwrap();
        assert!(close(low, 0.2) && close(high, 0.7), "{low} {high}");
        let alone: Vec<SegmentedCase> = cases.map(|case| SegmentedCase { group: None, ..case }).to_vec();
        let (_, high) = scored(&classes(&["a"]), &alone).unwrap().dice.interval.unwrap();
        assert!(high > 0.7, "cases of their own are drawn one by one");
        let one = scored(&classes(&["a"]), &cases_of_one_patient()).unwrap();
        assert_eq!((one.resamples, one.dice.interval), (0, None), "one patient says nothing of others");
    }

    fn cases_of_one_patient() -> [SegmentedCase; 2] {
        [case("x", Some("p"), &[(0.8, 1.0)]), case("y", Some("p"), &[(0.6, 1.0)])]
    }

    #[test]
    fn a_class_that_many_resamples_lack_has_no_interval() {
        let cases = [case("x", None, &[(0.8, 1.0), (0.5, 1.0)]), case("y", None, &[(0.6, 1.0), (NAN, NAN)])];
        let found = scored(&classes(&["a", "b"]), &cases).unwrap();
        assert!(close(found.dice.value, 0.6) && found.dice.interval.is_none(), "{:?}", found.dice);
        assert_eq!((found.classes[1].dice.interval, found.classes[0].dice.interval.is_some()), (None, true));
    }

    #[test]
    fn only_cases_that_were_scored_for_the_named_classes_are_taken() {
        let cases = [case("x", None, &[(0.8, 1.0)]), case("y", None, &[(0.8, 1.0), (0.5, 1.0)])];
        assert_eq!(scored(&[], &cases), Err(SegmentationError::NoClasses));
        assert_eq!(scored(&classes(&["a"]), &[]), Err(SegmentationError::NoCases));
        let named = SegmentationError::Named { sample: "y".into(), named: vec![1], scored: vec![1, 2] };
        assert_eq!(scored(&classes(&["a"]), &cases), Err(named));
    }
}
