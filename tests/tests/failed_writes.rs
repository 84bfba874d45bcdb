//! Writes that the operating system refuses, on any Linux: the device that is always full, and a limit on the size of
//! files. `full_disk.rs` fills a whole disk where it may.
#![allow(clippy::unwrap_used)]
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use kindling_tests::{Outcome, Started, assert_same_bits, checkpoints, kindling, picture_folder, train};
use tempfile::{TempDir, tempdir};

const FLAGS: &str = "--batch-size 4 --epochs 1 --checkpoint-steps 2";

/// A run of 6 steps that was killed after its third, and the same run undisturbed.
struct Killed {
    _folder: TempDir,
    run: PathBuf,
    straight: PathBuf,
}

impl Killed {
    fn new() -> Self {
        let folder = tempdir().unwrap();
        let [data, run, straight] = ["data", "run", "straight"].map(|name| folder.path().join(name));
        picture_folder(&data, 12);
        Outcome::of(&mut train(&data, &straight, FLAGS)).succeeded();
        let mut started = Started::new(train(&data, &run, FLAGS), &run);
        started.until_step(3);
        started.kill();
        Self { _folder: folder, run, straight }
    }

    fn assert_goes_on(&self) {
        Outcome::of(&mut resume(&self.run)).succeeded();
        assert_same_bits(&self.straight, &self.run, "once it can be written");
    }
}

fn resume(run: &Path) -> Command {
    let mut command = kindling();
    command.args(["train", "--resume"]).arg(run);
    command
}

/// The same command in a shell that first sets a limit.
fn under(limit: &str, command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{limit}; exec \"$@\""), "sh"]).arg(command.get_program()).args(command.get_args());
    shell
}

#[test]
fn a_full_device_while_saving_the_best_weights_is_named_and_the_run_goes_on() {
    let killed = Killed::new();
    // Where the new weights are written before they take their name.
    symlink("/dev/full", killed.run.join(".weights.safetensors.partial")).unwrap();
    let sentence = Outcome::of(&mut resume(&killed.run)).refused();
    for word in ["No space left on device", "weights.safetensors", "--resume"] {
        assert!(sentence.contains(word), "`{word}` is not said: {sentence}");
    }
    assert!(!killed.run.join("weights.safetensors").exists(), "what could not be written whole is not there");
    killed.assert_goes_on();
}

#[test]
fn a_checkpoint_that_cannot_be_written_leaves_the_one_before_it_intact() {
    let killed = Killed::new();
    let before = checkpoints(&killed.run);
    let last = before.last().unwrap().file_name().unwrap().to_str().unwrap().to_string();
    // One megabyte a file; the signal that comes with it is ignored, so that the write fails instead.
    let sentence = Outcome::of(&mut under("trap '' XFSZ; ulimit -f 2048", &resume(&killed.run))).refused();
    for word in ["could not be saved", "File too large", &format!("{last} is intact")] {
        assert!(sentence.contains(word), "`{word}` is not said: {sentence}");
    }
    assert_eq!(checkpoints(&killed.run), before, "and nothing half written is left");
    killed.assert_goes_on();
}

#[test]
fn a_folder_that_cannot_be_written_to_is_named() {
    let folder = tempdir().unwrap();
    let data = folder.path().join("data");
    picture_folder(&data, 8);
    // Not even root can make a folder there.
    for out in [Path::new("/proc/kindling/run"), Path::new("/dev/null/run")] {
        let sentence = Outcome::of(&mut train(&data, out, "")).refused();
        assert!(sentence.contains(out.to_str().unwrap()), "{sentence}");
    }
    let results = folder.path().join("results.csv");
    fs::create_dir(&results).unwrap();
    let run = folder.path().join("run");
    Outcome::of(&mut train(&data, &run, "--batch-size 8 --max-steps 1")).succeeded();
    let mut predict = kindling();
    predict.arg("predict").arg(&run).arg(data.join("dark/00.png")).arg("--out").arg(&results);
    let sentence = Outcome::of(predict.args(["--device", "cpu"])).refused();
    assert!(sentence.contains("results.csv"), "{sentence}");
}
