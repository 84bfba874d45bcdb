//! `kindling find-lr`: the steps are those that a run would take at these rates, and no run is left behind.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::process::Command;

use kindling_tests::{Outcome, kindling, losses, picture_folder, train};
use serde_json::Value;
use tempfile::{TempDir, tempdir};

const FLAGS: &str = "--device cpu --image-size 32 --batch-size 8 --workers 1";

fn find(folder: &TempDir, more: &str) -> Command {
    let mut command = kindling();
    command.arg("find-lr").arg("--data").arg(folder.path().join("data")).current_dir(folder.path());
    command.args(FLAGS.split(' ')).args(more.split_whitespace());
    command
}

fn steps(outcome: &Outcome) -> (Value, Vec<[f64; 3]>) {
    let said: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let row = |step: &Value| [0, 1, 2].map(|column| step[column].as_f64().unwrap());
    let steps = said["steps"].as_array().unwrap().iter().map(row).collect();
    (said, steps)
}

#[test]
fn rates_rise_by_one_factor_and_the_steps_are_those_of_a_run() {
    let folder = tempdir().unwrap();
    picture_folder(&folder.path().join("data"), 24);
    let found =
        Outcome::of(&mut find(&folder, "--from 1e-6 --to 1 --steps 31 --format json --html page.html")).succeeded();
    let (said, tried) = steps(&found);
    for (step, [rate, loss, smoothed]) in tried.iter().enumerate() {
        assert!((rate / 10f64.powf(step as f64 / 5.0 - 6.0) - 1.0).abs() < 1e-9, "{step}: {rate}");
        assert!(loss.is_finite() && smoothed.is_finite());
    }
    let steepest = said["suggestion"].as_f64().unwrap();
    assert!(tried.iter().any(|[rate, ..]| *rate == steepest) && steepest < 1.0, "{steepest}");

    // The first loss is that of the initial weights on a run's first batch; at a rate of next to nothing the second is, too.
    let run = folder.path().join("run");
    Outcome::of(&mut train(&folder.path().join("data"), &run, "--batch-size 8 --lr 1e-10 --max-steps 3")).succeeded();
    let slow = Outcome::of(&mut find(&folder, "--from 1e-10 --to 1.0001e-10 --steps 10 --format json")).succeeded();
    let (_, slow) = steps(&slow);
    for (step, loss) in losses(&run).iter().enumerate() {
        assert!((slow[step][1] - loss).abs() < 1e-5, "step {}: {} for {loss}", step + 1, slow[step][1]);
    }
    assert!(slow.len() == 10 && (slow[0][1] - tried[0][1]).abs() < 1e-12, "the first batch is the same");

    let page = fs::read_to_string(folder.path().join("page.html")).unwrap();
    let says = ["The loss falls fastest at a learning rate of", &format!("{} steps", tried.len())];
    assert!(says.iter().all(|text| page.contains(text)), "{says:?}");
    let mut left: Vec<String> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    left.sort();
    assert_eq!(left, ["data", "page.html", "run"], "no run is left behind");
}

#[test]
fn a_test_that_explodes_ends_early_and_what_cannot_be_tested_is_one_sentence() {
    let folder = tempdir().unwrap();
    picture_folder(&folder.path().join("data"), 12);
    let flags = "--from 1 --to 100 --steps 1000 --optimizer sgd --format json";
    let (_, tried) = steps(&Outcome::of(&mut find(&folder, flags)).succeeded());
    assert!(tried.len() < 1000, "the loss explodes at a rate of 100");
    for (flags, word) in
        [("--lr 0.1", "--lr"), ("--from 0.1 --to 0.1", "not below"), ("--steps 9", "9"), ("--from 0", "0")]
    {
        let sentence = Outcome::of(&mut find(&folder, flags)).refused();
        assert!(sentence.contains(word), "{flags}: {sentence}");
    }
}
