//! `--track` and `kindling runs export`: other trackers hear of every step once, whatever happens to the run, and nothing that happens to
//! them happens to the run. What they make of it is tested with the trackers themselves, in `crates/tracking`.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use kindling_tests::{Outcome, Started, assert_same_bits, kindling, picture_folder, resume, steps, train};
use tempfile::{TempDir, tempdir};

const FLAGS: &str = "--batch-size 8 --epochs 2 --checkpoint-steps 2";

fn data() -> (TempDir, PathBuf) {
    let folder = tempdir().unwrap();
    let data = folder.path().join("data");
    picture_folder(&data, 24);
    (folder, data)
}

/// The steps in the table of a run.
fn tabled(run: &Path) -> Vec<u64> {
    let table = fs::read_to_string(run.join("tracking/run.csv")).unwrap();
    let mut lines = table.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let column =
        |name: &str| header.iter().position(|have| *have == name).unwrap_or_else(|| panic!("{name}: {header:?}"));
    let (step, rate) = (column("step"), column("lr"));
    let rows = lines.map(|line| line.split(',').collect::<Vec<_>>());
    rows.filter(|row| !row[rate].is_empty()).map(|row| row[step].parse().unwrap()).collect()
}

fn export(run: &Path, flags: &[&str]) -> Command {
    let mut command = kindling();
    command.args(["runs", "export"]).arg(run).args(flags);
    command
}

#[test]
fn a_run_that_is_killed_and_resumed_tells_each_step_once_and_as_an_export_afterwards_does() {
    let (folder, data) = data();
    let (quiet, told) = (folder.path().join("quiet"), folder.path().join("told"));
    Outcome::of(&mut train(&data, &quiet, FLAGS)).succeeded();
    assert!(!quiet.join("tracking").exists(), "nothing is told unless asked");
    let track = ["--track", "tensorboard", "--track", "wandb", "--track", "csv"];
    let mut command = train(&data, &told, FLAGS);
    command.args(track);
    let mut child = Started::new(command, &told);
    child.until_step(3);
    child.kill();
    Outcome::of(resume(&told).args(track)).succeeded();
    assert_same_bits(&quiet, &told, "whoever is told");
    assert_eq!(tabled(&told), steps(&quiet), "each step once, in order");
    let files = |place: &str, ends: &str| {
        let entries = fs::read_dir(told.join("tracking").join(place)).unwrap();
        let is = |path: &PathBuf| path.to_string_lossy().contains(ends) && fs::metadata(path).unwrap().len() > 0;
        entries.map(|entry| entry.unwrap().path()).filter(is).count()
    };
    assert_eq!((files("tensorboard", "tfevents"), files("wandb", "offline-run-")), (1, 1));

    let said = Outcome::of(&mut export(&quiet, &["--to", "csv"])).succeeded().result();
    assert!(said["delivered"].as_u64().unwrap() > 0, "{said}");
    assert_eq!(tabled(&quiet), steps(&quiet));
    let again = Outcome::of(&mut export(&quiet, &["--to", "csv"])).succeeded().result();
    assert_eq!(again["delivered"], 0, "nothing is told twice: {again}");
}

#[test]
fn a_server_that_is_away_is_a_warning_and_changes_nothing() {
    let (folder, data) = data();
    let (alone, told) = (folder.path().join("alone"), folder.path().join("told"));
    Outcome::of(&mut train(&data, &alone, FLAGS)).succeeded();
    // A port that nobody listens on any more.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = train(&data, &told, FLAGS);
    let outcome = Outcome::of(command.args(["--quiet", "--track"]).arg(format!("mlflow=http://127.0.0.1:{port}")));
    let outcome = outcome.succeeded();
    assert!(outcome.stderr.contains("warning: MLflow"), "{}", outcome.stderr);
    assert_same_bits(&alone, &told, "with a server that is away");
    let sentence = Outcome::of(&mut export(&told, &["--to", &format!("mlflow=http://127.0.0.1:{port}")])).refused();
    assert!(sentence.contains("MLflow"), "{sentence}");
}

#[test]
fn what_cannot_be_told_is_one_sentence() {
    let (folder, data) = data();
    for (target, word) in [("tensorbord", "tensorboard"), ("mlflow", "address"), ("mlflow=ftp://x", "ftp")] {
        let sentence = Outcome::of(train(&data, &folder.path().join("run"), FLAGS).args(["--track", target])).refused();
        assert!(sentence.contains(word), "{target}: {sentence}");
        assert!(!folder.path().join("run").exists());
    }
    Outcome::of(&mut export(&folder.path().join("none"), &["--to", "csv"])).refused();
}
