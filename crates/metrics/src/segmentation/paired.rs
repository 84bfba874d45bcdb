//! Two models on the same cases: is the difference more than chance?

use super::case::{NamedClass, SegmentedCase};
use super::error::SegmentationError;
use super::scores::{Means, check};
use crate::predictions::columns::Columns;
use crate::predictions::patients::Patients;
use crate::{Paired, Resampling};

/// Compares two models' segmentations of the same cases in the same order, all of them scored for these classes: the first model's
/// `mean_dice` and `mean_iou` less the second's, as [`SegmentationScores`](crate::SegmentationScores) has them, and where there are
/// several classes each one's mean Dice, called `dice: CLASS`. Intervals are 95 % intervals of the paired bootstrap by patient.
///
/// A case in which a class lies in neither mask counts for the class in neither model; one in which a single model says it, falsely,
/// counts in that model alone, with a Dice of 0.
///
/// # Errors
/// [`SegmentationError::NoClasses`], [`SegmentationError::NoCases`], [`SegmentationError::Named`], and
/// [`SegmentationError::NotPaired`] if a case has another name, patient or truth in the other: as many voxels of each class.
pub fn compare_cases(
    classes: &[NamedClass],
    first: &[SegmentedCase],
    second: &[SegmentedCase],
    resampling: Resampling,
) -> Result<Paired, SegmentationError> {
    let (first, second): (Vec<_>, Vec<_>) = (first.iter().collect(), second.iter().collect());
    check(classes, &first)?;
    check(classes, &second)?;
    let same = |(a, b): (&&SegmentedCase, &&SegmentedCase)| a.is_paired_with(b);
    if first.len() != second.len() || !first.iter().zip(&second).all(same) {
        return Err(SegmentationError::NotPaired);
    }
    let (a, b) = (Means::new(classes.len(), &first), Means::new(classes.len(), &second));
    let difference = |times: &[u32]| a.row(times).iter().zip(b.row(times)).map(|(a, b)| a - b).collect::<Vec<f64>>();
    let whose = Patients::named(first.iter().map(|case| case.group.as_deref()));
    let point = difference(&vec![1; first.len()]);
    let rows = resampling.rows(&whose, difference);
    let mut columns = Columns::new(&point, &rows);
    let mut differences = columns.figures(&["mean_dice", "mean_iou"]);
    for class in classes.iter().filter(|_| classes.len() > 1) {
        differences.push(columns.figure(&format!("dice: {}", class.name)));
        columns.figure("iou");
    }
    Ok(Paired { images: first.len(), patients: whose.count(), differences, mcnemar: None })
}

#[cfg(test)]
mod tests {
    use super::super::counts::VoxelCounts;
    use super::super::scorer::ClassMaskScores;
    use super::*;

    /// A case with a Dice for each class, from the label 1 on.
    fn case(sample: &str, group: &str, dice: &[f64]) -> SegmentedCase {
        let class = |(class, &dice): (u32, &f64)| ClassMaskScores {
            class,
            voxels: VoxelCounts::default(),
            dice,
            iou: dice / (2.0 - dice),
            hausdorff_95: 1.0,
            surface_dice: dice,
        };
        let scores = (1..).zip(dice).map(class).collect();
        SegmentedCase { sample: sample.into(), group: Some(group.into()), split: "test".into(), scores }
    }

    fn classes(count: u32) -> Vec<NamedClass> {
        (1..=count).map(|label| NamedClass { name: format!("class {label}"), label }).collect()
    }

    fn compared(classes: &[NamedClass], a: &[SegmentedCase], b: &[SegmentedCase]) -> Result<Paired, SegmentationError> {
        compare_cases(classes, a, b, Resampling::default())
    }

    #[test]
    fn differences_are_those_of_the_means_and_a_patient_is_drawn_for_both_models() {
        let better = [case("x", "p", &[0.9, 0.5]), case("y", "p", &[0.7, 0.4]), case("z", "q", &[0.3, 0.8])];
        let worse = [case("x", "p", &[0.8, 0.5]), case("y", "p", &[0.4, f64::NAN]), case("z", "q", &[0.0, 0.8])];
        let found = compared(&classes(2), &better, &worse).unwrap();
        assert_eq!((found.images, found.patients, found.mcnemar), (3, 2, None));
        let names: Vec<&str> = found.differences.iter().map(|figure| figure.name.as_str()).collect();
        assert_eq!(names, ["mean_dice", "mean_iou", "dice: class 1", "dice: class 2"]);
        let close = |found: f64, expected: f64| (found - expected).abs() < 1e-12;
        // Class 1: 1.9 / 3 - 1.2 / 3. Class 2: 1.7 / 3 - 1.3 / 2, for the second has no Dice in y.
        let [one, two] = [0.7 / 3.0, 1.7 / 3.0 - 0.65];
        assert!(close(found.differences[2].value, one) && close(found.differences[3].value, two), "{found:?}");
        assert!(close(found.differences[0].value, (one + two) / 2.0), "{found:?}");
        // Drawn twice, p gives 0.2 and q 0.3. Cases drawn one by one would reach down to the 0.1 of x, and models drawn apart further.
        let (low, high) = found.differences[2].interval.unwrap();
        assert!(close(low, 0.2) && close(high, 0.3), "{low} {high}");
    }

    #[test]
    fn one_class_has_no_row_of_its_own_beside_the_mean() {
        let cases = [case("x", "p", &[0.9]), case("y", "q", &[0.7])];
        let found = compared(&classes(1), &cases, &cases).unwrap();
        assert_eq!(found.differences.len(), 2);
        assert!(found.differences.iter().all(|figure| figure.value == 0.0 && figure.interval == Some((0.0, 0.0))));
    }

    #[test]
    fn other_cases_are_not_compared() {
        let ours = [case("x", "p", &[0.9])];
        let mut larger = ours.clone();
        larger[0].scores[0].voxels.false_negatives = 1;
        for other in [[case("y", "p", &[0.9])], [case("x", "q", &[0.9])], larger] {
            assert_eq!(compared(&classes(1), &ours, &other), Err(SegmentationError::NotPaired), "{other:?}");
        }
        assert_eq!(compared(&classes(1), &ours, &[]), Err(SegmentationError::NoCases));
        assert_eq!(
            compared(&classes(1), &ours, &[ours.clone(), ours.clone()].concat()),
            Err(SegmentationError::NotPaired)
        );
        assert!(matches!(compared(&classes(2), &ours, &ours), Err(SegmentationError::Named { .. })));
    }
}
