//! What the page as a whole promises.

use kindling_metrics::{FlowRow, Predictions, Resampling, Score, Scores};
use kindling_runs::{DeviceFacts, How, Metrics, RunDir, Sitting};

use super::*;

pub(super) fn step(step: u64, epoch: u64, loss: f64) -> Event {
    Event::Step {
        step,
        epoch,
        loss,
        lr: 1e-3,
        images_per_second: 40.0,
        micro_batch: if step > 20 { 4 } else { 8 },
        peak_memory_bytes: 3 << 30,
        gradient_norm: 1.0,
        waiting_seconds: 0.0,
        seconds: step as f64,
        together: None,
    }
}

fn evaluated(step: u64, epoch: u64, accuracy: f64) -> Event {
    let (split, accuracy, dice, mae, r2) = ("validation".into(), Some(accuracy), None, None, None);
    Event::Evaluated { step, epoch, split, loss: 0.5, accuracy, samples: 20, dice, mae, r2 }
}

/// A run whose every class has ten test images, of which one was taken for the next class.
struct Run {
    classes: Vec<String>,
    events: Vec<Event>,
    metrics: Metrics,
    scores: Option<Scores>,
    environment: Environment,
    history: Vec<Sitting>,
    pictures: Vec<SamplePicture>,
}

impl Run {
    fn new(classes: usize, events: Vec<Event>) -> Self {
        let names: Vec<String> = (0..classes).map(|class| format!("kind-{class}")).collect();
        let mut confusion = vec![vec![0; classes]; classes];
        for class in 0..classes {
            confusion[class][class] = 9;
            confusion[class][(class + 1) % classes] += 1;
        }
        let score = Score::from_confusion(0.4, confusion);
        let metrics = Metrics { majority_baseline: score.majority_baseline(), test: Some(score), ..Metrics::default() };
        let picture = |prediction| SamplePicture {
            png: vec![0x89, b'P', b'N', b'G'],
            map: (prediction == 1).then(|| vec![0x89, b'M', b'A', b'P']),
            shown: if prediction == 1 { Shown::Mistake } else { Shown::Spaced },
            name: format!("scan-{prediction}"),
            truth: vec![0],
            prediction: vec![prediction],
            probability: 0.9,
        };
        let environment = Environment::collect("0.22.1", DeviceFacts::default());
        Self {
            classes: names,
            events,
            metrics,
            scores: None,
            environment,
            history: Vec::new(),
            pictures: vec![picture(0), picture(1)],
        }
    }

    fn report(&self) -> Report<'_> {
        Report {
            title: "a run",
            model: "mobilenet_v2",
            data: "phantoms",
            classes: &self.classes,
            config_toml: "seed = 7",
            events: &self.events,
            metrics: &self.metrics,
            scores: self.scores.as_ref(),
            environment: &self.environment,
            history: &self.history,
            pictures: &self.pictures,
            majority_baseline: self.metrics.majority_baseline,
        }
    }

    fn html(&self) -> String {
        self.report().html().replace('\u{a0}', " ")
    }
}

/// Keeps the page for whoever wants to look at it: the folder is named by an environment variable.
pub(super) fn keep(name: &str, html: &str) {
    if let Some(folder) = std::env::var_os("KINDLING_KEEP_PAGES") {
        std::fs::write(std::path::Path::new(&folder).join(name), html).unwrap();
    }
}

fn short() -> Vec<Event> {
    let steps = (1..=40).map(|at| step(at, at.div_ceil(20), 1.0 / at as f64));
    steps.chain([evaluated(40, 2, 0.9), Event::Finished { step: 40, seconds: 40.0 }]).collect()
}

#[test]
fn the_page_says_its_verdict_against_the_majority_class_baseline() {
    let html = Run::new(3, short()).html();
    assert!(
        html.contains("90.0 % accuracy on the test split, against 33.3 % for the majority-class baseline"),
        "{html}"
    );
    assert!(html.contains("27 of 30 images right"), "{html}");
    assert!(!html.contains("Not finished"));
}

#[test]
fn a_model_that_answers_one_class_is_called_no_better_than_the_baseline() {
    let mut run = Run::new(2, short());
    let score = Score::from_confusion(0.7, vec![vec![6, 0], vec![4, 0]]);
    run.metrics.majority_baseline = score.majority_baseline();
    run.metrics.test = Some(score);
    assert!(run.html().contains("no better than the majority-class baseline (60.0 %)"));
}

#[test]
fn the_page_asks_nothing_of_the_network() {
    let html = Run::new(3, short()).html();
    for word in ["http://", "https://", "src=\"/", "url(", "@import", "<link"] {
        assert!(!html.contains(word), "{word}");
    }
    assert!(html.contains("default-src 'none'"));
}

#[test]
fn class_names_are_escaped() {
    for classes in [2, 30] {
        let mut run = Run::new(classes, short());
        run.classes[0] = "<script>alert(1)</script> & \"more\"".into();
        run.pictures[0].name = "<img src=x>".into();
        run.environment.command = vec!["<b>".into()];
        let html = run.html();
        assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;more&quot;"), "{classes}");
        assert!(!html.contains("<script>alert") && !html.contains("<img src=x>") && !html.contains("<b><"));
    }
}

#[test]
fn every_sitting_is_told_with_its_command_and_what_it_changed() {
    let mut run = Run::new(2, short());
    assert!(!run.html().contains("History"), "a run of an earlier version has none");
    let sitting = |how, from_step, words: &str, changed: &[(&str, &str)]| {
        let command = words.split(' ').map(str::to_string).collect();
        let changed = changed.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        Sitting { how, from_step, changed, environment: Environment { command, ..run.environment.clone() } }
    };
    run.history = vec![
        sitting(How::Started, 0, "kindling train --epochs 2", &[]),
        sitting(How::Extended, 24, "kindling train --resume <run>", &[("workers", "3")]),
    ];
    let html = run.html();
    assert!(html.contains("History") && html.contains("kindling train --epochs 2"), "{html}");
    assert!(html.contains("step 24") && html.contains("extended") && html.contains("--resume &lt;run&gt;"), "{html}");
    assert!(html.contains("; workers 3"), "{html}");
}

#[test]
fn a_wrong_answer_is_marked_by_more_than_colour() {
    let html = Run::new(3, short()).html();
    assert!(html.contains("✗") && html.contains("truth: <b>kind-0</b>"), "{html}");
    assert!(html.contains("Wrong answers have a dashed frame") && html.contains("Mistakes it is surest of"), "{html}");
    assert!(html.contains("alt=\"scan-1: answered kind-1, truth kind-0\""), "{html}");
}

#[test]
fn many_classes_are_a_heat_map_and_few_a_table() {
    for (classes, table) in [(2, true), (20, true), (21, false), (100, false)] {
        let html = Run::new(classes, short()).html();
        assert_eq!(html.contains("<table class=\"confusion"), table, "{classes}");
        assert_eq!(html.contains("<svg class=\"heat\""), !table, "{classes}");
        assert!(html.contains(&format!("kind-{}", classes - 1)), "{classes}");
    }
}

#[test]
fn a_long_run_makes_a_page_of_less_than_a_megabyte() {
    let steps = (1..=40_000).map(|at| step(at, at.div_ceil(100), if at % 999 == 0 { f64::NAN } else { 1.0 }));
    let events = steps.chain((1..=400).map(|epoch| evaluated(epoch * 100, epoch, 0.8))).collect();
    let html = Run::new(100, events).html();
    assert!(html.len() < 1_000_000, "{}", html.len());
}

#[test]
fn a_run_of_which_little_is_known_still_has_a_page() {
    let mut bare = Run::new(2, Vec::new());
    bare.metrics = Metrics::default();
    bare.classes.clear();
    bare.environment = Environment::default();
    assert!(bare.html().contains("Not evaluated yet"));
    bare.events = vec![step(1, 1, f64::NAN)];
    let html = bare.html();
    assert!(html.contains("Not a finite number at step 1") && html.contains("Not finished"), "{html}");
}

#[test]
fn what_happened_to_the_run_is_told() {
    let mut events = short();
    events.insert(30, Event::Interrupted { step: 30 });
    events.insert(31, Event::Resumed { step: 30 });
    let (during, reason) = ("training".to_string(), "out of device memory".to_string());
    let lever = "micro-batch 8 -> 4".to_string();
    events.insert(32, Event::Recovered { step: 30, during, reason, lever, seconds: 0.5 });
    let html = Run::new(3, events).html();
    for text in [
        "memory ran out in training: micro-batch 8 -&gt; 4",
        "micro-batch 8 → 4, same global batch",
        "interrupted and saved",
        "resumed",
        "finished after 40 s",
    ] {
        assert!(html.contains(text), "{text}");
    }
}

#[test]
fn an_interrupted_run_says_how_to_go_on() {
    let mut run = Run::new(3, vec![step(1, 1, 1.0), Event::Interrupted { step: 1 }]);
    run.metrics.run = "runs/one".into();
    assert!(run.html().contains("--resume runs/one"));
}

#[test]
fn the_files_of_a_run_can_be_written_and_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let dir = RunDir::create(Some(folder.path()), "m", "d").unwrap();
    let run = Run::new(3, short());
    dir.write_metrics(&run.metrics).unwrap();
    dir.write_environment(&run.environment).unwrap();
    dir.write_report(&run.report().html()).unwrap();
    assert_eq!(dir.read_metrics().unwrap(), run.metrics);
    assert_eq!(dir.read_environment().unwrap(), run.environment);
    assert!(std::fs::read_to_string(dir.report()).unwrap().starts_with("<!DOCTYPE html>"));
}

/// Scores of so many classes, each with ten images of five patients; every tenth answer is wrong.
fn scores(classes: usize) -> Scores {
    let images = 10 * classes;
    let truths: Vec<Vec<usize>> = (0..images).map(|image| vec![image / 10]).collect();
    let row = |image: usize| {
        let answer = if image % 10 == 3 { (image / 10 + 1) % classes } else { image / 10 };
        let sure = 0.6 + 0.03 * (image % 10) as f64;
        (0..classes).map(|class| if class == answer { sure } else { (1.0 - sure) / (classes - 1) as f64 }).collect()
    };
    let rows: Vec<Vec<f64>> = (0..images).map(row).collect();
    let patients: Vec<Option<String>> = (0..images).map(|image| Some((image / 2).to_string())).collect();
    let found = Predictions::new(classes, false, &truths, &rows, &patients).unwrap();
    let names: Vec<String> = (0..classes).map(|class| format!("kind-{class}")).collect();
    let mut scores = Scores::of("test", &names, &found, Some(&found), Resampling { resamples: 200, seed: 0 });
    scores.flow = vec![FlowRow { split: "train".into(), images: 70, patients: 35, left_out: 2 }];
    scores
}

#[test]
fn scores_have_intervals_curves_bands_and_what_they_are_of() {
    let mut run = Run::new(3, short());
    run.scores = Some(scores(3));
    let html = run.html();
    keep("run.html", &html);
    for text in [
        "30 images of 15 patients. Intervals: 200 resamples of the patients",
        "<th scope=\"row\">Accuracy</th><td>0.900</td>",
        "ROC: kind-2",
        "Precision and recall: kind-0",
        "Reliability",
        "Temperature, fitted on validation",
        "Calibration slope",
        "<th scope=\"row\">train</th><td>35</td><td>70</td><td>2</td>",
        "class=\"band\"",
    ] {
        assert!(html.contains(text), "{text}\n{html}");
    }
    assert!(!html.contains("NaN"), "{html}");
    assert!(!Run::new(3, short()).html().contains("95 % intervals"), "a run of an earlier version has none");
}

#[test]
fn scores_of_any_number_of_classes_make_a_page_of_less_than_a_megabyte() {
    for (classes, curves) in [(2, 1), (10, 10), (11, 0), (60, 0)] {
        let mut run = Run::new(classes, short());
        run.scores = Some(scores(classes));
        let html = run.html();
        assert_eq!(html.matches("ROC: kind-").count() / 2, curves, "{classes}: a title and its label each");
        assert!(html.len() < 1_000_000, "{classes}: {}", html.len());
    }
}

#[test]
fn images_stand_in_groups_and_maps_lie_over_them_where_there_are_any() {
    let mut run = Run::new(2, Vec::new());
    let page = run.report().html();
    let [mistakes, others] =
        ["Mistakes it is surest of", "Others, evenly spaced"].map(|title| page.find(title).unwrap());
    let [wrong, right] = ["scan-1", "scan-0"].map(|name| page.find(&format!(">{name}<")).unwrap());
    assert!(mistakes < wrong && wrong < others && others < right);
    assert!(!page.contains("What it is least sure of"), "an empty group has no title");
    assert_eq!(page.matches("class=\"map\"").count(), 1);
    assert!(page.contains("iU1BUA=="), "the map is in the page");
    run.pictures[1].map = None;
    assert!(!run.report().html().contains("Grad-CAM"));
}
