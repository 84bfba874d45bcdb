use kindling_metrics::{
    ClassMaskScores, Figure, LengthUnit, NamedClass, Predictions, RegressionScores, Resampling, Scores,
    SegmentationScores, SegmentedCase, Values, VoxelCounts,
};
use kindling_runs::{
    Answers, CaseTable, ClassSpread, CrossValidation, FoldScores, NamedSpread, PredictionTable, Record, Spread,
    TaskScores, ValueTable,
};

use super::CrossValidationReport;

const FEW: Resampling = Resampling { resamples: 50, seed: 0 };

/// Five folds with eight samples each of a score, and of a score of a class.
fn found(pooled: TaskScores, score: &str, of_a_class: &str) -> CrossValidation {
    let figure = |value: f64| Figure { name: score.into(), value, interval: Some((value - 0.1, value + 0.1)) };
    let of = |fold: usize| FoldScores {
        fold,
        run: format!("cv/fold-{fold}"),
        images: 8,
        patients: 3,
        figures: vec![figure(0.5 + fold as f64 / 100.0)],
        classes: Vec::new(),
    };
    let spread = |name: &str, value: f64| NamedSpread {
        name: name.into(),
        spread: Spread::of([value - 0.125, value, value + 0.125]).unwrap(),
    };
    let of_class = ClassSpread { class: "a & b".into(), scores: vec![spread(of_a_class, 0.75)] };
    CrossValidation {
        folds: (1..=5).map(of).collect(),
        spread: vec![spread(score, 0.5)],
        classes: if of_a_class.is_empty() { Vec::new() } else { vec![of_class] },
        pooled,
    }
}

fn page(found: &CrossValidation, answers: &Answers) -> String {
    let folds = vec![Record::default(); 5];
    let page = CrossValidationReport { title: "cv <1>", found, answers, folds: &folds }.html();
    assert!(!page.contains("src=\"http") && page.contains("default-src 'none'"), "it asks nothing of the network");
    page
}

/// Patients of three samples.
fn patients() -> Vec<Option<String>> {
    (0..24).map(|image| Some(format!("p{}", image / 3))).collect()
}

fn row((truth, image): (usize, usize)) -> Vec<f64> {
    let right = if image % 5 == 0 { 0.3 } else { 0.8 };
    if truth == 0 { vec![right, 1.0 - right] } else { vec![1.0 - right, right] }
}

#[test]
fn the_page_has_every_fold_the_whole_and_what_it_means() {
    let truths: Vec<Vec<usize>> = (0..24).map(|image| vec![image % 2]).collect();
    let rows: Vec<Vec<f64>> = (0..24).map(|image| (image % 2, image)).map(row).collect();
    let predictions = Predictions::new(2, false, &truths, &rows, &patients()).unwrap();
    let names = ["a & b".to_owned(), "c".to_owned()];
    let pooled = TaskScores::Classes(Scores::of("test", &names, &predictions, None, FEW));
    let found = found(pooled, "accuracy", "sensitivity");
    let page = page(&found, &Answers::Classes(PredictionTable::default()));
    for part in [
        "over 5\u{a0}folds",
        "cv &lt;1&gt;",
        "Each of 24\u{a0}images of 8\u{a0}patients was tested once",
        "fold 5",
        "8\u{a0}images of 3\u{a0}patients",
        "0.500 ± 0.125",
        "0.750 ± 0.125",
        "a &amp; b",
        "Each class against the others, mean",
        "the cut-off that each fold has chosen",
        "Areas under curves of all samples together",
    ] {
        assert!(page.contains(part), "{part:?} is missing");
    }
    let pooled = found.pooled.figure("macro_auroc").unwrap();
    assert!(page.contains(&format!("AUROC, mean of the classes {:.3} (", pooled.value)));
}

#[test]
fn the_page_about_numbers_has_their_plots_and_speaks_of_no_classes() {
    let (truth, said) = (0..24).map(|image| (f64::from(image), f64::from(image) + 0.5)).unzip();
    let values = Values::new(truth, said, patients()).unwrap();
    let found = found(TaskScores::Values(RegressionScores::of("test", "age", &values, FEW)), "mae", "");
    let page = page(&found, &Answers::Values(ValueTable::default()));
    for part in [
        "Mean absolute error 0.500 (",
        "Each of 24\u{a0}images of 8\u{a0}patients was tested once",
        "age in the test split",
        "Bland-Altman plot",
        "0.500 ± 0.125",
    ] {
        assert!(page.contains(part), "{part:?} is missing");
    }
    assert!(!page.contains("cut-off") && !page.contains("Areas under curves"));
}

#[test]
fn the_page_about_masks_has_every_case_as_a_dot_and_speaks_of_cases() {
    let classes = vec![NamedClass { name: "a & b".into(), label: 1 }];
    let scores = ClassMaskScores {
        class: 1,
        voxels: VoxelCounts::default(),
        dice: 0.75,
        iou: 0.6,
        hausdorff_95: 1.0,
        surface_dice: 1.0,
    };
    let case = |(at, group): (usize, Option<String>)| SegmentedCase {
        sample: format!("slice {at}"),
        group,
        split: "test".into(),
        scores: vec![scores],
    };
    let cases: Vec<SegmentedCase> = patients().into_iter().enumerate().map(case).collect();
    let pooled = SegmentationScores::of("test", &classes, (2.0, LengthUnit::Pixels), &cases, FEW).unwrap();
    let found = found(TaskScores::Masks(pooled), "mean_dice", "dice");
    let page = page(&found, &Answers::Masks(CaseTable { classes, cases }));
    for part in [
        "Dice, mean of the classes 0.750 (",
        "Each of 24\u{a0}cases of 8\u{a0}patients was tested once",
        "8\u{a0}cases of 3\u{a0}patients",
        "slice 23",
        "0.500 ± 0.125",
        "0.750 ± 0.125",
        "Each class, mean",
    ] {
        assert!(page.contains(part), "{part:?} is missing");
    }
    assert!(!page.contains("the cut-off that") && !page.contains("against the others"));
}
