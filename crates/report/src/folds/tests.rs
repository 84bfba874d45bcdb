use kindling_metrics::{Figure, Predictions, Resampling, Scores};
use kindling_runs::{ClassSpread, CrossValidation, FoldScores, NamedSpread, Record, Spread};

use super::CrossValidationReport;

fn found(folds: usize) -> CrossValidation {
    let accuracy = |value: f64| Figure { name: "accuracy".into(), value, interval: Some((value - 0.1, value + 0.1)) };
    let of = |fold: usize| FoldScores {
        fold,
        run: format!("cv/fold-{fold}"),
        images: 8,
        patients: 3,
        figures: vec![accuracy(0.5 + fold as f64 / 100.0)],
        classes: Vec::new(),
    };
    let spread = |name: &str, value: f64| NamedSpread {
        name: name.into(),
        spread: Spread::of([value - 0.125, value, value + 0.125]).unwrap(),
    };
    let truths: Vec<Vec<usize>> = (0..24).map(|image| vec![image % 2]).collect();
    let rows: Vec<Vec<f64>> = (0..24).map(|image| (image % 2, image)).map(row).collect();
    let patients: Vec<Option<String>> = (0..24).map(|image| Some(format!("p{}", image / 3))).collect();
    let predictions = Predictions::new(2, false, &truths, &rows, &patients).unwrap();
    let names = ["a & b".to_owned(), "c".to_owned()];
    let resampling = Resampling { resamples: 50, ..Resampling::default() };
    CrossValidation {
        folds: (1..=folds).map(of).collect(),
        spread: vec![spread("accuracy", 0.5)],
        classes: vec![ClassSpread { class: "a & b".into(), scores: vec![spread("sensitivity", 0.75)] }],
        pooled: Scores::of("test", &names, &predictions, None, resampling),
    }
}

fn row((truth, image): (usize, usize)) -> Vec<f64> {
    let right = if image % 5 == 0 { 0.3 } else { 0.8 };
    if truth == 0 { vec![right, 1.0 - right] } else { vec![1.0 - right, right] }
}

#[test]
fn the_page_has_every_fold_the_whole_and_what_it_means() {
    let found = found(5);
    let folds = vec![Record::default(); 5];
    let page = CrossValidationReport { title: "cv <1>", found: &found, folds: &folds }.html();
    for part in [
        "over 5\u{a0}folds",
        "cv &lt;1&gt;",
        "Each of 24\u{a0}images of 8\u{a0}patients was tested once",
        "fold 5",
        "8\u{a0}images of 3\u{a0}patients",
        "0.500 ± 0.125",
        "0.750 ± 0.125",
        "a &amp; b",
        "the cut-off that each fold has chosen",
    ] {
        assert!(page.contains(part), "{part:?} is missing");
    }
    assert!(!page.contains("src=\"http") && page.contains("default-src 'none'"), "it asks nothing of the network");
    let pooled = found.pooled.figure("macro_auroc").unwrap();
    assert!(page.contains(&format!("AUROC, mean of the classes {:.3} (", pooled.value)));
}
