//! Flags, configurations, plans, faults and a data set under the names that earlier versions gave them: `--norm-group`,
//! `--recompute` and `brain-planes`.
//!
//! The files of `tests/earlier/` were written by the version that used these names last.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kindling_tests::{Outcome, assert_same_bits, checkpoints, events, kindling, steps, toml_value};
use tempfile::{TempDir, tempdir};

const TRAIN: &str = include_str!("../earlier/train.toml");
const GAN: &str = include_str!("../earlier/gan.toml");
const PLAN: &str = include_str!("../earlier/plan.toml");

/// The flags behind `TRAIN`, without the two whose names have changed.
const TRAIN_FLAGS: &str = "train --data phantoms --model mobilenetv2_035 --image-size 32 --batch-size 4 --micro-batch 2 --max-steps 6 \
                           --checkpoint-steps 2 --workers 1 --device cpu --quiet";
/// Those behind `GAN`.
const GAN_FLAGS: &str = "gan train --data phantoms --model dcgan_64 --features 4 --iterations 3 --batch-size 4 --micro-batch 2 \
                         --sample-iterations 3 --compare 0 --workers 1 --device cpu --quiet";
const EARLIER: &str = "--norm-group 2 --recompute stages";
const TODAY: &str = "--ghost-batch-size 2 --activation-checkpointing stages";

fn command(words: &str) -> Command {
    let mut command = kindling();
    command.env_remove("RUST_BACKTRACE").args(words.split_whitespace());
    command
}

/// A run that nothing disturbed, and one of earlier names that ended with a failure and waits to be resumed.
struct Two {
    folder: TempDir,
    straight: PathBuf,
    earlier: PathBuf,
}

impl Two {
    fn new(flags: &str, fault: &str, config: &str) -> Self {
        let folder = tempdir().unwrap();
        let (straight, earlier) = (folder.path().join("straight"), folder.path().join("earlier"));
        Outcome::of(command(&format!("{flags} {TODAY}")).arg("--out").arg(&straight)).succeeded();
        let mut failing = command(&format!("{flags} {EARLIER}"));
        Outcome::of(failing.arg("--out").arg(&earlier).env("KINDLING_FAULT", fault)).refused();
        assert_eq!(events(&earlier).last().unwrap()["event"], "checkpoint", "what was done is saved");

        // The flags of earlier versions mean what today's do.
        let written = |run: &Path| fs::read_to_string(run.join("config.toml")).unwrap();
        assert_eq!(written(&straight), written(&earlier));
        // And what those versions wrote for them is the same under other names; today's write more.
        let renamed =
            config.replace("norm_group =", "ghost_batch_size =").replace("recompute =", "activation_checkpointing =");
        assert_ne!(renamed, config);
        let today = written(&straight);
        let lost: Vec<&str> = renamed.lines().filter(|line| !today.lines().any(|other| other == *line)).collect();
        assert_eq!(lost, [""; 0]);
        fs::write(earlier.join("config.toml"), config).unwrap();
        // Those versions wrote no history.
        fs::remove_file(earlier.join("history.jsonl")).unwrap();
        Self { folder, straight, earlier }
    }

    fn resume(&self, words: &str) {
        Outcome::of(command(words).arg("--resume").arg(&self.earlier)).succeeded();
        assert_same_bits(&self.straight, &self.earlier, "resumed with the configuration of an earlier version");
        let history = fs::read_to_string(self.earlier.join("history.jsonl")).unwrap();
        let how: Vec<&str> = history.lines().map(|line| line.split('"').nth(3).unwrap()).collect();
        assert_eq!(how, ["started", "resumed"], "the start is what the environment says");
    }
}

#[test]
fn a_run_with_the_names_of_an_earlier_version_is_resumed_and_evaluated() {
    let two = Two::new(TRAIN_FLAGS, "error@step=4,phase=gate", TRAIN);
    two.resume("train --quiet");
    assert_eq!(steps(&two.earlier), [1, 2, 3, 4, 5, 6]);
    // Checkpoints keep their keys, so that either version goes on from the other's.
    let last = checkpoints(&two.earlier).pop().unwrap();
    let state = fs::read_to_string(last.join("state.toml")).unwrap();
    assert!(state.contains("recompute = \"stages\""), "{state}");

    let score = |run: &Path| Outcome::of(command("eval --device cpu --format json").arg(run)).succeeded().result();
    assert_eq!(score(&two.earlier)["score"], score(&two.straight)["score"]);
}

#[test]
fn a_gan_with_the_names_of_an_earlier_version_is_resumed_and_sampled() {
    let two = Two::new(GAN_FLAGS, "error@step=2,phase=generator-gate", GAN);
    two.resume("gan train --quiet");
    let picture = |run: &Path| {
        let path = two.folder.path().join("sample.png");
        Outcome::of(command("gan sample --device cpu --count 2").arg(run).arg("--out").arg(&path)).succeeded();
        fs::read(path).unwrap()
    };
    assert_eq!(picture(&two.earlier), picture(&two.straight));
}

#[test]
fn a_data_set_under_its_earlier_name_is_the_one_of_today() {
    let empty = tempdir().unwrap();
    for words in ["data describe", "train --device cpu --data", "gan train --device cpu --data"] {
        let sentence = |name: &str| {
            let mut command = command(words);
            Outcome::of(command.arg(name).current_dir(empty.path()).env("KINDLING_DATA", empty.path())).refused()
        };
        let today = sentence("brain-mri-orientation");
        assert!(today.contains("run scripts/fetch-brain-mri-orientation.sh"), "{today}");
        assert_eq!(sentence("brain-planes"), today);
    }
}

#[test]
fn configurations_and_plans_of_an_earlier_version_are_followed() {
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("config.toml"), TRAIN).unwrap();
    fs::write(path("plan.toml"), PLAN).unwrap();
    let run = |name: &str, words: &str, file: &str| {
        let mut command = command(words);
        Outcome::of(command.arg(path(file)).arg("--out").arg(path(name))).succeeded();
        let config = path(name).join("config.toml");
        ["ghost_batch_size", "activation_checkpointing"].map(|key| toml_value(&config, key))
    };
    assert_eq!(run("configured", "train --quiet --max-steps 1 --config", "config.toml"), ["2", "\"stages\""]);
    let planned = "train --quiet --data phantoms --workers 1 --device cpu --max-steps 1 --plan";
    assert_eq!(run("planned", planned, "plan.toml"), ["8", "\"none\""]);
}
