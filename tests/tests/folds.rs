//! `kindling train --folds`: every sample is tested once by a model that has not seen its patient, and whatever stops it, the same
//! command line ends with the same bits.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kindling_tests::{
    Bench, CLASSES, Outcome, Started, assert_same_bits, columns, json_of, kindling, newest_step, picture_folder, steps,
    train,
};
use tempfile::{TempDir, tempdir};

const FLAGS: &str = "--batch-size 8 --epochs 2 --checkpoint-steps 2";
const FOLDS: usize = 3;
/// Pictures of each class, and of each patient.
const EACH: usize = 15;
const OF_A_PATIENT: usize = 3;
const SAMPLES: usize = EACH * CLASSES.len();

struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempdir().unwrap();
        let pictures = folder.path().join("pictures");
        picture_folder(&pictures, EACH);
        let mut manifest = "path,label,group\n".to_owned();
        let mut number = 0;
        for class in CLASSES {
            for index in 0..EACH {
                let patient = number / OF_A_PATIENT;
                manifest += &format!("pictures/{class}/{index:02}.png,{class},patient {patient}\n");
                number += 1;
            }
        }
        fs::write(folder.path().join("manifest.csv"), manifest).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn train(&self, out: &str, more: &str) -> Command {
        train(&self.path("manifest.csv"), &self.path(out), &format!("{FLAGS} {more}"))
    }

    fn folds(&self, out: &str) -> Command {
        self.train(out, &format!("--folds {FOLDS}"))
    }
}

/// A line of the pooled predictions.
struct Predicted {
    sample: String,
    patient: String,
    fold: String,
    is_right: bool,
}

/// Reads `sample,group,split,truth,p:CLASS,p:CLASS,p:CLASS,fold`; no name of this data set has a comma.
fn predictions(path: &Path) -> Vec<Predicted> {
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().unwrap();
    assert_eq!([&header[..4], &header[7..]].concat(), ["sample", "group", "split", "truth", "fold"]);
    let of = |fields: Vec<&str>| {
        assert_eq!(fields[2], "test");
        let probability = |column: usize| fields[column].parse::<f64>().unwrap();
        let answer = (4..7).max_by(|a, b| probability(*a).total_cmp(&probability(*b))).unwrap();
        Predicted {
            sample: fields[0].to_owned(),
            patient: fields[1].to_owned(),
            fold: fields[7].to_owned(),
            is_right: header[answer] == format!("p:{}", fields[3]),
        }
    };
    lines.map(of).collect()
}

#[test]
fn every_sample_is_tested_once_and_no_patient_by_a_model_that_has_seen_it() {
    let place = Place::new();
    let said = Outcome::of(&mut place.folds("cv")).succeeded().result();
    let table = predictions(&place.path("cv/predictions.csv"));
    let samples: BTreeSet<&str> = table.iter().map(|image| image.sample.as_str()).collect();
    assert_eq!((samples.len(), table.len()), (SAMPLES, SAMPLES));
    let mut of_patient: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for image in &table {
        of_patient.entry(&image.patient).or_default().insert(&image.fold);
    }
    assert_eq!(of_patient.len(), SAMPLES / OF_A_PATIENT);
    for (patient, folds) in of_patient {
        assert_eq!(folds.len(), 1, "{patient} is tested by folds {folds:?}");
        for fold in folds {
            let list = fs::read_to_string(place.path(&format!("cv/fold-{fold}/data.csv"))).unwrap();
            let of = |line: &&str| line.split(',').any(|field| field == patient);
            let lines: Vec<&str> = list.lines().filter(of).collect();
            assert_eq!(lines.len(), OF_A_PATIENT, "{patient} in fold {fold}");
            assert!(lines.iter().all(|line| line.split(',').any(|field| field == "test")), "{lines:?}");
        }
    }

    // The figures are those of the table, and the table can be scored again.
    let accuracy = table.iter().filter(|image| image.is_right).count() as f64 / table.len() as f64;
    assert!((said["test_accuracy"].as_f64().unwrap() - accuracy).abs() < 1e-12, "{said} {accuracy}");
    let found = json_of(&place.path("cv/cross-validation.json"));
    let figure = |figures: &serde_json::Value, name: &str| {
        figures.as_array().unwrap().iter().find(|figure| figure["name"] == name).unwrap().clone()
    };
    let mut again = kindling();
    again.args(["eval", "--format", "json", "--from"]).arg(place.path("cv/predictions.csv"));
    let again: serde_json::Value = serde_json::from_str(&Outcome::of(&mut again).succeeded().stdout).unwrap();
    for name in ["accuracy", "macro_auroc", "brier"] {
        assert_eq!(figure(&again["scores"]["figures"], name), figure(&found["pooled"]["figures"], name));
    }
    for (index, fold) in found["folds"].as_array().unwrap().iter().enumerate() {
        let own = json_of(&place.path(&format!("cv/fold-{}/metrics.json", index + 1)));
        assert_eq!(figure(&fold["figures"], "accuracy")["value"], own["test"]["accuracy"], "fold {index}");
    }
    let page = fs::read_to_string(place.path("cv/report.html")).unwrap();
    assert!(page.contains("over 3\u{a0}folds") && page.contains("of 15\u{a0}patients was tested once"));
}

#[test]
fn a_cross_validation_that_is_killed_goes_on_and_folds_of_a_job_array_are_the_same() {
    let place = Place::new();
    // One by one, as the jobs of an array train them.
    for fold in 1..=FOLDS {
        let flags = format!("--fold {fold}/{FOLDS}");
        Outcome::of(&mut place.train(&format!("array/fold-{fold}"), &flags)).succeeded();
    }
    Outcome::of(&mut place.folds("array")).succeeded();
    for fold in 1..=FOLDS {
        let history = fs::read_to_string(place.path(&format!("array/fold-{fold}/history.jsonl"))).unwrap();
        assert_eq!(history.lines().count(), 1, "fold {fold} was finished, and is only reported: {history}");
    }

    let second = place.path("stopped/fold-2");
    let mut child = Started::new(place.folds("stopped"), &second);
    child.until_step(2);
    let outcome = child.signal("TERM", 1);
    assert_eq!(outcome.code, Some(143), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("stopped in fold 2/3"), "{}", outcome.stderr);
    let done = newest_step(&second);
    assert!((2..steps(&place.path("array/fold-2")).len() as u64).contains(&done), "stopped after step {done}");
    assert!(!place.path("stopped/predictions.csv").exists());

    Outcome::of(&mut place.folds("stopped")).succeeded();
    for fold in 1..=FOLDS {
        let [array, stopped] = ["array", "stopped"].map(|out| place.path(&format!("{out}/fold-{fold}")));
        assert_same_bits(&array, &stopped, &format!("fold {fold}"));
    }
    let [array, stopped] = ["array", "stopped"].map(|out| fs::read(place.path(out).join("predictions.csv")).unwrap());
    assert_eq!(array, stopped);
}

#[test]
fn what_cannot_be_cross_validated_is_one_sentence() {
    let place = Place::new();
    let sentence = Outcome::of(&mut place.train("refused", "--fold 1/16")).refused();
    assert!(sentence.contains("too few groups") && sentence.contains("at least 16"), "{sentence}");
    let sentence = Outcome::of(&mut place.train("refused", "--fold 1/46 --split-by none")).refused();
    assert!(sentence.contains("too few samples for a cross-validation with 46 folds"), "{sentence}");
    let sentence = Outcome::of(&mut place.train("refused", "--fold 1/2")).refused();
    assert!(sentence.contains("there is no fold 1/2") && sentence.contains("at least 3 folds"), "{sentence}");
    for flags in ["--fold 4/3", "--folds 2", "--folds 3 --fold 1/3"] {
        Outcome::of(&mut place.train("refused", flags)).refused();
    }
    let mut phantoms = kindling();
    phantoms.args("train --device cpu --image-size 32 --fold 1/3 --out".split(' ')).arg(place.path("refused"));
    let sentence = Outcome::of(&mut phantoms).refused();
    assert!(sentence.contains("--fold") && sentence.contains("phantoms brings its own"), "{sentence}");
    assert!(!place.path("refused").exists(), "a folder is left behind");

    // Data with splits has no folds.
    let text = fs::read_to_string(place.path("manifest.csv")).unwrap();
    let with_split: Vec<String> = text.lines().enumerate().map(|(at, line)| format!("{line},{}", split(at))).collect();
    fs::write(place.path("split.csv"), with_split.join("\n")).unwrap();
    let mut command = train(&place.path("split.csv"), &place.path("refused"), &format!("{FLAGS} --fold 1/3"));
    let sentence = Outcome::of(&mut command).refused();
    assert!(sentence.contains("says itself") && sentence.contains("fold 1/3"), "{sentence}");

    // A run goes on in the fold it was started with.
    Outcome::of(&mut place.train("run", "--fold 1/3 --max-steps 2")).succeeded();
    let mut other = kindling();
    other.args(["train", "--fold", "2/3", "--resume"]).arg(place.path("run"));
    let sentence = Outcome::of(&mut other).refused();
    assert!(sentence.contains("--fold is 2/3, the run has 1/3"), "{sentence}");
}

fn number(text: &str) -> f64 {
    text.parse().unwrap()
}

/// A score of the second cross-validation less that of the first, and the page about both.
fn compared(folders: [&Path; 2], name: &str) -> (f64, String) {
    let page = folders[0].with_extension("html");
    let mut compare = kindling();
    compare.args(["compare", "--format", "json", "--resamples", "50", "--html"]).arg(&page).args(folders);
    let found: serde_json::Value = serde_json::from_str(&Outcome::of(&mut compare).succeeded().stdout).unwrap();
    let differences = found["against"][0]["scores"]["differences"].as_array().unwrap().clone();
    let difference = differences.iter().find(|figure| figure["name"] == name).unwrap();
    (difference["value"].as_f64().unwrap(), fs::read_to_string(page).unwrap())
}

#[test]
fn numbers_are_cross_validated_by_patient_and_compared() {
    let place = Place::new();
    let text = fs::read_to_string(place.path("manifest.csv")).unwrap();
    let of_line = |(line, text): (usize, &str)| match line.checked_sub(1) {
        None => format!("{text},width\n"),
        Some(sample) => format!("{text},{}\n", 100 + sample),
    };
    fs::write(place.path("numbers.csv"), text.lines().enumerate().map(of_line).collect::<String>()).unwrap();
    let cross_validate = |out: &str, more: &str| {
        let flags = format!("--batch-size 8 --max-steps 3 --target width --folds {FOLDS} {more}");
        Outcome::of(&mut train(&place.path("numbers.csv"), &place.path(out), &flags)).succeeded().result()
    };
    let said = cross_validate("one", "");
    let table = columns(&place.path("one/predictions.csv"), ["sample", "group", "fold", "truth", "prediction"]);
    let samples: BTreeSet<&str> = table.iter().map(|row| row[0].as_str()).collect();
    assert_eq!((samples.len(), table.len()), (SAMPLES, SAMPLES), "each is tested once");
    let of_patient: BTreeSet<(&str, &str)> = table.iter().map(|row| (row[1].as_str(), row[2].as_str())).collect();
    assert_eq!(of_patient.len(), SAMPLES / OF_A_PATIENT, "and each patient by one fold");
    let mean = |table: &[[String; 5]]| {
        table.iter().map(|row| (number(&row[3]) - number(&row[4])).abs()).sum::<f64>() / table.len() as f64
    };
    assert!((said["test_mae"].as_f64().unwrap() - mean(&table)).abs() < 1e-9, "{said}");
    let page = fs::read_to_string(place.path("one/report.html")).unwrap();
    assert!(page.contains("Bland-Altman plot") && page.contains("of 15\u{a0}patients was tested once"));

    cross_validate("other", "--lr 0.0001");
    let others = columns(&place.path("other/predictions.csv"), ["sample", "group", "fold", "truth", "prediction"]);
    let (difference, page) = compared([&place.path("one"), &place.path("other")], "mae");
    assert!((difference - (mean(&others) - mean(&table))).abs() < 1e-9, "{difference}");
    assert!(page.contains("Fold by fold") && page.contains("R²"));
}

#[test]
fn masks_are_cross_validated_and_compared() {
    let bench = Bench::for_model("unet-timm-mobilenetv3_small_100", 6);
    let cross_validate = |out: &str, more: &str| {
        let flags = "--model unet-timm-mobilenetv3_small_100 --image-size 64 --batch-size 4 --workers 1 --max-steps 3";
        let flags = format!("{flags} --folds {FOLDS} {more}");
        Outcome::of(&mut bench.command(out, &flags, "")).succeeded().result()
    };
    let said = cross_validate("one", "");
    let cases = columns(&bench.path("one/cases.csv"), ["sample", "split", "dice"]);
    let samples: BTreeSet<&str> = cases.iter().map(|row| row[0].as_str()).collect();
    assert_eq!((samples.len(), cases.len()), (18, 18), "each is tested once: {cases:?}");
    assert!(cases.iter().all(|row| row[1] == "test"));
    let mean = |cases: &[[String; 3]]| {
        let defined: Vec<f64> = cases.iter().filter_map(|row| row[2].parse().ok()).collect();
        defined.iter().sum::<f64>() / defined.len() as f64
    };
    assert!((said["test_dice"].as_f64().unwrap() - mean(&cases)).abs() < 1e-12, "{said}");
    let mut of_folds = Vec::new();
    for fold in 1..=FOLDS {
        let own = columns(&bench.path(&format!("one/fold-{fold}/cases.csv")), ["sample", "split", "dice"]);
        of_folds.extend(own.into_iter().filter(|row| row[1] == "test"));
    }
    assert_eq!(of_folds, cases, "by the fold that has tested it");
    let page = fs::read_to_string(bench.path("one/report.html")).unwrap();
    assert!(page.contains("Each of 18\u{a0}cases was tested once") && page.contains("Dice of every case"));

    cross_validate("other", "--lr 0.0001");
    let others = columns(&bench.path("other/cases.csv"), ["sample", "split", "dice"]);
    let (difference, page) = compared([&bench.path("one"), &bench.path("other")], "mean_dice");
    let both = |rows: &[[String; 3]]| rows.iter().map(|row| row[0].clone()).collect::<BTreeSet<_>>();
    assert_eq!(both(&others), both(&cases));
    assert!((difference - (mean(&others) - mean(&cases))).abs() < 1e-12, "{difference}");
    assert!(page.contains("Fold by fold") && page.contains("Dice, mean of the classes"));
}

fn split(line: usize) -> &'static str {
    // Patients of three pictures each; the first line names the columns.
    match line.checked_sub(1).map(|sample| sample / OF_A_PATIENT % 5) {
        None => "split",
        Some(0) => "test",
        Some(1) => "val",
        Some(_) => "train",
    }
}

#[test]
fn whole_cross_validations_are_compared_on_what_their_folds_have_tested() {
    let place = Place::new();
    let cross_validate = |out: &str, more: &str| {
        Outcome::of(&mut place.train(out, &format!("--folds {FOLDS} {more}"))).succeeded();
        place.path(out)
    };
    let (one, other) = (cross_validate("one", "--max-steps 3"), cross_validate("other", "--max-steps 3 --lr 0.0001"));
    let page = place.path("page.html");
    let mut compare = kindling();
    compare.args(["compare", "--format", "json", "--html"]).arg(&page).args([&other, &one]);
    let found: serde_json::Value = serde_json::from_str(&Outcome::of(&mut compare).succeeded().stdout).unwrap();
    let against = &found["against"][0];
    assert_eq!(
        (&against["scores"]["images"], &against["scores"]["patients"]),
        (&SAMPLES.into(), &(SAMPLES / 3).into())
    );
    let keys: Vec<&str> =
        against["settings"].as_array().unwrap().iter().map(|it| it["key"].as_str().unwrap()).collect();
    assert_eq!(keys, ["train.lr"], "folds differ in nothing else: {against}");

    // The difference is that of the tables, and McNemar's counts are those of the images.
    let [ours, theirs] = [&one, &other].map(|folder| {
        let table = predictions(&folder.join("predictions.csv"));
        table.into_iter().map(|image| (image.sample, image.is_right)).collect::<BTreeMap<_, _>>()
    });
    let right = |of: &BTreeMap<String, bool>| of.values().filter(|right| **right).count() as f64 / SAMPLES as f64;
    let differences = against["scores"]["differences"].as_array().unwrap();
    let accuracy = differences.iter().find(|figure| figure["name"] == "accuracy").unwrap();
    assert!((accuracy["value"].as_f64().unwrap() - (right(&ours) - right(&theirs))).abs() < 1e-12, "{accuracy}");
    let alone = ours.iter().filter(|(sample, right)| **right && !theirs[*sample]).count();
    assert_eq!(against["scores"]["mcnemar"]["first_alone"], alone);
    let html = fs::read_to_string(&page).unwrap();
    assert!(html.contains("cross-validations compared") && html.contains("Fold by fold"));

    let mut table = kindling();
    let table = Outcome::of(table.args(["compare"]).args([&other, &one])).succeeded().stdout;
    assert!(table.contains("mean and range over the folds (3 this, 3 the first)"), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 80 || line.contains('/')), "{table}");

    // A run is no cross-validation, and what has not ended is told.
    let refused = |runs: [&Path; 2]| Outcome::of(kindling().arg("compare").args(runs)).refused();
    let mixed = refused([&one, &one.join("fold-1")]);
    assert!(mixed.contains("whole cross-validation") && mixed.contains("single run"), "{mixed}");
    fs::remove_file(other.join("cross-validation.json")).unwrap();
    let unfinished = refused([&one, &other]);
    assert!(unfinished.contains("has not ended"), "{unfinished}");
}
