//! Checkpoints that are damaged or belong to something else are refused, and the one before them still serves.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use kindling_tests::{Outcome, assert_same_bits, checkpoints, copy_folder, kindling, picture_folder, rng, train};
use rand::RngExt;
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

/// Bits that are flipped in each file.
const FLIPS: usize = 6;

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
fn a_bit_flipped_anywhere_in_a_checkpoint_is_refused_with_one_sentence() {
    let run = Run::new();
    fs::remove_dir_all(run.run.join("checkpoints/step-00000004")).unwrap();
    let log = fs::read(run.run.join("events.jsonl")).unwrap();
    let mut rng = rng(1);
    let mut flipped = 0;
    for entry in fs::read_dir(run.newest()).unwrap().flatten() {
        let bytes = fs::read(entry.path()).unwrap();
        let name = entry.file_name().into_string().unwrap();
        for _ in 0..if bytes.is_empty() { 0 } else { FLIPS } {
            let (at, bit) = (rng.random_range(0..bytes.len()), rng.random_range(0..8));
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            fs::write(entry.path(), damaged).unwrap();
            let outcome = run.resume("");
            let sentence = outcome.refused();
            assert!(sentence.contains("step-00000006"), "bit {bit} of byte {at} of {name}: {sentence}");
            flipped += 1;
        }
        fs::write(entry.path(), bytes).unwrap();
    }
    assert!(flipped >= 4 * FLIPS, "only {flipped} bits were flipped");
    assert_eq!(log, fs::read(run.run.join("events.jsonl")).unwrap(), "a refused run changes nothing");
    run.resume("").succeeded();
}

/// How the release before this one laid a checkpoint out: sums of the tensors in `state.toml`, and none of itself.
#[test]
fn a_checkpoint_of_an_older_release_is_read_and_its_numbers_are_checked() {
    let run = Run::new();
    let (state, sums) = (run.newest().join("state.toml"), run.newest().join("SHA256SUMS"));
    let listed = fs::read_to_string(&sums).unwrap();
    let of_tensors = listed.lines().filter(|line| line.ends_with(".safetensors"));
    let table: String = of_tensors
        .map(|line| line.split_once("  ").unwrap())
        .fold("\n[sha256]\n".to_string(), |table, (sum, name)| format!("{table}\"{name}\" = \"{sum}\"\n"));
    let text = fs::read_to_string(&state).unwrap();
    let kept = text.lines().filter(|line| !line.starts_with("format = ") && !line.starts_with("log_lines = "));
    let old = kept.map(|line| format!("{line}\n")).collect::<String>() + &table;
    fs::remove_file(sums).unwrap();
    let sentence = run.resume("").refused();
    assert!(sentence.contains("SHA256SUMS is not there"), "{sentence}");
    fs::remove_file(run.newest().join("events.jsonl")).unwrap();
    let value = |key: &str| old.lines().find(|line| line.starts_with(&format!("{key} = "))).unwrap().to_string();
    for (key, absurd) in [
        ("step", "1e9"),
        ("step", "9223372036854775807"),
        ("batch", "9999"),
        ("seconds", "-1.0"),
        ("seconds", "nan"),
        ("accuracy", "7.0"),
        ("micro_batch", "0"),
        ("factor", "0.0"),
    ] {
        fs::write(&state, old.replacen(&value(key), &format!("{key} = {absurd}"), 1)).unwrap();
        let sentence = run.resume("").refused();
        assert!(sentence.contains("step-00000006") && sentence.contains("state.toml"), "{key}: {sentence}");
    }
    fs::write(&state, &old).unwrap();
    let outcome = run.resume("").succeeded();
    assert_eq!(outcome.stderr.matches("an older release's").count(), 1, "{}", outcome.all());
}

#[test]
fn a_run_whose_checkpoints_are_gone_says_so_and_keeps_what_it_tells() {
    let run = Run::new();
    fs::remove_dir_all(run.run.join("checkpoints")).unwrap();
    let log = fs::read(run.run.join("events.jsonl")).unwrap();
    let sentence = run.resume("").refused();
    assert!(sentence.contains("there is no checkpoint, though one of step 6 was saved"), "{sentence}");
    assert_eq!(fs::read(run.run.join("events.jsonl")).unwrap(), log);
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
        "--ghost-batch-size 2",
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
    // Flags that agree with the run are no change.
    run.resume("--model mobilenet_v3_small --batch-size 4 --epochs 1 --seed 0 --optimizer adamw").succeeded();
}

#[test]
fn a_run_whose_classes_have_changed_is_not_resumed() {
    let run = Run::new();
    fs::rename(run.data.join("dark"), run.data.join("dim")).unwrap();
    let sentence = run.resume("").refused();
    assert!(sentence.contains("dark") && sentence.contains("dim"), "{sentence}");
}
