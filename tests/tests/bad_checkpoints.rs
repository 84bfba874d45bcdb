//! Checkpoints that are damaged or belong to something else are refused, and the one before them still serves.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use kindling_tests::{Outcome, assert_same_bits, checkpoints, kindling, picture_folder, train};
use tempfile::{TempDir, tempdir};

/// A run with the checkpoints of steps 4 and 6, which is its end.
struct Run {
    folder: TempDir,
    data: PathBuf,
    run: PathBuf,
}

impl Run {
    fn new() -> Self {
        let folder = tempdir().unwrap();
        let (data, run) = (folder.path().join("data"), folder.path().join("run"));
        picture_folder(&data, 12);
        Outcome::of(&mut train(&data, &run, "--batch-size 4 --epochs 1 --checkpoint-steps 2")).succeeded();
        let made = Self { folder, data, run };
        let names: Vec<_> = checkpoints(&made.run).iter().map(|path| path.file_name().unwrap().to_owned()).collect();
        assert_eq!(names, ["step-00000004", "step-00000006"]);
        made
    }

    fn newest(&self) -> PathBuf {
        self.run.join("checkpoints/step-00000006")
    }

    fn resume(&self, flags: &str) -> Outcome {
        Outcome::of(kindling().args(["train", "--resume"]).arg(&self.run).args(flags.split_whitespace()))
    }
}

/// What is done to a file.
type Damage = fn(&Path);

/// Changes one byte in the middle.
fn flip(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

fn truncate(path: &Path) {
    let bytes = fs::read(path).unwrap();
    fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
}

#[test]
fn a_damaged_checkpoint_is_named_and_the_one_before_it_serves() {
    let damages: [(&str, Damage); 5] = [
        ("weights.safetensors", flip),
        ("optimizer.safetensors", truncate),
        ("optimizer.safetensors", |path| fs::remove_file(path).unwrap()),
        ("state.toml", truncate),
        ("state.toml", |path| fs::remove_file(path).unwrap()),
    ];
    let run = Run::new();
    let whole = run.folder.path().join("whole");
    copy_folder(&run.newest(), &whole);
    let ended_with = run.folder.path().join("ended-with");
    copy_folder(&run.run, &ended_with);
    let log = fs::read(run.run.join("events.jsonl")).unwrap();
    for (file, damage) in damages {
        damage(&run.newest().join(file));
        let sentence = run.resume("").refused();
        for word in ["step-00000006", file, "resume from step-00000004"] {
            assert!(sentence.contains(word), "`{word}` is not said: {sentence}");
        }
        assert_eq!(log, fs::read(run.run.join("events.jsonl")).unwrap(), "a refused run changes nothing");
        fs::remove_dir_all(run.newest()).unwrap();
        copy_folder(&whole, &run.newest());
    }
    fs::remove_dir_all(run.newest()).unwrap();
    run.resume("").succeeded();
    assert_same_bits(&ended_with, &run.run, "from step 4");
}

#[test]
fn without_any_checkpoint_a_run_says_so() {
    let run = Run::new();
    fs::remove_dir_all(run.run.join("checkpoints")).unwrap();
    let sentence = run.resume("").refused();
    assert!(sentence.contains("before its first checkpoint"), "{sentence}");
}

#[test]
fn a_checkpoint_of_another_model_or_optimizer_is_refused() {
    let run = Run::new();
    for (flags, words) in [
        ("--model mobilenet_v2", ["mobilenet_v2", "mobilenet_v3_small"]),
        ("--optimizer sgd", ["optimizer", "another"]),
        ("--drop-rate 0.1", ["", ""]),
    ] {
        let other = run.folder.path().join("other");
        Outcome::of(&mut train(&run.data, &other, &format!("--batch-size 4 --max-steps 1 {flags}"))).succeeded();
        let foreign = run.run.join("checkpoints/step-00000008");
        copy_folder(&checkpoints(&other)[0], &foreign);
        if words[0].is_empty() {
            // The same model and optimizer: nothing tells this one apart, and it does fit.
            run.resume("").succeeded();
        } else {
            let sentence = run.resume("").refused();
            assert!(
                sentence.contains("step-00000008") && words.iter().all(|word| sentence.contains(word)),
                "{sentence}"
            );
        }
        fs::remove_dir_all(&foreign).unwrap();
        fs::remove_dir_all(&other).unwrap();
    }
}

#[test]
fn a_run_is_not_resumed_as_something_else() {
    let run = Run::new();
    let config = fs::read(run.run.join("config.toml")).unwrap();
    for flags in [
        "--model mobilenet_v2",
        "--data phantoms",
        "--image-size 64",
        "--batch-size 8",
        "--norm-group 2",
        "--epochs 9",
        "--max-steps 9",
        "--lr 0.1",
        "--optimizer sgd",
        "--seed 4",
        "--augment none",
        "--drop-rate 0.5",
        "--class-weights balanced",
    ] {
        let sentence = run.resume(flags).refused();
        let flag = flags.split(' ').next().unwrap();
        assert!(sentence.contains(flag) && sentence.contains("--config"), "{flags}: {sentence}");
    }
    let other = run.folder.path().join("elsewhere");
    let outcome = run.resume(&format!("--out {}", other.display()));
    assert!(outcome.refused().contains("--out"), "{}", outcome.stderr);
    assert_eq!(config, fs::read(run.run.join("config.toml")).unwrap());
    // Saying what is true is no change.
    run.resume("--model mobilenet_v3_small --batch-size 4 --epochs 1 --seed 0 --optimizer adamw").succeeded();
}

#[test]
fn a_run_whose_classes_have_changed_is_not_resumed() {
    let run = Run::new();
    fs::rename(run.data.join("dark"), run.data.join("dim")).unwrap();
    let sentence = run.resume("").refused();
    assert!(sentence.contains("dark") && sentence.contains("dim"), "{sentence}");
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
