//! What a run records about itself: every setting, every start and resume, and where its data is.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kindling_tests::{
    Outcome, assert_same_bits, assert_says, json_of, kindling, picture_folder, resume, steps, toml_value, train,
};
use serde_json::Value;
use tempfile::{TempDir, tempdir};

const FLAGS: &str = "--batch-size 4 --max-steps 6 --checkpoint-steps 2 --quiet";
const FAULT: &str = "error@step=4,phase=gate";

struct Place {
    folder: TempDir,
    run: PathBuf,
}

impl Place {
    fn new() -> Self {
        let folder = tempdir().unwrap();
        picture_folder(&folder.path().join("data"), 12);
        let run = folder.path().join("run");
        Self { folder, run }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The run, begun in its folder on data whose path is relative.
    fn train(&self, name: &str) -> Command {
        let mut command = train(Path::new("data"), Path::new(name), FLAGS);
        command.current_dir(self.folder.path());
        command
    }

    /// The run, and one like it that stopped after its third step.
    fn stopped(&self) {
        Outcome::of(&mut self.train("straight")).succeeded();
        Outcome::of(self.train("run").env("KINDLING_FAULT", FAULT).env_remove("RUST_BACKTRACE")).refused();
    }
}

fn history(run: &Path) -> Vec<Value> {
    let text = fs::read_to_string(run.join("history.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn words(sitting: &Value) -> String {
    sitting["command"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect::<Vec<_>>().join(" ")
}

/// Every file under a folder.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

#[test]
fn every_start_and_resume_has_a_line_in_the_history_and_the_environment_stays_that_of_the_start() {
    let place = Place::new();
    place.stopped();
    let environment = json_of(&place.run.join("environment.json"));
    Outcome::of(resume(&place.run).args(["--workers", "2", "--micro-batch", "4"])).succeeded();
    assert_eq!(json_of(&place.run.join("environment.json")), environment);
    let history = history(&place.run);
    let told: Vec<(&str, u64)> =
        history.iter().map(|it| (it["how"].as_str().unwrap(), it["from_step"].as_u64().unwrap())).collect();
    assert_eq!(told, [("started", 0), ("resumed", 3)]);
    for key in ["time", "kindling", "device", "os", "command"] {
        assert_eq!(history[0][key], environment[key], "{key}");
        assert!(!history[1][key].is_null(), "{key}");
    }
    assert!(words(&history[0]).contains("--max-steps 6") && words(&history[1]).contains("--resume"));
    let changed = serde_json::to_string(&history[1]["changed"]).unwrap();
    assert_eq!(changed, r#"[["train.micro_batch","4"],["workers","2"]]"#);
    // Settings that are given for one resume only are not written into the configuration.
    assert_eq!(toml_value(&place.run.join("config.toml"), "micro_batch"), "\"auto\"");

    let report = fs::read_to_string(place.run.join("report.html")).unwrap();
    let [start, resumed] = [0, 1].map(|index| words(&history[index]));
    assert!(report.matches(&start).count() >= 2, "the environment and the history have the command of the start");
    assert!(report.contains(&resumed) && report.contains("workers 2"));
    assert_same_bits(&place.path("straight"), &place.run, "resumed");
}

#[test]
fn resuming_a_finished_run_changes_no_file_and_gives_its_result_again() {
    let place = Place::new();
    let first = Outcome::of(&mut place.train("run")).succeeded().result();
    let before = files(&place.run);
    let second = Outcome::of(&mut resume(&place.run)).succeeded().result();
    let after = files(&place.run);
    let names = |files: &BTreeMap<PathBuf, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&before), names(&after));
    for (path, bytes) in &before {
        assert!(after[path] == *bytes, "{} is another", path.display());
    }
    for key in ["steps", "test_accuracy", "peak_memory_bytes"] {
        assert_eq!(first[key], second[key], "{key}");
    }
    // A report that is gone is made again, from the metrics that there are.
    fs::remove_file(place.run.join("report.html")).unwrap();
    Outcome::of(&mut resume(&place.run)).succeeded();
    assert!(place.run.join("report.html").is_file());
    assert_eq!(fs::read(place.run.join("metrics.json")).unwrap(), before[&place.run.join("metrics.json")]);
}

#[test]
fn resuming_a_finished_gan_changes_no_file() {
    let place = Place::new();
    let gan = |words: &[&str]| {
        let mut command = kindling();
        command.args(["gan", "train", "--quiet"]).args(words);
        Outcome::of(command.current_dir(place.folder.path())).succeeded().result()
    };
    let flags = "--data data --out run --features 4 --iterations 2 --batch-size 4 --compare 0 --device cpu";
    let first = gan(&flags.split(' ').collect::<Vec<_>>());
    let before = files(&place.run);
    let second = gan(&["--resume", "run"]);
    assert!(files(&place.run) == before, "a file is another");
    assert_eq!(first["peak_memory_bytes"], second["peak_memory_bytes"]);
    let told: Vec<Value> = history(&place.run).iter().map(|it| it["how"].clone()).collect();
    assert_eq!(told, ["started"]);
}

/// Every setting of a run on a folder of grey images, and its value where nothing was said.
const SETTINGS: [(&str, &str); 35] = [
    ("device", "\"cpu\""),
    ("prefetch_bytes", "268435456"),
    ("memory_budget", "\"auto\""),
    ("drop_rate", "\"paper\""),
    ("drop_path_rate", "\"paper\""),
    ("start", "\"none\""),
    ("freeze", "\"none\""),
    ("source", "\"data\""),
    ("task", "\"multi-class\""),
    ("augment", "\"light\""),
    ("sampling", "\"even\""),
    ("on_bad_sample", "\"fail\""),
    ("max_bad", "\"1%\""),
    ("split_by", "\"none\""),
    ("window", "\"auto\""),
    ("size", "32"),
    ("channels", "1"),
    ("fit", "\"pad\""),
    ("interpolation", "\"bilinear\""),
    ("percentiles", "\"none\""),
    ("batch_size", "4"),
    ("micro_batch", "\"auto\""),
    ("activation_checkpointing", "\"auto\""),
    ("precision", "\"f32\""),
    ("ema", "\"none\""),
    ("ghost_batch_size", "8"),
    ("norm_momentum", "\"auto\""),
    ("epochs", "10"),
    ("max_steps", "6"),
    ("lr", "0.003"),
    ("warmup", "0.1"),
    ("label_smoothing", "0.0"),
    ("class_weights", "\"even\""),
    ("clip_norm", "\"none\""),
    ("weight_decay", "0.02"),
];

#[test]
fn a_configuration_has_every_setting_and_repeats_its_run() {
    let place = Place::new();
    Outcome::of(&mut place.train("run")).succeeded();
    let config = place.run.join("config.toml");
    for (key, value) in SETTINGS {
        assert_eq!(toml_value(&config, key), value, "{key}");
    }
    let mut command = kindling();
    command.args(["train", "--quiet", "--config"]).arg(&config).arg("--out").arg(place.path("again"));
    // Its data is found from anywhere.
    Outcome::of(command.current_dir("/")).succeeded();
    assert_eq!(fs::read_to_string(&config).unwrap(), fs::read_to_string(place.path("again/config.toml")).unwrap());
    assert_same_bits(&place.run, &place.path("again"), "repeated");
}

#[test]
fn a_run_is_resumed_and_scored_from_any_folder() {
    let place = Place::new();
    place.stopped();
    Outcome::of(resume(&place.run).current_dir("/")).succeeded();
    assert_same_bits(&place.path("straight"), &place.run, "resumed in another folder");
    let score = |from: &Path| {
        let mut command = kindling();
        command.args(["eval", "--device", "cpu", "--format", "json"]).arg(&place.run).current_dir(from);
        Outcome::of(&mut command).succeeded().result()["score"].clone()
    };
    assert_eq!(score(Path::new("/")), score(place.folder.path()));
}

#[test]
fn a_run_whose_data_has_moved_says_so_and_is_told_where_it_is() {
    let place = Place::new();
    place.stopped();
    let (here, there) = (place.path("data"), place.path("elsewhere"));
    fs::rename(&here, &there).unwrap();
    let eval = |words: &[&str]| {
        let mut command = kindling();
        command.args(["eval", "--device", "cpu", "--format", "json"]).arg(&place.run).args(words);
        Outcome::of(command.env_remove("RUST_BACKTRACE"))
    };
    let said = [here.to_str().unwrap(), "--data-at"];
    assert_says(&Outcome::of(&mut resume(&place.run)).refused(), &said);
    assert_says(&eval(&[]).refused(), &said);
    let sentence = Outcome::of(resume(&place.run).arg("--data-at").arg(&here)).refused();
    assert_says(&sentence, &["nothing there"]);

    Outcome::of(resume(&place.run).args(["--data-at", "elsewhere"]).current_dir(place.folder.path())).succeeded();
    assert_same_bits(&place.path("straight"), &place.run, "resumed on data that has moved");
    let config = place.run.join("config.toml");
    assert_eq!(toml_value(&config, "path"), format!("{:?}", there.to_str().unwrap()));
    assert_eq!(toml_value(&config, "source"), "\"data\"", "what was typed stays");
    let changed = serde_json::to_string(&history(&place.run)[1]["changed"]).unwrap();
    assert_eq!(changed, format!("[[\"data.path\",{:?}]]", there.to_str().unwrap()));
    // From now on the run remembers the place. A finished run can be told a new one as well.
    eval(&[]).succeeded();
    fs::rename(&there, &here).unwrap();
    eval(&["--data-at", here.to_str().unwrap()]).succeeded();
    Outcome::of(resume(&place.run).arg("--data-at").arg(&here)).succeeded();
    eval(&[]).succeeded();
    assert_eq!(steps(&place.run), [1, 2, 3, 4, 5, 6]);
}
