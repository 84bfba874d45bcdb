//! What a card promises.

use std::collections::BTreeMap;

use kindling_metrics::{
    ClassMaskScores, FlowRow, LengthUnit, NamedClass, Predictions, Resampling, Scores, SegmentationScores,
    SegmentedCase, VoxelCounts,
};
use kindling_runs::{DeviceFacts, Environment, Event, ListedSamples, Metrics, SplitCounts, TaskScores};

use super::*;

fn scores(classes: [&str; 2]) -> Scores {
    let truths: Vec<Vec<usize>> = (0..40).map(|image| vec![image % 2]).collect();
    let rows: Vec<Vec<f64>> = (0..40)
        .map(|image| {
            let sure = 0.55 + 0.01 * image as f64;
            if (image % 2 == 0) == (image % 5 != 0) { vec![sure, 1.0 - sure] } else { vec![1.0 - sure, sure] }
        })
        .collect();
    let patients: Vec<Option<String>> = (0..40).map(|image| Some(format!("p{}", image / 2))).collect();
    let predictions = Predictions::new(2, false, &truths, &rows, &patients).unwrap();
    let names = classes.map(str::to_owned);
    let resampling = Resampling { resamples: 200, seed: 0 };
    let mut scores = Scores::of("test", &names, &predictions, Some(&predictions), resampling);
    let row = |split: &str, images, left_out| FlowRow { split: split.into(), images, patients: images / 2, left_out };
    scores.flow = vec![row("train", 120, 1), row("val", 40, 0), row("test", 40, 0)];
    scores
}

fn record(classes: [&str; 2]) -> Record {
    let settings = [
        ("model.name", "mobilenet_v3_small"),
        ("model.start", "none"),
        ("data.source", "scans"),
        ("data.task", "multi-class"),
        ("data.opening.split_by", "group"),
        ("data.opening.split_rule", "keyed"),
        ("data.preprocess.size", "512"),
        ("data.preprocess.channels", "1"),
        ("train.lr", "0.001"),
        ("train.seed", "7"),
        ("train.micro_batch", "4"),
        ("workers", "2"),
    ];
    let counts = |count: usize| classes.map(|class| (class.to_owned(), count)).into_iter().collect::<BTreeMap<_, _>>();
    let split = |name: &str, count: usize| SplitCounts {
        split: name.into(),
        samples: 2 * count,
        groups: count,
        classes: counts(count),
    };
    Record {
        settings: settings.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        metrics: Some(Metrics {
            classes: classes.map(str::to_owned).to_vec(),
            parameters: 1_518_899,
            steps: 60,
            epochs: 6,
            best_epoch: Some(5),
            majority_baseline: 0.5,
            images_per_second: 41.5,
            peak_memory_bytes: 3 << 30,
            seconds: 252.4,
            precision: "f32".into(),
            ..Metrics::default()
        }),
        scores: Some(TaskScores::Classes(scores(classes))),
        events: vec![
            Event::Warned { step: 0, text: "grey images in colour files".into() },
            Event::Finished { step: 60, seconds: 252.4 },
        ],
        environment: Some(Environment {
            time: "2026-07-01T14:05:09+02:00".into(),
            kindling: "0.1.0".into(),
            burn: "0.22.1".into(),
            device: DeviceFacts { device: "cpu".into(), ..DeviceFacts::default() },
            ..Environment::default()
        }),
        history: Vec::new(),
        bad_samples: vec![("train".into(), 1)],
        samples: Some(ListedSamples {
            splits: vec![split("train", 60), split("val", 20), split("test", 20)],
            groups_in_several_splits: 0,
        }),
    }
}

const ARCHITECTURE: Architecture<'static> =
    Architecture { family: "MobileNetV3", paper: "Howard et al. 2019", reference: "torchvision" };

fn card(record: &Record) -> String {
    let text = Card { title: "a run", record, architecture: Some(&ARCHITECTURE) }.markdown();
    if let Some(folder) = std::env::var_os("KINDLING_KEEP_PAGES") {
        std::fs::write(std::path::Path::new(&folder).join("model-card.md"), &text).unwrap();
    }
    text.replace('\u{a0}', " ")
}

#[test]
fn the_sections_are_those_of_the_paper_in_its_order() {
    let text = card(&record(["benign", "malignant"]));
    let sections: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let expected = [
        "Model details",
        "Intended use",
        "Factors",
        "Metrics",
        "Evaluation data",
        "Training data",
        "Quantitative analyses",
        "Environment",
        "Ethical considerations",
        "Caveats and recommendations",
    ];
    assert_eq!(sections, expected);
    assert!(text.contains("Mitchell et al. (2019)") && text.contains("10.1145/3287560.3287596"));
}

#[test]
fn a_card_says_what_the_files_know() {
    let text = card(&record(["benign", "malignant"]));
    for expected in [
        "| Parameters | 1518899 |",
        "| Paper | Howard et al. 2019 |",
        "| Input | 512 × 512 pixels, grey |",
        "| Classes | benign, malignant |",
        "| Started from | weights drawn with the seed |",
        "| train | 120 | 60 | 1 |",
        "| malignant | 60 | 20 | 20 |",
        "drawn by the rule “keyed” and the seed 7: all images of a group",
        "No group has images in more than one split.",
        "Samples that could not be read: 1 of train",
        "| train.lr | 0.001 |",
        "| Accuracy | 0.8",
        "| Expected calibration error | ",
        "after temperature scaling",
        "200 resamples of the patients",
        "| Time of training | 4 min 12 s |",
        "no external test set",
        "Scores rest on 40 images of 20 patients.",
        "The run warned: grey images in colour files",
    ] {
        assert!(text.contains(expected), "{expected} is missing:\n{text}");
    }
    for absent in ["train.micro_batch", "workers", "not tell that the run has finished", "Classes with fewer"] {
        assert!(!text.contains(absent), "{absent}");
    }
}

#[test]
fn what_only_people_know_is_marked_and_stands_nowhere_else() {
    let text = card(&record(["benign", "malignant"]));
    let places: Vec<&str> =
        text.lines().filter(|line| line.starts_with("> **To be filled in by a person:**")).collect();
    assert_eq!(places.len(), 8, "{places:?}");
    for what in ["what the model is for", "must not be used for", "the population", "consent", "licence"] {
        assert!(places.iter().any(|place| place.contains(what)), "{what}");
    }
}

#[test]
fn metadata_above_the_card_is_what_the_hub_reads() {
    let text = card(&record(["benign", "malignant"]));
    let above = text.strip_prefix("---\n").and_then(|rest| rest.split("\n---\n").next()).unwrap();
    for line in
        ["library_name: kindling", "pipeline_tag: image-classification", "- name: \"a run\"", "      name: \"scans\""]
    {
        assert!(above.lines().any(|have| have == line), "{line}:\n{above}");
    }
    assert!(above.contains("- type: accuracy\n      value: 0.8"), "{above}");
}

#[test]
fn a_run_that_has_only_begun_has_a_card_that_says_so() {
    let begun = Record { settings: record(["a", "b"]).settings, ..Record::default() };
    let text = card(&begun);
    assert!(text.contains("nothing was scored yet") && text.contains("There are no scores."), "{text}");
    assert!(text.contains("not tell that the run has finished") && !text.contains("model-index"), "{text}");
    assert!(text.contains("pipeline_tag: image-classification") && text.contains("An image classifier"), "{text}");
    assert!(!card(&Record::default()).contains("NaN"));
}

#[test]
fn names_stay_names() {
    let bad = "a|b\n## x <script>";
    let mut record = record([bad, "b"]);
    record.settings.insert("data.source".into(), "---\n\"x\": [".into());
    let text = card(&record);
    assert!(!text.contains("<script>") && !text.contains("\n## x"), "{text}");
    assert!(text.contains("a\\|b \\#\\# x &lt;script&gt;"), "{text}");
    assert!(text.contains("name: \"---\\u000a\\\"x\\\": [\""), "{text}");
}

#[test]
fn the_same_files_give_the_same_card() {
    assert_eq!(card(&record(["a", "b"])), card(&record(["a", "b"])));
}

#[test]
fn the_model_of_a_fold_says_that_others_test_the_rest() {
    let sentence = "The model is that of fold 2/5 of a cross-validation";
    let mut record = record(["benign", "malignant"]);
    for (fold, is_said) in [("none", false), ("2/5", true)] {
        record.settings.insert("data.opening.fold".to_owned(), fold.to_owned());
        assert_eq!(card(&record).contains(sentence), is_said, "{fold}");
    }
}

/// A run that segments 30 cases of 15 patients, of which ten have no lesion, and one a lesion that only the truth has.
fn segmenting() -> Record {
    let class = |class: u32, dice: f64| ClassMaskScores {
        class,
        voxels: VoxelCounts::default(),
        dice,
        iou: dice / (2.0 - dice),
        hausdorff_95: if dice > 0.0 { 4.0 } else { f64::NAN },
        surface_dice: dice,
    };
    let case = |case: u32| {
        let lesion = if case.is_multiple_of(3) { f64::NAN } else { f64::from(case - 1) / 30.0 };
        SegmentedCase {
            sample: case.to_string(),
            group: Some((case / 2).to_string()),
            split: "test".into(),
            scores: vec![class(1, 0.9), class(2, lesion)],
        }
    };
    let cases: Vec<SegmentedCase> = (0..30).map(case).collect();
    let classes = [("liver", 1), ("le|sion", 2)].map(|(name, label)| NamedClass { name: name.into(), label });
    let resampling = Resampling { resamples: 200, seed: 0 };
    let scores = SegmentationScores::of("test", &classes, (2.0, LengthUnit::Millimetres), &cases, resampling).unwrap();
    Record { scores: Some(TaskScores::Masks(scores)), ..record(["liver", "le|sion"]) }
}

#[test]
fn the_card_of_a_run_that_segments_has_its_masks_scores() {
    let text = card(&segmenting());
    for expected in [
        "pipeline_tag: image-segmentation",
        "    - type: dice\n      value: 0.",
        "    - type: mean_iou\n      value: 0.",
        "A model that segments images, mobilenet_v3_small, trained on scans",
        "| Task | which pixels of an image are of which class |",
        "within 2 mm of the other, as in MONAI. 30 cases of 15 patients. Intervals: 200 resamples",
        "Scores are of the test split: 30 cases of 15 patients.",
        "| Dice, mean of the classes | 0.",
        "| class | cases | mean Dice | Dice | IoU | HD95 in mm | surface Dice |",
        "| le\\|sion | 20 | ",
        "| liver | 30 | 0.900 (0.900 to 0.900) | 0.900 (0.900 to 0.900) | 0.818 (0.818 to 0.818) | 4 (4 to 4) |",
        "distances leave out the worst: le\\|sion (1).",
        "No subgroups were scored.",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    assert!(!text.contains("classif") && !text.contains("NaN") && !text.contains("AUROC"), "{text}");
}

#[test]
fn the_card_of_a_run_that_is_to_segment_says_what_is_missing() {
    let evaluated = Event::Evaluated {
        step: 1,
        epoch: 1,
        split: "validation".into(),
        loss: 0.5,
        accuracy: Some(0.9),
        mae: None,
        r2: None,
        samples: 4,
        dice: Some(0.5),
    };
    let text = card(&Record { scores: None, events: vec![evaluated], ..segmenting() });
    assert!(
        text.contains("The run has no `segmentation.json`: nothing was scored yet.")
            && text.contains("There are no scores."),
        "{text}"
    );
    assert!(text.contains("pipeline_tag: image-segmentation") && !text.contains("model-index"), "{text}");
}

#[test]
fn the_card_of_a_run_that_answers_with_a_number_says_how_far_it_is_off() {
    let truth: Vec<f64> = (0..40).map(f64::from).collect();
    let said = truth.iter().map(|age| age + 1.0).collect();
    let values = kindling_metrics::Values::new(truth, said, vec![None; 40]).unwrap();
    let found = kindling_metrics::RegressionScores::of("test", "age", &values, kindling_metrics::Resampling::default());
    let text = card(&Record { scores: Some(TaskScores::Values(found)), ..record(["age", "b"]) });
    for expected in [
        "pipeline_tag: image-regression",
        "type: mae\n      value: 1.0000",
        "A model that gives an image a number",
        "Errors are in the unit of age.",
        "| Mean absolute error | 1.000 |",
        "Limit of agreement, upper",
        "In scored images, age is 0 to 39",
        "| Number | age",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    assert!(!text.contains("| Classes |") && !text.contains("| class |"), "{text}");
}
