//! Samples with several labels, or none: from a manifest to the report.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use image::{GrayImage, Luma};
use kindling_tests::{Outcome, json_of, kindling, train};
use tempfile::tempdir;

/// Images with a bright square, with stripes, with both or with neither, a quarter each, and a manifest of them.
fn findings(dir: &Path) {
    let mut rows = String::from("path,label,split\n");
    for index in 0..80u32 {
        let (square, stripes) = (index % 2 == 0, index / 2 % 2 == 0);
        let picture = GrayImage::from_fn(32, 32, |x, y| {
            let noise = (x * 31 + y * 17 + index * 13) % 29;
            let bright = square && (4..16).contains(&x) && (4..16).contains(&y);
            let striped = stripes && y >= 20 && y % 3 == 0;
            Luma([if bright || striped { 220 } else { noise as u8 }])
        });
        picture.save(dir.join(format!("{index}.png"))).unwrap();
        let labels: Vec<&str> = [(square, "square"), (stripes, "stripes")]
            .into_iter()
            .filter_map(|(there, name)| there.then_some(name))
            .collect();
        let split = match index {
            0..48 => "train",
            48..64 => "val",
            _ => "test",
        };
        rows.push_str(&format!("{index}.png,{},{split}\n", labels.join(";")));
    }
    fs::write(dir.join("list.csv"), rows).unwrap();
}

#[test]
fn labels_are_learned_one_by_one_and_scored_so() {
    let dir = tempdir().unwrap();
    findings(dir.path());
    let (data, run) = (dir.path().join("list.csv"), dir.path().join("run"));
    let flags = "--batch-size 8 --epochs 8 --seed 1";
    let outcome = Outcome::of(&mut train(&data, &run, flags)).succeeded();
    let result = outcome.result();
    assert_eq!(result["chance"], 0.25, "four sets of labels, a quarter each: {result}");
    let auroc = result["test_mean_auroc"].as_f64().unwrap();
    assert!(auroc > 0.9, "learned: {result}");

    let metrics = json_of(&run.join("metrics.json"));
    let labels = &metrics["test"]["multi_label"];
    assert_eq!(metrics["classes"].as_array().unwrap().len(), 2);
    assert_eq!(labels["positives"], serde_json::json!([8, 8]));
    assert_eq!(labels["mean_auroc"].as_f64(), Some(auroc));
    assert_eq!(labels["subset_accuracy"], metrics["test"]["accuracy"]);
    let report = fs::read_to_string(run.join("report.html")).unwrap();
    assert!(report.contains("with all labels right") && report.contains("AUROC"));
    // All sixteen test images are shown, each with all its labels or none.
    let wrong = 16.0 * (1.0 - labels["subset_accuracy"].as_f64().unwrap());
    assert_eq!(report.matches("picture wrong").count(), wrong.round() as usize);
    assert!(report.contains("square + stripes") && report.contains("<b>none</b>"));

    // Every label has a probability of its own, and those that are likelier than not are named.
    let predict = |format: &str| {
        let mut command = kindling();
        command.args(["predict", "--device", "cpu", "--format", format]).arg(&run);
        Outcome::of(command.args((0..4).map(|index| dir.path().join(format!("{index}.png"))))).succeeded().stdout
    };
    let csv = predict("csv");
    assert_eq!(csv.lines().next(), Some("file,labels,square,stripes"));
    for (line, json) in csv.lines().skip(1).zip(predict("json").lines()) {
        let cells: Vec<&str> = line.split(',').collect();
        let json: serde_json::Value = serde_json::from_str(json).unwrap();
        let named: Vec<&str> = cells[1].split(';').filter(|name| !name.is_empty()).collect();
        assert_eq!(json["labels"], serde_json::json!(named));
        for (label, cell) in ["square", "stripes"].iter().zip(&cells[2..]) {
            let probability: f64 = cell.parse().unwrap();
            assert!((json["probabilities"][label].as_f64().unwrap() - probability).abs() < 1e-6, "{line}");
            assert_eq!(probability >= 0.5, named.contains(label), "{line}");
        }
    }

    let mut eval = kindling();
    let table = Outcome::of(eval.arg("eval").arg(&run)).succeeded().stdout;
    assert!(table.contains("mean AUROC") && table.contains("square") && table.contains("stripes"), "{table}");
}

#[test]
fn samples_are_counted_and_not_their_labels() {
    let dir = tempdir().unwrap();
    findings(dir.path());
    let say = |words: &str| {
        Outcome::of(kindling().args(words.split_whitespace()).arg(dir.path().join("list.csv"))).succeeded()
    };
    let described = say("data describe --format json").result();
    assert_eq!(described["images"], serde_json::json!({ "train": 48, "val": 16, "test": 16 }));
    assert_eq!(described["samples"]["train"], serde_json::json!([24, 24]), "a sample counts for each of its labels");
    for command in ["data describe", "data check"] {
        let table = say(command).stdout;
        let row = |name: &str| -> Vec<String> {
            let line =
                table.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name}: {table}"));
            line.split_whitespace().skip(1).map(str::to_string).collect()
        };
        assert_eq!(row("samples"), ["48", "16", "16"], "{command}");
        assert_eq!(row("square"), ["24", "8", "8"], "{command}");
        assert!(table.contains("label"), "{command}: {table}");
    }
}

/// The findings in folders: of both, of one, of none, and of both by a copy in each.
#[test]
fn folders_are_learned_label_by_label_with_the_chance_of_sets() {
    let dir = tempdir().unwrap();
    findings(dir.path());
    let data = dir.path().join("folders");
    let put = |index: u32, folder: &str| {
        fs::create_dir_all(data.join(folder)).unwrap();
        fs::copy(dir.path().join(format!("{index}.png")), data.join(folder).join(format!("{index}.png"))).unwrap();
    };
    for index in 0..80u32 {
        match (index % 2 == 0, index / 2 % 2 == 0) {
            (true, true) if index % 8 == 0 => ["square", "stripes"].iter().for_each(|folder| put(index, folder)),
            (true, true) => put(index, "square+stripes"),
            (true, false) => put(index, "square"),
            (false, true) => put(index, "stripes"),
            (false, false) => put(index, "none"),
        }
    }
    let run = dir.path().join("run");
    let flags = "--task multi-label --batch-size 8 --epochs 8 --seed 1";
    let result = Outcome::of(&mut train(&data, &run, flags)).succeeded().result();
    assert!(result["test_mean_auroc"].as_f64().unwrap() > 0.85, "learned: {result}");
    // Of 80 images in four sets, 12 are tested: about a quarter each.
    let chance = result["chance"].as_f64().unwrap();
    assert!((0.25..0.5).contains(&chance), "{result}");
    let listed = fs::read_to_string(run.join("data.csv")).unwrap();
    assert_eq!(listed.lines().count(), 1 + 80, "copies are one image");
    assert_eq!(
        listed.lines().filter(|line| line.contains("square;stripes") || line.contains("stripes;square")).count(),
        20
    );
    let metrics = json_of(&run.join("metrics.json"));
    assert_eq!(metrics["classes"], serde_json::json!(["square", "stripes"]));

    let mut plain = kindling();
    let plain = Outcome::of(plain.args(["data", "describe", "--format", "json"]).arg(&data)).succeeded().stdout;
    assert!(plain.contains("square+stripes"), "unasked, folders are classes: {plain}");
}
