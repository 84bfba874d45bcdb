//! Numbers and grades: from a manifest to the report, and to other programs.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use image::{GrayImage, Luma};
use kindling_tests::{Outcome, Started, assert_same_bits, json_of, kindling, resume, train};
use serde_json::Value;
use tempfile::{TempDir, tempdir};

/// Discs, two a patient, in a manifest with their radius as a number and, in three steps, as a grade.
struct Discs {
    folder: TempDir,
}

impl Discs {
    fn new() -> Self {
        let folder = tempdir().unwrap();
        let mut rows = String::from("path,width,label,group,hand\n");
        for index in 0..160u32 {
            let radius = 3.0 + f64::from(index * 37 % 120) / 10.0;
            let picture = GrayImage::from_fn(32, 32, |x, y| {
                let away = (f64::from(x) - 16.0).hypot(f64::from(y) - 16.0);
                let noise = (x * 31 + y * 17 + index * 13) % 29;
                Luma([if away < radius { 220 } else { noise as u8 }])
            });
            picture.save(folder.path().join(format!("{index}.png"))).unwrap();
            let grade = ["small", "middling", "wide"][((radius - 3.0) / 4.0) as usize % 3];
            let hand = ["left", "right"][index as usize % 2];
            rows.push_str(&format!("{index}.png,{},{grade},p{},{hand}\n", 20.0 * radius + 1000.0, index / 2));
        }
        fs::write(folder.path().join("discs.csv"), rows).unwrap();
        Self { folder }
    }

    fn data(&self) -> PathBuf {
        self.path("discs.csv")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, name: &str, flags: &str) -> (PathBuf, Value) {
        let run = self.path(name);
        let outcome = Outcome::of(&mut train(&self.data(), &run, &format!("{FLAGS} {flags}"))).succeeded();
        (run, outcome.result())
    }
}

const FLAGS: &str = "--batch-size 8 --augment none --seed 1";

/// The columns of a table with a header, as texts.
fn table(path: &Path) -> Vec<Vec<String>> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

fn json(command: &mut std::process::Command) -> Value {
    serde_json::from_str(&Outcome::of(command).succeeded().stdout).unwrap()
}

#[test]
fn a_number_is_learnt_in_its_own_unit_and_said_alike_everywhere() {
    let discs = Discs::new();
    let (run, result) = discs.run("run", "--target width --epochs 12 --subgroups hand");
    let (mae, r2) = (result["test_mae"].as_f64().unwrap(), result["test_r2"].as_f64().unwrap());
    assert!(r2 > 0.5, "learnt: {result}");
    assert!(mae < 60.0, "in the unit of the column, whose numbers lie between 1060 and 1300: {result}");
    let config = fs::read_to_string(run.join("config.toml")).unwrap();
    for line in ["task = \"regression\"", "target = \"width\"", "regression = \"mse\"", "[data.scale]"] {
        assert!(config.contains(line), "{line}\n{config}");
    }

    // The error is that of the table, counted here.
    let rows = table(&run.join("predictions.csv"));
    assert_eq!(rows[0], ["sample", "group", "split", "truth", "prediction"]);
    let tested: Vec<&Vec<String>> = rows[1..].iter().filter(|row| row[2] == "test").collect();
    let off = |row: &&Vec<String>| (row[3].parse::<f64>().unwrap() - row[4].parse::<f64>().unwrap()).abs();
    let counted = tested.iter().map(off).sum::<f64>() / tested.len() as f64;
    assert!((counted - mae).abs() < 1e-9, "{counted} and {mae}");
    let kept = json_of(&run.join("regression.json"));
    assert_eq!((kept["figures"][0]["name"].as_str(), kept["target"].as_str()), (Some("mae"), Some("width")));
    assert_eq!(kept["subgroups"]["groups"].as_array().unwrap().len(), 2, "{kept}");

    // `eval` scores the same, with the network and from the table alone.
    let mut eval = kindling();
    let again = json(eval.args(["eval", "--format", "json", "--device", "cpu"]).arg(&run));
    assert_eq!(again["scores"]["figures"], kept["figures"]);
    let mut from = kindling();
    let from = json(from.args(["eval", "--format", "json", "--seed", "1", "--from"]).arg(run.join("predictions.csv")));
    assert_eq!(from["scores"]["figures"], kept["figures"]);

    // `predict` says what the table says.
    let image = discs.path(&tested[0][0]);
    let mut predict = kindling();
    predict.args(["predict", "--device", "cpu"]).arg(&run).arg(&image);
    let said = Outcome::of(&mut predict).succeeded().stdout;
    let line: Vec<&str> = said.lines().nth(1).unwrap().split(',').collect();
    assert_eq!((said.lines().next(), line[1]), (Some("file,prediction"), tested[0][4].as_str()));

    let page = fs::read_to_string(run.join("report.html")).unwrap();
    for words in ["width is off by", "Bland-Altman plot", "Limit of agreement", "Furthest off", "By hand"] {
        assert!(page.contains(words), "{words}");
    }
    let mut listed = kindling();
    let listed = Outcome::of(listed.args(["runs", "--format", "csv"]).arg(discs.folder.path())).succeeded().stdout;
    assert!(listed.lines().next().unwrap().contains(",mae,r2,loss,"), "{listed}");
    let card = Outcome::of(kindling().arg("card").arg(&run)).succeeded().stdout;
    for words in ["A model that gives an image a number", &format!("| Mean absolute error | {mae:.3} |"), "By hand"] {
        assert!(card.contains(words), "{words}\n{card}");
    }
}

#[test]
fn numbers_end_with_the_same_bits_killed_or_divided_and_are_compared() {
    let discs = Discs::new();
    let flags = "--target width --epochs 2 --regression-loss huber --checkpoint-steps 3 --ema 0.9 --ghost-batch-size 4";
    let (straight, _) = discs.run("straight", flags);
    for step in [4, 12] {
        let run = discs.path(&format!("killed-{step}"));
        let mut started = Started::new(train(&discs.data(), &run, &format!("{FLAGS} {flags}")), &run);
        started.until_step(step);
        started.kill();
        Outcome::of(&mut resume(&run)).succeeded();
        assert_same_bits(&straight, &run, &format!("killed after step {step}"));
    }
    let (micro, _) = discs.run("micro", &format!("{flags} --micro-batch 4 --workers 3"));
    assert_same_bits(&straight, &micro, "micro-batches of 4");
    let mut compare = kindling();
    let compared = json(compare.args(["compare", "--format", "json"]).args([&micro, &straight]));
    let differences = compared["against"][0]["scores"]["differences"].as_array().unwrap();
    assert_eq!((differences.len(), differences[0]["name"].as_str()), (3, Some("mae")));
    assert!(differences.iter().all(|figure| figure["value"] == 0.0), "{compared}");
    let (l1, _) = discs.run("l1", &flags.replace("huber", "l1"));
    assert_ne!(fs::read(l1.join("weights.safetensors")).unwrap(), fs::read(micro.join("weights.safetensors")).unwrap());
}

#[test]
fn grades_are_learnt_in_their_order_and_answered_by_the_median() {
    let discs = Discs::new();
    let (run, result) = discs.run("run", "--class-order small,middling,wide --epochs 10");
    assert!(result["test_accuracy"].as_f64().unwrap() > 0.6, "learnt: {result}");
    let config = fs::read_to_string(run.join("config.toml")).unwrap();
    assert!(config.contains("task = \"ordinal\""), "{config}");
    let scores = json_of(&run.join("scores.json"));
    let figure = |name: &str| -> f64 {
        let figures = scores["figures"].as_array().unwrap();
        figures.iter().find(|figure| figure["name"] == name).unwrap()["value"].as_f64().unwrap()
    };
    assert!(figure("quadratic_kappa") > 0.6 && figure("mae") < 0.5, "{scores}");

    // Answers are medians: counted from the table.
    let rows = table(&run.join("predictions.csv"));
    assert_eq!(rows[0][4..], ["p:small", "p:middling", "p:wide"]);
    let (mut right, mut count) = (0, 0);
    for row in rows[1..].iter().filter(|row| row[2] == "test") {
        let p: Vec<f64> = row[4..].iter().map(|cell| cell.parse().unwrap()).collect();
        assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{row:?}");
        let median = if p[0] >= 0.5 { 0 } else { 2 - usize::from(p[0] + p[1] >= 0.5) };
        right += usize::from(["small", "middling", "wide"][median] == row[3]);
        count += 1;
    }
    assert!((figure("accuracy") - right as f64 / count as f64).abs() < 1e-12, "{right} of {count}: {scores}");
    let mut from = kindling();
    from.args(["eval", "--ordinal", "--format", "json", "--seed", "1", "--split", "test", "--from"]);
    let from = json(from.arg(run.join("predictions.csv")));
    assert_eq!(from["scores"]["figures"], scores["figures"]);
}

#[test]
fn mistakes_are_one_sentence_each() {
    let discs = Discs::new();
    for (flags, expected) in [
        ("--target height", "no column `height`"),
        ("--target hand", "is no number from"),
        ("--target width --label-smoothing 0.1", "--label-smoothing is about classes"),
        ("--target width --class-weights 1", "--class-weights is about classes"),
        ("--target width --sampling balanced", "--sampling balanced is about classes"),
        ("--target width --loss dice", "--loss and --dice-over belong to --task segmentation"),
        ("--task ordinal", "--class-order none,mild,severe"),
        ("--task ordinal --target width", "--target belongs to --task regression"),
        ("--task regression --class-order a,b", "--class-order belongs to --task ordinal"),
        ("--regression-loss l1", "--regression-loss belongs to --task regression"),
        ("--target width --regression-loss l3", "mse, l1"),
    ] {
        let mut command = train(&discs.data(), &discs.path("never"), &format!("{FLAGS} {flags}"));
        let sentence = Outcome::of(&mut command).refused();
        assert!(sentence.contains(expected), "{flags}: {sentence}");
        assert!(!discs.path("never").exists(), "{flags}: nothing is begun");
    }
}
