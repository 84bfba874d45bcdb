//! Real MR slices: what `scripts/fetch-brain-mri-orientation.sh` brings.

use std::path::Path;
use std::process::ExitCode;

use kindling_tests::{Optional, Outcome, events, kindling, losses, run_optional};
use serde_json::json;
use tempfile::tempdir;

/// Share of the largest class among the 409 slices of the unseen subject: 157 coronal ones.
const CHANCE: f64 = 157.0 / 409.0;

fn main() -> ExitCode {
    let need = Optional { missing: missing(), required_by: "KINDLING_REQUIRE_DATA" };
    run_optional(
        need,
        &[
            ("the_slices_are_split_by_subject_as_the_readme_says", the_slices_are_split_by_subject_as_the_readme_says),
            ("real_slices_can_be_looked_at", real_slices_can_be_looked_at),
            ("a_subject_that_was_not_trained_on_is_recognised", a_subject_that_was_not_trained_on_is_recognised),
        ],
    )
}

/// Only data that was never fetched counts as missing; data that was fetched and is damaged must fail.
fn missing() -> Option<String> {
    let outcome = Outcome::of(kindling().args(["data", "describe", "brain-mri-orientation", "--json"]));
    let not_fetched = outcome.code != Some(0) && outcome.stderr.contains("brain-mri-orientation is not here");
    not_fetched.then(|| "real MR slices: run scripts/fetch-brain-mri-orientation.sh".to_string())
}

fn the_slices_are_split_by_subject_as_the_readme_says() {
    let about =
        Outcome::of(kindling().args(["data", "describe", "brain-mri-orientation", "--json"])).succeeded().result();
    assert_eq!(about["classes"], json!(["sagittal", "coronal", "axial"]));
    assert_eq!(about["channels"].as_u64(), Some(1));
    let samples = json!({ "train": [386, 452, 357], "val": [88, 116, 101], "test": [129, 157, 123] });
    assert_eq!(about["samples"], samples);
}

fn real_slices_can_be_looked_at() {
    let folder = tempdir().expect("a temporary folder");
    let png = folder.path().join("sheet.png");
    let mut command = kindling();
    command.args([
        "data",
        "sheet",
        "brain-mri-orientation",
        "--split",
        "test",
        "--per-class",
        "4",
        "--side",
        "64",
        "--out",
    ]);
    Outcome::of(command.arg(&png)).succeeded();
    let sheet = image::open(&png).expect("a sheet is a PNG").to_luma8();
    let lit = sheet.pixels().filter(|pixel| pixel[0] > 40).count() as f64 / f64::from(sheet.width() * sheet.height());
    assert!((0.1..0.9).contains(&lit), "{lit} of the sheet is lit: no brains on black");
}

fn a_subject_that_was_not_trained_on_is_recognised() {
    let folder = tempdir().expect("a temporary folder");
    let run = folder.path().join("run");
    let mut command = kindling();
    command.args("train --data brain-mri-orientation --model mobilenet_v2 --image-size 48 --device cpu".split(' '));
    // Three epochs: the running statistics of batch norm need nearly a hundred steps to be useful.
    command.args("--batch-size 32 --ghost-batch-size 32 --max-steps 111".split(' ')).arg("--out").arg(&run);
    let result = Outcome::of(&mut command).succeeded().result();
    assert!(result["chance"].as_f64().is_some_and(|chance| (chance - CHANCE).abs() < 1e-9), "{result}");
    let accuracy = result["test_accuracy"].as_f64().expect("a run reports its accuracy");
    assert!(accuracy > CHANCE + 0.2, "{accuracy} of the unseen subject's slices are right, chance is {CHANCE}");
    assert_eq!(tested_on(&run), Some(409));
    let losses = losses(&run);
    let mean = |losses: &[f64]| losses.iter().sum::<f64>() / losses.len() as f64;
    assert!(mean(&losses[losses.len() - 20..]) < 0.7 * mean(&losses[..5]), "the loss does not fall: {losses:?}");
}

/// Images of the test split that the run's log says it was scored on.
fn tested_on(run: &Path) -> Option<u64> {
    let tests = events(run).into_iter().find(|event| event["event"] == "evaluated" && event["split"] == "test");
    tests.and_then(|event| event["samples"].as_u64())
}
