//! Manifests, shards, groups and checks, as users of the command see them.

use std::fs;
use std::path::Path;

use image::{GrayImage, Luma};
use kindling_tests::{Outcome, kindling};
use serde_json::Value;
use tempfile::tempdir;

/// Two classes of twelve patients with three images each, `DIR/<class>/<patient>/<n>.png`, and a manifest of them.
fn hospital(dir: &Path) {
    let mut rows = String::from("path,label,group\n");
    for patient in 0..12u8 {
        let class = ["ill", "well"][usize::from(patient % 2)];
        let folder = dir.join("images").join(class).join(format!("p{patient:02}"));
        fs::create_dir_all(&folder).expect("a folder can be made");
        for image in 0..3u8 {
            let value = patient * 10 + image + if class == "ill" { 120 } else { 0 };
            let path = folder.join(format!("{image}.png"));
            GrayImage::from_pixel(32, 32, Luma([value])).save(&path).expect("an image can be written");
            rows.push_str(&format!("images/{class}/p{patient:02}/{image}.png,{class},p{patient:02}\n"));
        }
    }
    fs::write(dir.join("list.csv"), rows).expect("a manifest can be written");
}

fn check(data: &Path, more: &[&str]) -> Outcome {
    let mut command = kindling();
    command.args(["data", "check"]).arg(data).args(["--format", "json"]).args(more);
    Outcome::of(&mut command)
}

fn found(outcome: &Outcome) -> Value {
    serde_json::from_str(outcome.stdout.trim()).expect("the findings are JSON")
}

#[test]
fn a_manifest_with_patients_is_split_by_patient_and_sound() {
    let dir = tempdir().expect("a temporary folder");
    hospital(dir.path());
    let outcome = check(&dir.path().join("list.csv"), &[]);
    let report = found(&outcome);
    assert_eq!((outcome.code, report["sound"].as_bool()), (Some(0), Some(true)), "{report}");
    assert_eq!(report["split_by"], "group");
    let of = |split: &str| report["groups"][split].as_u64().unwrap_or(0);
    assert_eq!(of("train") + of("val") + of("test"), 12, "{report}");
    assert_eq!(report["sizes"]["32 x 32 x 1"], 36);
}

#[test]
fn what_is_wrong_is_found_and_the_exit_code_says_so() {
    let dir = tempdir().expect("a temporary folder");
    hospital(dir.path());
    let images = dir.path().join("images");
    fs::write(images.join("ill/p00/broken.png"), "no picture").expect("a file can be written");
    fs::copy(images.join("ill/p00/0.png"), images.join("well/p01/copy.png")).expect("a file can be copied");
    let outcome = check(&images, &["--split-by", "folder"]);
    let report = found(&outcome);
    assert_eq!((outcome.code, report["sound"].as_bool()), (Some(1), Some(false)), "{report}");
    assert_eq!(report["unreadable"].as_array().map(Vec::len), Some(1));
    assert_eq!(report["duplicates"][0]["contradicting"], true);
    // The form for people says the same.
    let mut command = kindling();
    let table = Outcome::of(command.args(["data", "check"]).arg(&images));
    assert_eq!(table.code, Some(1));
    assert!(table.stdout.contains("broken.png") && table.stdout.contains("something is wrong"), "{}", table.stdout);
}

#[test]
fn packed_shards_hold_the_same_samples() {
    let dir = tempdir().expect("a temporary folder");
    hospital(dir.path());
    let shards = dir.path().join("shards");
    let mut command = kindling();
    command.args(["data", "pack"]).arg(dir.path().join("list.csv")).arg("--shards").arg(&shards);
    let packed = Outcome::of(command.args(["--shard-bytes", "16KiB"])).succeeded().result();
    assert_eq!(packed["samples"], 36);
    assert!(packed["shards"].as_u64().is_some_and(|shards| shards > 3), "{packed}");
    let (one, other) = (found(&check(&dir.path().join("list.csv"), &[])), found(&check(&shards, &[])));
    for same in ["by_class", "groups", "sizes", "mean", "std", "classes"] {
        assert_eq!(one[same], other[same], "{same}");
    }
}

#[test]
fn a_run_remembers_how_its_data_was_split_and_windowed() {
    let dir = tempdir().expect("a temporary folder");
    hospital(dir.path());
    let run = dir.path().join("run");
    let mut command = kindling();
    command.arg("train").arg("--data").arg(dir.path().join("images")).arg("--out").arg(&run);
    command.args("--split-by folder --window 40,400 --model mobilenet_v3_small --image-size 32".split(' '));
    command.args("--batch-size 8 --max-steps 2 --device cpu".split(' '));
    Outcome::of(&mut command).succeeded();
    let config = fs::read_to_string(run.join("config.toml")).expect("a run has a configuration");
    assert!(config.contains("split_by = \"folder\"") && config.contains("window = \"40,400\""), "{config}");
    let mut command = kindling();
    let refused = Outcome::of(command.args(["train", "--resume"]).arg(&run).args(["--split-by", "none"]));
    assert!(refused.code != Some(0) && refused.stderr.contains("--split-by"), "{}", refused.stderr);
}

#[test]
fn a_patient_on_two_sides_stops_a_run_before_it_begins() {
    let dir = tempdir().expect("a temporary folder");
    hospital(dir.path());
    let rows = "path,label,split,group\nimages/ill/p00/0.png,ill,train,p0\nimages/well/p01/0.png,well,train,p1\n\
                images/ill/p00/1.png,ill,test,p0\nimages/well/p03/0.png,well,val,p3\n";
    let manifest = dir.path().join("leaks.csv");
    fs::write(&manifest, rows).expect("a manifest can be written");
    let mut command = kindling();
    let run = dir.path().join("run");
    let refused = Outcome::of(command.arg("train").arg("--data").arg(&manifest).arg("--out").arg(&run));
    assert!(refused.code != Some(0) && refused.stderr.contains("on two sides"), "{}", refused.stderr);
    assert!(!run.exists());
    assert_eq!(check(&manifest, &[]).code, Some(1));
}
