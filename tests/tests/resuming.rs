//! Killed at any moment, resumed, same result.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use kindling_tests::{Outcome, Started, assert_same_bits, checkpoints, events, kindling, picture_folder, steps, train};
use tempfile::{TempDir, tempdir};

/// Everything that draws random numbers is on. 12 steps an epoch, so most checkpoints lie within one.
const FLAGS: &str = "--batch-size 4 --epochs 2 --checkpoint-steps 2 --augment light --drop-rate 0.3 --clip-norm 5";
const STEPS: u64 = 24;
const STEPS_PER_EPOCH: u64 = 12;
/// Pictures of a class: 16 of them are trained on.
const EACH: usize = 24;

/// A folder with images, and a run on them that nothing disturbed.
struct Straight {
    folder: TempDir,
    data: PathBuf,
    run: PathBuf,
}

impl Straight {
    fn run(flags: &str) -> Self {
        let folder = tempdir().unwrap();
        let (data, run) = (folder.path().join("data"), folder.path().join("straight"));
        picture_folder(&data, EACH);
        Outcome::of(&mut train(&data, &run, flags)).succeeded();
        Self { folder, data, run }
    }

    /// Starts the same run in another folder.
    fn start(&self, name: &str, flags: &str) -> (Started, PathBuf) {
        let run = self.folder.path().join(name);
        (Started::new(train(&self.data, &run, flags), &run), run)
    }

    /// Fails unless the other run ended as this one did, to the last bit.
    fn assert_same(&self, other: &Path, when: &str) {
        assert_eq!(steps(other), (1..=STEPS).collect::<Vec<_>>(), "{when}: every step once");
        assert_same_bits(&self.run, other, when);
    }
}

fn resume(run: &Path) -> Command {
    let mut command = kindling();
    command.args(["train", "--resume"]).arg(run);
    command
}

/// The steps after which a run was resumed.
fn resumed_after(run: &Path) -> Vec<u64> {
    let resumed = events(run).into_iter().filter(|event| event["event"] == "resumed");
    resumed.map(|event| event["step"].as_u64().unwrap()).collect()
}

#[test]
fn a_run_killed_in_the_middle_of_an_epoch_and_resumed_ends_with_the_same_bits() {
    let straight = Straight::run(FLAGS);
    for step in [3, 7, 15] {
        let (mut started, run) = straight.start(&format!("killed-{step}"), FLAGS);
        started.until_step(step);
        started.kill();
        let outcome = Outcome::of(&mut resume(&run)).succeeded();
        assert_eq!(outcome.result()["steps"].as_u64(), Some(STEPS));
        straight.assert_same(&run, &format!("killed after step {step}"));
        // The log of a resumed run still has everything before the checkpoint.
        let [after] = resumed_after(&run)[..] else { panic!("resumed more than once") };
        let mid_epoch = after % STEPS_PER_EPOCH != 0;
        assert!(after + 1 >= step && mid_epoch, "resumed after step {after}, killed after {step}");
    }
}

#[test]
fn a_run_killed_again_and_again_ends_with_the_same_bits() {
    let straight = Straight::run(FLAGS);
    let (mut started, run) = straight.start("killed", FLAGS);
    for (kills, step) in [3, 5, 11, 15].into_iter().enumerate() {
        started.until_step(step);
        started.kill();
        started = Started::new(resume(&run), &run);
        // Until the log is rewound it still holds the steps that are lost.
        started.until(r#""event":"resumed","#, kills + 1);
    }
    started.end().succeeded();
    straight.assert_same(&run, "killed four times");
}

#[test]
fn a_run_killed_after_an_evaluation_ends_with_the_same_bits() {
    let straight = Straight::run(FLAGS);
    let (mut started, run) = straight.start("killed", FLAGS);
    started.until(r#""event":"evaluated","step":12,"#, 1);
    started.kill();
    Outcome::of(&mut resume(&run)).succeeded();
    straight.assert_same(&run, "killed after the evaluation of epoch 1");
}

#[test]
fn a_half_written_checkpoint_and_a_torn_line_in_the_log_do_no_harm() {
    let straight = Straight::run(FLAGS);
    let (mut started, run) = straight.start("killed", FLAGS);
    started.until_step(9);
    started.kill();
    let unfinished = run.join("checkpoints/.unfinished-step-00000010");
    fs::create_dir_all(&unfinished).unwrap();
    fs::write(unfinished.join("weights.safetensors"), b"half").unwrap();
    fs::write(run.join(".weights.safetensors.partial"), b"half").unwrap();
    let mut log = fs::OpenOptions::new().append(true).open(run.join("events.jsonl")).unwrap();
    log.write_all(br#"{"event":"step","step":10,"lo"#).unwrap();
    drop(log);
    Outcome::of(&mut resume(&run)).succeeded();
    straight.assert_same(&run, "killed while writing");
    let left = checkpoints(&run).into_iter().filter(|path| path.to_string_lossy().contains("unfinished"));
    assert_eq!(left.count(), 0, "what was half written is gone");
}

#[test]
fn an_interrupted_run_finishes_its_step_and_says_how_to_go_on() {
    let straight = Straight::run(FLAGS);
    // No checkpoint but the one of the interruption.
    let (mut started, run) = straight.start("interrupted", &FLAGS.replace("steps 2", "steps 100"));
    started.until_step(3);
    let outcome = started.interrupt();
    assert_eq!(outcome.code, Some(130), "{}", outcome.all());
    assert!(outcome.stderr.contains(&format!("--resume {}", run.display())), "{}", outcome.stderr);
    assert_eq!(outcome.stdout, "", "an unfinished run has no result");
    let log = events(&run);
    assert_eq!(log.last().unwrap()["event"], "interrupted");
    let done = *steps(&run).last().unwrap();
    let names: Vec<String> =
        checkpoints(&run).iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
    assert_eq!(names, [format!("step-{done:08}")], "the step that was finished is saved");

    Outcome::of(resume(&run).args(["--checkpoint-steps", "2"])).succeeded();
    assert_eq!(resumed_after(&run), [done], "nothing is done twice");
    straight.assert_same(&run, "interrupted");
}

#[test]
fn a_run_cannot_be_written_by_two_at_once() {
    let folder = tempdir().unwrap();
    let (data, run) = (folder.path().join("data"), folder.path().join("run"));
    picture_folder(&data, EACH);
    let mut first = Started::new(train(&data, &run, "--batch-size 4 --epochs 1000 --checkpoint-steps 2"), &run);
    first.until_step(3);
    let environment = || fs::read_to_string(run.join("environment.json")).unwrap();
    let before = environment();
    let sentence = Outcome::of(&mut resume(&run)).refused();
    assert!(sentence.contains("another process"), "{sentence}");
    let sentence = Outcome::of(&mut train(&data, &run, "")).refused();
    assert!(sentence.contains("already holds a run"), "{sentence}");
    assert_eq!(environment(), before, "who is refused changes nothing");

    // The first one was not disturbed.
    let seen = *steps(&run).last().unwrap();
    first.until_step(seen + 2);
    assert_eq!(first.interrupt().code, Some(130));
    let done = steps(&run);
    assert_eq!(done, (1..=done.len() as u64).collect::<Vec<_>>());
}

#[test]
fn a_run_goes_on_with_another_micro_batch_and_ends_with_the_same_bits() {
    let flags = "--batch-size 8 --ghost-batch-size 4 --micro-batch 8 --epochs 2 --checkpoint-steps 2";
    let straight = Straight::run(flags);
    let (mut started, run) = straight.start("killed", flags);
    started.until_step(3);
    started.kill();
    Outcome::of(resume(&run).args(["--micro-batch", "4", "--workers", "2"])).succeeded();
    assert_eq!(steps(&run), steps(&straight.run));
    assert_same_bits(&straight.run, &run, "micro-batches of 8, then of 4");
}

#[test]
fn resuming_a_finished_run_changes_nothing() {
    let straight = Straight::run(FLAGS);
    let copy = straight.folder.path().join("copy");
    assert!(Command::new("cp").arg("-r").args([&straight.run, &copy]).status().unwrap().success());
    let result = Outcome::of(&mut resume(&copy)).succeeded().result();
    assert_eq!(result["steps"].as_u64(), Some(STEPS));
    straight.assert_same(&copy, "resumed after its end");
}
