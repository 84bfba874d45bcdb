//! Masks of the parts of real brains: what `scripts/fetch-brain-parts.sh` brings.

use std::path::Path;
use std::process::ExitCode;

use kindling_tests::{Optional, Outcome, Suite, Test, columns, json_of, kindling};
use serde_json::json;
use tempfile::tempdir;

/// Mean foreground Dice of the atlas on the poses of the test: what is known without a look at an image. Counted with numpy.
const POSITION: f64 = 0.625;

fn main() -> ExitCode {
    let mut suite = Suite::new();
    let without_data: [(&str, fn()); 2] = [
        ("data_that_was_not_fetched_is_answered_with_the_script", data_that_was_not_fetched),
        ("a_task_that_is_none_of_pixels_is_refused", a_task_that_is_none_of_pixels_is_refused),
    ];
    let with_data: [(&str, fn()); 4] = [
        ("slices_and_masks_are_split_as_the_readme_says", slices_and_masks_are_split_as_the_readme_says),
        ("parts_can_be_looked_at", parts_can_be_looked_at),
        ("nothing_is_wrong_with_the_data", nothing_is_wrong_with_the_data),
        ("a_run_says_what_position_alone_reaches_on_the_poses", a_run_says_what_position_alone_reaches_on_the_poses),
    ];
    suite.add(&Optional::nothing(), without_data.map(|(name, test)| Test::new(name, test)).into());
    let need = Optional { missing: missing(), required_by: "KINDLING_REQUIRE_DATA" };
    suite.add(&need, with_data.map(|(name, test)| Test::new(name, test)).into());
    suite.run()
}

/// Only data that was never fetched counts as missing; data that was fetched and is damaged must fail.
fn missing() -> Option<String> {
    let outcome = Outcome::of(kindling().args(["data", "describe", "brain-parts", "--format", "json"]));
    let not_fetched = outcome.code != Some(0) && outcome.stderr.contains("brain-parts is not here");
    not_fetched.then(|| "masks of the parts of brains: run scripts/fetch-brain-parts.sh".to_string())
}

fn data_that_was_not_fetched() {
    let folder = tempdir().expect("a temporary folder");
    let mut command = kindling();
    command.args(["data", "describe", "brain-parts"]).env("KINDLING_DATA", folder.path());
    let sentence = Outcome::of(&mut command).refused();
    for part in ["scripts/fetch-brain-parts.sh", &folder.path().display().to_string()] {
        assert!(sentence.contains(part), "{sentence}");
    }
}

fn a_task_that_is_none_of_pixels_is_refused() {
    let folder = tempdir().expect("a temporary folder");
    let mut command = kindling();
    command.args("train --data brain-parts --task classification --device cpu".split(' '));
    let sentence = Outcome::of(command.arg("--out").arg(folder.path().join("run"))).refused();
    assert!(sentence.contains("brain-parts gives each pixel a class; leave --task out"), "{sentence}");
}

fn slices_and_masks_are_split_as_the_readme_says() {
    let mut describe = kindling();
    describe.args(["data", "describe", "brain-parts", "--format", "json"]);
    let about = Outcome::of(&mut describe).succeeded().result();
    assert_eq!(about["classes"], json!(["background", "cerebrum", "cerebellum"]));
    assert_eq!(about["channels"].as_u64(), Some(1));
    assert_eq!(about["images"], json!({ "train": 186, "val": 54, "test": 426 }));
    let samples = json!({ "train": [186, 158, 102], "val": [54, 54, 18], "test": [426, 384, 204] });
    assert_eq!(about["samples"], samples);
}

fn parts_can_be_looked_at() {
    let folder = tempdir().expect("a temporary folder");
    let png = folder.path().join("sheet.png");
    let mut command = kindling();
    command.args("data sheet brain-parts --split test --per-class 4 --side 64 --out".split(' '));
    Outcome::of(command.arg(&png)).succeeded();
    let sheet = image::open(&png).expect("a sheet is a PNG").to_rgb8();
    let share = |count: usize| count as f64 / f64::from(sheet.width() * sheet.height());
    let lit = share(sheet.pixels().filter(|pixel| pixel.0.iter().any(|value| *value > 40)).count());
    assert!((0.1..0.9).contains(&lit), "{lit} of the sheet is lit: no brains on black");
    let is_grey = |pixel: &image::Rgb<u8>| pixel.0[0] == pixel.0[1] && pixel.0[1] == pixel.0[2];
    let outlined = share(sheet.pixels().filter(|pixel| !is_grey(pixel)).count());
    assert!(outlined > 0.005, "{outlined} of the sheet is coloured: no outlines");
}

fn nothing_is_wrong_with_the_data() {
    let mut check = kindling();
    check.args(["data", "check", "brain-parts", "--format", "json"]);
    let found = Outcome::of(&mut check).succeeded().result();
    assert_eq!(found["sound"], true, "{found}");
    assert_eq!(found["samples"]["test"].as_u64(), Some(426), "{found}");
}

fn a_run_says_what_position_alone_reaches_on_the_poses() {
    let folder = tempdir().expect("a temporary folder");
    let run = folder.path().join("run");
    let mut command = kindling();
    command.args("train --data brain-parts --image-size 64 --device cpu --workers 1 --max-steps 60".split(' '));
    let outcome = Outcome::of(command.args("--batch-size 8 --lr 0.003".split(' ')).arg("--out").arg(&run)).succeeded();
    let result = outcome.result();
    let position = result["position_dice"].as_f64().expect("a run that segments says what position reaches");
    assert!((position - POSITION).abs() < 0.01, "{result}");
    assert!(outcome.stderr.contains(&format!("(position alone: {position:.3})")), "{}", outcome.stderr);
    let dice = result["test_dice"].as_f64().expect("a run that segments says its Dice");
    assert!(dice > 0.2, "nothing is learnt: {result}");
    let kept = json_of(&run.join("metrics.json"));
    assert_eq!(kept["segmentation"]["position_dice"].as_f64(), Some(position), "{kept}");
    assert_eq!(kept["data"], "brain-parts");
    let names = volumes(&run, "test");
    assert_eq!((names.len(), names[0].as_str(), names[11].as_str()), (12, "mni152-01", "mni152-12"));
    assert_eq!(volumes(&run, "val"), ["ch2", "ch2bet"]);
    let page = std::fs::read_to_string(run.join("report.html")).expect("a run has a report");
    assert!(page.contains("position alone"), "the page says what position alone reaches");
}

/// The names of the cases of a split, each once.
fn volumes(run: &Path, split: &str) -> Vec<String> {
    let lines = columns(&run.join("cases.csv"), ["sample", "split"]).into_iter();
    let mut names: Vec<String> = lines.filter(|[_, of]| of == split).map(|[sample, _]| sample).collect();
    names.sort();
    names.dedup();
    names
}
