//! What intervals promise: that they hold the truth as often as they say, and are the same on any machine.
#![allow(clippy::unwrap_used)]

use kindling_metrics::{
    ClassMaskScores, LengthUnit, NamedClass, Predictions, Resampling, Scores, SegmentationScores, SegmentedCase,
    Subgroups, VoxelCounts, compare, overall,
};
use kindling_random::{Purpose, rng};
use rand::RngExt;

/// A draw from the standard normal distribution: Box and Muller 1958.
fn normal(rng: &mut impl RngExt) -> f64 {
    let (a, b): (f64, f64) = (rng.random(), rng.random());
    (-2.0 * (1.0 - a).ln()).sqrt() * (std::f64::consts::TAU * b).cos()
}

/// 60 patients, half of them ill, with 8 images each. An image's score is a shift of 1 for illness, plus a part of the patient and a
/// part of the image with the same variance: an intraclass correlation of one half.
fn study(seed: u64, by_patient: bool) -> Predictions {
    let mut rng = rng(seed, Purpose::Display, 0, 0);
    let (mut truths, mut rows, mut patients) = (Vec::new(), Vec::new(), Vec::new());
    for patient in 0..60 {
        let ill = patient % 2;
        let of_patient = normal(&mut rng);
        for _ in 0..8 {
            let score = ill as f64 + (of_patient + normal(&mut rng)) / 2.0_f64.sqrt();
            let probability = 1.0 / (1.0 + (-score).exp());
            truths.push(vec![ill]);
            rows.push(vec![1.0 - probability, probability]);
            patients.push(by_patient.then(|| patient.to_string()));
        }
    }
    Predictions::new(2, false, &truths, &rows, &patients).unwrap()
}

fn auroc_interval(predictions: &Predictions, resamples: usize, seed: u64) -> (f64, f64) {
    let figures = overall(predictions, Resampling { resamples, seed });
    figures.into_iter().find(|figure| figure.name == "macro_auroc").unwrap().interval.unwrap()
}

/// The area of the distribution itself: scores of the two kinds are normal, a shift of 1 apart with a variance of 1 each, so it is
/// the normal distribution function at 1 / sqrt(2).
const TRUE_AUROC: f64 = 0.760_249_938_906_523_3;

#[test]
fn intervals_by_patient_hold_the_truth_as_often_as_they_say_and_those_by_image_do_not() {
    const STUDIES: u64 = 400;
    let share = |by_patient: bool| {
        let holds = (0..STUDIES).filter(|study_seed| {
            let (low, high) = auroc_interval(&study(*study_seed, by_patient), 400, *study_seed);
            (low..=high).contains(&TRUE_AUROC)
        });
        holds.count() as f64 / STUDIES as f64
    };
    let (by_patient, by_image) = (share(true), share(false));
    assert!((0.93..=0.97).contains(&by_patient), "{by_patient} of the intervals by patient hold the truth");
    assert!((0.5..0.8).contains(&by_image), "{by_image} of the intervals by image hold the truth: they are too narrow");
}

#[test]
fn intervals_are_the_same_for_any_number_of_threads_and_others_for_another_seed() {
    let predictions = study(1, true);
    let names = ["well".to_string(), "ill".to_string()];
    let of = |threads: usize, seed: u64| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let resampling = Resampling { resamples: 300, seed };
        pool.install(|| Scores::of("test", &names, &predictions, Some(&study(2, true)), resampling))
    };
    assert_eq!(of(1, 5), of(3, 5));
    assert_ne!(of(1, 5).figures, of(1, 6).figures);
}

#[test]
fn intervals_of_segmentations_are_the_same_for_any_number_of_threads_and_others_for_another_seed() {
    let mut rng = rng(3, Purpose::Display, 0, 0);
    let mut class = |class: u32| {
        let dice = rng.random();
        let voxels = VoxelCounts::default();
        ClassMaskScores { class, voxels, dice, iou: dice / (2.0 - dice), hausdorff_95: f64::NAN, surface_dice: dice }
    };
    let mut case = |number: usize| SegmentedCase {
        sample: number.to_string(),
        group: Some((number / 3).to_string()),
        split: "val".into(),
        scores: vec![class(1), class(4)],
    };
    let cases: Vec<SegmentedCase> = (0..60).map(&mut case).collect();
    let classes = [("a", 1), ("b", 4)].map(|(name, label)| NamedClass { name: name.into(), label });
    let of = |threads: usize, seed: u64| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let resampling = Resampling { resamples: 300, seed };
        let scored = || SegmentationScores::of("val", &classes, (1.0, LengthUnit::Millimetres), &cases, resampling);
        pool.install(scored).unwrap()
    };
    assert_eq!(of(1, 5), of(3, 5));
    assert_ne!(of(1, 5).dice.interval, of(1, 6).dice.interval);
    assert_eq!(of(1, 5).dice.value, of(1, 6).dice.value);
}

#[test]
fn one_patient_says_nothing_of_others_and_has_no_interval() {
    let patients = vec![Some("a".to_string()); 4];
    let truths = [vec![0], vec![1], vec![0], vec![1]];
    let rows = [vec![0.9, 0.1], vec![0.2, 0.8], vec![0.6, 0.4], vec![0.7, 0.3]];
    let predictions = Predictions::new(2, false, &truths, &rows, &patients).unwrap();
    let scores = Scores::of("test", &["a".into(), "b".into()], &predictions, None, Resampling::default());
    assert_eq!(scores.resamples, 0);
    assert!(scores.figures.iter().all(|figure| figure.interval.is_none() && figure.value.is_finite()), "{scores:?}");
    assert!(scores.classes.iter().all(|class| class.cut_off.is_none()), "there is no validation");
}

#[test]
fn a_model_is_no_better_than_itself_and_clearly_better_than_one_that_knows_nothing() {
    let predictions = study(3, true);
    let resampling = Resampling { resamples: 500, seed: 1 };
    let same = compare(&predictions, &predictions, resampling).unwrap();
    assert!(same.differences.iter().all(|figure| figure.value == 0.0 && figure.interval == Some((0.0, 0.0))));
    assert_eq!(same.mcnemar.unwrap().p, 1.0);
    let images = predictions.images();
    let truths: Vec<Vec<usize>> = (0..images).map(|image| vec![predictions.truth(image)]).collect();
    let patients: Vec<Option<String>> = (0..images).map(|image| Some((image / 8).to_string())).collect();
    let mut rng = rng(9, Purpose::Display, 0, 0);
    let guesses: Vec<Vec<f64>> = (0..images).map(|_| rng.random()).map(|p: f64| vec![1.0 - p, p]).collect();
    let blind = Predictions::new(2, false, &truths, &guesses, &patients).unwrap();
    let found = compare(&predictions, &blind, resampling).unwrap();
    let auroc = found.differences.iter().find(|figure| figure.name == "macro_auroc").unwrap();
    assert!(auroc.interval.is_some_and(|(low, _)| low > 0.0), "{found:?}");
    assert!(found.mcnemar.unwrap().p < 0.01, "{found:?}");
}

#[test]
fn subgroups_say_what_they_leave_out() {
    let predictions = study(4, true);
    let value = |image: usize| match image {
        0..5 => Some("rare".to_string()),
        5..15 => None,
        _ => Some(["left", "right"][image % 2].to_string()),
    };
    let values: Vec<Option<String>> = (0..predictions.images()).map(value).collect();
    let found = Subgroups::of("side", &values, &predictions, Resampling { resamples: 50, seed: 0 });
    let shown: Vec<(&str, usize)> = found.groups.iter().map(|group| (group.value.as_str(), group.images)).collect();
    assert_eq!(shown, [("left", 232), ("right", 233)]);
    assert_eq!(found.left_out, ["10 images have no value", "rare: 5 images, fewer than 10 images"]);
    let names = ["well".to_string(), "ill".to_string()];
    let whole = Scores::of("test", &names, &predictions, None, Resampling { resamples: 0, seed: 0 });
    assert_eq!(found.groups[0].figures.len(), whole.figures.len());
}

#[test]
fn labels_of_which_an_image_may_have_several_are_scored_one_by_one() {
    let truths = [vec![0], vec![0, 1], vec![], vec![1], vec![0], vec![]];
    let rows = [vec![0.9, 0.2], vec![0.8, 0.6], vec![0.4, 0.6], vec![0.4, 0.9], vec![0.7, 0.7], vec![0.1, 0.1]];
    let predictions = Predictions::new(2, true, &truths, &rows, &vec![None; 6]).unwrap();
    let scores =
        Scores::of("test", &["a".into(), "b".into()], &predictions, None, Resampling { resamples: 0, seed: 0 });
    // Rows 0, 1, 3 and 5 have all labels right. Label b: pairs in the right order are 0.6 over 0.2 and 0.1 with a tie at 0.6, and
    // 0.9 over all four: (2.5 + 4) / 8.
    assert_eq!(scores.figure("accuracy").unwrap().value, 4.0 / 6.0);
    assert_eq!(scores.classes[1].figure("auroc").unwrap().value, 6.5 / 8.0);
    assert!(scores.figure("mcc").is_none() && scores.figure("quadratic_kappa").is_none());
}
