//! Scores of segmentations against nnU-Net and MONAI; tests/reference/segmentation.py wrote what is expected.
#![allow(clippy::unwrap_used)]

use kindling_metrics::{ClassMaskScores, LabelMap, SegmentationScorer, SegmentedClass, SurfaceDice};
use serde_json::Value;

const REFERENCE: &str = include_str!("reference/segmentation.json");

fn document() -> Value {
    let document: Value = serde_json::from_str(REFERENCE).unwrap();
    assert_eq!(document["monai"], "1.6.1");
    assert_eq!(document["cases"].as_array().unwrap().len(), 23);
    document
}

fn numbers(values: &Value) -> Vec<f64> {
    values.as_array().unwrap().iter().map(|value| value.as_f64().unwrap_or(f64::NAN)).collect()
}

fn labels(case: &Value, key: &str) -> Vec<u8> {
    case[key].as_str().unwrap().bytes().map(|digit| digit - b'0').collect()
}

fn scores(document: &Value, case: &Value, surface_dice: SurfaceDice) -> Vec<ClassMaskScores> {
    let tolerances = numbers(&document["tolerances"]);
    let classes = numbers(&document["classes"]).into_iter().zip(tolerances);
    let classes = classes.map(|(index, tolerance)| SegmentedClass { index: index as u32, tolerance }).collect();
    let ignored = case["ignored"].as_u64().map(|label| label as u32);
    let scorer = SegmentationScorer::new(classes, ignored, surface_dice).unwrap();
    let shape: Vec<usize> = numbers(&case["shape"]).into_iter().map(|size| size as usize).collect();
    let (prediction, truth) = (labels(case, "prediction"), labels(case, "truth"));
    let prediction = LabelMap::new(&prediction, &shape).unwrap();
    let truth = LabelMap::new(&truth, &shape).unwrap();
    scorer.case(&prediction, &truth, &numbers(&case["spacing"])).unwrap()
}

/// Compares a score of every class of every case.
fn close(surface_dice: SurfaceDice, key: &str, tolerance: f64, score: impl Fn(&ClassMaskScores) -> f64) {
    let document = document();
    let (mut defined, mut undefined) = (0, 0);
    for case in document["cases"].as_array().unwrap() {
        for (found, expected) in scores(&document, case, surface_dice).iter().zip(numbers(&case[key])) {
            let (name, class, found) = (&case["name"], found.class, score(found));
            let same = found.is_nan() && expected.is_nan() || (found - expected).abs() <= tolerance * expected.max(1.0);
            assert!(same, "{name}, class {class}: {key} is {found}, the reference says {expected}");
            if expected.is_nan() { undefined += 1 } else { defined += 1 }
        }
    }
    assert!(defined > 40 && undefined > 3, "{key}: {defined} values and {undefined} undefined ones were compared");
}

#[test]
fn counts_equal_nnu_nets() {
    let document = document();
    for case in document["cases"].as_array().unwrap() {
        for (found, expected) in
            scores(&document, case, SurfaceDice::Voxels).iter().zip(case["voxels"].as_array().unwrap())
        {
            let voxels = found.voxels;
            let found = [voxels.true_positives, voxels.false_positives, voxels.false_negatives, voxels.true_negatives];
            assert_eq!(found.map(|count| count as f64).to_vec(), numbers(expected), "{}", case["name"]);
        }
    }
}

#[test]
fn dice_and_iou_equal_nnu_nets() {
    close(SurfaceDice::Voxels, "dice", 1e-15, |scores| scores.dice);
    close(SurfaceDice::Voxels, "iou", 1e-15, |scores| scores.iou);
}

#[test]
fn the_hausdorff_distance_equals_monais() {
    close(SurfaceDice::Voxels, "hausdorff_95", 1e-6, |scores| scores.hausdorff_95);
}

#[test]
fn the_surface_dice_equals_monais_by_voxels_and_by_area() {
    close(SurfaceDice::Voxels, "surface_dice", 1e-6, |scores| scores.surface_dice);
    close(SurfaceDice::Subvoxels, "surface_dice_subvoxels", 1e-6, |scores| scores.surface_dice);
}

#[test]
fn the_type_of_the_labels_changes_nothing() {
    let (truth, prediction) = ([0_u8, 1, 1, 0, 2, 2], [0_u32, 1, 2, 0, 2, 2]);
    let wide = truth.map(u16::from);
    let shape = [2, 3];
    let class = SegmentedClass { index: 2, tolerance: 0.0 };
    let scorer = SegmentationScorer::new(vec![class], None, SurfaceDice::Voxels).unwrap();
    let prediction = LabelMap::new(&prediction, &shape).unwrap();
    let narrow = scorer.case(&prediction, &LabelMap::new(&truth, &shape).unwrap(), &[1.0, 1.0]).unwrap();
    let wide = scorer.case(&prediction, &LabelMap::new(&wide, &shape).unwrap(), &[1.0, 1.0]).unwrap();
    assert_eq!(narrow, wide);
    assert_eq!(narrow[0].dice, 0.8);
}
