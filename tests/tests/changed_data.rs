//! Data that changes under a run: a sample's split depends on its name, and a run lists its samples and says what has changed.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kindling_tests::{Outcome, events, json_of, kindling, picture, picture_folder, steps, train};
use serde_json::Value;
use tempfile::{TempDir, tempdir};

const FLAGS: &str = "--batch-size 8 --max-steps 2 --workers 1";

/// The split of every sample of a run, by the name it has in `data.csv`.
fn sides(run: &Path) -> BTreeMap<String, String> {
    let text = fs::read_to_string(run.join("data.csv")).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("split,group,label,path,size,crc32_of_ends"));
    lines.map(|line| line.split(',').collect::<Vec<_>>()).map(|it| (it[3].to_string(), it[0].to_string())).collect()
}

/// The names of a split.
fn names_of(sides: &BTreeMap<String, String>, split: &str) -> Vec<String> {
    sides.iter().filter(|(_, side)| *side == split).map(|(name, _)| name.clone()).collect()
}

fn eval(run: &Path, words: &str) -> Command {
    let mut command = kindling();
    command.env_remove("RUST_BACKTRACE").arg("eval").arg(run).args(["--device", "cpu", "--format", "json"]);
    command.args(words.split_whitespace());
    command
}

fn resume(run: &Path) -> Command {
    let mut command = kindling();
    command.env_remove("RUST_BACKTRACE").args(["train", "--resume"]).arg(run);
    command
}

/// A folder with pictures, and a run on them.
struct Trained {
    folder: TempDir,
    data: PathBuf,
    run: PathBuf,
}

impl Trained {
    fn on(each: usize, flags: &str) -> Self {
        let folder = tempdir().unwrap();
        let (data, run) = (folder.path().join("data"), folder.path().join("run"));
        picture_folder(&data, each);
        Outcome::of(&mut train(&data, &run, flags)).succeeded();
        Self { folder, data, run }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// The split of a folder's files as a manifest says it.
fn split_of(data: &Path, out: &Path) -> BTreeMap<String, String> {
    let mut command = kindling();
    command.args(["data", "split"]).arg(data).arg("--out").arg(out);
    Outcome::of(&mut command).succeeded();
    let text = fs::read_to_string(out).unwrap();
    let rows = text.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
    rows.map(|it| (it[0].to_string(), it[2].to_string())).collect()
}

#[test]
fn one_file_more_or_less_moves_hardly_any_other() {
    let folder = tempdir().unwrap();
    let data = folder.path().join("data");
    picture_folder(&data, 200);
    let before = split_of(&data, &folder.path().join("before.csv"));
    assert_eq!(names_of(&before, "test").len(), 90);
    let moved = |after: &BTreeMap<String, String>| {
        before.iter().filter(|(name, side)| after.get(*name).is_some_and(|now| now != *side)).count()
    };
    for index in 200..203 {
        picture("dark", index).save(data.join(format!("dark/{index}.png"))).unwrap();
        let after = split_of(&data, &folder.path().join(format!("{index}.csv")));
        assert_eq!(after.len(), 600 + index - 199);
        let added = index - 199;
        assert!(moved(&after) <= added + 1, "{} of 600 moved for {added}", moved(&after));
    }
    for index in 200..203 {
        fs::remove_file(data.join(format!("dark/{index}.png"))).unwrap();
    }
    fs::remove_file(data.join("striped/07.png")).unwrap();
    assert!(moved(&split_of(&data, &folder.path().join("less.csv"))) <= 2);
}

#[test]
fn eval_says_what_has_changed_and_scores_no_image_that_was_trained_on() {
    let trained = Trained::on(40, FLAGS);
    let (data, run) = (&trained.data, &trained.run);
    let score = Outcome::of(&mut eval(run, "")).succeeded().result();
    let unchanged = serde_json::json!({"unchanged": 120, "added": 0, "missing": 0, "changed": 0, "moved": 0});
    assert_eq!((&score["data_changes"], &score["split"]), (&unchanged, &Value::from("test")));
    assert_eq!(score["score"], json_of(&run.join("metrics.json"))["test"]);
    let then = sides(run);

    // As many new ones as a rule without memory would need to move something, one less, and one that is another.
    for index in 40..60 {
        picture("bright", index).save(data.join(format!("bright/{index}.png"))).unwrap();
    }
    fs::remove_file(
        data.join("dark").join(names_of(&then, "train").iter().find_map(|it| it.strip_prefix("dark/")).unwrap()),
    )
    .unwrap();
    let tested = names_of(&then, "test");
    let other = tested.iter().find(|name| name.starts_with("striped/")).unwrap();
    picture("striped", 1234).save(data.join(other)).unwrap();
    let outcome = Outcome::of(&mut eval(run, "")).succeeded();
    let changes = serde_json::json!({"unchanged": 118, "added": 20, "missing": 1, "changed": 1, "moved": 0});
    assert_eq!(outcome.result()["data_changes"], changes);
    for said in ["20 added (\"bright/40.png\", ", "1 missing (\"dark/", "1 changed (\"striped/"] {
        assert!(outcome.stderr.contains(said), "{said}: {}", outcome.stderr);
    }
    // All 18 that were test images, and those of the new ones that have the name for it; the rule alone would take 21.
    let by_rule = split_of(data, &trained.path("split.csv"));
    let new = names_of(&by_rule, "test").into_iter().filter(|name| !then.contains_key(&name.replace("data/", "")));
    let expected = 18 + new.count();
    assert_ne!(expected, 21, "the test can fail");
    assert_eq!(outcome.result()["score"]["samples"], expected);
    let all = Outcome::of(&mut eval(run, "--split all")).succeeded().result();
    assert_eq!(all["score"]["samples"], 139);
}

#[test]
fn resume_refuses_changed_data_unless_told_and_then_keeps_the_sides_there_were() {
    let folder = tempdir().unwrap();
    let (data, run) = (&folder.path().join("data"), &folder.path().join("run"));
    picture_folder(data, 24);
    let mut failing = train(data, run, "--batch-size 8 --epochs 2 --workers 1 --checkpoint-steps 2");
    failing.env_remove("RUST_BACKTRACE").env("KINDLING_FAULT", "error@step=4,phase=gate");
    Outcome::of(&mut failing).refused();
    let then = sides(run);
    assert_eq!(names_of(&then, "train").len(), 48);
    for index in 24..48 {
        picture("dark", index).save(data.join(format!("dark/{index}.png"))).unwrap();
    }
    let before = fs::read_to_string(run.join("events.jsonl")).unwrap();
    let sentence = Outcome::of(&mut resume(run)).refused();
    let added = "72 unchanged, 24 added (\"dark/24.png\", \"dark/25.png\", \"dark/26.png\", ...)";
    for said in [added, "--accept-changed-data"] {
        assert!(sentence.contains(said), "{sentence}");
    }
    assert_eq!(fs::read_to_string(run.join("events.jsonl")).unwrap(), before, "who is refused changes nothing");
    assert_eq!(sides(run), then);

    let outcome = Outcome::of(resume(run).arg("--accept-changed-data")).succeeded();
    assert!(outcome.stderr.contains(added) && outcome.stderr.contains("keeps its split"), "{}", outcome.stderr);
    let now = sides(run);
    assert_eq!(now.len(), 96);
    assert!(then.iter().all(|(name, side)| now[name] == *side), "what was there keeps its side");
    let warned = events(run).into_iter().find(|event| event["event"] == "warned").unwrap();
    assert!(warned["text"].as_str().unwrap().contains("24 added"), "the log says it: {warned}");
    // 6 steps an epoch before, and more now.
    let steps_an_epoch = names_of(&now, "train").len().div_ceil(8);
    assert!(steps_an_epoch > 6);
    assert_eq!(steps(run).len(), 2 * steps_an_epoch, "{:?}", steps(run));
    // The list that it began with is kept, and the new one is what counts from now on.
    assert_eq!(fs::read_to_string(run.join("data-1.csv")).unwrap().lines().count(), 73);
    Outcome::of(&mut resume(run)).succeeded();

    // A finished run cannot go on with changed data.
    fs::remove_file(data.join("dark/47.png")).unwrap();
    assert!(Outcome::of(&mut resume(run)).refused().contains("1 missing"));
    assert!(Outcome::of(resume(run).arg("--accept-changed-data")).refused().contains("is finished"));
    assert_eq!(sides(run), now);
    assert!(Outcome::of(kindling().args(["train", "--accept-changed-data"])).refused().contains("--resume"));
}

#[test]
fn a_split_that_is_written_as_a_manifest_is_the_split_of_the_folder() {
    let trained = Trained::on(12, FLAGS);
    let lists = trained.path("lists");
    fs::create_dir(&lists).unwrap();
    for manifest in ["split.csv", "split.jsonl"] {
        let (list, run) = (lists.join(manifest), trained.path(&format!("run-{manifest}")));
        let mut command = kindling();
        let split = Outcome::of(command.args(["data", "split"]).arg(&trained.data).arg("--out").arg(&list));
        assert_eq!(split.succeeded().result()["train"], 24);
        Outcome::of(&mut train(&list, &run, FLAGS)).succeeded();
        let plain: BTreeMap<String, String> =
            sides(&run).into_iter().map(|(name, side)| (name.replace("../data/", ""), side)).collect();
        assert_eq!(plain, sides(&trained.run));
        let metrics = |run: &Path| json_of(&run.join("metrics.json"))["test"].clone();
        assert_eq!(metrics(&run)["samples"], metrics(&trained.run)["samples"]);
        // A file that was added is not part of it.
        let sentence =
            Outcome::of(kindling().args(["data", "split"]).arg(&trained.data).arg("--out").arg(&list)).refused();
        assert!(sentence.contains("already"), "{sentence}");
    }
    let sentence = Outcome::of(kindling().args(["data", "split", "phantoms", "--out", "x.csv"])).refused();
    assert!(sentence.contains("no file"), "{sentence}");
}

/// The splits are those of the last version without a rule by name, for 12 pictures of each class and seed 0.
#[test]
fn a_run_of_an_earlier_version_keeps_the_split_it_was_trained_on() {
    let trained = Trained::on(12, "--batch-size 8 --max-steps 4 --workers 1");
    let config = trained.run.join("config.toml");
    let text = fs::read_to_string(&config).unwrap();
    assert!(text.contains("split_rule = \"keyed\"\n"), "{text}");
    // Earlier versions wrote neither the rule nor a list.
    let earlier = text.replace("split_rule = \"keyed\"\n", "");
    let expected = BTreeMap::from([
        ("val", ["bright/04.png", "bright/08.png", "dark/04.png", "dark/10.png", "striped/07.png", "striped/11.png"]),
        ("test", ["bright/03.png", "bright/10.png", "dark/01.png", "dark/08.png", "striped/05.png", "striped/08.png"]),
    ]);
    let is_as_then = |run: &Path| {
        let sides = sides(run);
        expected.iter().all(|(split, names)| names_of(&sides, split) == names)
    };
    assert!(!is_as_then(&trained.run), "the rule by name gives another split");

    // Its configuration begins another run with the same split.
    let (file, again) = (trained.path("earlier.toml"), trained.path("again"));
    fs::write(&file, &earlier).unwrap();
    let mut command = kindling();
    Outcome::of(command.args(["train", "--config"]).arg(&file).arg("--out").arg(&again)).succeeded();
    assert!(is_as_then(&again), "{:?}", sides(&again));
    assert!(!fs::read_to_string(again.join("config.toml")).unwrap().contains("split_rule"));

    // It is scored on the test images it had, and resumed with them.
    fs::remove_file(again.join("data.csv")).unwrap();
    let score = Outcome::of(&mut eval(&again, "")).succeeded().result();
    assert_eq!(score["score"], json_of(&again.join("metrics.json"))["test"]);
    assert_eq!(score["data_changes"], Value::Null, "it knows no list");
    Outcome::of(&mut resume(&again)).succeeded();
    assert!(is_as_then(&again), "and from then on it has a list");
}

#[test]
fn what_a_list_says_wrong_is_a_sentence_with_its_line() {
    let trained = Trained::on(6, FLAGS);
    let list = trained.run.join("data.csv");
    let text = fs::read_to_string(&list).unwrap();
    fs::write(&list, text.replacen("train,", "Train,", 1)).unwrap();
    for mut command in [eval(&trained.run, ""), resume(&trained.run)] {
        let sentence = Outcome::of(&mut command).refused();
        assert!(sentence.contains("data.csv: line 2"), "{sentence}");
    }
}

/// What another version of Kindling had is what stands in the list of a run: here it is written by hand.
#[test]
fn samples_of_an_embedded_data_set_that_another_version_had_are_named() {
    let folder = tempdir().unwrap();
    let run = folder.path().join("run");
    let flags = "--batch-size 8 --max-steps 1 --workers 1";
    Outcome::of(&mut train(Path::new("phantoms"), &run, flags)).succeeded();
    let list = run.join("data.csv");
    let text = fs::read_to_string(&list).unwrap();
    assert_eq!(text.lines().count(), 1 + 480 + 96 + 150);
    let score = Outcome::of(&mut eval(&run, "--split val")).succeeded();
    let unchanged = serde_json::json!({"unchanged": 726, "added": 0, "missing": 0, "changed": 0, "moved": 0});
    assert_eq!(score.result()["data_changes"], unchanged);
    assert!(!score.stderr.contains("not what the run began with"), "{}", score.stderr);

    let line = |name: &str| text.lines().find(|line| line.contains(name)).unwrap();
    let (test_3, val_4, val_5) = (line(",test 3,"), line(",val 4,"), line(",val 5,"));
    let then = text.replace(&format!("{test_3}\n"), "");
    let then = then.replace(val_4, &val_4.replace("spiculated", "none"));
    let then = then.replace(val_5, &val_5.replacen("val", "train", 1)) + "train,,none,train 480,,\n";
    fs::write(&list, then).unwrap();
    let outcome = Outcome::of(&mut eval(&run, "--split val")).succeeded();
    let changes = serde_json::json!({"unchanged": 723, "added": 1, "missing": 1, "changed": 1, "moved": 1});
    assert_eq!(outcome.result()["data_changes"], changes);
    for said in
        ["1 added (\"test 3\")", "1 missing (\"train 480\")", "1 changed (\"val 4\")", "this version of Kindling"]
    {
        assert!(outcome.stderr.contains(said), "{said}: {}", outcome.stderr);
    }
    // Such a run does not go on as if nothing were.
    let sentence = Outcome::of(&mut resume(&run)).refused();
    assert!(sentence.contains("1 missing (\"train 480\")") && sentence.contains("version of Kindling"), "{sentence}");

    // A run of an earlier version has no list, and nothing is claimed.
    fs::remove_file(&list).unwrap();
    assert_eq!(Outcome::of(&mut eval(&run, "--split val")).succeeded().result()["data_changes"], Value::Null);
}
