//! Killed again and again at random moments and resumed each time, a run ends with the same result.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use kindling_tests::{
    Outcome, Started, assert_same_bits, checkpoints, events, kindling, newest_step, picture_folder, resume, rng, steps,
    toml_value,
};
use rand::RngExt;
use tempfile::tempdir;

const KILLS: usize = 50;
/// How many of them must have hit a checkpoint that was being written, or the test has not tested that.
const INSIDE_A_CHECKPOINT: usize = 5;
/// A process is killed after so many checkpoints at the latest, or a fast machine ends the run before its last kill.
const LIFETIME: u64 = 4;
/// The most that all lifetimes take together, and some more.
const STEPS: u64 = KILLS as u64 * (LIFETIME + 1);
const PATIENCE: Duration = Duration::from_secs(120);

fn train(data: &Path, run: &Path, flags: &str) -> Command {
    let mut command = kindling();
    command.env_remove("RUST_BACKTRACE").args(["train", "--device", "cpu", "--quiet", "--data"]).arg(data);
    command.arg("--out").arg(run).args(flags.split_whitespace());
    command
}

/// Whether a checkpoint of the run is being written, or was when it was killed.
fn unfinished(run: &Path) -> bool {
    let entries = fs::read_dir(run.join("checkpoints")).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with(".unfinished-"))
}

/// Waits until something holds, or the process that went on from step `known` has lived its time.
fn wait_until(started: &mut Started, known: u64, mut reached: impl FnMut() -> bool) {
    let began = Instant::now();
    while !reached() && newest_step(started.run()) < known + LIFETIME {
        started.assert_running();
        assert!(began.elapsed() < PATIENCE, "nothing is saved any more after step {}", newest_step(started.run()));
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Waits so long, or until the process that went on from step `known` has lived its time.
fn wait_for(time: Duration, started: &mut Started, known: u64) {
    let began = Instant::now();
    wait_until(started, known, || began.elapsed() >= time);
}

#[test]
fn a_run_killed_fifty_times_at_any_moment_ends_with_the_same_bits() {
    let folder = tempdir().unwrap();
    let [data, straight, run] = ["data", "straight", "killed"].map(|name| folder.path().join(name));
    picture_folder(&data, 12);
    // 24 images to train on: batches of 10, 10 and 4. Every step is saved, and the end of an epoch once more.
    let flags = format!(
        "--model mobilenet_v3_small --image-size 32 --batch-size 10 --ghost-batch-size 4 --micro-batch 4 --ema 0.9 \
         --augment light --drop-rate 0.2 --drop-path-rate 0.2 --clip-norm 1 --checkpoint-steps 1 --epochs 1000 \
         --max-steps {STEPS} --seed 8"
    );
    Outcome::of(&mut train(&data, &straight, &flags)).succeeded();

    let mut rng = rng(50);
    let mut inside = 0;
    let mut started = Started::new(train(&data, &run, &flags), &run);
    for kill in 0..KILLS {
        let known = newest_step(&run);
        match rng.random_range(0..3) {
            // Anywhere: while starting, loading, rewinding the log, or in a step. Not before there is a checkpoint.
            0 if kill > 0 => wait_for(Duration::from_millis(rng.random_range(0..250)), &mut started, known),
            // While a checkpoint is written.
            1 => {
                wait_until(&mut started, known, || newest_step(&run) > known);
                wait_until(&mut started, known, || unfinished(&run));
                std::thread::sleep(Duration::from_micros(rng.random_range(0..4000)));
            }
            // A step or two later.
            _ => {
                let more = rng.random_range(1..=2);
                wait_until(&mut started, known, || newest_step(&run) >= known + more);
                wait_for(Duration::from_millis(rng.random_range(0..60)), &mut started, known);
            }
        }
        started.kill();
        inside += usize::from(unfinished(&run));
        started = Started::new(resume(&run), &run);
    }
    started.end().succeeded();
    eprintln!("{inside} of {KILLS} kills were inside a checkpoint");
    assert!(inside >= INSIDE_A_CHECKPOINT, "only {inside} kills were inside a checkpoint");
    assert_same_bits(&straight, &run, "killed fifty times");
    assert!(!unfinished(&run), "nothing unfinished is left");
}

/// What a checkpoint says about the plan: samples at once, and what is computed again.
fn plan_of(run: &Path) -> (String, String) {
    let state = fs::read_to_string(checkpoints(run).pop().unwrap().join("state.toml")).unwrap();
    let after = state.split("[policy.plan]").nth(1).expect("a checkpoint knows the plan").to_string();
    let plan = tempfile::NamedTempFile::new().unwrap();
    fs::write(plan.path(), after).unwrap();
    (toml_value(plan.path(), "micro_batch"), toml_value(plan.path(), "recompute"))
}

/// The events since the run was resumed last.
fn since_resumed(run: &Path) -> Vec<serde_json::Value> {
    let events = events(run);
    let at = events.iter().rposition(|event| event["event"] == "resumed").expect("it was resumed");
    events[at..].to_vec()
}

fn what_was_found_survives_a_kill(flags: &str, faults: &str, found: impl Fn(&(String, String)) -> bool) {
    let folder = tempdir().unwrap();
    let (data, run): (PathBuf, PathBuf) = (folder.path().join("data"), folder.path().join("run"));
    picture_folder(&data, 12);
    let mut command = train(&data, &run, flags);
    command.env("KINDLING_FAULT", faults);
    let mut started = Started::new(command, &run);
    started.until(r#""event":"checkpoint","step":4,"#, 1);
    started.kill();
    let before = plan_of(&run);
    assert!(found(&before), "nothing was short: {before:?}");
    let recovered = |events: &[serde_json::Value]| events.iter().filter(|event| event["event"] == "recovered").count();

    Outcome::of(&mut resume(&run)).succeeded();
    assert_eq!(steps(&run), (1..=8).collect::<Vec<_>>());
    let since = since_resumed(&run);
    assert_eq!(recovered(&since), 0, "it was found out once and need not be again: {since:?}");
    let first = since.iter().find(|event| event["event"] == "step").unwrap();
    assert_eq!(first["micro_batch"].to_string(), before.0);
    assert_eq!(plan_of(&run), before);
}

const SHORT: &str = "--model mobilenet_v2 --image-size 128 --batch-size 16 --ghost-batch-size 4 --checkpoint-steps 1 \
                     --max-steps 8 --seed 8";

#[test]
fn recomputation_that_was_found_survives_a_kill() {
    // One group at a time, so that nothing but recomputation is left.
    let flags = format!("{SHORT} --micro-batch 4 --activation-checkpointing auto");
    let faults = "oom@step=2,phase=backward;oom@step=2,phase=backward";
    what_was_found_survives_a_kill(&flags, faults, |(_, recompute)| recompute == "\"stages\"");
}

/// Here the planner may have predicted it, so that nothing had to fail.
#[test]
fn recomputation_for_a_small_budget_survives_a_kill() {
    // Large enough for feature maps to be most of it: weights, moments and their copies take 50 MiB whatever is recomputed.
    let large = SHORT.replace("--image-size 128", "--image-size 224");
    let flags = format!("{large} --micro-batch auto --activation-checkpointing auto --memory-budget 230MiB");
    what_was_found_survives_a_kill(&flags, "", |(_, recompute)| recompute != "\"none\"");
}
