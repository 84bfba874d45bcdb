//! Killed before anything was saved, and one command line for the first time and every time after.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kindling_tests::{
    Outcome, Started, assert_same_bits, assert_says, checkpoints, events, kindling, picture_folder, resume, steps,
    train,
};
use tempfile::{TempDir, tempdir};

/// Everything that draws random numbers is on. 12 steps an epoch, and no checkpoint before the end of one.
const FLAGS: &str = "--batch-size 4 --epochs 1 --checkpoint-steps 1000 --augment light --drop-rate 0.3 --normalise data \
                     --class-weights balanced --seed 7";
const STEPS: u64 = 12;

/// A folder with images, and a run on them that nothing disturbed.
struct Straight {
    folder: TempDir,
    data: PathBuf,
    run: PathBuf,
}

impl Straight {
    fn run() -> Self {
        let folder = tempdir().unwrap();
        let (data, run) = (folder.path().join("data"), folder.path().join("straight"));
        picture_folder(&data, 24);
        Outcome::of(&mut train(&data, &run, FLAGS)).succeeded();
        Self { folder, data, run }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A run that was killed after its second step: nothing of it is saved.
    fn killed(&self, name: &str) -> PathBuf {
        let run = self.path(name);
        kill_after_step_2(train(&self.data, &run, FLAGS), &run);
        run
    }

    /// Fails unless the other run ended as this one did, to the last bit, with its data listed once.
    fn assert_same(&self, other: &Path, when: &str) {
        assert_eq!(steps(other), (1..=STEPS).collect::<Vec<_>>(), "{when}: every step once");
        assert_same_bits(&self.run, other, when);
        let list = |run: &Path| fs::read_to_string(run.join("data.csv")).unwrap();
        assert_eq!(list(&self.run), list(other), "{when}");
        assert!(!other.join("data-1.csv").exists(), "{when}: its data has not changed");
    }
}

fn kill_after_step_2(command: Command, run: &Path) {
    let mut started = Started::new(command, run);
    started.until_step(2);
    started.kill();
    assert!(!run.join("checkpoints").exists() || checkpoints(run).is_empty(), "nothing is saved");
}

/// What was done with a run, and from which step on.
fn history(run: &Path) -> Vec<(String, u64)> {
    let text = fs::read_to_string(run.join("history.jsonl")).unwrap();
    let sittings = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    sittings.map(|it| (it["how"].as_str().unwrap().to_string(), it["from_step"].as_u64().unwrap())).collect()
}

fn count(run: &Path, event: &str) -> usize {
    events(run).iter().filter(|it| it["event"] == event).count()
}

/// Every file of a run with its bytes.
fn contents(run: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut files, mut folders) = (BTreeMap::new(), vec![run.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.insert(path.clone(), fs::read(path).unwrap());
            }
        }
    }
    files
}

#[test]
fn a_run_killed_before_its_first_checkpoint_and_resumed_ends_with_the_same_bits() {
    let straight = Straight::run();
    let run = straight.killed("killed");
    // And once more: a job that was requeued may be requeued again. Until the log is rewound it still holds the lost steps.
    let mut again = Started::new(resume(&run), &run);
    again.until(r#""event":"resumed","#, 1);
    again.until_step(2);
    again.kill();
    Outcome::of(&mut resume(&run)).succeeded();
    straight.assert_same(&run, "killed twice before its first checkpoint");
    let expected = [("started", 0), ("resumed", 0), ("resumed", 0)].map(|(how, step)| (how.to_string(), step));
    assert_eq!(history(&run), expected);
    assert_eq!((count(&run, "started"), count(&run, "resumed"), count(&run, "finished")), (1, 2, 1));
    assert_eq!(events(&run)[0]["event"], "started");
}

/// From the moment on at which `config.toml` has its name, and with half of it before.
#[test]
fn a_run_killed_at_every_write_before_its_first_checkpoint_ends_with_the_same_bits() {
    let straight = Straight::run();
    let mut resumed = 0;
    for point in ["create", "half", "rename", "renamed", "line", "line-half"] {
        for time in 1..=4 {
            let run = straight.path(&format!("{point}-{time}"));
            let at = format!("{point}@{time}");
            let outcome = Outcome::of(train(&straight.data, &run, FLAGS).env("KINDLING_KILL", &at));
            assert_eq!(outcome.code, None, "{at} was not passed: {}", outcome.all());
            if run.join("config.toml").exists() {
                Outcome::of(&mut resume(&run)).succeeded();
                resumed += 1;
            } else {
                assert_says(&Outcome::of(&mut resume(&run)).refused(), &["holds no run yet", "the same --out"]);
                Outcome::of(&mut train(&straight.data, &run, FLAGS)).succeeded();
            }
            straight.assert_same(&run, &at);
            fs::remove_dir_all(run).unwrap();
        }
    }
    assert!(resumed >= 20, "only {resumed} of the kills left a configuration");
}

#[test]
fn data_that_has_changed_since_a_run_was_killed_in_its_first_second_is_refused() {
    let straight = Straight::run();
    let run = straight.killed("killed");
    let picture = fs::read_dir(straight.data.join("dark")).unwrap().next().unwrap().unwrap().path();
    fs::remove_file(picture).unwrap();
    let sentence = Outcome::of(&mut resume(&run)).refused();
    assert_says(&sentence, &["is not what it was", "--accept-changed-data"]);
    let mut accepted = resume(&run);
    Outcome::of(accepted.arg("--accept-changed-data")).succeeded();
    assert_eq!((count(&run, "warned"), count(&run, "finished")), (1, 1));
}

#[test]
fn one_command_line_starts_a_run_resumes_it_and_leaves_it_alone_when_it_is_finished() {
    let straight = Straight::run();
    let run = straight.path("run");
    let line = || {
        let mut command = train(&straight.data, &run, FLAGS);
        command.env_remove("RUST_BACKTRACE").arg("--resume-or-start");
        command
    };
    kill_after_step_2(line(), &run);
    // A request to stop, as schedulers send it before a job's time is up.
    let mut started = Started::new(line(), &run);
    started.until(r#""event":"resumed","#, 1);
    started.until_step(3);
    assert_eq!(started.signal("TERM", 1).code, Some(143));
    let first = Outcome::of(&mut line()).succeeded();
    straight.assert_same(&run, "by one command line");
    assert_eq!(history(&run).len(), 3);

    let before = contents(&run);
    // Files that are not needed any more may be gone.
    fs::rename(&straight.data, straight.path("elsewhere")).unwrap();
    fs::create_dir(&straight.data).unwrap();
    let again = Outcome::of(&mut line()).succeeded();
    assert!(again.stderr.contains("is finished"), "{}", again.all());
    for key in ["run", "steps", "test_accuracy"] {
        assert_eq!(again.result()[key], first.result()[key], "{key}");
    }
    assert!(contents(&run) == before, "a finished run is left as it is");
}

#[test]
fn one_command_line_resumes_no_other_run_than_it_would_start() {
    let straight = Straight::run();
    let run = straight.killed("killed");
    let before = contents(&run);
    let with = |flags: &str| Outcome::of(train(&straight.data, &run, flags).arg("--resume-or-start"));
    for (old, new, said) in [
        ("--seed 7", "--seed 8", "--seed is 8, the run has 7"),
        ("--epochs 1", "--epochs 2", "--epochs is 2, the run has 1 (--extend-to 2 makes it longer)"),
        ("--normalise data", "--normalise none", "--normalise is none"),
        ("--class-weights balanced", "--class-weights 1,2", "--class-weights"),
    ] {
        let sentence = with(&FLAGS.replace(old, new)).refused();
        assert_says(&sentence, &["cannot be resumed as something else", said]);
    }
    // A file of settings that the run did not begin with.
    let other = straight.path("other.toml");
    let config = fs::read_to_string(run.join("config.toml")).unwrap();
    fs::write(&other, config.replacen("label_smoothing = 0.", "label_smoothing = 0.2", 1)).unwrap();
    let sentence = with(&format!("{FLAGS} --config {}", other.display())).refused();
    assert_says(&sentence, &["--label-smoothing"]);
    assert!(contents(&run) == before, "who is refused changes nothing");
    // And with the one it did begin with.
    with(&format!("--config {} --seed 7", run.join("config.toml").display())).succeeded();
    straight.assert_same(&run, "with a file of settings");
    let nowhere = Outcome::of(kindling().args(["train", "--resume-or-start"]));
    assert!(nowhere.code == Some(2) && nowhere.stderr.contains("--out <DIR>"), "{}", nowhere.all());
}

#[test]
fn what_a_run_started_from_may_be_said_each_time_and_nothing_else() {
    let straight = Straight::run();
    let run = straight.path("run");
    let line = |weights: &Path| {
        let mut command = train(&straight.data, &run, FLAGS);
        command.env_remove("RUST_BACKTRACE").arg("--resume-or-start").arg("--weights").arg(weights);
        command
    };
    let weights = straight.run.join("weights.safetensors");
    let undisturbed = straight.path("undisturbed");
    Outcome::of(train(&straight.data, &undisturbed, FLAGS).arg("--weights").arg(&weights)).succeeded();
    kill_after_step_2(line(&weights), &run);
    let sentence = Outcome::of(&mut line(&straight.run.join("weights-last.safetensors"))).refused();
    assert_says(&sentence, &["--weights is not what the run started from"]);
    Outcome::of(&mut line(&weights)).succeeded();
    assert_same_bits(&undisturbed, &run, "from weights, killed before its first checkpoint");
}

#[test]
fn two_networks_killed_before_their_first_checkpoint_end_with_the_same_bits_by_the_same_command_line() {
    let folder = tempdir().unwrap();
    let [data, straight, run] = ["data", "straight", "run"].map(|name| folder.path().join(name));
    picture_folder(&data, 12);
    let gan = |run: &Path| {
        let mut command = kindling();
        command.env_remove("RUST_BACKTRACE").args(["gan", "train", "--device", "cpu", "--data"]).arg(&data);
        let flags =
            "--model dcgan_64 --features 4 --batch-size 4 --iterations 6 --checkpoint-iterations 100 --compare 0";
        command.arg("--out").arg(run).args(flags.split_whitespace()).arg("--resume-or-start");
        command
    };
    Outcome::of(&mut gan(&straight)).succeeded();
    let mut started = Started::new(gan(&run), &run);
    started.until(r#""event":"iteration","step":2,"#, 1);
    started.kill();
    Outcome::of(&mut gan(&run)).succeeded();
    assert_same_bits(&straight, &run, "two networks");
    let before = contents(&run);
    let again = Outcome::of(&mut gan(&run)).succeeded();
    assert!(again.stderr.contains("is finished"), "{}", again.all());
    assert!(contents(&run) == before, "a finished run is left as it is");
    let sentence = Outcome::of(gan(&run).args(["--seed", "9"])).refused();
    assert_says(&sentence, &["cannot be resumed as something else", "--seed is 9"]);
}
