//! What the page of several runs promises.

use std::collections::BTreeMap;

use kindling_metrics::{
    ClassMaskScores, LengthUnit, NamedClass, Predictions, Resampling, Scores, SegmentationScores, SegmentedCase,
    VoxelCounts, compare, compare_cases,
};
use kindling_runs::{Event, Metrics, TaskScores};

use super::*;

/// Predictions of 40 images of 20 patients, of which about every `wrong`-th is wrong.
fn predictions(wrong: usize) -> Predictions {
    let truths: Vec<Vec<usize>> = (0..40).map(|image| vec![image % 2]).collect();
    let rows: Vec<Vec<f64>> = (0..40)
        .map(|image| {
            let sure = 0.6 + 0.39 * (image % 5) as f64 / 4.0;
            let says_second = (image % 2 == 1) != (image % wrong == 1);
            if says_second { vec![1.0 - sure, sure] } else { vec![sure, 1.0 - sure] }
        })
        .collect();
    let patients: Vec<Option<String>> = (0..40).map(|image| Some(format!("p{}", image / 2))).collect();
    Predictions::new(2, false, &truths, &rows, &patients).unwrap()
}

fn events(steps: u64, rate: f64) -> Vec<Event> {
    let step = |at: u64| Event::Step {
        step: at,
        epoch: at.div_ceil(10),
        loss: (-rate * at as f64).exp() + 0.1 * ((at * 7 % 5) as f64 / 5.0),
        lr: 1e-3,
        images_per_second: 40.0,
        micro_batch: 8,
        peak_memory_bytes: 3 << 30,
        gradient_norm: 1.0,
        waiting_seconds: 0.0,
        seconds: at as f64,
        together: None,
    };
    let evaluated = |epoch: u64| Event::Evaluated {
        step: 10 * epoch,
        epoch,
        split: "validation".into(),
        loss: 0.2 + (-rate * 10.0 * epoch as f64).exp(),
        accuracy: Some(0.95 - 0.5 * (-rate * 10.0 * epoch as f64).exp()),
        mae: None,
        r2: None,
        samples: 20,
        dice: None,
    };
    (1..=steps).map(step).chain((1..=steps / 10).map(evaluated)).collect()
}

/// Runs with their predictions, of which the first is the one the others are set against.
struct Runs {
    names: Vec<String>,
    records: Vec<Record>,
    paired: Vec<Option<Paired>>,
}

impl Runs {
    fn new(count: usize) -> Self {
        let resampling = Resampling { resamples: 200, seed: 0 };
        let first = predictions(4);
        let (mut records, mut paired) = (Vec::new(), Vec::new());
        for run in 0..count {
            let wrong = 4 + 3 * run;
            let own = predictions(wrong);
            let settings = [
                ("model.name", "mobilenet_v3_small".to_owned()),
                ("data.source", "scans".to_owned()),
                ("train.lr", format!("{}", 0.001 * (run + 1) as f64)),
                ("train.seed", "0".to_owned()),
            ];
            let settings: BTreeMap<String, String> =
                settings.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
            records.push(Record {
                settings,
                metrics: Some(Metrics {
                    steps: 60,
                    epochs: 6,
                    parameters: 1_518_899,
                    images_per_second: 41.5,
                    peak_memory_bytes: (2 + run as u64) << 30,
                    seconds: 252.4,
                    precision: "f32".into(),
                    ..Metrics::default()
                }),
                scores: Some(TaskScores::Classes(Scores::of(
                    "test",
                    &["no".into(), "yes".into()],
                    &own,
                    None,
                    resampling,
                ))),
                events: events(60, 0.02 + 0.015 * run as f64),
                ..Record::default()
            });
            paired.push((run > 0).then(|| compare(&own, &first, resampling).unwrap()));
        }
        let names = (0..count).map(|run| format!("20260701-1405{run:02}-mobilenet_v3_small-scans")).collect();
        Self { names, records, paired }
    }

    fn html(&self) -> String {
        let run = |index: usize| ComparedRun {
            folds: None,
            name: &self.names[index],
            record: &self.records[index],
            paired: self.paired[index].as_ref(),
        };
        let runs: Vec<ComparedRun<'_>> = (0..self.names.len()).map(run).collect();
        Comparison { split: "test", resamples: 200, runs: &runs }.html().replace('\u{a0}', " ")
    }
}

/// Keeps the page for whoever wants to look at it: the folder is named by an environment variable.
fn keep(name: &str, html: &str) {
    if let Some(folder) = std::env::var_os("KINDLING_KEEP_PAGES") {
        std::fs::write(std::path::Path::new(&folder).join(name), html).unwrap();
    }
}

#[test]
fn all_runs_stand_in_the_table_the_charts_and_the_differences() {
    let runs = Runs::new(3);
    let html = runs.html();
    keep("compare.html", &html);
    for name in &runs.names {
        assert!(html.matches(name.as_str()).count() >= 4, "{name} is in the table, in each chart, and below");
    }
    for title in ["Training loss", "Validation loss", "Validation accuracy"] {
        assert!(html.contains(&format!("<h3>{title}</h3>")), "{title}");
    }
    assert!(html.contains("train.lr") && !html.contains("train.seed"), "only what was set otherwise is listed");
    for text in ["41.5", "3.0 GiB", "4 min 12 s", "1.52 M", "40 images of 20 patients", "McNemar"] {
        assert!(html.contains(text), "{text}");
    }
    let plots = html.matches("class=\"chart forest\"").count();
    assert_eq!((plots, html.matches("class=\"zero\"").count()), (10, 10), "one for each score, each with its 0");
}

#[test]
fn each_of_many_runs_has_a_line_of_its_own() {
    let looks: std::collections::BTreeSet<String> =
        (0..30).map(|run| format!("{} {:?}", colour(run), stroke(run))).collect();
    assert_eq!(looks.len(), 30);
    assert!((0..29).all(|run| colour(run) != colour(run + 1) && stroke(run) != stroke(run + 1)));
    let html = Runs::new(8).html();
    keep("compare-many.html", &html);
    assert!((0..PATTERNS).all(|pattern| html.contains(&format!("line pattern{pattern}"))));
}

#[test]
fn a_run_that_lacks_files_is_shown_with_what_it_has() {
    let mut runs = Runs::new(2);
    runs.records[1] = Record { settings: runs.records[1].settings.clone(), ..Record::default() };
    let html = runs.html();
    assert!(html.contains("<td>–</td>"), "{html}");
    runs.records[0] = Record::default();
    let bare = runs.html();
    assert!(!bare.contains("<h2>Curves</h2>") && bare.contains("McNemar"), "{bare}");
}

#[test]
fn names_and_settings_are_escaped() {
    let mut runs = Runs::new(2);
    let bad = "<script>alert(1)</script>\"'&";
    runs.names = vec![bad.to_owned(), format!("{bad}|\n")];
    for record in &mut runs.records {
        record.settings.insert("model.name".into(), bad.into());
    }
    runs.records[0].settings.insert(bad.into(), bad.into());
    let html = runs.html();
    assert!(!html.contains("<script>alert") && html.contains("&lt;script&gt;alert(1)"), "{html}");
}

#[test]
fn the_page_asks_nothing_of_the_network_and_is_small() {
    let html = Runs::new(6).html();
    for word in ["http://", "https://", "src=\"/", "url(", "@import", "<link"] {
        assert!(!html.contains(word), "{word}");
    }
    assert!(html.contains("default-src 'none'") && html.contains("prefers-color-scheme: dark"));
    assert!(html.len() < 200_000, "{} bytes", html.len());
    assert_eq!(html, Runs::new(6).html(), "the same runs give the same page");
}

/// Runs that segment 30 cases of 15 patients, each better than the one before.
fn segmenting(count: usize) -> Runs {
    let mut runs = Runs::new(count);
    let classes = [("liver", 1), ("lesion", 2)].map(|(name, label)| NamedClass { name: name.into(), label });
    let cases = |run: usize| -> Vec<SegmentedCase> {
        let class = |case: usize, class: u32| {
            let dice = 0.5 + 0.1 * run as f64 + 0.05 * ((case * 7 + class as usize) % 5) as f64;
            let voxels = VoxelCounts::default();
            ClassMaskScores { class, voxels, dice, iou: dice / (2.0 - dice), hausdorff_95: 1.0, surface_dice: dice }
        };
        let case = |case: usize| SegmentedCase {
            sample: case.to_string(),
            group: Some((case / 2).to_string()),
            split: "test".into(),
            scores: vec![class(case, 1), class(case, 2)],
        };
        (0..30).map(case).collect()
    };
    let resampling = Resampling { resamples: 200, seed: 0 };
    for (run, record) in runs.records.iter_mut().enumerate() {
        let own = cases(run);
        let scores = SegmentationScores::of("test", &classes, (1.0, LengthUnit::Pixels), &own, resampling).unwrap();
        record.scores = Some(TaskScores::Masks(scores));
        for event in &mut record.events {
            if let Event::Evaluated { accuracy, dice, .. } = event {
                *dice = accuracy.map(|accuracy| accuracy - 0.1);
            }
        }
        runs.paired[run] = (run > 0).then(|| compare_cases(&classes, &own, &cases(0), resampling).unwrap());
    }
    runs
}

#[test]
fn runs_that_segment_are_compared_by_their_dice() {
    let html = segmenting(3).html();
    keep("compare-masks.html", &html);
    for text in [
        "30 cases of 15 patients",
        "Scores, test split",
        "<th scope=\"row\">Dice, mean of the classes</th>",
        "<th scope=\"row\">Dice: lesion</th>",
        "<h3>Validation Dice</h3>",
        "<h3>Dice: liver</h3>",
        "run 2: +0.100 (+0.100 to +0.100)",
        "30 common cases of 15 patients",
    ] {
        assert!(html.contains(text), "{text}\n{html}");
    }
    assert_eq!(html.matches("class=\"chart forest\"").count(), 4, "Dice and IoU, and Dice of each class");
    assert!(!html.contains("McNemar") && !html.contains("Validation accuracy"), "{html}");
}

#[test]
fn a_run_that_segments_stands_beside_one_that_classifies_with_what_either_has() {
    let mut runs = segmenting(2);
    runs.records[0] = Runs::new(1).records.remove(0);
    runs.paired[1] = None;
    let html = runs.html();
    for text in ["40 images of 20 patients", "30 cases of 15 patients", "Validation accuracy", "Validation Dice"] {
        assert!(html.contains(text), "{text}");
    }
}
