//! A run that is made longer: its schedule, and that it ends with the same bits however often it is stopped.
#![allow(clippy::unwrap_used)]

use std::f64::consts::PI;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kindling_tests::{
    Outcome, Started, assert_same_bits, checkpoints, events, files_differ, kindling, losses, picture_folder, resume,
    step_numbers, steps, train,
};
use tempfile::{TempDir, tempdir};

/// 12 steps an epoch; everything that draws random numbers or remembers is on.
const FLAGS: &str = "--batch-size 4 --epochs 2 --checkpoint-steps 5 --augment light --drop-rate 0.3 --ema 0.9 --quiet";
const EACH: usize = 24;
const WEIGHTS: [&str; 2] = ["weights.safetensors", "weights-last.safetensors"];

/// A run that has ended.
struct Ended {
    folder: TempDir,
    run: PathBuf,
}

impl Ended {
    fn new(flags: &str) -> Self {
        let folder = tempdir().unwrap();
        let (data, run) = (folder.path().join("data"), folder.path().join("run"));
        picture_folder(&data, EACH);
        Outcome::of(&mut train(&data, &run, flags)).succeeded();
        Self { folder, run }
    }

    fn copy(&self, name: &str) -> PathBuf {
        let copy = self.folder.path().join(name);
        assert!(Command::new("cp").arg("-r").args([&self.run, &copy]).status().unwrap().success());
        copy
    }
}

fn extend(run: &Path, flags: &str) -> Command {
    let mut command = resume(run);
    command.args(flags.split_whitespace());
    command
}

/// The documented rate: linear over the share of warm-up, then a cosine to a hundredth of the peak.
fn rate(step: u64, total: u64) -> f64 {
    let (peak, warmup) = (0.003, (0.1 * total as f64).round());
    if step as f64 <= warmup {
        return peak * step as f64 / warmup;
    }
    let done = (step as f64 - warmup) / (total as f64 - warmup);
    peak * (0.01 + 0.99 * 0.5 * (1.0 + (PI * done).cos()))
}

fn assert_rates(run: &Path, total_of: impl Fn(u64) -> u64) {
    let found = step_numbers(run, "lr");
    for (step, found) in (1..).zip(found) {
        let expected = rate(step, total_of(step));
        assert!((found - expected).abs() < 1e-12, "step {step}: {found}, not {expected}");
    }
}

#[test]
fn a_finished_run_that_is_extended_goes_on_with_the_schedule_of_the_longer_run() {
    let ended = Ended::new(FLAGS);
    let before = losses(&ended.run);
    let result = Outcome::of(&mut extend(&ended.run, "--extend-to 4")).succeeded().result();
    assert_eq!(result["steps"].as_u64(), Some(48));
    assert_eq!(steps(&ended.run), (1..=48).collect::<Vec<u64>>());
    assert_eq!(losses(&ended.run)[..24], before, "what was done stays");
    assert_rates(&ended.run, |step| if step <= 24 { 24 } else { 48 });
    let told = events(&ended.run);
    let told: Vec<&str> = told.iter().map(|event| event["event"].as_str().unwrap()).collect();
    let at = |name: &str| told.iter().position(|event| *event == name).unwrap();
    assert!(at("finished") < at("extended"), "the log has both ends");
    assert_eq!(told.iter().filter(|event| **event == "finished").count(), 2);
    let history = fs::read_to_string(ended.run.join("history.jsonl")).unwrap();
    assert!(history.contains(r#""how":"extended","from_step":24,"changed":[["train.epochs","4"]]"#), "{history}");
    let report = fs::read_to_string(ended.run.join("report.html")).unwrap();
    assert!(report.contains("extended to 48 steps"), "the report says so");

    // Said again it changes nothing, and less than there is cannot be.
    Outcome::of(&mut extend(&ended.run, "--extend-to 4")).succeeded();
    assert_eq!(steps(&ended.run).len(), 48);
    let sentence = Outcome::of(&mut extend(&ended.run, "--extend-to 3")).refused();
    assert!(sentence.contains("36 steps") && sentence.contains("48 already"), "{sentence}");
    assert_eq!(fs::read_to_string(ended.run.join("history.jsonl")).unwrap(), history);
}

#[test]
fn an_extended_run_that_is_killed_and_resumed_ends_with_the_same_bits() {
    let ended = Ended::new(FLAGS);
    // Before its first checkpoint after the extension, in the middle, and twice.
    let runs = [&[26][..], &[33], &[26, 38]].map(|kills| (kills, ended.copy(&format!("killed-{kills:?}"))));
    Outcome::of(&mut extend(&ended.run, "--extend-to 4")).succeeded();
    for (kills, run) in runs {
        let mut command = extend(&run, "--extend-to 4");
        for step in kills {
            let mut started = Started::new(command, &run);
            started.until_step(*step);
            started.kill();
            command = resume(&run);
        }
        Outcome::of(&mut command).succeeded();
        assert_same_bits(&ended.run, &run, &format!("killed after {kills:?}"));
    }
}

#[test]
fn the_configuration_of_an_extended_run_repeats_all_of_it() {
    // Ended at the end of an epoch, and in the middle of one.
    for flags in [FLAGS.to_string(), format!("{FLAGS} --max-steps 8")] {
        let ended = Ended::new(&flags);
        Outcome::of(&mut extend(&ended.run, "--extend-to 3 --max-steps 30")).succeeded();
        let again = ended.folder.path().join("again");
        let mut command = kindling();
        command.args(["train", "--quiet", "--config"]).arg(ended.run.join("config.toml")).arg("--out").arg(&again);
        Outcome::of(&mut command).succeeded();
        assert_eq!(steps(&again), (1..=30).collect::<Vec<u64>>());
        assert_eq!(losses(&ended.run), losses(&again));
        assert_eq!(step_numbers(&ended.run, "lr"), step_numbers(&again, "lr"));
        assert_eq!(files_differ(&ended.run, &again, &WEIGHTS), [""; 0]);
    }
}

#[test]
fn a_run_that_has_not_ended_can_be_made_longer_too() {
    let folder = tempdir().unwrap();
    let (data, run) = (folder.path().join("data"), folder.path().join("run"));
    picture_folder(&data, EACH);
    let mut started = Started::new(train(&data, &run, FLAGS), &run);
    started.until_step(7);
    started.kill();
    let newest = checkpoints(&run).pop().unwrap();
    let after: u64 = newest.file_name().unwrap().to_str().unwrap().trim_start_matches("step-").parse().unwrap();
    Outcome::of(&mut extend(&run, "--extend-to 3")).succeeded();
    assert_rates(&run, |step| if step <= after { 24 } else { 36 });
    assert_eq!(steps(&run), (1..=36).collect::<Vec<u64>>());
}
