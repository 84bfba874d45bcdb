//! `kindling sweep`: the runs it starts are those that one would start by hand, however often it is stopped.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use kindling_tests::{Outcome, assert_same_bits, events, json_of, kindling, newest_step, picture_folder, steps, train};
use serde_json::Value;
use tempfile::{TempDir, tempdir};

const FLAGS: &str = "--device cpu --image-size 32 --batch-size 8 --epochs 2 --checkpoint-steps 2 --quiet";
const STEPS: u64 = 12;

struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempdir().unwrap();
        picture_folder(&folder.path().join("data"), 24);
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A sweep into a folder, with flags of its own and more of `train`.
    fn sweep(&self, out: &str, own: &str, more: &str) -> Command {
        let mut command = kindling();
        command.env_remove("RUST_BACKTRACE").args(["sweep", "--format", "json", "--out"]).arg(self.path(out));
        command.args(own.split_whitespace()).arg("--").arg("--data").arg(self.path("data"));
        command.args(FLAGS.split_whitespace()).args(more.split_whitespace());
        command
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = entries.collect();
    names.sort();
    names
}

#[test]
fn a_sweep_trains_what_one_would_train_by_hand_and_says_the_spread() {
    let place = Place::new();
    let swept = place.sweep("swept", "--seeds 2 --over lr=0.001,0.01", "");
    let said: Value = serde_json::from_str(&Outcome::of(&mut { swept }).succeeded().stdout).unwrap();
    let folder = place.path("swept");
    let runs = ["lr-0.001-seed-0", "lr-0.001-seed-1", "lr-0.01-seed-0", "lr-0.01-seed-1"];
    assert_eq!(names(&folder), [&runs[..], &["report.html", "sweep.json"]].concat());
    assert_eq!(json_of(&folder.join("sweep.json")), said);

    let by_hand = place.path("by-hand");
    let flags = FLAGS.replace("--device cpu --image-size 32", "--seed 1 --lr 0.01");
    Outcome::of(&mut train(&place.path("data"), &by_hand, &flags)).succeeded();
    assert_same_bits(&by_hand, &folder.join(runs[3]), "the same flags");

    let accuracy = |run: &str| json_of(&folder.join(run).join("metrics.json"))["test"]["accuracy"].as_f64().unwrap();
    for (index, run) in runs.iter().enumerate() {
        assert_eq!(said["runs"][index]["accuracy"].as_f64(), Some(accuracy(run)), "{run}");
    }
    let spread = &said["spread"][1];
    assert_eq!(spread["settings"], "lr 0.01");
    let (a, b) = (accuracy(runs[2]), accuracy(runs[3]));
    let near = |found: &Value, expected: f64| (found.as_f64().unwrap() - expected).abs() < 1e-12;
    let of = &spread["scores"]["accuracy"];
    assert!(
        near(&of["mean"], (a + b) / 2.0) && near(&of["deviation"], (a - b).abs() / 2f64.sqrt()),
        "{of} of {a} and {b}"
    );

    let page = fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(runs.iter().all(|run| page.contains(&format!("href=\"{run}/report.html\""))));
    assert_eq!(page.matches("class=\"dot faded\"").count(), 4 * 4, "a dot a run and score");

    // Once more, nothing is left to do.
    let before = events(&folder.join(runs[0]));
    let again = Outcome::of(&mut place.sweep("swept", "--seeds 2 --over lr=0.001,0.01", "")).succeeded();
    assert_eq!(serde_json::from_str::<Value>(&again.stdout).unwrap(), said);
    assert_eq!(events(&folder.join(runs[0])), before);
}

#[test]
fn a_sweep_that_is_interrupted_goes_on_with_the_same_command_line() {
    let place = Place::new();
    Outcome::of(&mut place.sweep("straight", "--seeds 2", "")).succeeded();
    let mut command = place.sweep("stopped", "--seeds 2", "");
    // Ctrl-C in a terminal reaches everything in its foreground.
    let mut child = command.process_group(0).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let second = place.path("stopped").join("seed-1");
    let began = Instant::now();
    while newest_step(&second) < 2 {
        assert!(began.elapsed() < Duration::from_secs(300), "the second run never begins");
        thread::sleep(Duration::from_millis(5));
    }
    let group = format!("-{}", child.id());
    assert!(Command::new("kill").args(["-INT", "--", &group]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(!place.path("stopped").join("sweep.json").exists());
    let done = steps(&second).len() as u64;
    assert!(done < STEPS, "it was stopped too late to show anything");

    Outcome::of(&mut place.sweep("stopped", "--seeds 2", "")).succeeded();
    for run in ["seed-0", "seed-1"] {
        assert_eq!(steps(&place.path("stopped").join(run)), (1..=STEPS).collect::<Vec<_>>(), "{run}: every step once");
        assert_same_bits(&place.path("straight").join(run), &place.path("stopped").join(run), run);
    }
}

#[test]
fn what_cannot_be_swept_is_one_sentence() {
    let place = Place::new();
    for (own, more, word) in [
        ("--over out=a,b", "", "--out"),
        ("--over lr", "", "FLAG=VALUE"),
        ("--over lr=0.1,0.1", "", "twice"),
        ("--over lr=0.1,", "", "empty"),
        ("--over lr=0.1 --over lr=0.2", "", "twice"),
        ("--seeds 0", "", "0"),
        ("", "--seed 3", "--seed"),
        ("--over lr=0.1", "--lr=0.2", "--lr"),
        ("--over model=a/b,a-b", "", "same folder"),
    ] {
        let sentence = Outcome::of(&mut place.sweep("refused", own, more)).refused();
        assert!(sentence.contains(word), "{own} -- {more}: {sentence}");
        assert!(!place.path("refused").exists(), "{own} -- {more}: a folder is left behind");
    }
    // What train refuses, it refuses once.
    let outcome = Outcome::of(&mut place.sweep("refused", "--seeds 3", "--no-such-flag"));
    assert_eq!(outcome.code, Some(1));
    assert_eq!(outcome.stderr.matches("--no-such-flag").count(), 1, "{}", outcome.stderr);
}

#[test]
fn a_run_that_fails_is_named_and_the_others_are_trained() {
    let place = Place::new();
    let outcome = Outcome::of(&mut place.sweep("swept", "--over model=no_such_model,mobilenet_v3_small", ""));
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.stderr.contains("1 of 2 runs failed") && outcome.stderr.contains("model-no_such_model-seed-0"));
    let said: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert!(said["runs"][0]["accuracy"].is_null() && said["runs"][1]["accuracy"].is_f64());
}
