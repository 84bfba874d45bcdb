//! Splits by patient: no split lacks a class that it could have, and one that has to lack it is reported.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use image::{GrayImage, Luma};
use kindling_tests::{Outcome, kindling, train};
use serde_json::Value;
use tempfile::tempdir;

/// A manifest of patients, each with so many images of some classes.
fn hospital(dir: &Path, patients: &[(&str, &[(&str, usize)])]) -> std::path::PathBuf {
    let mut rows = String::from("path,label,group\n");
    let mut number = 0u32;
    for (patient, classes) in patients {
        for (class, count) in *classes {
            for _ in 0..*count {
                number += 1;
                let picture =
                    GrayImage::from_fn(8, 8, |x, y| Luma([(number.wrapping_mul(x * 31 + y * 57 + 1) % 251) as u8]));
                picture.save(dir.join(format!("{number}.png"))).unwrap();
                rows.push_str(&format!("{number}.png,{class},{patient}\n"));
            }
        }
    }
    let path = dir.join("list.csv");
    fs::write(&path, rows).unwrap();
    path
}

fn check(data: &Path, seed: u64) -> (Option<i32>, Value) {
    let mut command = kindling();
    command.args(["data", "check"]).arg(data).args(["--format", "json", "--seed", &seed.to_string()]);
    let outcome = Outcome::of(&mut command);
    (outcome.code, serde_json::from_str(outcome.stdout.trim()).unwrap())
}

/// Nine patients. Only the largest three have the class c, and by size all three would be trained on: 0 of 102 in val.
const MIXED: [(&str, &[(&str, usize)]); 9] = [
    ("a0", &[("a", 12), ("b", 3)]),
    ("a1", &[("a", 12), ("b", 3)]),
    ("a2", &[("a", 12), ("b", 3)]),
    ("a3", &[("a", 12), ("b", 3)]),
    ("a4", &[("a", 12), ("b", 3)]),
    ("a5", &[("a", 12), ("b", 3)]),
    ("c0", &[("c", 60), ("a", 5)]),
    ("c1", &[("c", 30), ("b", 8)]),
    ("c2", &[("c", 12), ("a", 20)]),
];

#[test]
fn no_class_is_left_out_of_a_split_where_an_assignment_of_patients_has_it() {
    let dir = tempdir().unwrap();
    let data = hospital(dir.path(), &MIXED);
    for seed in 0..6 {
        let (code, report) = check(&data, seed);
        assert_eq!((code, &report["lacking"]), (Some(0), &Value::Array(vec![])), "{report}");
        for split in ["train", "val", "test"] {
            let counts = report["by_class"][split].as_array().unwrap();
            assert!(counts.iter().all(|count| count.as_u64().unwrap() > 0), "seed {seed}: {report}");
        }
        assert_eq!(report["by_class"]["train"][2], 60, "the nearest to 70 %: the patient with 60 of 102");
    }
}

#[test]
fn a_class_that_must_be_left_out_is_told_by_check_and_by_train() {
    let dir = tempdir().unwrap();
    let mut patients: Vec<_> = MIXED[..6].to_vec();
    patients.push(MIXED[6]);
    patients.push(MIXED[7]);
    let data = hospital(dir.path(), &patients);
    let (code, report) = check(&data, 0);
    assert_eq!((code, report["sound"].as_bool()), (Some(1), Some(false)), "{report}");
    let lacking = report["lacking"][0].as_str().unwrap();
    assert!(lacking.contains("\"c\" has 90 samples, of 2 groups, but none in "), "{lacking}");
    let mut command = kindling();
    let table = Outcome::of(command.args(["data", "check"]).arg(&data)).stdout;
    assert!(table.contains(lacking) && table.contains("something is wrong"), "{table}");
    let run = dir.path().join("run");
    let outcome = Outcome::of(&mut train(&data, &run, "--batch-size 8 --max-steps 1")).succeeded();
    assert!(outcome.stderr.contains(&format!("warning: {lacking}")), "{}", outcome.stderr);
}
