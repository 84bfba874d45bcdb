//! A full disk while saving: a small file system in memory, on a Linux that allows mounting one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use kindling_tests::{
    Bench, Optional, Outcome, assert_same_bits, checkpoints, events, kindling, picture_folder, private_mounts, resume,
    run_optional, steps, toml_value, train,
};
use tempfile::{TempDir, tempdir};

fn main() -> ExitCode {
    let missing = (private_mounts().is_none())
        .then(|| "a small file system to fill: run as root, or allow user namespaces (`unshare -rm`)".to_string());
    run_optional(
        Optional { missing, required_by: "KINDLING_REQUIRE_TMPFS" },
        &[
            (
                "a_full_disk_while_saving_a_checkpoint_leaves_the_one_before_it_intact",
                a_full_disk_while_saving_a_checkpoint_leaves_the_one_before_it_intact,
            ),
            ("a_full_disk_leaves_the_best_weights_usable", a_full_disk_leaves_the_best_weights_usable),
            ("a_disk_too_small_for_the_first_checkpoint_is_named", a_disk_too_small_for_the_first_checkpoint_is_named),
            (
                "a_disk_that_is_full_while_an_event_is_written_takes_no_step_out_of_the_log",
                a_disk_that_is_full_while_an_event_is_written_takes_no_step_out_of_the_log,
            ),
        ],
    )
}

/// A run that met a full disk: what it said, and a copy of what it left there.
struct Stopped {
    folder: TempDir,
    data: PathBuf,
    run: PathBuf,
    sentence: String,
}

/// Trains on a disk of so many megabytes.
fn train_on_small_disk(megabytes: u32, flags: &str) -> Stopped {
    let folder = tempdir().expect("a temporary folder");
    let [data, disk, run] = ["data", "disk", "run"].map(|name| folder.path().join(name));
    picture_folder(&data, 12);
    fs::create_dir(&disk).expect("a folder of the test can be made");
    let script = r#"mount -t tmpfs -o size="$1"m none "$2" || exit 99
        disk="$2" keep="$3"; shift 3
        "$@"; code=$?
        cp -a "$disk/run" "$keep" || exit 98
        exit $code"#;
    let mut command = Command::new("unshare");
    command.args([private_mounts().expect("checked before"), "sh", "-c", script, "sh", &megabytes.to_string()]);
    let train = train(&data, &disk.join("run"), flags);
    command.arg(&disk).arg(&run).arg(train.get_program()).args(train.get_args());
    let sentence = Outcome::of(&mut command).refused();
    assert!(sentence.contains("No space left on device"), "{sentence}");
    let unfinished =
        files(&run).into_iter().filter(|path| path.file_name().is_some_and(|name| name.as_encoded_bytes()[0] == b'.'));
    assert_eq!(unfinished.count(), 0, "something half written is left");
    Stopped { folder, data, run, sentence }
}

/// Every file and folder under a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    for path in paths.clone() {
        if path.is_dir() {
            paths.extend(files(&path));
        }
    }
    paths
}

impl Stopped {
    /// Resumes the copy where there is space, and fails unless it ends as a run that nothing stopped.
    fn assert_goes_on(&self, flags: &str) {
        Outcome::of(kindling().args(["train", "--resume"]).arg(&self.run)).succeeded();
        let straight = self.folder.path().join("straight");
        Outcome::of(&mut train(&self.data, &straight, flags)).succeeded();
        assert_same_bits(&straight, &self.run, "with space again");
    }
}

fn a_full_disk_while_saving_a_checkpoint_leaves_the_one_before_it_intact() {
    // A checkpoint takes 18 MB: two fit, a third does not.
    let flags = "--batch-size 4 --epochs 2 --checkpoint-steps 2";
    let stopped = train_on_small_disk(50, flags);
    for word in ["checkpoint of step 6", "step-00000004 is intact"] {
        assert!(stopped.sentence.contains(word), "`{word}` is not said: {}", stopped.sentence);
    }
    let left = checkpoints(&stopped.run);
    let names: Vec<_> = left.iter().filter_map(|path| path.file_name()?.to_str()).collect();
    assert_eq!(names, ["step-00000002", "step-00000004"]);
    stopped.assert_goes_on(flags);
}

fn a_full_disk_leaves_the_best_weights_usable() {
    // The weights take 6 MB and a checkpoint 18: what epoch 1 saves fits, what epoch 2 saves does not.
    let flags = "--batch-size 4 --epochs 2";
    let stopped = train_on_small_disk(28, flags);
    let mut eval = kindling();
    Outcome::of(eval.arg("eval").arg(&stopped.run).args(["--device", "cpu"])).succeeded();
    assert_eq!(checkpoints(&stopped.run).len(), 1);
    stopped.assert_goes_on(flags);
}

fn a_disk_too_small_for_the_first_checkpoint_is_named() {
    let flags = "--batch-size 4 --epochs 1 --checkpoint-steps 2";
    let stopped = train_on_small_disk(2, flags);
    assert!(stopped.sentence.contains("there was none before it"), "{}", stopped.sentence);
    assert!(stopped.sentence.contains("then continue with: kindling train --resume"), "{}", stopped.sentence);
    // With space it starts again.
    stopped.assert_goes_on(flags);
}

/// The log lies on a disk of one page, and everything else has room: so the checkpoint of the step whose event could not be
/// written is saved.
fn a_disk_that_is_full_while_an_event_is_written_takes_no_step_out_of_the_log() {
    let bench = Bench::new(36);
    let flags = "--image-size 32 --batch-size 4 --epochs 1 --max-steps 18";
    let straight = bench.run("straight", flags, "");
    let run = bench.path("run");
    Outcome::of(&mut bench.command("run", flags, "error@step=3,phase=forward")).refused();
    assert_eq!(steps(&run), [1, 2]);

    let small = bench.path("small");
    fs::create_dir(&small).expect("a folder of the test can be made");
    let script = r#"mount -t tmpfs -o size=4k none "$1" || exit 99
        log="$2/events.jsonl" kept="$2/kept.jsonl" small="$1/events.jsonl"; shift 2
        cp "$log" "$small" && mount --bind "$small" "$log" || exit 98
        "$@"; code=$?
        cp "$log" "$kept" && umount "$log" && mv "$kept" "$log" || exit 97
        exit $code"#;
    let mut command = Command::new("unshare");
    command.args([private_mounts().expect("checked before"), "sh", "-c", script, "sh"]).arg(&small).arg(&run);
    let resumed = resume(&run);
    let sentence = Outcome::of(command.arg(resumed.get_program()).args(resumed.get_args())).refused();
    for word in ["No space left on device", "events.jsonl", "--resume"] {
        assert!(sentence.contains(word), "`{word}` is not said: {sentence}");
    }
    let newest = checkpoints(&run).pop().expect("the steps that were done are saved");
    let saved: u64 = toml_value(&newest.join("state.toml"), "step").parse().expect("a step is a number");
    let told = steps(&run);
    assert_eq!(told, (1..saved).collect::<Vec<_>>(), "the event of step {saved} is lost, and no other");

    Outcome::of(&mut resume(&run)).succeeded();
    assert_eq!(steps(&run), (1..=18).collect::<Vec<_>>(), "every step once");
    assert!(events(&run).iter().all(|event| event["event"] != "warned"), "and nothing is missing");
    assert_same_bits(&straight, &run, "with space again");
}
