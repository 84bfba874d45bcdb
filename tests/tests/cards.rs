//! What is made of the files of finished runs: a page about several, and a model card.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use kindling_tests::{Bench, CLASSES, Outcome, assert_says, json_of, kindling, train};

/// Three epochs of few steps, so that there are curves.
fn run(bench: &Bench, name: &str, flags: &str) -> std::path::PathBuf {
    let run = bench.path(name);
    Outcome::of(&mut train(bench.data(), &run, &format!("--batch-size 4 --epochs 3 {flags}"))).succeeded();
    run
}

fn card(run: &Path) -> String {
    Outcome::of(kindling().arg("card").arg(run)).succeeded().stdout
}

/// A score of a run as it is written for people.
fn accuracy(run: &Path) -> String {
    let scores = json_of(&run.join("scores.json"));
    let accuracy = scores["figures"].as_array().unwrap().iter().find(|figure| figure["name"] == "accuracy").unwrap();
    format!("{:.3}", accuracy["value"].as_f64().unwrap())
}

#[test]
fn runs_are_set_beside_each_other_on_one_page_that_loads_nothing() {
    let bench = Bench::new(20);
    let runs = [("first", "0.001"), ("second", "0.003"), ("third", "0.01")]
        .map(|(name, rate)| run(&bench, name, &format!("--lr {rate}")));
    let page = bench.path("page.html");
    let compare = |runs: &[std::path::PathBuf], page: &Path| {
        Outcome::of(kindling().arg("compare").args(runs).args(["--resamples", "100", "--html"]).arg(page))
    };
    let told = compare(&runs, &page).succeeded().stdout;
    assert!(told.contains("McNemar"), "the table is printed all the same: {told}");
    let text = fs::read_to_string(&page).unwrap();
    for (name, run) in ["first", "second", "third"].iter().zip(&runs) {
        assert!(text.matches(&run.display().to_string()).count() >= 4, "{name} is in the table and in each chart");
        assert!(text.contains(&accuracy(run)), "the accuracy of {name}");
    }
    for part in [
        "Training loss",
        "Validation loss",
        "Validation accuracy",
        "train.lr",
        "class=\"zero\"",
        "McNemar",
        "class=\"brand\"",
    ] {
        assert!(text.contains(part), "{part} is not on the page");
    }
    // Of three runs two are set against the first, in each of the plots.
    assert_eq!(text.matches("class=\"zero\"").count(), text.matches("class=\"chart forest\"").count());
    for word in ["http://", "https://", "<link", "url("] {
        assert!(!text.contains(word), "{word}");
    }

    compare(&runs, &page).succeeded();
    assert_eq!(fs::read_to_string(&page).unwrap(), text, "the same runs give the same page");

    // A page does not replace what a run is made of, and a run without its events still has scores to show.
    let config = fs::read(runs[0].join("config.toml")).unwrap();
    let sentence = compare(&runs, &runs[0].join("config.toml")).refused();
    assert_says(&sentence, &["config.toml", "belongs to the run"]);
    assert_eq!(fs::read(runs[0].join("config.toml")).unwrap(), config);
    runs.iter().for_each(|run| fs::remove_file(run.join("events.jsonl")).unwrap());
    compare(&runs, &page).succeeded();
    let text = fs::read_to_string(&page).unwrap();
    assert!(!text.contains("Training loss") && text.contains("class=\"zero\""));
}

#[test]
fn a_model_card_says_what_a_run_knows_and_marks_what_people_must_say() {
    let bench = Bench::new(20);
    let run = run(&bench, "run", "--seed 3");
    let text = card(&run);
    let sections: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let expected = ["Model details", "Intended use", "Factors", "Metrics", "Evaluation data", "Training data"];
    assert_eq!(sections[..6], expected, "{text}");
    let metrics = json_of(&run.join("metrics.json"));
    for known in [
        format!("| Parameters | {} |", metrics["parameters"]),
        format!("| Accuracy | {} |", accuracy(&run)),
        format!("| Classes | {} |", CLASSES.join(", ")),
        "| train.seed | 3 |".to_owned(),
        "| Input | 32 × 32 pixels, grey |".to_owned(),
        "Mitchell et al. (2019)".to_owned(),
        "no external test set".to_owned(),
        "pipeline_tag: image-classification".to_owned(),
    ] {
        assert!(text.contains(&known), "{known} is missing:\n{text}");
    }
    // All pictures are counted, by class and by split.
    let flow = json_of(&run.join("scores.json"))["flow"].clone();
    for row in flow.as_array().unwrap() {
        let (split, images, patients) = (row["split"].as_str().unwrap(), &row["images"], &row["patients"]);
        assert!(text.contains(&format!("| {split} | {images} | {patients} | 0 |")), "{split}: {text}");
    }
    for class in CLASSES {
        let line =
            text.lines().find(|line| line.starts_with(&format!("| {class} | ")) && line.matches('|').count() == 5);
        let counts = line.unwrap().split('|').filter_map(|cell| cell.trim().parse::<u64>().ok());
        assert_eq!(counts.sum::<u64>(), 20, "{class}");
    }
    let places = text.lines().filter(|line| line.starts_with("> **To be filled in by a person:**"));
    assert!(places.count() >= 6, "{text}");
    assert_eq!(card(&run), text, "the same files give the same card");
}

#[test]
fn a_card_that_somebody_has_filled_in_is_not_overwritten() {
    let bench = Bench::new(12);
    let run = run(&bench, "run", "");
    let path = run.join("model-card.md");
    let write = |path: &Path| Outcome::of(kindling().arg("card").arg(&run).arg("--out").arg(path));
    assert_eq!(write(&path).succeeded().stdout, "");
    assert_eq!(fs::read_to_string(&path).unwrap(), card(&run));
    write(&path).succeeded();
    fs::write(&path, "Intended use: none.\n").unwrap();
    assert_says(&write(&path).refused(), &["model-card.md", "is there already"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), "Intended use: none.\n");
    assert_says(&write(&run.join("scores.json")).refused(), &["scores.json", "belongs to the run"]);
}

#[test]
fn what_is_no_run_of_a_classifier_has_no_card() {
    let bench = Bench::new(12);
    let sentence = Outcome::of(kindling().arg("card").arg(bench.data())).refused();
    assert_says(&sentence, &["holds no run"]);
    let gan = bench.path("gan");
    fs::create_dir(&gan).unwrap();
    fs::write(gan.join("config.toml"), "[gan]\n").unwrap();
    assert_says(&Outcome::of(kindling().arg("card").arg(&gan)).refused(), &["GAN"]);

    // A run that was stopped before it had scores has a card that says so.
    let begun = bench.path("begun");
    fs::create_dir(&begun).unwrap();
    fs::write(begun.join("config.toml"), "[model]\nname = \"mobilenet_v2\"\n[data]\nsource = \"scans\"\n").unwrap();
    let text = card(&begun);
    assert!(text.contains("nothing was scored yet") && text.contains("mobilenet_v2"), "{text}");
    fs::write(begun.join("scores.json"), "nonsense").unwrap();
    let sentence = Outcome::of(kindling().arg("card").arg(&begun)).refused();
    assert_says(&sentence, &["scores.json", "cannot be understood"]);
}
